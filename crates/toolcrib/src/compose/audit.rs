//! The audit log beside the calls: the key that signs it, sealed by the vault, and what is removed of it after its time.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_auth::{KeyPreference, Sealer, Vault};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock as _, SystemClock, Timestamp};
use toolcrib_store::{AuditLog, SealKey, Store};

use crate::config::Config;

/// How often old events are looked for.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// How long a sink that takes nothing is waited for, in milliseconds: a week.
const SINKS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// The row of the key; nothing that is sealed for another row opens as it.
const ROW: [&str; 2] = ["audit_key", "ed25519"];

/// The vault as the keeper of the key.
struct VaultSeal(Sealer);

/// Has the log signed, and cut where the settings say so. One that `serves` makes a vault where there is none.
pub(super) fn keep(store: &Store, config: &Config, vault: &Vault, serves: bool, house: &Scope) {
    let (log, makes) = (store.audit().clone(), serves && !config.is_momentary);
    let (opening, vault) = (log.opening_key(), vault.clone());
    house.spawn(async move {
        sign(log, vault, makes).await;
        drop(opening);
    });
    if let Some(age) = config.audit_age {
        house.spawn(cut(store.clone(), age));
    }
}

/// Opens the key that signs the audit log. A keyring may take its time, so no start waits for it. `makes` a vault where
/// there is none: a gateway that leaves again leaves no key behind.
async fn sign(log: AuditLog, vault: Vault, makes: bool) {
    let opened = tokio::task::spawn_blocking(move || {
        let sealer = match makes {
            true => vault.sealer(KeyPreference::Keyring).map(Some),
            false => vault.existing_sealer(),
        };
        let sealer = sealer.map_err(|error| error.to_string())?;
        let Some(sealer) = sealer else { return Ok(None) };
        log.sign_with(Arc::new(VaultSeal(sealer))).map(Some).map_err(|error| error.to_string())
    });
    match opened.await {
        Ok(Ok(Some(key))) => tracing::debug!(%key, "the audit log is signed"),
        Ok(Ok(None)) | Err(_) => {}
        Ok(Err(error)) => tracing::warn!(error, "the audit log is not signed, as the vault cannot be opened"),
    }
}

/// Removes what is older, again and again, as far as sinks have it.
async fn cut(store: Store, age: Duration) {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let before = Timestamp(SystemClock.now().0.saturating_sub(age));
        let store = store.clone();
        let cut = tokio::task::spawn_blocking(move || {
            let taken = store.audit_cursors().taken_by_all(Timestamp(SystemClock.now().0.saturating_sub(SINKS)))?;
            store.audit().cut(before, taken)
        });
        match cut.await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(events)) => tracing::info!(events, "old events of the audit log were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "old events of the audit log were not removed"),
        }
    }
}

impl SealKey for VaultSeal {
    fn seal(&self, key: &[u8]) -> Vec<u8> {
        self.0.seal(key, &ROW)
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String> {
        self.0.open(sealed, &ROW).map(|key| key.to_vec()).map_err(|error| error.to_string())
    }
}

impl std::fmt::Debug for VaultSeal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VaultSeal(****)")
    }
}

//! `state/key-use.json`: when keys of profiles were used last, by their hashes. Written by the gateway at most once a
//! minute, read by `toolcrib profile key list`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::Timestamp;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_catalog::KeyHash;
use toolcrib_web::guard::KeyUses;

use crate::token;

/// How often the file is written, if there is something new.
const STEP: Duration = Duration::from_secs(60);
/// The largest file that is read, in bytes.
const FILE_BYTES: u64 = 16 * 1024 * 1024;

fn file(state: &Path) -> PathBuf {
    state.join("key-use.json")
}

/// What the file says. One that cannot be read says nothing: it is for people only.
pub(crate) fn read(state: &Path) -> HashMap<KeyHash, Timestamp> {
    let path = file(state);
    let is_small = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= FILE_BYTES);
    let text = is_small.then(|| std::fs::read(&path).ok()).flatten().unwrap_or_default();
    let table: HashMap<String, Timestamp> = serde_json::from_slice(&text).unwrap_or_default();
    table.into_iter().filter_map(|(hash, last)| Some((hash.parse().ok()?, last))).collect()
}

/// Uses as they were noted before. In `scope` they are written down until the end, also the last ones.
pub(crate) fn keep(state: &Path, scope: &Scope) -> Arc<KeyUses> {
    let uses = Arc::new(KeyUses::new(read(state)));
    scope.spawn(follow(Arc::clone(&uses), file(state), scope.stop_signal()));
    uses
}

async fn follow(uses: Arc<KeyUses>, path: PathBuf, mut stop: Stop) {
    loop {
        let is_over = tokio::select! {
            () = tokio::time::sleep(STEP) => false,
            () = stop.stopped() => true,
        };
        if let Some(table) = uses.take_changed() {
            let table: HashMap<String, Timestamp> =
                table.iter().map(|(hash, last)| (hash.to_string(), *last)).collect();
            let (text, path) = (serde_json::to_vec(&table).unwrap_or_default(), path.clone());
            let written = tokio::task::spawn_blocking(move || token::write_private(&path, &text)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%error, "when keys were used last cannot be written down");
            }
        }
        if is_over {
            return;
        }
    }
}

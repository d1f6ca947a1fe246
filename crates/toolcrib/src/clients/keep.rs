//! Where the secrets of imported servers go, and how definitions refer to them: entries of the vault, each for its own
//! server. Everything that knows the place is here.

use std::collections::BTreeMap;

use toolcrib_auth::{EntryName, KeyPreference, Reach, SecretEntry, User, Vault};
use toolcrib_base::{Clock, Kind, Problem, Secret, ServerName, SystemClock};
use toolcrib_catalog::clients::SecretReference;

use crate::home::{Environment, Home};
use crate::secrets;

/// The vault as an import uses it.
pub(crate) struct ImportVault {
    vault: Vault,
    /// What it holds, by name.
    entries: BTreeMap<String, EntryName>,
    /// Where the key of a new vault should lie.
    preference: KeyPreference,
}

/// How a definition refers to a secret of this name.
pub(crate) fn reference(name: &str) -> String {
    format!("vault:{name}")
}

/// What to do for a secret that the client's settings do not hold.
pub(crate) fn how_to_give(server: &ServerName, name: &str) -> String {
    format!("set it with `toolcrib secret set {name} --server {server}`")
}

// === impl ImportVault ===

impl ImportVault {
    /// Opens the vault of a home, if someone `needs` it: a vault that does not open is no reason not to import servers
    /// without secrets. There need not be one yet.
    pub(crate) fn open(
        home: &Home,
        environment: &Environment,
        needs: bool,
        preference: KeyPreference,
    ) -> Result<Self, Problem> {
        let vault = secrets::vault(home, environment);
        let listed =
            if needs { vault.list().map_err(|error| not_opened(secrets::problem(&error)))? } else { Vec::new() };
        let entries = listed.into_iter().map(|entry| (entry.name.to_string(), entry.name)).collect();
        Ok(Self { vault, entries, preference })
    }

    /// The secret that is kept for a server under a name. One that this server may not have, or that does not open, is
    /// given as an empty one, which equals none.
    pub(crate) fn stored(&self, server: &ServerName, name: &str) -> Option<Secret> {
        let entry = self.entries.get(name)?;
        let user = User { server: Some(server), profile: None };
        Some(self.vault.get(entry, &user).unwrap_or_else(|_| Secret::new("")))
    }

    /// Keeps the secrets of servers, all of them or none. What is kept already stays as it is, for whomever it is.
    pub(crate) fn keep(&self, wanted: &[(&ServerName, &SecretReference)]) -> Result<(), Problem> {
        let mut entries = Vec::new();
        for (server, SecretReference { name, value, .. }) in wanted {
            let Some(value) = value else { continue };
            if self.stored(server, name).as_ref() == Some(value) {
                continue;
            }
            let entry = EntryName::new(name)
                .map_err(|error| Problem::new(Kind::Internal, format!("cannot store a secret as `{name}`: {error}")))?;
            let reach = Reach::new(vec![(*server).clone()], Vec::new());
            entries.push((SecretEntry { name: entry, reach, set_at: SystemClock.now() }, value));
        }
        let entries: Vec<(&SecretEntry, &Secret)> = entries.iter().map(|(entry, value)| (entry, *value)).collect();
        self.vault.set_all(&entries, self.preference).map_err(|error| not_opened(secrets::problem(&error)))?;
        Ok(())
    }
}

/// What goes wrong with the vault stops an import before anything is written.
fn not_opened(problem: Problem) -> Problem {
    Problem {
        message: format!("nothing was imported, because its secrets cannot be stored: {}", problem.message),
        ..problem
    }
}

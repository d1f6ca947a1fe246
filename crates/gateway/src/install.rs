//! The repair of an entry that the installation of a server left half written in its runner's cache.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::servers::install::cache;
use toolcrib_catalog::CacheEntryError;
use toolcrib_upstream::State;
use toolcrib_view::ServerEntry;

use crate::gateway::Gateway;

impl Gateway {
    /// Removes what the installation of a server left half written in its runner's cache, and nothing else; then the
    /// server is started again. Blocks: it reads and writes the disk.
    ///
    /// # Errors
    /// There is no such server, it is being installed at this moment, or the entry cannot be removed.
    pub(crate) fn repair(&self, name: &str) -> Result<Value, Problem> {
        let running = self.running(name)?;
        let name = running.definition.name.as_str();
        let nothing = |why: &str| Ok(json!({ "server": name, "removed": null, "why": why }));
        let Some((_, cache)) = cache(&running.definition, &running.server.config().endpoint) else {
            return nothing("nothing is installed for it");
        };
        let status = running.server.status();
        let half = match status.half_written {
            _ if status.state == State::Ready => None,
            Some(half) => Some(toolcrib_catalog::HalfWritten { path: half.path, why: half.why }),
            None => cache.half_written(&[], false),
        };
        let Some(half) = half else { return nothing("its cache has no incomplete entry") };
        let Some(_held) = running.server.hold_installation() else {
            let problem = Problem::new(Kind::Conflict, format!("server `{name}` is being started"));
            return Err(problem.hint("try again when that has ended; see `toolcrib status`"));
        };
        if let Some(other) = self.installing_into(&half, &running) {
            let message = format!("server `{other}` is being installed into `{}`", half.path.display());
            return Err(Problem::new(Kind::Conflict, message).hint("wait until that has ended; see `toolcrib status`"));
        }
        cache.remove(&half).map_err(|error| match error {
            CacheEntryError::Io { .. } => Problem::new(Kind::Unavailable, error.to_string())
                .hint(format!("remove `{}` yourself", half.path.display())),
            CacheEntryError::NotHalfWritten(_) | CacheEntryError::Escapes(_) => {
                Problem::new(Kind::Conflict, error.to_string())
                    .hint(format!("check `{}`; nothing was removed", half.path.display()))
            }
        })?;
        tracing::info!(server = name, path = %half.path.display(), "removed an incomplete entry of a cache");
        running.server.order_retry();
        Ok(json!({ "server": name, "removed": half.path.display().to_string(), "why": half.why }))
    }

    /// Another server that is being installed into this entry.
    fn installing_into(&self, half: &toolcrib_catalog::HalfWritten, own: &ServerEntry) -> Option<String> {
        let table = self.path.servers.table();
        let is_installing = |running: &&ServerEntry| {
            let is_same = || {
                let cache = cache(&running.definition, &running.server.config().endpoint);
                let folder = cache.as_ref().and_then(|(_, cache)| cache.folder());
                running.definition.name != own.definition.name && folder == Some(half.path.as_path())
            };
            running.server.status().state == State::Installing && is_same()
        };
        table.values().find(is_installing).map(|running| running.definition.name.to_string())
    }
}

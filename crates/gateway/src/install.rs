//! Servers whose programs install themselves: the caches of their package runners, and the repair of an entry that an
//! installation left half written.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{CacheEntryError, Installation, PackageCache, ServerDefinition, Transport};
use toolcrib_upstream::{Endpoint, HalfWritten, InstallCache, Installer, State, inherited_variable};
use toolcrib_view::ServerEntry;

use crate::gateway::Gateway;

/// A runner's cache, as connections to servers look at it.
#[derive(Debug)]
struct Cache(PackageCache);

impl InstallCache for Cache {
    fn stamp(&self) -> u64 {
        self.0.stamp()
    }

    fn half_written(&self, stderr: &[String]) -> Option<HalfWritten> {
        self.0.half_written(stderr, true).map(|half| HalfWritten { path: half.path, why: half.why })
    }
}

/// What a server's program installs at its first start.
pub(crate) fn installs(definition: &ServerDefinition, endpoint: &Endpoint) -> Option<Installer> {
    let (installation, cache) = cache(definition, endpoint)?;
    let installs = Installer::new(installation.runner.name, Arc::new(Cache(cache)));
    Some(match definition.timeouts.connect {
        Some(written) => installs.within(written.duration()),
        None => installs,
    })
}

fn cache(definition: &ServerDefinition, endpoint: &Endpoint) -> Option<(Installation, PackageCache)> {
    let Transport::Stdio(program) = &definition.transport else { return None };
    let Endpoint::Stdio { env, inherit, .. } = endpoint else { return None };
    let installation = Installation::of(&program.command, &program.args)?;
    let own = |name: &str| env.iter().find(|(own, _)| own == name).map(|(_, value)| value.expose().to_owned());
    let cache = installation.cache(|name| own(name).or_else(|| inherited_variable(name, inherit)));
    Some((installation, cache))
}

/// The runner that installs a server's program.
pub(crate) fn runner(running: &ServerEntry) -> Option<&str> {
    running.server.config().installs.as_ref().map(|installs| installs.runner.as_str())
}

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
        let table = self.servers.table();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The least and the most time, in seconds, that a program has to install itself.
    fn times(definition: &str) -> Option<(u64, u64)> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        std::fs::write(home.path().join("servers/a.yaml"), format!("name: a\n{definition}\n")).unwrap();
        let loaded = toolcrib_catalog::load(home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let definition = &loaded.servers["a"];
        let Transport::Stdio(program) = &definition.transport else { panic!("a program") };
        let endpoint = Endpoint::Stdio {
            program: program.command.clone(),
            args: program.args.clone(),
            env: Vec::new(),
            inherit: Vec::new(),
            cwd: None,
        };
        let installs = installs(definition, &endpoint)?;
        assert!(installs.most <= installs.least || installs.quiet > Duration::ZERO);
        Some((installs.least.as_secs(), installs.most.as_secs()))
    }

    #[test]
    fn a_time_to_connect_that_is_written_counts_also_where_it_is_the_default_of_others() {
        let npx = "command: npx\nargs: [-y, a]";
        assert_eq!(times(npx), Some((120, 900)));
        assert_eq!(times(&format!("{npx}\ntimeouts: {{call: 5s}}")), Some((120, 900)));
        assert_eq!(times(&format!("{npx}\ntimeouts: {{connect: 10s}}")), Some((10, 10)));
        assert_eq!(times(&format!("{npx}\ntimeouts: {{connect: 20m}}")), Some((1200, 1200)));
        assert_eq!(times("command: node\nargs: [a.js]"), None);
    }
}

//! Servers whose programs install themselves: the caches of their package runners.

use std::sync::Arc;

use toolcrib_catalog::{Installation, PackageCache, ServerDefinition, Transport};
use toolcrib_upstream::{Endpoint, HalfWritten, InstallCache, Installer, inherited_variable};
use toolcrib_view::ServerEntry;

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
pub fn installs(definition: &ServerDefinition, endpoint: &Endpoint) -> Option<Installer> {
    let (installation, cache) = cache(definition, endpoint)?;
    let installs = Installer::new(installation.runner.name, Arc::new(Cache(cache)));
    Some(match definition.timeouts.connect {
        Some(written) => installs.within(written.duration()),
        None => installs,
    })
}

/// How a server's program is installed, and the cache of the runner that does.
pub fn cache(definition: &ServerDefinition, endpoint: &Endpoint) -> Option<(Installation, PackageCache)> {
    let Transport::Stdio(program) = &definition.transport else { return None };
    let Endpoint::Stdio { env, inherit, .. } = endpoint else { return None };
    let installation = Installation::of(&program.command, &program.args)?;
    let own = |name: &str| env.iter().find(|(own, _)| own == name).map(|(_, value)| value.expose().to_owned());
    let cache = installation.cache(|name| own(name).or_else(|| inherited_variable(name, inherit)));
    Some((installation, cache))
}

/// The runner that installs a server's program.
pub fn runner(running: &ServerEntry) -> Option<&str> {
    running.server.config().installs.as_ref().map(|installs| installs.runner.as_str())
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

//! Which built-in entry describes a server that someone defined in another way: by its package, its image or its
//! address, never by the name that it has here. Only words for searches depend on it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::entry::{Reach, RegistryEntry};
use crate::registry;
use crate::server::{Program, ServerDefinition, Transport};

/// How many arguments of a program are looked at.
const ARGUMENTS: usize = 64;
/// What stands before a package's name in a path to where npm put it.
const NODE_MODULES: &str = "node_modules/";

/// The entries by their packages, images and addresses.
static KNOWN: LazyLock<HashMap<String, Arc<RegistryEntry>>> = LazyLock::new(|| {
    let mut known = HashMap::new();
    for available in registry::built_in().values() {
        let entry = &available.entry;
        let packages = entry.package.iter().map(|package| &package.name).chain(&entry.aliases).map(|name| plain(name));
        let address = entry.runtime.iter().filter_map(|runtime| match &runtime.reach {
            Reach::Http { url, .. } => Some(address(url)),
            Reach::Stdio { .. } => None,
        });
        known.extend(packages.chain(address).map(|name| (name, Arc::clone(entry))));
    }
    known
});

/// The built-in entry that describes this server, if there is one.
pub fn recognised(definition: &ServerDefinition) -> Option<Arc<RegistryEntry>> {
    match &definition.transport {
        Transport::Stdio(program) => of_program(program),
        Transport::Http(remote) | Transport::Sse(remote) => KNOWN.get(&address(remote.url.expose())).cloned(),
    }
}

/// A package stands among the arguments of what runs it (`npx -y …`, `uvx …`, `python -m …`, `docker run … image`), or is
/// the program.
fn of_program(program: &Program) -> Option<Arc<RegistryEntry>> {
    let words = std::iter::once(&program.command).chain(program.args.iter().take(ARGUMENTS));
    let named = words.flat_map(|word| [Some(plain(word)), installed(word)]).flatten();
    named.into_iter().find_map(|name| KNOWN.get(&name).cloned())
}

/// A package or an image without its version, tag, digest and extras; modules of Python are named like their packages.
fn plain(name: &str) -> String {
    let end = name.char_indices().skip(1).find(|(_, c)| matches!(c, '@' | ':' | '[' | '=' | '<' | '>' | '~' | '!'));
    let name = &name[..end.map_or(name.len(), |(at, _)| at)];
    name.trim().to_lowercase().replace('_', "-")
}

/// The package that a path leads to: within `node_modules`, or the last part, where programs of packages are named so.
fn installed(word: &str) -> Option<String> {
    let path = word.replace('\\', "/");
    if let Some((_, inside)) = path.rsplit_once(NODE_MODULES) {
        let parts = if inside.starts_with('@') { 2 } else { 1 };
        return Some(plain(&inside.split('/').take(parts).collect::<Vec<_>>().join("/")));
    }
    let (_, last) = path.rsplit_once('/')?;
    (path.starts_with('/') || path.contains(":/")).then(|| plain(last.trim_end_matches(".exe")))
}

/// An address without what callers add to it.
fn address(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    url.trim_end_matches('/').to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::define;

    fn check(definition: &str, expect: Option<&str>) {
        let text = format!("name: mine\n{definition}\n");
        let server = define::read::<ServerDefinition>(Path::new("servers/mine.yaml"), "mine", &text).unwrap();
        assert_eq!(recognised(&server).map(|entry| entry.name.to_string()).as_deref(), expect, "{definition}");
    }

    #[test]
    fn a_server_is_known_by_its_package_whatever_it_is_called() {
        for (definition, expect) in [
            ("command: npx\nargs: [-y, \"@modelcontextprotocol/server-memory\"]", "memory"),
            ("command: npx\nargs: [-y, \"@modelcontextprotocol/server-memory@2026.8.31\"]", "memory"),
            ("command: bunx\nargs: [\"@playwright/mcp@latest\", --headless]", "playwright"),
            ("command: uvx\nargs: [mcp-server-time, --local-timezone=UTC]", "time"),
            ("command: uvx\nargs: [\"mcp-server-git==2026.1\", --repository, /src]", "git"),
            ("command: python3\nargs: [-m, mcp_server_fetch]", "fetch"),
            ("command: docker\nargs: [run, -i, --rm, -e, A=b, \"mcp/memory:latest\"]", "memory"),
            ("command: docker\nargs: [run, -i, --rm, ghcr.io/github/github-mcp-server]", "github"),
            ("command: /opt/venv/bin/mcp-server-time", "time"),
            (
                "command: node\nargs: [/srv/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js, /data]",
                "filesystem",
            ),
            ("command: sh\nargs: [-c, x, mcp-server-time]", "time"),
            ("url: https://mcp.notion.com/mcp/?x=1\ntransport: http", "notion"),
            ("url: https://mcp.context7.com/mcp\ntransport: sse", "context7"),
        ] {
            check(definition, Some(expect));
        }
    }

    #[test]
    fn a_name_alone_says_nothing() {
        for definition in [
            "command: memory",
            "command: npx\nargs: [-y, memory]",
            "command: npx\nargs: [-y, \"@evil/server-memory\"]",
            "command: npx\nargs: [\"\", \"@\", \"node_modules/\", \"/\"]",
            "url: https://mcp.notion.com.example.org/mcp\ntransport: http",
        ] {
            check(definition, None);
        }
    }

    #[test]
    fn no_two_entries_claim_one_package() {
        let entries = registry::built_in().values().map(|available| &available.entry);
        let mut claimed: Vec<String> = entries
            .flat_map(|entry| entry.package.iter().map(|package| &package.name).chain(&entry.aliases))
            .map(|name| plain(name))
            .collect();
        let all = claimed.len();
        claimed.sort_unstable();
        claimed.dedup();
        assert_eq!(claimed.len(), all);
    }
}

//! The demo's home: definitions as real files, as a person would write them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;

use crate::example::{self, http};

/// The profile that lists every tool, to compare with.
pub(super) const EVERYTHING: &str = "everything";

pub(super) fn http_url(address: SocketAddr) -> String {
    format!("http://{address}{}", http::PATH)
}

/// Writes `servers/` and `profiles/`.
pub(super) fn write(home: &Path, http_url: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("find this program's own file")?;
    let program = program.to_str().context("the path of this program is not valid UTF-8")?;
    for name in example::IN_DEMO {
        let server = example::named(name).expect("it is one of the example servers");
        let title = server.about().title;
        let way = if name == super::OVER_HTTP {
            format!("transport: http\nurl: {http_url}\n")
        } else {
            // A JSON string is a YAML string.
            format!("transport: stdio\ncommand: {}\nargs: [example, {name}]\n", serde_json::json!(program))
        };
        put(&home.join("servers"), name, &format!("name: {name}\ntitle: {title}\n{way}start: eager\n"))?;
    }
    put(&home.join("profiles"), "default", "name: default\ntitle: Everything, found through three meta-tools\n")?;
    let everything = format!("name: {EVERYTHING}\ntitle: Everything, listed\nexposure: direct\n");
    put(&home.join("profiles"), EVERYTHING, &everything)
}

fn put(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
    let path = folder.join(name).with_extension("yaml");
    fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_valid() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "http://127.0.0.1:9/mcp").unwrap();
        let loaded = toolcrib_catalog::load(home.path());
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let servers: Vec<&str> = loaded.servers.keys().map(toolcrib_base::ServerName::as_str).collect();
        assert_eq!(servers, example::IN_DEMO);
        assert_eq!(loaded.profiles.len(), 2);
    }
}

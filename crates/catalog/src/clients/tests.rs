//! Clients as a whole: their paths on three platforms, samples of their files in the shapes that people have, what
//! becomes of them, and that putting us in and taking us out leaves every other byte.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Secret, ServerName};

use super::*;
use crate::server::{ServerDefinition, Transport};

mod edit;
mod import;
mod page;
mod secrets;

/// Variables as a test has them.
#[derive(Debug)]
struct Variables(BTreeMap<&'static str, &'static str>);

impl VariableOf for Variables {
    fn variable(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).map(OsString::from).map(PathBuf::from)
    }
}

fn written(client: &Client, platform: Platform, variables: &[(&'static str, &'static str)]) -> Vec<String> {
    let variables = Variables(variables.iter().copied().collect());
    let places = Places::new(platform, &variables);
    client.files(&places).iter().map(|(_, path)| path.to_string_lossy().replace('\\', "/")).collect()
}

#[test]
fn every_client_has_its_place_on_every_platform() {
    let check = |name: &str, linux: &[&str], mac: &[&str], windows: &[&str]| {
        let client = client(name).unwrap();
        assert_eq!(written(client, Platform::Linux, &[("HOME", "/people/me")]), linux, "{name}");
        assert_eq!(written(client, Platform::MacOs, &[("HOME", "/mac/me")]), mac, "{name}");
        let folders = [("USERPROFILE", "C:/people/me"), ("APPDATA", "C:/people/me/AppData/Roaming")];
        assert_eq!(written(client, Platform::Windows, &folders), windows, "{name}");
        // Without the variable it is where it always is.
        assert_eq!(written(client, Platform::Windows, &folders[..1]), windows, "{name}");
    };
    check(
        "claude-desktop",
        &["/people/me/.config/Claude/claude_desktop_config.json"],
        &["/mac/me/Library/Application Support/Claude/claude_desktop_config.json"],
        &["C:/people/me/AppData/Roaming/Claude/claude_desktop_config.json"],
    );
    check("claude-code", &["/people/me/.claude.json"], &["/mac/me/.claude.json"], &["C:/people/me/.claude.json"]);
    let tail = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    check(
        "cline",
        &[&format!("/people/me/.config/{tail}"), "/people/me/.cline/data/settings/cline_mcp_settings.json"],
        &[
            &format!("/mac/me/Library/Application Support/{tail}"),
            "/mac/me/.cline/data/settings/cline_mcp_settings.json",
        ],
        &[&format!("C:/people/me/AppData/Roaming/{tail}"), "C:/people/me/.cline/data/settings/cline_mcp_settings.json"],
    );
    check(
        "codex",
        &["/people/me/.codex/config.toml"],
        &["/mac/me/.codex/config.toml"],
        &["C:/people/me/.codex/config.toml"],
    );
    check(
        "cursor",
        &["/people/me/.cursor/mcp.json"],
        &["/mac/me/.cursor/mcp.json"],
        &["C:/people/me/.cursor/mcp.json"],
    );
    check(
        "gemini-cli",
        &["/people/me/.gemini/settings.json"],
        &["/mac/me/.gemini/settings.json"],
        &["C:/people/me/.gemini/settings.json"],
    );
    check("muster", &["/people/me/.config/muster"], &["/mac/me/.config/muster"], &["C:/people/me/.config/muster"]);
    check(
        "vscode",
        &["/people/me/.config/Code/User/mcp.json", "/people/me/.config/Code/User/settings.json"],
        &[
            "/mac/me/Library/Application Support/Code/User/mcp.json",
            "/mac/me/Library/Application Support/Code/User/settings.json",
        ],
        &["C:/people/me/AppData/Roaming/Code/User/mcp.json", "C:/people/me/AppData/Roaming/Code/User/settings.json"],
    );
    check(
        "windsurf",
        &["/people/me/.codeium/windsurf/mcp_config.json", "/people/me/.codeium/mcp_config.json"],
        &["/mac/me/.codeium/windsurf/mcp_config.json", "/mac/me/.codeium/mcp_config.json"],
        &["C:/people/me/.codeium/windsurf/mcp_config.json", "C:/people/me/.codeium/mcp_config.json"],
    );
    check(
        "zed",
        &["/people/me/.config/zed/settings.json"],
        &["/mac/me/.config/zed/settings.json"],
        &["C:/people/me/AppData/Roaming/Zed/settings.json"],
    );
}

#[test]
fn variables_move_the_places() {
    let zed = client("zed").unwrap();
    let moved = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
    assert_eq!(written(zed, Platform::Linux, &moved), ["/x/zed/settings.json"]);
    assert_eq!(
        written(zed, Platform::Linux, &[("HOME", "/h"), ("XDG_CONFIG_HOME", "x")]),
        ["/h/.config/zed/settings.json"]
    );
    let codex = client("codex").unwrap();
    assert_eq!(written(codex, Platform::Linux, &[("HOME", "/h"), ("CODEX_HOME", "/c")]), ["/c/config.toml"]);
    assert_eq!(written(codex, Platform::Linux, &[]), Vec::<String>::new());
}

#[test]
fn the_table_is_in_order_and_names_its_sources() {
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    // Claude Desktop is what people mean by Claude first.
    assert_eq!(names.iter().filter(|name| !name.starts_with("claude")).collect::<Vec<_>>(), {
        sorted.iter().filter(|name| !name.starts_with("claude")).collect::<Vec<_>>()
    });
    for client in CLIENTS {
        assert!(client.documentation.starts_with("https://"), "{}", client.name);
        assert!(!client.sources.is_empty(), "{}", client.name);
        let writes = client.sources.iter().any(|source| source.is_written);
        assert_eq!(writes, client.transports != Transports::ImportOnly, "{}", client.name);
    }
}

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
        assert_eq!(written(client, Platform::Linux, &[("HOME", "/home/me")]), linux, "{name}");
        assert_eq!(written(client, Platform::MacOs, &[("HOME", "/Users/me")]), mac, "{name}");
        let folders = [("USERPROFILE", "C:/Users/me"), ("APPDATA", "C:/Users/me/AppData/Roaming")];
        assert_eq!(written(client, Platform::Windows, &folders), windows, "{name}");
        // Without the variable it is where it always is.
        assert_eq!(written(client, Platform::Windows, &folders[..1]), windows, "{name}");
    };
    check(
        "claude-desktop",
        &["/home/me/.config/Claude/claude_desktop_config.json"],
        &["/Users/me/Library/Application Support/Claude/claude_desktop_config.json"],
        &["C:/Users/me/AppData/Roaming/Claude/claude_desktop_config.json"],
    );
    check("claude-code", &["/home/me/.claude.json"], &["/Users/me/.claude.json"], &["C:/Users/me/.claude.json"]);
    let tail = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    check(
        "cline",
        &[&format!("/home/me/.config/{tail}"), "/home/me/.cline/data/settings/cline_mcp_settings.json"],
        &[
            &format!("/Users/me/Library/Application Support/{tail}"),
            "/Users/me/.cline/data/settings/cline_mcp_settings.json",
        ],
        &[&format!("C:/Users/me/AppData/Roaming/{tail}"), "C:/Users/me/.cline/data/settings/cline_mcp_settings.json"],
    );
    check(
        "codex",
        &["/home/me/.codex/config.toml"],
        &["/Users/me/.codex/config.toml"],
        &["C:/Users/me/.codex/config.toml"],
    );
    check("cursor", &["/home/me/.cursor/mcp.json"], &["/Users/me/.cursor/mcp.json"], &["C:/Users/me/.cursor/mcp.json"]);
    check(
        "gemini-cli",
        &["/home/me/.gemini/settings.json"],
        &["/Users/me/.gemini/settings.json"],
        &["C:/Users/me/.gemini/settings.json"],
    );
    check(
        "muster",
        &["/home/me/.config/muster/mcpservers"],
        &["/Users/me/.config/muster/mcpservers"],
        &["C:/Users/me/.config/muster/mcpservers"],
    );
    check(
        "vscode",
        &["/home/me/.config/Code/User/mcp.json", "/home/me/.config/Code/User/settings.json"],
        &[
            "/Users/me/Library/Application Support/Code/User/mcp.json",
            "/Users/me/Library/Application Support/Code/User/settings.json",
        ],
        &["C:/Users/me/AppData/Roaming/Code/User/mcp.json", "C:/Users/me/AppData/Roaming/Code/User/settings.json"],
    );
    check(
        "windsurf",
        &["/home/me/.codeium/windsurf/mcp_config.json", "/home/me/.codeium/mcp_config.json"],
        &["/Users/me/.codeium/windsurf/mcp_config.json", "/Users/me/.codeium/mcp_config.json"],
        &["C:/Users/me/.codeium/windsurf/mcp_config.json", "C:/Users/me/.codeium/mcp_config.json"],
    );
    check(
        "zed",
        &["/home/me/.config/zed/settings.json"],
        &["/Users/me/.config/zed/settings.json"],
        &["C:/Users/me/AppData/Roaming/Zed/settings.json"],
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

//! The servers.

use askama::Template;
use serde::Deserialize;

use crate::filters;
use crate::frame::Frame;

/// The list of servers.
#[derive(Debug, Template)]
#[template(path = "page/servers.html", blocks = ["live"])]
pub struct ServersPage {
    /// What stands around it.
    pub frame: Frame,
    /// The text that names must hold; empty for all.
    pub query: String,
    /// The state that they must be in; empty for all.
    pub state: String,
    /// The states that there are.
    pub states: Vec<String>,
    /// How many servers there are in all.
    pub total: usize,
    /// Those that match, on this page of the list.
    pub rows: Vec<ServerRow>,
    /// The path of the live part, with the filters.
    pub live: String,
}

/// A server as `core_mcpserver_list` and `core_status` answer it.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct ServerRow {
    /// Its name.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// `stdio`, `http`, `sse`.
    #[serde(default)]
    pub transport: String,
    /// Its state.
    #[serde(default)]
    pub state: String,
    /// Since when.
    #[serde(default)]
    pub since: String,
    /// How many tools it has.
    #[serde(default)]
    pub tools: usize,
    /// How many of them are held back until a person approves them.
    #[serde(default)]
    pub held: usize,
    /// How many resources it has.
    #[serde(default)]
    pub resources: usize,
    /// How many prompts it has.
    #[serde(default)]
    pub prompts: usize,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u64,
    /// Why it failed.
    #[serde(default, rename = "lastError")]
    pub last_error: Option<String>,
    /// What to do.
    #[serde(default)]
    pub next: Option<String>,
    /// What is odd about it.
    #[serde(default)]
    pub warnings: Vec<serde_json::Value>,
}

// === impl ServerRow ===

impl ServerRow {
    /// How the state looks: `ok`, `warn`, `bad`, `work` or nothing.
    pub fn level(&self) -> &'static str {
        level(&self.state)
    }

    /// The time of `since` without the date's `T` and the fraction.
    pub fn since_text(&self) -> String {
        self.since.get(..19).unwrap_or(&self.since).replace('T', " ")
    }
}

/// How a server's state looks.
pub fn level(state: &str) -> &'static str {
    match state {
        "ready" => "ok",
        "failed" | "unreachable" => "bad",
        "needs-login" | "login" | "degraded" | "unhealthy" | "held" => "warn",
        "starting" | "connecting" | "listing" | "restarting" | "stopping" | "pending" => "work",
        _ => "",
    }
}

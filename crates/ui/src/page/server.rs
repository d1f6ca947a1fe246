//! One server: how it is, what can be done with it, its definition.

use askama::Template;
use serde::Deserialize;

use super::servers::ServerRow;
use crate::filters;
use crate::frame::Frame;

/// A server.
#[derive(Debug, Template)]
#[template(path = "page/server.html", blocks = ["live"])]
pub struct ServerPage {
    /// What stands around it.
    pub frame: Frame,
    /// The server.
    pub server: ServerDetail,
    /// Its definition, indented.
    pub definition: String,
    /// The path of the live part.
    pub live: String,
}

/// What `core_mcpserver_get` answers, as far as the page shows it.
#[derive(Debug, Default, Deserialize)]
pub struct ServerDetail {
    /// What lists show too.
    #[serde(flatten)]
    pub row: ServerRow,
    /// The file of its definition, below the home folder.
    #[serde(default)]
    pub file: Option<String>,
    /// Its definition.
    #[serde(default)]
    pub definition: serde_json::Value,
    /// When it is tried again.
    #[serde(default, rename = "nextRetry")]
    pub next_retry: Option<String>,
    /// The eras that it speaks.
    #[serde(default)]
    pub speaks: Vec<String>,
    /// Calls at it.
    #[serde(default)]
    pub calls: Calls,
}

/// Calls at a server.
#[derive(Debug, Default, Deserialize)]
pub struct Calls {
    /// How many run.
    #[serde(default)]
    pub running: usize,
    /// How many wait for a place.
    #[serde(default)]
    pub waiting: usize,
    /// How many may run.
    #[serde(default)]
    pub places: usize,
}

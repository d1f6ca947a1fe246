//! The example servers of the demo and the guides: small MCP servers of the legacy revisions, useful by themselves and
//! without risk.
//!
//! One file each in `example/` with its table of tools. To add one, write its file and add it to [`NAMES`] and
//! [`named`].

mod arguments;
mod basics;
mod clock;
pub(crate) mod http;
mod notes;
mod serve;
pub(crate) mod stdio;
mod subset;
#[cfg(test)]
mod tests;
mod tool;
mod units;

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Clock, SystemClock};

use arguments::{ArgumentError, Arguments};
pub(crate) use subset::ToolSubset;
use tool::{Tool, ToolReply};

/// Every example server.
pub(crate) const NAMES: [&str; 4] = ["basics", "clock", "notes", "units"];
/// Those that the demo shows.
pub(crate) const IN_DEMO: [&str; 3] = ["clock", "notes", "units"];

/// What an example server is.
pub(crate) trait Example: Send + Sync {
    /// Who it is.
    fn about(&self) -> &'static ExampleInfo;

    /// The entries of `tools/list`.
    fn tools(&self) -> Vec<Value>;

    /// Calls a tool; `None` when there is none of this name.
    fn call(&self, name: &str, arguments: &Arguments) -> Option<Result<ToolReply, ArgumentError>>;

    /// The resources, templates and prompts, where it has any.
    fn content(&self) -> Option<&dyn Content> {
        None
    }
}

/// What an example server offers besides tools.
pub(crate) trait Content {
    /// The entries of `resources/list`.
    fn resources(&self) -> Vec<Value>;

    /// The entries of `resources/templates/list`.
    fn templates(&self) -> Vec<Value>;

    /// The contents of a resource; `None` when there is none at this URI.
    fn read(&self, uri: &str) -> Option<Value>;

    /// The entries of `prompts/list`.
    fn prompts(&self) -> Vec<Value>;

    /// The messages of a prompt; `None` when there is none of this name.
    fn prompt(&self, name: &str, arguments: &Arguments) -> Option<Result<Value, ArgumentError>>;

    /// Whether the list of resources has changed since the last time it was asked.
    fn has_changes(&self) -> bool;
}

/// Who an example server is.
#[derive(Debug)]
pub(crate) struct ExampleInfo {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// For the model.
    pub(crate) instructions: &'static str,
}

/// The example server of this name.
pub(crate) fn named(name: &str) -> Option<Arc<dyn Example>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    match name {
        "basics" => Some(Arc::new(basics::BasicsServer::default())),
        "clock" => Some(Arc::new(clock::ClockServer::new(clock))),
        "notes" => Some(Arc::new(notes::NotesServer::new(clock))),
        "units" => Some(Arc::new(units::UnitsServer)),
        _ => None,
    }
}

// === impl ExampleInfo ===

impl ExampleInfo {
    /// What it is for: the first sentence of the instructions, without its dot.
    pub(crate) fn purpose(&self) -> &'static str {
        self.instructions.split_once(". ").map_or(self.instructions, |(first, _)| first)
    }
}

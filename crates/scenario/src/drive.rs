//! What the runner needs of a client of the gateway. The binary fills it in with its own, so that there is one client.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

/// Where a gateway is.
#[derive(Debug, Clone)]
pub struct Place {
    /// `http://127.0.0.1:PORT/mcp`
    pub url: String,
    /// Where the token that administers lies.
    pub token_file: PathBuf,
    /// The gateway's home.
    pub home: PathBuf,
    /// The profile; `None` is the default one.
    pub profile: Option<String>,
}

/// What came back for a call.
#[derive(Debug, Clone)]
pub struct Told {
    /// The tool's own result (`content`, `structuredContent`, `isError`), or the error's text when there is none.
    pub outcome: Result<Value, String>,
    /// The HTTP status of the answer; 200 for everything that is an answer of MCP, `None` where nothing answered.
    pub status: Option<u16>,
}

/// Opens sessions.
pub trait Drive: fmt::Debug + Send + Sync {
    /// Shakes hands with a gateway.
    fn open(&self, place: Place) -> BoxFuture<'_, Result<Box<dyn Session>, String>>;
}

/// One open session.
pub trait Session: Send + Sync {
    /// Calls a tool by its plain name, also where the profile's dialect wraps calls.
    fn call<'a>(&'a self, tool: &'a str, arguments: Value, deadline: Duration) -> BoxFuture<'a, Told>;

    /// Calls a tool of `tools/list` as it is, without unwrapping anything.
    fn call_direct<'a>(&'a self, tool: &'a str, arguments: Value, deadline: Duration) -> BoxFuture<'a, Told>;

    /// The entries of `tools/list`.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, String>>;

    /// Says farewell.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

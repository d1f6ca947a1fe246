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
    /// What kind of client comes.
    pub speaker: Speaker,
}

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Speaker {
    /// One that shakes hands and has a session.
    #[default]
    Legacy,
    /// One that says all that it needs with each request.
    Modern,
    /// The same, and it knows tasks.
    ModernTasks,
}

/// What came back for a call.
#[derive(Debug, Clone)]
pub struct CallReply {
    /// The tool's own result (`content`, `structuredContent`, `isError`), or why there is none.
    pub outcome: Result<Value, CallFailure>,
    /// The HTTP status of the answer; `None` where nothing answered.
    pub status: Option<u16>,
}

/// Why there is no result.
#[derive(Debug, Clone)]
pub struct CallFailure {
    /// For people, with the hint.
    pub text: String,
    /// The JSON-RPC error `{code, message, data?}`, where that was the answer.
    pub error: Option<Value>,
}

// === impl Speaker ===

impl Speaker {
    /// What they are called in scenarios.
    pub(crate) const WORDS: [&str; 3] = ["legacy", "modern", "modern-tasks"];

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let all = [Speaker::Legacy, Speaker::Modern, Speaker::ModernTasks];
        Self::WORDS.iter().position(|known| *known == word).map(|place| all[place])
    }
}

/// Opens sessions.
pub trait Drive: fmt::Debug + Send + Sync {
    /// Shakes hands with a gateway.
    fn open(&self, place: Place) -> BoxFuture<'_, Result<Box<dyn Session>, String>>;
}

/// One open session.
pub trait Session: Send + Sync {
    /// Calls a tool by its plain name, also where the profile's dialect wraps calls.
    fn call<'a>(&'a self, tool: &'a str, arguments: Value, deadline: Duration) -> BoxFuture<'a, CallReply>;

    /// Calls a tool of `tools/list` as it is, without unwrapping anything.
    fn call_direct<'a>(&'a self, tool: &'a str, arguments: Value, deadline: Duration) -> BoxFuture<'a, CallReply>;

    /// Sends any request of MCP and gives its result as it is.
    fn send<'a>(&'a self, method: &'a str, params: Value, deadline: Duration) -> BoxFuture<'a, CallReply>;

    /// The entries of `tools/list`.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Value>, String>>;

    /// Says farewell.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

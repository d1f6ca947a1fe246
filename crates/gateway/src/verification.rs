//! What verifications found, and those under way. How one is made stands in `verify`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use toolcrib_base::{Problem, ServerName, Timestamp};
use toolcrib_catalog::pin::{Difference, Digest};

/// What a verification found.
#[derive(Debug, Clone)]
pub struct Verification {
    /// The server.
    pub server: ServerName,
    /// How what it offers differs from what was approved; nothing at the first verification, which approves all.
    pub difference: Difference,
    /// Whether it was verified for the first time, so that all it offers counts as approved.
    pub first: bool,
    /// Names all that it offers; approving may ask that it is still this.
    pub digest: Digest,
    /// The definitions of its tools, as the server wrote them.
    pub tools: Vec<toolcrib_protocol::Raw>,
    /// How many prompts, resources and templates it offers.
    pub others: [usize; 3],
    /// What was odd in its lists.
    pub warnings: Vec<String>,
    /// When.
    pub verified_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The end of what its program wrote to stderr.
    pub stderr: Vec<String>,
}

/// How a run ended; nothing while it is under way.
pub(crate) type RunOutcome = Option<Result<Arc<Verification>, Problem>>;

/// The verifications under way. How many of them start a server at a time, [`toolcrib_upstream::StartPlaces`] decides.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    pub(crate) runs: Mutex<HashMap<ServerName, watch::Receiver<RunOutcome>>>,
}

impl Verification {
    /// As data.
    pub fn to_value(&self) -> Value {
        let [prompts, resources, templates] = self.others;
        json!({
            "server": self.server.as_str(), "first": self.first, "digest": self.digest.to_string(),
            "difference": self.difference.to_value(), "summary": self.difference.summary(),
            "text": self.difference.to_text(),
            "tools": self.tools.len(), "prompts": prompts, "resources": resources, "templates": templates,
            "warnings": self.warnings, "verifiedAt": self.verified_at.to_string(),
            "tookMs": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX), "stderr": self.stderr,
        })
    }
}

//! What the gateway knows of servers before they are verified.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use toolcrib_base::{Problem, ServerName};

use crate::client::Rest;

/// How long a gateway may take to see definitions that were written.
const SEEN: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(250);

/// What is known of a server.
pub(super) struct ServerSummary {
    pub(super) is_verified: bool,
    pub(super) tools: u64,
}

/// What is known of these servers, as soon as the gateway knows all of them, or does not in time.
pub(super) async fn summaries(
    rest: &Rest,
    wanted: &BTreeSet<ServerName>,
) -> Result<BTreeMap<ServerName, ServerSummary>, Problem> {
    let begun = Instant::now();
    loop {
        let answer = rest.get("/doctor").await?.to_value();
        let servers = answer["servers"].as_array().into_iter().flatten();
        let known: BTreeMap<ServerName, ServerSummary> = servers.filter_map(summary).collect();
        if wanted.iter().all(|name| known.contains_key(name)) || begun.elapsed() > SEEN {
            return Ok(known);
        }
        sleep(LOOK).await;
    }
}

fn summary(server: &Value) -> Option<(ServerName, ServerSummary)> {
    let name = ServerName::new(server["name"].as_str()?).ok()?;
    let is_verified = server["verifiedAt"].is_string();
    Some((name, ServerSummary { is_verified, tools: server["tools"].as_u64().unwrap_or_default() }))
}

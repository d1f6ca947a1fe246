//! Where servers are verified: the gateway of this home that runs already, or one in this process that ends with the
//! command. Either is spoken to over the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use toolcrib_base::{Problem, ServerName};
use toolcrib_call::LiveEvents;

use crate::client::{ClientFlags, Rest};
use crate::compose::HttpGateway;
use crate::config::Config;
use crate::home::Environment;
use crate::ready;

/// How long a gateway that runs may take to say that it does.
const ALIVE: Duration = Duration::from_secs(10);
/// How long a gateway may take to see definitions that were written.
const SEEN: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(250);
/// A gateway of this home.
pub(super) struct SetupGateway {
    rest: Rest,
    own: Option<HttpGateway>,
}

/// What is known of a server.
pub(super) struct ServerSummary {
    pub(super) is_verified: bool,
    pub(super) tools: u64,
}

// === impl SetupGateway ===

impl SetupGateway {
    /// Finds the gateway, or starts one.
    pub(super) async fn open(config: Config, events: LiveEvents, environment: &Environment) -> anyhow::Result<Self> {
        let home = config.home.path().to_owned();
        let running = ready::read(&config.home.serve_file()).filter(ready::ReadyFile::is_alive);
        if let Some(running) = running {
            let flags = ClientFlags::of_gateway(&running.url, running.token_file, home.clone());
            let rest = Rest::open(&flags, environment)?;
            // A file that was left behind may name the process of someone else.
            if timeout(ALIVE, rest.get("/status")).await.is_ok_and(|answer| answer.is_ok()) {
                return Ok(Self { rest, own: None });
            }
        }
        let serving = HttpGateway::start(config, events).await?;
        let flags = ClientFlags::of_gateway(&serving.url, serving.token_file.clone(), home);
        match Rest::open(&flags, environment) {
            Ok(rest) => Ok(Self { rest, own: Some(serving) }),
            Err(error) => {
                // Nothing was called yet, and what went wrong first is what to act on.
                let _ = serving.end().await;
                Err(error)
            }
        }
    }

    /// Whether it runs on when we end.
    pub(super) fn stays(&self) -> bool {
        self.own.is_none()
    }

    /// The way to speak to it.
    pub(super) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Ends the gateway if it is ours, with all that it started.
    pub(super) async fn end(self) {
        if let Some(serving) = self.own
            && let Err(error) = serving.end().await
        {
            tracing::error!("{error}");
        }
    }

    /// What is known of these servers, as soon as the gateway knows all of them, or does not in time.
    pub(super) async fn summaries(
        &self,
        wanted: &BTreeSet<ServerName>,
    ) -> Result<BTreeMap<ServerName, ServerSummary>, Problem> {
        let begun = Instant::now();
        loop {
            let answer = self.rest.get("/doctor").await?.to_value();
            let servers = answer["servers"].as_array().into_iter().flatten();
            let known: BTreeMap<ServerName, ServerSummary> = servers.filter_map(summary).collect();
            if wanted.iter().all(|name| known.contains_key(name)) || begun.elapsed() > SEEN {
                return Ok(known);
            }
            sleep(LOOK).await;
        }
    }
}

fn summary(server: &Value) -> Option<(ServerName, ServerSummary)> {
    let name = ServerName::new(server["name"].as_str()?).ok()?;
    let is_verified = server["verifiedAt"].is_string();
    Some((name, ServerSummary { is_verified, tools: server["tools"].as_u64().unwrap_or_default() }))
}

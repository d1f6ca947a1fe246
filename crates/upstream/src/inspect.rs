//! A look at a server by a connection of its own, beside the one that calls take: opened, listed, closed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_transport::{Link, LinkError};

use crate::failure::{LAST_LINES, with_stderr};
use crate::inventory::{self, Inventory};
use crate::open::{self, Opening, REPORTS};
use crate::server::Server;

/// The number of such a connection; nobody compares it with another's.
const GENERATION: u64 = 0;
/// How many lines of stderr are kept.
const LINES: usize = 20;

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// What the server offers.
    pub inventory: Inventory,
    /// The end of what its program wrote to stderr, without its secrets.
    pub stderr: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// Why nothing was seen: a fragment for people with the end of stderr where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotInspected {
    /// What happened.
    pub why: String,
    /// Whether it did not answer in time.
    pub timed_out: bool,
}

impl Server {
    /// Starts the server a second time, or connects to it a second time, and reads all that it offers. What runs is not
    /// touched. Takes at most what the definition gives for connecting and listing, and the grace for the end.
    ///
    /// # Errors
    /// It cannot be started, does not shake hands or list its tools, or not in time.
    pub async fn inspect(&self) -> Result<Inspected, NotInspected> {
        let shared = &self.shared;
        let started = Instant::now();
        let (scope, around) = (Scope::new(), shared.pool.around());
        // What it says meanwhile is not waited for.
        let (reports, _reported) = mpsc::channel(REPORTS);
        let opening = Opening {
            config: &shared.config,
            around,
            scope: &scope,
            generation: GENERATION,
            reports,
            era: shared.era(),
            probes: true,
            offered: Arc::new(shared.config.declares.clone()),
            owner: None,
            asks: Arc::clone(&shared.asks),
            principal: None,
            wishes: Arc::default(),
        };
        let seen = match Box::pin(open::open(&opening)).await {
            Err(why) => {
                let timed_out = started.elapsed() >= shared.config.timeouts.connect;
                Err(NotInspected { why: shared.config.masked(&why), timed_out })
            }
            Ok((live, mut bare)) => {
                bare.warnings.clear();
                let before = self.inventory();
                let listed = inventory::drain(&live, bare, &before, shared.config.timeouts.list).await;
                let stderr = match &live.link {
                    Link::Peer(peer) => peer.process().map(|process| process.stderr().last(LINES)),
                    Link::Http(_) => None,
                };
                let stderr: Vec<String> =
                    stderr.unwrap_or_default().iter().map(|line| shared.config.masked(line)).collect();
                live.link.close(around.grace).await;
                match listed {
                    Ok((inventory, _)) => Ok(Inspected { inventory, stderr, took: started.elapsed() }),
                    Err(error) => {
                        let why = format!("its tools cannot be listed: {}", shared.config.masked(&error.to_string()));
                        let why = with_stderr(why, &stderr[stderr.len().saturating_sub(LAST_LINES)..]);
                        Err(NotInspected { why, timed_out: matches!(error, LinkError::Timeout(_)) })
                    }
                }
            }
        };
        scope.close(around.grace * 3).await;
        seen
    }

    /// Takes what was seen as what is known, unless a connection is there: then that one is listed anew, because calls go
    /// where it goes.
    pub fn learn(&self, inventory: Inventory) {
        if self.shared.live.load().is_some() {
            self.order_refresh();
            return;
        }
        let known = self.shared.inventory.load();
        if **known != inventory {
            self.shared.inventory.store(Arc::new(inventory));
        }
        self.shared.status.send_modify(|status| status.listed = true);
    }
}

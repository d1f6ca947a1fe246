//! A look at a server by its own connection, beside the one that calls take: opened, listed, closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_transport::peer::Peer;
use toolcrib_transport::{Link, LinkError};

use crate::install;
use crate::inventory::{self, Inventory};
use crate::open::{self, Cause, OpenConnection, OpenRequest};
use crate::report::REPORTS;
use crate::server::Server;
use crate::status::State;
use crate::stderr::{SEARCHED, with_stderr};

/// The number of such a connection; no one compares it with another's.
const GENERATION: u64 = 0;
/// How many lines of stderr are kept.
const LINES: usize = 20;

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
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
pub struct InspectError {
    /// What happened.
    pub why: String,
    /// Whether it did not answer in time.
    pub timed_out: bool,
    /// Whether it wants a login.
    pub needs_login: bool,
}

impl Server {
    /// Starts the server a second time, or connects to it a second time, and reads all that it offers. What runs is not
    /// touched. Takes at most what the definition gives for connecting and listing, and the grace for the end.
    ///
    /// # Errors
    /// It cannot be started, does not shake hands or list its tools, or not in time.
    pub async fn inspect(&self) -> Result<Inspection, InspectError> {
        let context = &self.context;
        let (scope, deps) = (Scope::new(), &context.deps);
        let installs = context.may_install();
        let _place = deps.starts.take(&context.config, installs).await;
        let started = Instant::now();
        let kept: Mutex<Option<Arc<Peer>>> = Mutex::default();
        // What it says in the meantime is not waited for.
        let (reports, _reported) = mpsc::channel(REPORTS);
        let opening = OpenRequest {
            config: &context.config,
            deps,
            scope: &scope,
            generation: GENERATION,
            reports,
            era: context.eras.main(),
            probes: true,
            offered: Arc::new(context.config.declares.clone()),
            owner: None,
            eras: Arc::clone(&context.eras),
            unanswered: context.unanswered.clone(),
            principal: None,
            subscriptions: Arc::default(),
            turn: &context.turn,
            told: None,
            kept: &kept,
            opener: None,
        };
        let seen = match Box::pin(open::open(&opening)).await {
            Err(failure) => Err(InspectError {
                why: context.config.masked(&failure.why),
                timed_out: failure.cause == Cause::Timeout,
                needs_login: failure.cause == Cause::Login,
            }),
            Ok(OpenConnection { live, mut bare, .. }) => {
                bare.warnings.clear();
                let before = self.inventory();
                let listed = inventory::drain(&live, bare, &before, context.config.timeouts.list).await;
                context.was_there.store(true, std::sync::atomic::Ordering::Relaxed);
                let stderr = match &live.link {
                    Link::Peer(peer) => peer.process().map(|process| process.stderr().last(SEARCHED)),
                    Link::Http(_) => None,
                };
                let mut stderr: Vec<String> =
                    stderr.unwrap_or_default().iter().map(|line| context.config.masked(line)).collect();
                live.link.close(deps.grace).await;
                match listed {
                    Ok((inventory, _)) => {
                        stderr.drain(..stderr.len().saturating_sub(LINES));
                        Ok(Inspection { inventory, stderr, took: started.elapsed() })
                    }
                    Err(error) => {
                        let why = format!("its tools cannot be listed: {}", context.config.masked(&error.to_string()));
                        let why = with_stderr(why, &stderr);
                        let timed_out = matches!(error, LinkError::Timeout(_));
                        Err(InspectError { why, timed_out, needs_login: false })
                    }
                }
            }
        };
        let is_open = seen.is_ok();
        scope.close(if is_open { deps.grace * 3 } else { context.ending(installs) }).await;
        let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let stderr = kept.as_ref().and_then(|peer| peer.process()).map(|program| program.stderr().last(install::LINES));
        match (seen, stderr) {
            (Err(mut failure), Some(stderr)) => {
                let half = context.half_written(stderr).await;
                failure.why.push_str(&half.map(|half| install::told(&half)).unwrap_or_default());
                Err(failure)
            }
            (seen, _) => seen,
        }
    }

    /// Takes what was seen as what is known, unless a connection is there: then that one is listed again, because calls
    /// go where it goes.
    pub fn learn(&self, inventory: Inventory) {
        if self.context.live.load().is_some() {
            self.order_refresh();
            return;
        }
        if self.status().state == State::NeedsLogin {
            // Whatever it wanted, it has it now.
            self.order_restart();
        }
        let known = self.context.inventory.load();
        if **known != inventory {
            self.context.show(Arc::new(inventory));
        }
        self.context.status.send_modify(|status| status.listed = true);
    }
}

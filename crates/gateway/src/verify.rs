//! Verification: a server is started once more beside what runs, listed, compared with what was approved, and what it
//! offers becomes the snapshot from which it is served.
//!
//! Several who want the same at a time share one run, and nobody's leaving ends it for the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, PrincipalId, Problem, ServerName, Timestamp};
use toolcrib_catalog::pin::{Difference, Digest, Offer};
use toolcrib_store::{PinChange, Snapshot};
use toolcrib_upstream::{Inspection, State};
use toolcrib_view::ServerEntry;

use crate::gateway::Gateway;
use crate::pins::{approval, offer_of};
use crate::servers::fingerprint;

/// What a verification found.
#[derive(Debug, Clone)]
pub struct Verified {
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
type Outcome = Option<Result<Arc<Verified>, Problem>>;

/// The verifications under way. How many of them start a server at a time, [`toolcrib_upstream::StartPlaces`] decides.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    runs: Mutex<HashMap<ServerName, watch::Receiver<Outcome>>>,
}

impl Verified {
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

impl Gateway {
    /// The server of a name, or the problem that names the nearest ones.
    pub(crate) fn running(&self, name: &str) -> Result<ServerEntry, Problem> {
        let table = self.servers.table();
        let found = ServerName::new(name).ok().and_then(|name| table.get(&name).cloned());
        found.ok_or_else(|| {
            let shown: String = name.chars().take(128).collect();
            let problem = Problem::new(Kind::NotFound, format!("no server `{shown}`"));
            let close: Vec<_> =
                similar(name, table.keys().map(ServerName::as_str)).iter().map(|name| format!("`{name}`")).collect();
            if close.is_empty() {
                problem.hint("see all with `toolcrib list servers`")
            } else {
                problem.hint(format!("nearest: {}", close.join(", ")))
            }
        })
    }

    /// Verifies a server. The first verification approves all that it offers, in the name of `by`; later ones approve
    /// nothing. Dropping the future ends nothing.
    ///
    /// # Errors
    /// There is no such server; it cannot be started or listed, or not in time: then with the end of its stderr.
    pub async fn verify(self: &Arc<Self>, server: &str, by: &PrincipalId) -> Result<Arc<Verified>, Problem> {
        let name = self.running(server)?.definition.name.clone();
        let mut outcome = self.verification_of(name, by.clone());
        let ended = outcome.wait_for(Option::is_some).await;
        match ended.ok().and_then(|outcome| outcome.clone()) {
            Some(outcome) => outcome,
            None => Err(Problem::new(Kind::Unavailable, "the gateway is shutting down")),
        }
    }

    /// The run that is under way, or a new one.
    fn verification_of(self: &Arc<Self>, name: ServerName, by: PrincipalId) -> watch::Receiver<Outcome> {
        let mut runs = self.verifications.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get(&name) {
            return run.clone();
        }
        let (tell, outcome) = watch::channel(None);
        runs.insert(name.clone(), outcome.clone());
        drop(runs);
        let (gateway, scope) = (Arc::clone(self), self.servers.scope());
        let mut stop = scope.stop_signal();
        scope.spawn(async move {
            let ended = tokio::select! {
                () = stop.stopped() => Err(Problem::new(Kind::Unavailable, "the gateway is shutting down")),
                ended = gateway.verify_now(&name, &by) => ended.map(Arc::new),
            };
            // Whoever asks from here on begins anew.
            gateway.verifications.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            tell.send_replace(Some(ended));
        });
        outcome
    }

    async fn verify_now(self: &Arc<Self>, name: &ServerName, by: &PrincipalId) -> Result<Verified, Problem> {
        let running = self.running(name.as_str())?;
        let failed = |kind, why: &str| {
            Problem::new(kind, format!("server `{name}` could not be verified: {why}"))
                .hint(format!("the last known lists are kept; see `toolcrib doctor {name}`"))
        };
        // Whatever is being downloaded is downloaded once, and what has just failed is not tried at once again.
        let begun = std::time::Instant::now();
        let mut seen = None;
        if let Some(status) = running.server.settled().await.filter(|status| status.state != State::Stopped) {
            let why = status.last_error.as_deref().unwrap_or("it did not start");
            match status.state {
                State::Failed if status.timed_out => return Err(failed(Kind::Timeout, why)),
                State::Failed | State::NeedsLogin => return Err(failed(Kind::Unavailable, why)),
                state if state.is_starting() => return Err(failed(Kind::Timeout, "it is still being started")),
                // It was listed a moment ago.
                State::Ready => {
                    let inventory = (*running.server.inventory()).clone();
                    seen = Some(Inspection { inventory, stderr: Vec::new(), took: begun.elapsed() });
                }
                _ => {}
            }
        }
        let inspected = match seen {
            Some(seen) => seen,
            None => running.server.inspect().await.map_err(|error| {
                failed(if error.timed_out { Kind::Timeout } else { Kind::Unavailable }, &error.to_string())
            })?,
        };
        let (gateway, by) = (Arc::clone(self), by.clone());
        let done = tokio::task::spawn_blocking(move || gateway.keep(&running, inspected, &by)).await;
        done.unwrap_or_else(|error| Err(Problem::new(Kind::Internal, error.to_string())))
    }

    /// Keeps what was seen and builds the views anew. Blocks.
    fn keep(&self, running: &ServerEntry, seen: Inspection, by: &PrincipalId) -> Result<Verified, Problem> {
        let definition = &running.definition;
        let now = self.running(definition.name.as_str())?;
        if !now.server.is_same(&running.server) {
            let what = format!("the definition of `{}` was changed in the meantime", definition.name);
            return Err(Problem::new(Kind::Cancelled, what).hint("verify it again"));
        }
        let Inspection { inventory, stderr, took } = seen;
        let offer = offer_of(&inventory);
        let approved = self.pins.of(definition).filter(|pin| pin.approved.is_some());
        let first = approved.is_none();
        let difference = match approved.as_ref().and_then(|pin| pin.approved.as_ref()) {
            Some(approved) => Difference::between(approved, &offer),
            None => {
                let approve = offer.items().map(approval).collect();
                self.pins.decide(definition, PinChange { approve, ..PinChange::default() }, by)?;
                Difference::default()
            }
        };
        let snapshot = Snapshot {
            server: definition.name.clone(),
            taken_at: self.clock.now(),
            definition_hash: fingerprint(definition),
            inventory: inventory.to_json(),
        };
        self.store.snapshots().put(&snapshot)?;
        self.pins.verified(&definition.name, offer.digest())?;
        let verified = Verified {
            server: definition.name.clone(),
            difference,
            first,
            digest: offer.digest(),
            tools: inventory.tools.iter().map(|tool| tool.raw.clone()).collect(),
            others: [inventory.prompts.len(), inventory.resources.len(), inventory.templates.len()],
            warnings: inventory.warnings.clone(),
            verified_at: snapshot.taken_at,
            took,
            stderr,
        };
        running.server.learn(inventory);
        self.rebuild();
        Ok(verified)
    }

    /// What a server offers now, and how that differs from what was approved.
    pub(crate) fn standing(&self, running: &ServerEntry) -> (Offer, Difference) {
        let offer = offer_of(&running.server.inventory());
        let pin = self.pins.of(&running.definition);
        let nothing = Offer::default();
        let approved = pin.as_ref().and_then(|pin| pin.approved.as_ref()).unwrap_or(&nothing);
        let difference = Difference::between(approved, &offer);
        (offer, difference)
    }
}

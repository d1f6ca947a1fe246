//! Verification: a server is started once more beside what runs, listed, compared with what was approved, and what it
//! offers becomes the snapshot from which it is served.
//!
//! Several who want the same at a time share one run, and no one's leaving ends it for the others.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, PrincipalId, Problem, ServerName};
use toolcrib_call::admission::closing_problem;
use toolcrib_call::pins::{approval, offer_of};
use toolcrib_call::servers::fingerprint;
use toolcrib_catalog::pin::{Difference, Offer, Part};
use toolcrib_store::{PinChange, Snapshot};
use toolcrib_upstream::{Inspection, Sight, State};
use toolcrib_view::ServerEntry;

use crate::gateway::Gateway;
use crate::verification::{RunOutcome, Verification};

/// What a server offers at this moment.
#[derive(Debug, Clone)]
pub struct ServerGlance {
    /// The names of its tools, in its order.
    pub tools: Vec<String>,
    /// How many entries of its lists cannot be used.
    pub warnings: usize,
    /// How long it took.
    pub took: std::time::Duration,
}

impl Gateway {
    /// Connects to a server once more and looks at what it offers; nothing of it is kept or approved.
    ///
    /// # Errors
    /// There is no such server; it cannot be reached or listed, or not in time, or wants a login.
    pub async fn glance(&self, server: &str) -> Result<ServerGlance, Problem> {
        let running = self.running(server)?;
        let seen = running.server.inspect().await.map_err(|error| {
            let kind = if error.timed_out { Kind::Timeout } else { Kind::Unavailable };
            let problem = Problem::new(kind, format!("server `{server}` could not be listed: {error}"));
            if error.needs_login { problem.hint(format!("log in with `toolcrib login {server}`")) } else { problem }
        })?;
        let Inspection { inventory, took, .. } = seen;
        let tools = inventory.tools.iter().map(|tool| tool.key.clone()).collect();
        Ok(ServerGlance { tools, warnings: inventory.warnings.len(), took })
    }

    /// The server of a name, or the problem that names the nearest ones.
    pub(crate) fn running(&self, name: &str) -> Result<ServerEntry, Problem> {
        let table = self.path.servers.table();
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
    pub async fn verify(self: &Arc<Self>, server: &str, by: &PrincipalId) -> Result<Arc<Verification>, Problem> {
        let name = self.running(server)?.definition.name.clone();
        let mut outcome = self.verification_of(name, by.clone());
        let ended = outcome.wait_for(Option::is_some).await;
        match ended.ok().and_then(|outcome| outcome.clone()) {
            Some(outcome) => outcome,
            None => Err(closing_problem()),
        }
    }

    /// The run that is under way, or a new one.
    fn verification_of(self: &Arc<Self>, name: ServerName, by: PrincipalId) -> watch::Receiver<RunOutcome> {
        let mut runs = self.verifications.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get(&name) {
            return run.clone();
        }
        let (tell, outcome) = watch::channel(None);
        runs.insert(name.clone(), outcome.clone());
        drop(runs);
        let (gateway, scope) = (Arc::clone(self), self.path.servers.scope());
        let mut stop = scope.stop_signal();
        scope.spawn(async move {
            let ended = tokio::select! {
                () = stop.stopped() => Err(closing_problem()),
                ended = gateway.verify_now(&name, &by) => ended.map(Arc::new),
            };
            // A caller who asks from here on starts again.
            gateway.verifications.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            tell.send_replace(Some(ended));
        });
        outcome
    }

    async fn verify_now(self: &Arc<Self>, name: &ServerName, by: &PrincipalId) -> Result<Verification, Problem> {
        let running = self.running(name.as_str())?;
        let failed = |kind, why: &str| {
            Problem::new(kind, format!("server `{name}` could not be verified: {why}"))
                .hint(format!("the last known lists are kept; see `toolcrib doctor {name}`"))
        };
        let login = format!("log in with `toolcrib login {name}`, then verify it again");
        // Whatever is being downloaded is downloaded once, and what has just failed is not tried at once again.
        let begun = std::time::Instant::now();
        let mut seen = None;
        if let Some(status) = running.server.settled().await.filter(|status| status.state != State::Stopped) {
            let why = status.last_error.as_deref().unwrap_or("it did not start");
            match status.state {
                State::Failed if status.timed_out => return Err(failed(Kind::Timeout, why)),
                State::NeedsLogin => return Err(failed(Kind::Unavailable, why).hint(login)),
                State::Failed => return Err(failed(Kind::Unavailable, why)),
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
                let problem =
                    failed(if error.timed_out { Kind::Timeout } else { Kind::Unavailable }, &error.to_string());
                if error.needs_login { problem.hint(login) } else { problem }
            })?,
        };
        let (gateway, by) = (Arc::clone(self), by.clone());
        let done = tokio::task::spawn_blocking(move || gateway.keep(&running, inspected, &by)).await;
        done.unwrap_or_else(|error| Err(Problem::new(Kind::Internal, error.to_string())))
    }

    /// Keeps what was seen and rebuilds the views. Blocks.
    fn keep(&self, running: &ServerEntry, seen: Inspection, by: &PrincipalId) -> Result<Verification, Problem> {
        let definition = &running.definition;
        let now = self.running(definition.name.as_str())?;
        if !now.server.is_same(&running.server) {
            let what = format!("the definition of `{}` was changed in the meantime", definition.name);
            return Err(Problem::new(Kind::Cancelled, what).hint("verify it again"));
        }
        let Inspection { inventory, stderr, took } = seen;
        let offer = offer_of(&inventory);
        let approved = self.path.pins.of(definition).filter(|pin| pin.approved.is_some());
        let first = approved.is_none();
        let difference = match approved.as_ref().and_then(|pin| pin.approved.as_ref()) {
            Some(approved) => Difference::between(approved, &offer),
            None => {
                let approve = offer.items().map(|(item, definition)| approval(item, definition)).collect();
                self.path.pins.decide(definition, PinChange { approve, ..PinChange::default() }, by)?;
                Difference::default()
            }
        };
        let snapshot = Snapshot {
            server: definition.name.clone(),
            taken_at: self.path.clock.now(),
            definition_hash: fingerprint(definition),
            inventory: inventory.to_json(),
        };
        self.path.store.snapshots().put(&snapshot)?;
        self.path.pins.verified(&definition.name, offer.digest())?;
        let verified = Verification {
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

    /// What a server offers now, and how that differs from what was approved: what it lists to everyone, and what it lists
    /// to `principal` alone. What it lists to others with credentials of their own is not told, only not taken for gone.
    pub(crate) fn standing(&self, running: &ServerEntry, principal: Option<&str>) -> (Offer, Difference) {
        let mut offer = offer_of(&running.server.inventory());
        if let Sight::Own(part) = running.server.seen_by(principal) {
            let own = offer_of(part.inventory());
            let own = own.items().filter(|(item, _)| item.part != Part::Instructions);
            own.for_each(|(item, definition)| offer.insert(item.clone(), definition.clone()));
        }
        let pin = self.path.pins.of(&running.definition);
        let nothing = Offer::default();
        let approved = pin.as_ref().and_then(|pin| pin.approved.as_ref()).unwrap_or(&nothing);
        let others = running.server.own_inventories();
        for (item, definition) in others.iter().flat_map(|other| offer_of(other).into_items()) {
            let is_approved = pin.as_ref().is_some_and(|pin| pin.approves(&item, &definition));
            if is_approved && offer.get(&item).is_none() {
                offer.insert(item, definition);
            }
        }
        let difference = Difference::between(approved, &offer);
        (offer, difference)
    }
}

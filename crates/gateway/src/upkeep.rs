//! What the gateway does by itself: it keeps snapshots and views in step with what happens to servers, and closes, unloads
//! and writes down what is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use toolcrib_base::task::Stop;
use toolcrib_base::{PrincipalId, ServerName};
use toolcrib_call::LiveEvent;
use toolcrib_call::servers::fingerprint;
use toolcrib_catalog::SessionScope;
use toolcrib_store::{OwnSnapshot, Snapshot};
use toolcrib_upstream::{Event, Inventory, State};

use crate::gateway::Gateway;

/// How long changes are gathered before views are built, at most: while servers are starting, because many become ready
/// at the same time, and after a build, so that a server whose lists change all the time costs no more builds than this.
const GATHER: Duration = Duration::from_millis(20);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

impl Gateway {
    /// Keeps snapshots and views in step with what happens to servers, until the gateway stops.
    pub async fn keep_in_step(self: Arc<Self>, mut events: mpsc::Receiver<Event>, mut stop: Stop) {
        let house = self.path.servers.scope();
        house.spawn(Arc::clone(&self).keep_counting(house.stop_signal()));
        let mut sweep = tokio::time::interval(SWEEP);
        // From when on a change need not wait for others.
        let mut rested = Instant::now();
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = sweep.tick() => {
                    self.sessions.close_idle();
                    self.path.conversations.sweep(&self.path.servers.table());
                    self.unload_idle();
                    self.keep_active_sets().await;
                    self.keep_learned().await;
                    continue;
                }
                () = stop.stopped() => None,
            };
            let Some(event) = event else {
                // When which tool was used is written now and then only, and at the end.
                self.keep_active_sets().await;
                self.keep_learned().await;
                return;
            };
            let mut changed = self.note(event).await;
            // Whatever else happens within a moment is part of the same build; a lone change is shown at once.
            let most = Instant::now() + GATHER;
            while changed {
                let until = if self.is_any_starting() { most } else { rested.min(most) };
                match tokio::time::timeout_at(until, events.recv()).await {
                    Ok(Some(event)) => changed |= self.note(event).await,
                    Ok(None) | Err(_) => break,
                }
            }
            if changed {
                let gateway = Arc::clone(&self);
                // A failed build panicked; the views stay as they were.
                let _ = tokio::task::spawn_blocking(move || gateway.rebuild()).await;
                rested = Instant::now() + GATHER;
            }
        }
    }

    /// Whether a server's first lists may come soon.
    fn is_any_starting(&self) -> bool {
        self.path.servers.table().values().any(|running| running.server.status().state == State::Starting)
    }

    /// Takes one event; `true` when views must be built again.
    async fn note(self: &Arc<Self>, event: Event) -> bool {
        match event {
            Event::Status { server, status } => {
                self.metrics.set_ready(server.as_str(), status.state == State::Ready);
                // The last of a removed server's events may come after it was forgotten.
                if !self.path.servers.table().contains_key(&server) {
                    self.metrics.forget_server(server.as_str());
                }
                self.path.events.publish(|| LiveEvent::state(&server, &status));
                self.server_events.of_state(&server, &status).into_iter().for_each(|event| self.happened(event));
                false
            }
            Event::Inventory { server, inventory } => {
                self.server_events.of_inventory(&server, &inventory).into_iter().for_each(|event| self.happened(event));
                let gateway = Arc::clone(self);
                // Waited for, so that two inventories of one server cannot overtake each other.
                let _ = tokio::task::spawn_blocking(move || gateway.remember(&server, &inventory)).await;
                true
            }
            Event::Own { server, principal, .. } => {
                let gateway = Arc::clone(self);
                // Waited for, as above.
                let _ = tokio::task::spawn_blocking(move || {
                    let principal = PrincipalId::new(&principal);
                    gateway.remember_own(&server, &principal);
                    gateway.note_principal(&principal);
                })
                .await;
                false
            }
            Event::Nature { server, nature } => {
                self.path.servers.remember_nature(&server, nature);
                // Of its era depends whether it is shown with sessions.
                let table = self.path.servers.table();
                table.get(&server).is_some_and(|running| running.definition.session == SessionScope::Handle)
            }
            Event::ResourceUpdated { server, principal, uri } => {
                self.path.subscriptions.updated(&server, principal.as_ref(), &uri);
                false
            }
            Event::TaskChanged { server, principal, params } => {
                self.path.subscriptions.task_changed(&server, principal.as_ref(), &params);
                false
            }
        }
    }

    fn remember(&self, server: &ServerName, inventory: &Inventory) {
        let table = self.path.servers.table();
        let Some(running) = table.get(server) else { return };
        let snapshot = Snapshot {
            server: server.clone(),
            taken_at: self.path.clock.now(),
            definition_hash: fingerprint(&running.definition),
            inventory: inventory.to_json(),
        };
        if let Err(error) = self.path.store.snapshots().put(&snapshot) {
            tracing::warn!(%server, %error, "failed to save the snapshot");
        }
        // It may have been removed meanwhile, and its snapshot before this one was written.
        if !self.path.servers.table().contains_key(server)
            && let Err(error) = self.path.store.snapshots().remove(server)
        {
            tracing::warn!(%server, %error, "failed to delete the snapshot");
        }
    }

    /// Keeps what a server shows a principal by now, or removes what it showed.
    pub(crate) fn remember_own(&self, server: &ServerName, principal: &PrincipalId) {
        let (kept, principal) = (self.path.store.own_snapshots(), principal.as_str());
        let table = self.path.servers.table();
        let shown = table.get(server).and_then(|running| Some((running, running.server.own_inventory(principal)?)));
        let written = match shown {
            Some((running, inventory)) => kept.put(&OwnSnapshot {
                server: server.clone(),
                principal: principal.to_owned(),
                taken_at: self.path.clock.now(),
                definition_hash: fingerprint(&running.definition).into(),
                inventory: inventory.to_json().into(),
            }),
            None => kept.remove(server, principal).map(drop),
        };
        if let Err(error) = written {
            tracing::warn!(%server, principal, %error, "failed to save what a principal is shown");
        }
    }

    /// Writes what was learned since the last time.
    async fn keep_learned(self: &Arc<Self>) {
        if self.learning.is_ahead() {
            let learning = Arc::clone(&self.learning);
            // A panic while writing leaves what was written before.
            let _ = tokio::task::spawn_blocking(move || learning.write()).await;
        }
    }
}

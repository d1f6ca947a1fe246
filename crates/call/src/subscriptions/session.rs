//! Notifies a session on its streams of changes of the resources that it subscribes to.

use std::sync::{Arc, Weak};
use std::time::Duration;

use toolcrib_base::SessionName;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_protocol::subscription::{Change, Filter};
use toolcrib_session::Session;

use super::{GATHER, Listener, Subscriptions, WatchKind, lock};

/// The waits for a session that reads nothing.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(10);

// === impl Subscriptions ===

impl Subscriptions {
    /// The listener of a session, created at the first use.
    pub(crate) fn of_session(&self, session: &Arc<Session>, scope: &Scope) -> Arc<Listener> {
        let mut state = lock(&self.state);
        let name = session.name();
        if let Some(entry) = state.sessions.get(name).and_then(|number| state.listeners.get(number)) {
            return Arc::clone(&entry.listener);
        }
        let listener = state.add(&session.profile, &session.principal, Filter::default(), false);
        state.sessions.insert(name.clone(), listener.number);
        drop(state);
        scope.spawn(deliver(Arc::downgrade(session), Arc::clone(&listener), scope.stop_signal()));
        listener
    }

    /// A session has ended.
    pub fn forget_session(&self, session: &SessionName) {
        let mut state = lock(&self.state);
        let gone = state.sessions.remove(session).map(|number| state.remove(number));
        drop(state);
        // After the lock is released: it reaches into servers.
        drop(gone);
    }

    pub(crate) fn unsubscribe(&self, session: &Session, uri: &str) {
        let number = lock(&self.state).sessions.get(session.name()).copied();
        if let Some(number) = number {
            self.unwatch(WatchKind::Resource, number, uri);
        }
    }
}

/// Sends a session its changes until it closes.
async fn deliver(session: Weak<Session>, listener: Arc<Listener>, mut stop: Stop) {
    let delivery = async {
        loop {
            listener.wake.notified().await;
            if listener.has_ended() {
                return;
            }
            tokio::time::sleep(GATHER).await;
            let mut wait = FIRST_WAIT;
            while let Some(change) = listener.pop() {
                let Some(session) = session.upgrade().filter(|session| !session.is_closed()) else { return };
                let Change::Updated { watched, .. } = &change else { continue };
                if !session.subscribes_to(watched) || session.notify(&change.to_notification()) {
                    wait = FIRST_WAIT;
                    continue;
                }
                drop(session);
                // It reads nothing, or too slowly: what comes meanwhile is merged.
                listener.push(change);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LAST_WAIT);
            }
        }
    };
    // A change that is dropped here has no reader any more.
    tokio::select! {
        () = delivery => {}
        () = stop.stopped() => {}
    }
}

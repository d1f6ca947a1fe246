//! What a session hears on its streams of the resources that it has subscribed to.

use std::sync::{Arc, Weak};
use std::time::Duration;

use toolcrib_base::task::{Scope, Stop};
use toolcrib_protocol::subscription::{Filter, New};
use toolcrib_session::Session;

use super::{GATHER, Listener, Subscriptions, WatchKind, lock};

/// The waits for a session that reads nothing.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(10);

// === impl Subscriptions ===

impl Subscriptions {
    /// The listener of a session, begun if need be.
    pub(crate) fn of_session(&self, session: &Arc<Session>, scope: &Scope) -> Arc<Listener> {
        let mut state = lock(&self.state);
        let name = session.audit_name();
        if let Some(entry) = state.sessions.get(&name).and_then(|number| state.listeners.get(number)) {
            return Arc::clone(&entry.listener);
        }
        let listener = state.add(&session.profile, Filter::default(), None);
        state.sessions.insert(name, listener.number);
        drop(state);
        scope.spawn(tell(Arc::downgrade(session), Arc::clone(&listener), scope.stop_signal()));
        listener
    }

    /// A session has ended.
    pub fn forget_session(&self, session: &str) {
        let mut state = lock(&self.state);
        let gone = state.sessions.remove(session).map(|number| state.remove(number));
        drop(state);
        // After the lock is released: it reaches into servers.
        drop(gone);
    }

    pub(crate) fn unsubscribe(&self, session: &Session, uri: &str) {
        let number = lock(&self.state).sessions.get(&session.audit_name()).copied();
        if let Some(number) = number {
            self.unwatch(WatchKind::Resource, number, uri);
        }
    }
}

/// Tells a session its news, for as long as it lives.
async fn tell(session: Weak<Session>, listener: Arc<Listener>, mut stop: Stop) {
    let telling = async {
        loop {
            listener.wake.notified().await;
            if listener.has_ended() {
                return;
            }
            tokio::time::sleep(GATHER).await;
            let mut wait = FIRST_WAIT;
            while let Some(new) = listener.take() {
                let Some(session) = session.upgrade().filter(|session| !session.is_closed()) else { return };
                let New::Updated { watched, .. } = &new else { continue };
                if !session.subscribes_to(watched) || session.tell(&new.to_notification()) {
                    wait = FIRST_WAIT;
                    continue;
                }
                drop(session);
                // It reads nothing, or too slowly: what comes meanwhile is merged.
                listener.note(new);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LAST_WAIT);
            }
        }
    };
    // A piece of news that is dropped here nobody hears any more.
    tokio::select! {
        () = telling => {}
        () = stop.stopped() => {}
    }
}

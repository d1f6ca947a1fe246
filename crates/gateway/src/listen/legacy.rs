//! `resources/subscribe` and `resources/unsubscribe`: what a session hears on its streams.

use std::sync::{Arc, Weak};
use std::time::Duration;

use toolcrib_base::task::Stop;
use toolcrib_base::{Kind, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::error::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use toolcrib_protocol::subscription::{Filter, New};
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_session::Session;
use toolcrib_store::Outcome;

use crate::gateway::Gateway;
use crate::listen::{GATHER, Hub, Listener, TAKEN, What, lock};
use crate::passage::Refused;
use crate::request::{Passing, closing, required_text, unknown_method};

/// The waits for a session that reads nothing.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A subscription that is being made; undone when dropped before it is kept.
struct Making<'a> {
    hub: &'a Hub,
    session: &'a Session,
    number: u64,
    uri: &'a str,
    kept: bool,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.session.unsubscribe(self.uri);
            self.hub.unwatch(What::Resource, self.number, self.uri);
        }
    }
}

// === impl Hub ===

impl Hub {
    /// The listener of a session, begun if need be.
    fn of_session(&self, gateway: &Gateway, session: &Arc<Session>) -> Arc<Listener> {
        let mut state = lock(&self.state);
        let name = session.audit_name();
        if let Some(entry) = state.sessions.get(&name).and_then(|number| state.listeners.get(number)) {
            return Arc::clone(&entry.listener);
        }
        let listener = state.add(&session.profile, Filter::default(), None);
        state.sessions.insert(name, listener.number);
        drop(state);
        let scope = gateway.servers.scope();
        scope.spawn(tell(Arc::downgrade(session), Arc::clone(&listener), scope.stop_signal()));
        listener
    }

    /// A session has ended.
    pub(crate) fn forget_session(&self, session: &str) {
        let mut state = lock(&self.state);
        let gone = state.sessions.remove(session).map(|number| state.remove(number));
        drop(state);
        // After the lock is released: it reaches into servers.
        drop(gone);
    }

    fn unsubscribe(&self, session: &Session, uri: &str) {
        let number = lock(&self.state).sessions.get(&session.audit_name()).copied();
        if let Some(number) = number {
            self.unwatch(What::Resource, number, uri);
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

impl Passing<'_> {
    pub(crate) async fn resources_subscribe(&self, params: &Raw) -> Result<Raw, RpcError> {
        let Some(session) = &self.caller.session else { return Err(unknown_method(method::RESOURCES_SUBSCRIBE)) };
        let uri = required_text(params, "uri")?;
        let not_found = || self.resource_not_found(&uri);
        let place = self.view.resources.place(&uri).ok_or_else(not_found)?;
        let act = Act::ReadResource { server: place.name.clone(), uri: place.uri.as_str().into() };
        let target = format!("{}/{}", place.name, place.uri);
        let passage = match self.open(&act, self.asked(method::RESOURCES_SUBSCRIBE, &target, None)).await {
            Ok(passage) => passage,
            Err(Refused::Denied(_)) => return Err(not_found()),
            Err(Refused::Closing) => return Err(closing()),
        };
        let hub = &self.gateway.hub;
        let is_new = match session.subscribe(&uri) {
            Ok(is_new) => is_new,
            Err(problem) => {
                passage.finish(Outcome::Error(problem.kind));
                return Err(RpcError::from(&problem));
            }
        };
        if !is_new {
            passage.finish(Outcome::Ok);
            return Ok(Raw::empty_object());
        }
        let number = hub.of_session(self.gateway, session).number;
        let mut making = Making { hub, session, number, uri: &uri, kept: false };
        let subscription = hub.watch(self.gateway, number, &uri, (&place.name, &place.uri));
        if session.is_closed() {
            // It ended before its listener began: nobody else would end that.
            hub.forget_session(&session.audit_name());
            passage.finish(Outcome::Cancelled);
            return Err(RpcError::from(&Problem::new(Kind::NotFound, "the session has ended")));
        }
        let Some(subscription) = subscription else {
            passage.finish(Outcome::Error(Kind::NotFound));
            return Err(not_found());
        };
        if subscription.accepted(TAKEN).await {
            making.kept = true;
            passage.finish(Outcome::Ok);
            return Ok(Raw::empty_object());
        }
        let is_unknown = |error: &RpcError| matches!(error.code, RESOURCE_NOT_FOUND | INVALID_PARAMS);
        if subscription.refusal().as_ref().is_some_and(is_unknown) {
            passage.finish(Outcome::Error(Kind::NotFound));
            return Err(not_found());
        }
        passage.finish(Outcome::Error(Kind::Unavailable));
        let message = format!("server `{}` does not report changes of `{uri}`", place.name);
        Err(RpcError::from(&Problem::new(Kind::Unavailable, message).hint("Read it again when you need it.")))
    }

    pub(crate) fn resources_unsubscribe(&self, params: &Raw) -> Result<Raw, RpcError> {
        let Some(session) = &self.caller.session else { return Err(unknown_method(method::RESOURCES_UNSUBSCRIBE)) };
        let uri = required_text(params, "uri")?;
        if session.unsubscribe(&uri) {
            self.gateway.hub.unsubscribe(session, &uri);
        } else if self.view.resources.place(&uri).is_none() {
            return Err(self.resource_not_found(&uri));
        }
        Ok(Raw::empty_object())
    }
}

//! `resources/subscribe` and `resources/unsubscribe`: notifications go to the streams of the session.
use std::sync::Arc;

use toolcrib_base::{Kind, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::error::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_session::Session;
use toolcrib_store::Outcome;
use toolcrib_view::view::ResourcePlace;

use crate::context::RequestContext;
use crate::params::{required_text, unknown_method};
use crate::subscriptions::{Subscriptions, TAKEN, WatchKind};

/// A subscription that is being made; undone when dropped before it is kept.
struct SubscriptionAttempt<'a> {
    hub: &'a Subscriptions,
    session: &'a Session,
    number: u64,
    uri: &'a str,
    kept: bool,
}

/// Why a session does not hear of a resource.
struct SubscribeError {
    outcome: Outcome,
    /// The client's error; `None` where the resource must look as if it did not exist.
    problem: Option<Problem>,
}

impl SubscribeError {
    fn of(kind: Kind, problem: Option<Problem>) -> Self {
        Self { outcome: Outcome::Error(kind), problem }
    }
}

impl Drop for SubscriptionAttempt<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.session.unsubscribe(self.uri);
            self.hub.unwatch(WatchKind::Resource, self.number, self.uri);
        }
    }
}

impl RequestContext<'_> {
    pub async fn resources_subscribe(&self, params: &Raw) -> Result<Raw, RpcError> {
        let Some(session) = &self.caller.session else { return Err(unknown_method(method::RESOURCES_SUBSCRIBE)) };
        let uri = required_text(params, "uri")?;
        let not_found = || self.resource_not_found(&uri);
        let place = self.view().resources.place(&uri).ok_or_else(not_found)?;
        let act = Act::ReadResource { server: place.name.clone(), uri: place.uri.as_str().into() };
        let target = format!("{}/{}", place.name, place.uri);
        let admitted = self.admit(&act, self.audited(method::RESOURCES_SUBSCRIBE, &target, None)).await;
        let admitted = admitted.map_err(|refusal| refusal.or_unknown(not_found))?;
        let subscribed = self.subscribe_session(session, &uri, &place).await;
        let outcome = subscribed.as_ref().map_or_else(|failure| failure.outcome, |()| Outcome::Ok);
        admitted.end(outcome);
        match subscribed {
            Ok(()) => Ok(Raw::empty_object()),
            Err(SubscribeError { problem: Some(problem), .. }) => Err(RpcError::from(&problem)),
            Err(_) => Err(not_found()),
        }
    }

    /// Has a session hear of a resource, where that leads to what was `permitted`.
    async fn subscribe_session(
        &self,
        session: &Arc<Session>,
        uri: &str,
        permitted: &ResourcePlace,
    ) -> Result<(), SubscribeError> {
        let hub = &self.path.subscriptions;
        let is_new = session.subscribe(uri).map_err(|problem| SubscribeError::of(problem.kind, Some(problem)))?;
        if !is_new {
            return Ok(());
        }
        let number = hub.of_session(session, self.path.servers.scope()).number();
        let mut attempt = SubscriptionAttempt { hub, session, number, uri, kept: false };
        let subscription = hub.watch(&self.path.views, number, uri, permitted);
        if session.is_closed() {
            // It ended before its listener began: nothing else would end that.
            hub.forget_session(session.name());
            let problem = Some(Problem::new(Kind::NotFound, "the session has ended"));
            return Err(SubscribeError { outcome: Outcome::Cancelled, problem });
        }
        let subscription = subscription.ok_or_else(|| SubscribeError::of(Kind::NotFound, None))?;
        if subscription.accepted(TAKEN).await {
            attempt.kept = true;
            return Ok(());
        }
        let is_unknown = |error: &RpcError| matches!(error.code, RESOURCE_NOT_FOUND | INVALID_PARAMS);
        if subscription.refusal().as_ref().is_some_and(is_unknown) {
            return Err(SubscribeError::of(Kind::NotFound, None));
        }
        let message = format!("server `{}` does not report changes of `{uri}`", permitted.name);
        let problem = Problem::new(Kind::Unavailable, message).hint("Read it again when you need it.");
        Err(SubscribeError::of(Kind::Unavailable, Some(problem)))
    }

    pub fn resources_unsubscribe(&self, params: &Raw) -> Result<Raw, RpcError> {
        let Some(session) = &self.caller.session else { return Err(unknown_method(method::RESOURCES_UNSUBSCRIBE)) };
        let uri = required_text(params, "uri")?;
        if session.unsubscribe(&uri) {
            self.path.subscriptions.unsubscribe(session, &uri);
        } else if self.view().resources.place(&uri).is_none() {
            return Err(self.resource_not_found(&uri));
        }
        Ok(Raw::empty_object())
    }
}

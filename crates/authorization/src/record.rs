//! Puts on record what clients are given: consents, tokens, renewals, and what ends. Never a token.

use std::borrow::Cow;
use std::sync::Arc;

use toolcrib_base::{Identity, Kind, PrincipalId, Proof};
use toolcrib_store::{AuditEvent, AuditSlot, Custody, Decision, Door, Outcome};

use crate::error::OAuthError;
use crate::server::Inner;
use crate::session::{LiveSession, Person};

/// The door of what is done for clients.
const DOOR: Door = Door::new("oauth");
/// Who answers a question before it is known who that is.
const ANONYMOUS: &str = "anonymous";
/// The rule by which clients are given something.
const RULE: Decision = Decision::Permit(Cow::Borrowed("authorization"));

/// The name in records of what a session is given by.
pub(crate) type GrantMethod = &'static str;

impl Inner {
    /// A place in the log for what is about to be given: nothing is given that could not be put on record.
    pub(crate) async fn place(&self) -> Result<AuditSlot, OAuthError> {
        self.log.reserve().await.map_err(|closed| OAuthError::fault(&closed))
    }

    /// Puts on record that a session was given, or given again.
    pub(crate) fn record_given(&self, slot: AuditSlot, method: GrantMethod, session: &LiveSession) {
        slot.record(self.event_of(method, session));
    }

    /// Puts on record that a session has ended: by whom it was given back or ended, or why.
    pub(crate) fn record_end(&self, session: &LiveSession, decision: Decision) {
        let outcome = if matches!(decision, Decision::Deny(_)) { Outcome::Denied } else { Outcome::Ok };
        self.log.record_now(AuditEvent { decision, outcome, ..self.event_of("oauth/end", session) });
    }

    /// Puts on record what a person answered to the question of a client; `person` where it is known who that is.
    pub(crate) fn record_consent(&self, slot: AuditSlot, client: &str, person: Option<&Person>, is_yes: bool) {
        let principal = PrincipalId::new(person.map_or(ANONYMOUS, |person| person.principal.as_str()));
        let client_name = Some(client.into());
        let issuer = person.and_then(|person| person.issuer.as_deref()).map(Into::into);
        let identity = Identity { client: client_name, issuer, ..Identity::by(Proof::Page) };
        let (decision, outcome) = match is_yes {
            true => (RULE, Outcome::Ok),
            false => (Decision::Deny(Cow::Borrowed("consent")), Outcome::Error(Kind::Forbidden)),
        };
        let (now, method) = (self.clock.now(), Cow::Borrowed("oauth/consent"));
        slot.record(AuditEvent {
            decision,
            outcome,
            custody: Custody { identity: Some(Arc::new(identity)), ..Custody::default() },
            ..AuditEvent::new(now, principal, DOOR, method, client.into())
        });
    }

    fn event_of(&self, method: GrantMethod, session: &LiveSession) -> AuditEvent {
        let principal = PrincipalId::new(&session.details.person.principal);
        let target = session.details.resource.as_str().into();
        AuditEvent {
            decision: RULE,
            session: Some(session.id.as_str().into()),
            custody: Custody { identity: Some(Arc::clone(&session.identity)), ..Custody::default() },
            ..AuditEvent::new(self.clock.now(), principal, DOOR, Cow::Borrowed(method), target)
        }
    }
}

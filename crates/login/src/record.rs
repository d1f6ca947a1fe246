//! Puts on record what happens to logins: who logged in where, what was renewed, what lapsed. Never a token.

use std::borrow::Cow;
use std::sync::Arc;

use toolcrib_base::{Clock, Kind, PrincipalId};
use toolcrib_store::{AuditEvent, AuditLog, Decision, Door, Outcome};

use crate::pending::Key;

/// The door of what is done for a login.
const DOOR: Door = Door::new("login");

/// What happened to a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginAct {
    /// Someone logged in.
    Complete,
    /// Someone tried to.
    Fail(Kind),
    /// Its token was renewed.
    Refresh,
    /// It is of no use any more.
    Lapse,
    /// Someone ended it.
    End,
}

/// Where that is put on record.
#[derive(Debug, Clone)]
pub(crate) struct LoginRecord {
    pub(crate) clock: Arc<dyn Clock>,
    /// `None` where no log is kept, as in a bridge.
    pub(crate) log: Option<AuditLog>,
}

impl LoginAct {
    fn method(self) -> &'static str {
        match self {
            Self::Complete | Self::Fail(_) => "login/complete",
            Self::Refresh => "login/refresh",
            Self::Lapse => "login/lapse",
            Self::End => "login/end",
        }
    }
}

impl LoginRecord {
    /// What has happened is not undone by a full disk, so nothing waits for the log here.
    pub(crate) fn note(&self, key: &Key, act: LoginAct) {
        let Some(log) = &self.log else { return };
        let (principal, method) = (PrincipalId::new(key.owner.as_str()), Cow::Borrowed(act.method()));
        let event = AuditEvent::new(self.clock.now(), principal, DOOR, method, key.server.as_str().into());
        log.record_now(AuditEvent {
            decision: Decision::Permit(Cow::Borrowed("login")),
            outcome: match act {
                LoginAct::Fail(kind) => Outcome::Error(kind),
                LoginAct::Lapse => Outcome::Error(Kind::Unauthenticated),
                LoginAct::Complete | LoginAct::Refresh | LoginAct::End => Outcome::Ok,
            },
            credential: Some(if key.owner.is_installation() { "owner" } else { "own" }),
            ..event
        });
    }
}

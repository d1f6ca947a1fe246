//! A passage: the permit of one call together with its place in the audit log. Nothing reaches a server without one.
//!
//! The place is reserved before the decision, so an event is recorded whatever becomes of the call, also when its
//! future is dropped. The log blocks when it is full; it never drops.

mod redact;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolcrib_base::{Clock, Kind, PrincipalId, Timestamp};
use toolcrib_policy::{Act, Denial, Permit, Request, Rules};
use toolcrib_session::Caller;
use toolcrib_store::{ArgsHash, AuditEvent, AuditLog, AuditSlot, Decision, Outcome};

use crate::events::{Events, Told};

/// What the audit log is told about a call before it is decided.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: Arc<str>,
    pub(crate) arguments: Option<&'a [u8]>,
    pub(crate) request_id: String,
}

/// Where calls are decided and written down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) log: &'a AuditLog,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) rules: &'a Rules,
    pub(crate) caller: &'a Caller,
    /// Whether events keep their arguments, redacted.
    pub(crate) keep_arguments: bool,
    /// Where it is told that a call has ended.
    pub(crate) events: &'a Events,
}

/// The proof that a call passed the rules, and its audit event in the making.
#[derive(Debug)]
pub(crate) struct Passage {
    permit: Permit,
    entry: Entry,
}

/// An audit event that is recorded when it is dropped at the latest.
#[derive(Debug)]
struct Entry {
    open: Option<(AuditSlot, AuditEvent)>,
    started: Instant,
    events: Events,
}

/// Why a call was not let through.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The rules say no.
    Denied(Denial),
    /// The audit log is closed: the gateway is ending.
    Closing,
}

impl Passage {
    /// Reserves a place in the log, decides, and records a refusal at once.
    pub(crate) async fn open(desk: Desk<'_>, act: &Act, asked: Asked<'_>) -> Result<Self, Refused> {
        let Desk { log, clock, rules, caller, .. } = desk;
        let slot = log.reserve().await.map_err(|_| Refused::Closing)?;
        let hash = asked.arguments.map(|arguments| log.hash_arguments(arguments));
        let policy_caller =
            toolcrib_policy::Caller { principal: &caller.principal.id, is_admin: caller.principal.is_admin };
        let verdict = rules.decide(&Request { caller: policy_caller, act });
        let decision = match &verdict {
            Ok(permit) => Decision::Permit(Cow::Borrowed(permit.rule().name())),
            Err(denial) => Decision::Deny(Cow::Borrowed(denial.reason.name())),
        };
        let arguments = desk.keep_arguments.then(|| asked.arguments.map(redact::redacted)).flatten();
        let event = AuditEvent { arguments, ..event(clock.now(), caller, asked, hash, decision) };
        let mut entry = Entry { open: Some((slot, event)), started: Instant::now(), events: desk.events.clone() };
        match verdict {
            Ok(permit) => Ok(Self { permit, entry }),
            Err(denial) => {
                entry.close(Outcome::Denied);
                Err(Refused::Denied(denial))
            }
        }
    }

    /// What the permit was given for.
    pub(crate) fn act(&self) -> &Act {
        self.permit.act()
    }

    /// Ends the call: uses the permit up and records the event. Gives the call's duration.
    pub(crate) fn finish(mut self, outcome: Outcome) -> Duration {
        self.entry.close(outcome)
    }
}

/// Records that something unknown was asked for.
pub(crate) async fn record_unknown(desk: Desk<'_>, asked: Asked<'_>) {
    let Desk { log, clock, caller, .. } = desk;
    let Ok(slot) = log.reserve().await else { return };
    let hash = asked.arguments.map(|arguments| log.hash_arguments(arguments));
    let event = event(clock.now(), caller, asked, hash, Decision::Deny(Cow::Borrowed(Kind::UnknownTool.name())));
    Entry { open: Some((slot, event)), started: Instant::now(), events: desk.events.clone() }.close(Outcome::Denied);
}

fn event(
    at: Timestamp,
    caller: &Caller,
    asked: Asked<'_>,
    args_hash: Option<ArgsHash>,
    decision: Decision,
) -> AuditEvent {
    let principal: PrincipalId = caller.principal.id.clone();
    AuditEvent {
        at,
        principal,
        profile: Some(caller.profile.clone()),
        door: caller.door,
        method: method_text(asked.method),
        target: asked.target,
        args_hash,
        arguments: None,
        decision,
        // What stays if the call is dropped before it ends.
        outcome: Outcome::Cancelled,
        duration: Duration::ZERO,
        request_id: asked.request_id,
        session: caller.session.as_ref().map(|session| session.audit_name()),
    }
}

/// The usual method names without an allocation.
fn method_text(method: &str) -> Cow<'static, str> {
    use toolcrib_protocol::method as known;
    for name in [known::TOOLS_CALL, known::RESOURCES_READ, known::PROMPTS_GET, known::COMPLETE] {
        if method == name {
            return Cow::Borrowed(name);
        }
    }
    Cow::Owned(method.to_owned())
}

impl Entry {
    fn close(&mut self, outcome: Outcome) -> Duration {
        let duration = self.started.elapsed();
        if let Some((slot, mut event)) = self.open.take() {
            event.outcome = outcome;
            event.duration = duration;
            self.events.tell(|| Told::call(&event));
            slot.record(event);
        }
        duration
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.close(Outcome::Cancelled);
    }
}

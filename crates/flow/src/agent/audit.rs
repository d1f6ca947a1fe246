//! What the audit log has of runs beside the calls that they make: one event for each thing that happens, under the names
//! that Valinor gives them, written where it happens and so for every door. The principal is on whose behalf the run
//! works, the target is the agent, the id of the request is that of the run. What was said is in none of them.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};
use toolcrib_gateway::Gateway;
use toolcrib_session::Caller;
use toolcrib_store::{AuditEvent, Decision, Outcome};

use super::bridge::Bridge;
use super::context::RunContext;
use super::tools::SOURCE;
use super::trail::risk_class;

/// The rule by which runs do what they do.
const RULE: &str = "agent";

/// A run that an event is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditedRun<'a> {
    /// By whom, or on whose behalf.
    pub(super) caller: &'a Caller,
    /// The agent.
    pub(super) agent: &'a str,
    /// The id of the run; empty where none began.
    pub(super) run: &'a str,
}

/// What an event says.
#[derive(Debug, Clone)]
pub(super) struct RunEvent {
    /// Its name, such as `tool.executed`.
    pub(super) name: &'static str,
    /// Names and numbers.
    pub(super) details: Map<String, Value>,
    pub(super) outcome: Outcome,
    /// Why it was not allowed.
    pub(super) denied: Option<&'static str>,
    pub(super) duration: Duration,
    pub(super) approval: Option<String>,
    pub(super) halt: Option<String>,
    pub(super) canary: Option<String>,
}

// === impl RunEvent ===

impl RunEvent {
    /// One that went well.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            details: Map::new(),
            outcome: Outcome::Ok,
            denied: None,
            duration: Duration::ZERO,
            approval: None,
            halt: None,
            canary: None,
        }
    }

    /// One that was not allowed.
    pub(super) fn denied(name: &'static str, reason: &'static str) -> Self {
        Self { outcome: Outcome::Denied, denied: Some(reason), ..Self::new(name) }
    }

    /// With one more detail.
    #[must_use]
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl Bridge {
    /// Writes events of a run into the audit log.
    pub(super) async fn put_on_record(&self, context: &RunContext, events: Vec<RunEvent>) {
        let Some(gateway) = self.gateway().filter(|_| !events.is_empty()) else { return };
        let loaded = gateway.loaded();
        for mut event in events {
            let risk = event.details.get("tool").and_then(Value::as_str).and_then(|tool| risk_class(&loaded, tool));
            if let Some(risk) = risk {
                event = event.with("risk_class", risk);
            }
            if event.name == "run.started" {
                event = event.with("door", context.door().as_str());
            }
            record(&gateway, AuditedRun::of(context), event).await;
        }
    }
}

impl<'a> AuditedRun<'a> {
    pub(super) fn of(context: &'a RunContext) -> Self {
        Self { caller: context.caller(), agent: &context.start.agent, run: &context.start.run }
    }
}

/// Writes an event into the audit log.
pub(super) async fn record(gateway: &Gateway, of: AuditedRun<'_>, event: RunEvent) {
    // Closed only while the gateway ends.
    let Ok(slot) = gateway.path.store.audit().reserve().await else { return };
    let AuditedRun { caller, agent, run } = of;
    let (at, principal) = (gateway.path.clock.now(), caller.principal.id.clone());
    let target = format!("{SOURCE}/{agent}").into();
    slot.record(AuditEvent {
        profile: Some(caller.profile.clone()),
        arguments: (!event.details.is_empty()).then(|| Value::Object(event.details).to_string()),
        decision: match event.denied {
            None => Decision::Permit(Cow::Borrowed(RULE)),
            Some(reason) => Decision::Deny(Cow::Borrowed(reason)),
        },
        outcome: event.outcome,
        duration: event.duration,
        request_id: run.to_owned(),
        session: caller.session.as_ref().map(|session| session.name().to_text()),
        address: caller.trace.client,
        custody: caller.custody(),
        approval: event.approval,
        halt: event.halt,
        canary: event.canary,
        ..AuditEvent::new(at, principal, caller.door, Cow::Borrowed(event.name), target)
    });
}

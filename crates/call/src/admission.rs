//! Admission: the rules decide, a place in the audit log is taken, and what comes of it is one value from the admission to
//! the end of the call. Nothing reaches a server without an [`AdmittedCall`].
//!
//! The place is reserved before the decision, so an event is recorded whatever becomes of the call, also when its
//! future is dropped. The log blocks when it is full; it never drops.
//!
//! No one makes an [`AdmittedCall`] but [`AdmittedCall::open`]:
//!
//! ```compile_fail,E0451
//! fn forged(like: toolcrib_call::AdmittedCall) -> toolcrib_call::AdmittedCall {
//!     toolcrib_call::AdmittedCall { permit: None, ..like }
//! }
//! ```
//!
//! It ends once:
//!
//! ```compile_fail,E0382
//! fn twice(admitted: toolcrib_call::AdmittedCall) {
//!     admitted.end(toolcrib_store::Outcome::Ok);
//!     admitted.end(toolcrib_store::Outcome::Ok);
//! }
//! ```
//!
//! And no call is made without one, nor with one that is another's copy:
//!
//! ```compile_fail,E0308
//! fn copied(admitted: &toolcrib_call::AdmittedCall) -> toolcrib_call::AdmittedCall {
//!     admitted.clone()
//! }
//! ```

mod redact;

pub use redact::is_secret_name;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use toolcrib_base::{Clock, Kind, PrincipalId, Problem, ServerName, Timestamp};
use toolcrib_policy::{Act, Demand, Denial, Moment, Permit, Request, Rules};
use toolcrib_protocol::RpcError;
use toolcrib_session::Caller;
use toolcrib_store::{ArgsHash, AuditEvent, AuditLog, AuditSlot, Decision, Outcome};
use toolcrib_view::metrics::ToolMetrics;

use crate::canaries::FoundCanary;
use crate::consent::GivenConsent;
use crate::halts::{Halt, Halts};
use crate::live_events::{LiveEvent, LiveEvents};
use crate::source::Invocation;
use crate::throttle::CallSlot;

/// What the audit log records about a call before it is decided.
#[derive(Debug)]
pub struct AuditedRequest<'a> {
    pub method: &'a str,
    pub target: Arc<str>,
    pub arguments: Option<&'a [u8]>,
    /// What may be stored of the arguments, where that is less.
    pub stored: Option<&'a [u8]>,
    pub request_id: String,
}

/// Where calls are decided and written down.
#[derive(Debug, Clone, Copy)]
pub struct AuditContext<'a> {
    pub log: &'a AuditLog,
    pub clock: &'a dyn Clock,
    pub rules: &'a Rules,
    pub caller: &'a Caller,
    /// Whether events keep their arguments, redacted.
    pub keep_arguments: bool,
    /// Where the end of the call is published.
    pub events: &'a LiveEvents,
    /// Who is halted.
    pub halts: &'a Arc<Halts>,
    /// Whose credential goes to the server, as a word.
    pub credential: Option<&'static str>,
    /// What was said yes to before.
    pub given: GivenConsent<'a>,
}

/// A call from its admission to its end: the proof that the rules let it through, its audit event in the making, its
/// place among the calls of its principal and the counters of its tool. Dropped, it ends as cancelled.
#[derive(Debug)]
pub struct AdmittedCall {
    /// `None` once [`AdmittedCall::detach`] has taken it away.
    permit: Option<Permit>,
    halts: Arc<Halts>,
    entry: Entry,
    slot: Option<CallSlot>,
}

/// An audit event that is recorded when it is dropped at the latest, and what is counted then.
#[derive(Debug)]
struct Entry {
    open: Option<(AuditSlot, AuditEvent)>,
    metrics: Option<Arc<ToolMetrics>>,
    started: Instant,
    events: LiveEvents,
    /// The halt that ended it, or that it is about.
    halt: OnceLock<Arc<str>>,
    /// The canary that was found in it, or that it is about.
    canary: OnceLock<Arc<str>>,
}

/// Why a call was not let through.
#[derive(Debug)]
pub enum Refusal {
    /// The rules say no.
    Denied(Denial),
    /// The rules want a yes first.
    Asked(Box<AskedCall>),
    /// The caller is halted.
    Halted(Arc<Halt>),
    /// The audit log is closed: the gateway is ending.
    Closing,
}

/// A call that the rules let through only after a yes. Its event says that it was denied, and by which approval it may
/// come about.
#[derive(Debug)]
pub struct AskedCall {
    denial: Denial,
    demand: Demand,
    entry: Entry,
}

// === impl AuditContext ===

impl AuditContext<'_> {
    /// Whether an act would be let through, without a record: for what was recorded before and is shown again. What the
    /// rules want a yes for is refused.
    ///
    /// # Errors
    /// The caller is halted, or the rules say no.
    pub fn check(&self, act: &Act, arguments: &toolcrib_protocol::Raw) -> Result<(), Problem> {
        if let Some(halt) = self.halts.of_act(self.caller, act, None) {
            return Err(halt.problem());
        }
        let principal = &self.caller.principal;
        let caller = toolcrib_policy::Caller { principal: &principal.id, role: principal.role };
        let moment = Moment {
            at: self.clock.now(),
            arguments: Some(&arguments.bytes()[..]),
            actor: principal.identity.actors.first().map(|actor| &**actor),
            bridge: self.caller.trace.bridge.as_deref(),
            chain: self.caller.chain.as_deref(),
        };
        self.rules.decide(&Request { caller, act }, &moment).map(|_| ()).map_err(|denial| denied(&denial))
    }
}

// === impl Refusal ===

impl Refusal {
    /// What the caller reads, where the thing that was asked for is no secret.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Denied(denial) => denied(denial),
            Self::Asked(asked) => denied(&asked.denial),
            Self::Halted(halt) => halt.problem(),
            Self::Closing => closing_problem(),
        }
    }

    /// The error for the caller: `unknown` where the rules say no and the thing must look as if it were not there.
    pub fn or_unknown(&self, unknown: impl FnOnce() -> RpcError) -> RpcError {
        match self {
            Self::Denied(_) => unknown(),
            // What can be asked for is no secret.
            Self::Asked(asked) => RpcError::from(&denied(&asked.denial)),
            Self::Halted(halt) => RpcError::from(&halt.problem()),
            Self::Closing => closing(),
        }
    }
}

fn denied(denial: &Denial) -> Problem {
    let mut problem = Problem::new(Kind::Forbidden, denial.to_string());
    problem.hint = denial.hint().map(str::to_owned);
    problem
}

/// The error of whatever is asked for while the gateway ends.
pub fn closing() -> RpcError {
    RpcError::from(&closing_problem())
}

/// The same as a problem.
pub fn closing_problem() -> Problem {
    Problem::new(Kind::Unavailable, "the gateway is shutting down")
}

// === impl AdmittedCall ===

impl AdmittedCall {
    /// Reserves a place in the log, decides, and records a refusal at once.
    ///
    /// # Errors
    /// The caller is halted, the rules say no, or the gateway is ending.
    pub async fn open(audit: AuditContext<'_>, act: &Act, asked: AuditedRequest<'_>) -> Result<Self, Refusal> {
        let AuditContext { log, clock, rules, caller, .. } = audit;
        let slot = log.reserve().await.map_err(|_| Refusal::Closing)?;
        // What sources call has the id of their run as that of the request, JSON text.
        let run = (caller.door == Invocation::DOOR).then(|| asked.request_id.trim_matches('"'));
        if let Some(halt) = audit.halts.of_act(caller, act, run) {
            refuse_halted(audit, slot, asked, &halt, None);
            return Err(Refusal::Halted(halt));
        }
        let hash = asked.arguments.map(|arguments| log.hash_arguments(arguments));
        let policy_caller = toolcrib_policy::Caller { principal: &caller.principal.id, role: caller.principal.role };
        let request = Request { caller: policy_caller, act };
        let moment = Moment {
            at: clock.now(),
            arguments: asked.arguments,
            actor: caller.principal.identity.actors.first().map(|actor| &**actor),
            bridge: caller.trace.bridge.as_deref(),
            chain: caller.chain.as_deref(),
        };
        let verdict = match (rules.decide(&request, &moment), audit.given) {
            (Err(Denial { demand: Some(_), .. }), GivenConsent::Yes(consent)) => {
                rules.decide_given(&request, &moment, &consent.demand)
            }
            (Err(Denial { demand: Some(demand), .. }), GivenConsent::Begun) => {
                rules.decide_given(&request, &moment, &demand)
            }
            (verdict, _) => verdict,
        };
        let decision = decision(&verdict, || rules.recorded(&request, &moment));
        let stored = asked.stored.or(asked.arguments);
        let arguments = audit.keep_arguments.then(|| stored.map(redact::redacted)).flatten();
        let credential = audit.credential.filter(|_| verdict.is_ok());
        let policies = policies(&verdict);
        let event = AuditEvent { arguments, credential, policies, ..event(clock.now(), caller, asked, hash, decision) };
        let mut entry = Entry::new(slot, event, audit.events);
        match verdict {
            Ok(permit) => {
                if let GivenConsent::Yes(consent) = audit.given {
                    entry.mark(&consent.approval, Some(&consent.approver));
                }
                Ok(Self { permit: Some(permit), halts: Arc::clone(audit.halts), entry, slot: None })
            }
            Err(denial) if denial.demand.is_some() => {
                let demand = denial.demand.as_deref().cloned().expect("it was just looked at");
                Err(Refusal::Asked(Box::new(AskedCall { denial, demand, entry })))
            }
            Err(denial) => {
                entry.close(Outcome::Denied);
                Err(Refusal::Denied(denial))
            }
        }
    }

    /// Counts the end of the call for its tool.
    #[must_use]
    pub fn counted_by(mut self, metrics: Arc<ToolMetrics>) -> Self {
        self.entry.metrics = Some(metrics);
        self
    }

    /// Keeps a place among the calls of its principal until the call ends.
    pub(crate) fn hold(&mut self, slot: CallSlot) {
        self.slot = Some(slot);
    }

    /// Puts on record what guards have found.
    pub(crate) fn note(&mut self, found: Option<String>) {
        let Some(found) = found else { return };
        let Some((_, event)) = &mut self.entry.open else {
            return tracing::info!(found, "guards have found something in a call whose event has ended");
        };
        event.guard = Some(event.guard.take().map_or_else(|| found.clone(), |before| format!("{before}; {found}")));
    }

    /// Puts on record which halt ended it, or which one it is about. The first counts.
    pub fn names_halt(&self, id: &Arc<str>) {
        let _ = self.entry.halt.set(Arc::clone(id));
    }

    /// Puts on record which canary was found in it, or which one it is about. The first counts.
    pub fn names_canary(&self, id: &Arc<str>) {
        let _ = self.entry.canary.set(Arc::clone(id));
    }

    /// Puts on record that a canary was found in it, and the halt that came of it.
    pub(crate) fn names(&self, found: &FoundCanary) {
        self.names_canary(&found.id);
        self.names_halt(&found.halt.id);
    }

    /// Waits until its caller is halted. Cancel-safe.
    pub(crate) async fn halted(&self, caller: &Caller) -> Arc<Halt> {
        let halt = self.halts.halted(caller).await;
        self.names_halt(&halt.id);
        halt
    }

    /// What the permit was given for.
    pub(crate) fn act(&self) -> Option<&Act> {
        self.permit.as_ref().map(Permit::act)
    }

    /// Whether a server may be called with it.
    pub(crate) fn permits(&self, server: &ServerName) -> bool {
        self.act().and_then(Act::server) == Some(server)
    }

    /// Hands the call to something that outlives the request, which ends it then. The place among the calls of the
    /// principal stays here, and ends with the request; nothing can be called with what is left.
    pub fn detach(&mut self) -> Self {
        let (started, events) = (self.entry.started, self.entry.events.clone());
        let left = Entry::begun(started, events);
        let halts = Arc::clone(&self.halts);
        Self { permit: self.permit.take(), halts, entry: std::mem::replace(&mut self.entry, left), slot: None }
    }

    /// Forgets it: whether it would be let through was all that was asked. Nothing was done with it.
    pub(crate) fn discard(mut self) {
        self.entry.open = None;
    }

    /// Ends the call: records the event, counts it, and gives its place free. Does nothing more once it was detached.
    pub fn end(mut self, outcome: Outcome) {
        self.entry.close(outcome);
    }
}

// === impl AskedCall ===

impl AskedCall {
    /// Whose yes is wanted.
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Why, in words for the caller and its person.
    pub(crate) fn said(&self) -> String {
        self.denial.said.clone().unwrap_or_else(|| self.demand.words())
    }

    /// What the caller reads where no yes can be waited for.
    pub(crate) fn problem(&self) -> Problem {
        denied(&self.denial)
    }

    /// Records that the call was not made, and which approval it waits for.
    pub(crate) fn end(mut self, approval: Option<&str>) {
        if let Some(approval) = approval {
            self.entry.mark(approval, None);
        }
        self.entry.close(Outcome::Denied);
    }

    /// Forgets it: the same call is admitted with a yes that was given before.
    pub(crate) fn discard(mut self) {
        self.entry.open = None;
    }
}

impl Drop for AskedCall {
    fn drop(&mut self) {
        self.entry.close(Outcome::Denied);
    }
}

/// What the event says was decided: the rule, and the policy where policies decide.
fn decision(verdict: &Result<Permit, Denial>, recorded: impl FnOnce() -> Vec<Arc<str>>) -> Decision {
    let with = |name: &'static str, policy: Option<&Arc<str>>| match policy {
        Some(policy) => Cow::Owned(format!("{name}:{policy}")),
        None => Cow::Borrowed(name),
    };
    match verdict {
        Err(denial) => Decision::Deny(with(denial.reason.name(), denial.policy.as_ref())),
        Ok(permit) if permit.policy().is_none() => Decision::Permit(Cow::Borrowed(permit.rule().name())),
        Ok(permit) => {
            let mut text = with(permit.rule().name(), permit.policy());
            let recorded = recorded();
            if !recorded.is_empty() {
                text.to_mut().push_str(&format!(" (recorded: {})", recorded.join(", ")));
            }
            Decision::Permit(text)
        }
    }
}

/// The policies that decided, by their names.
fn policies(verdict: &Result<Permit, Denial>) -> Option<String> {
    let policy = match verdict {
        Ok(permit) => permit.policy(),
        Err(denial) => denial.policy.as_ref(),
    };
    policy.map(|policy| policy.as_ref().to_owned())
}

/// Records that something unknown was asked for.
pub async fn record_unknown(audit: AuditContext<'_>, asked: AuditedRequest<'_>) {
    record_denied(audit, asked, Kind::UnknownTool.name()).await;
}

/// Records what was refused before any rule was asked, with the reason's name.
pub async fn record_denied(audit: AuditContext<'_>, asked: AuditedRequest<'_>, reason: &'static str) {
    let AuditContext { log, clock, caller, .. } = audit;
    let Ok(slot) = log.reserve().await else { return };
    let hash = asked.arguments.map(|arguments| log.hash_arguments(arguments));
    let event = event(clock.now(), caller, asked, hash, Decision::Deny(Cow::Borrowed(reason)));
    Entry::new(slot, event, audit.events).close(Outcome::Denied);
}

/// Records a request of a caller who is halted, which went no further; with the canary that was found in it, if one was.
pub async fn record_halted(audit: AuditContext<'_>, asked: AuditedRequest<'_>, halt: &Halt, canary: Option<&str>) {
    if let Ok(slot) = audit.log.reserve().await {
        refuse_halted(audit, slot, asked, halt, canary);
    }
}

fn refuse_halted(
    audit: AuditContext<'_>,
    slot: AuditSlot,
    asked: AuditedRequest<'_>,
    halt: &Halt,
    canary: Option<&str>,
) {
    let hash = asked.arguments.map(|arguments| audit.log.hash_arguments(arguments));
    let event = event(audit.clock.now(), audit.caller, asked, hash, Decision::Deny(Cow::Borrowed("halted")));
    let event = AuditEvent { halt: Some(halt.id.to_string()), canary: canary.map(str::to_owned), ..event };
    Entry::new(slot, event, audit.events).close(Outcome::Denied);
}

fn event(
    at: Timestamp,
    caller: &Caller,
    asked: AuditedRequest<'_>,
    args_hash: Option<ArgsHash>,
    decision: Decision,
) -> AuditEvent {
    let principal: PrincipalId = caller.principal.id.clone();
    AuditEvent {
        profile: Some(caller.profile.clone()),
        args_hash,
        decision,
        // What stays if the call is dropped before it ends.
        outcome: Outcome::Cancelled,
        request_id: asked.request_id,
        session: caller.session.as_ref().map(|session| session.name().to_text()),
        address: caller.trace.client,
        custody: caller.custody(),
        ..AuditEvent::new(at, principal, caller.door, method_text(asked.method), asked.target)
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

// === impl Entry ===

impl Entry {
    fn new(slot: AuditSlot, event: AuditEvent, events: &LiveEvents) -> Self {
        let mut entry = Self::begun(Instant::now(), events.clone());
        entry.open = Some((slot, event));
        entry
    }

    /// One with no event to record.
    fn begun(started: Instant, events: LiveEvents) -> Self {
        Self { open: None, metrics: None, started, events, halt: OnceLock::new(), canary: OnceLock::new() }
    }

    /// Notes the approval that the call waits for, or runs with.
    fn mark(&mut self, approval: &str, approver: Option<&PrincipalId>) {
        let Some((_, event)) = &mut self.open else { return };
        event.approval = Some(approval.to_owned());
        event.approver = approver.cloned();
    }

    fn close(&mut self, outcome: Outcome) {
        let Some((slot, mut event)) = self.open.take() else { return };
        let duration = self.started.elapsed();
        if let Some(metrics) = &self.metrics {
            metrics.record(outcome, duration);
        }
        event.outcome = outcome;
        event.duration = duration;
        event.halt = event.halt.or_else(|| self.halt.take().map(|id| id.to_string()));
        event.canary = event.canary.or_else(|| self.canary.take().map(|id| id.to_string()));
        self.events.publish(|| LiveEvent::call(&event));
        slot.record(event);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.close(Outcome::Cancelled);
    }
}

//! A request whose call needs a yes first: it opens an approval, or attaches to the one that the same call has, and
//! leaves with the result, or with the next step.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolcrib_base::{Kind, Problem, Timestamp, ToolId, random};
use toolcrib_catalog::pin::Digest;
use toolcrib_policy::Demand;
use toolcrib_protocol::ask::{self, InputRequest, InputRequired};
use toolcrib_protocol::convert::{self, Caching};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Notification, Raw, Revision, RpcError, method};
use toolcrib_store::{ApprovalDecision, ApprovalKind, ApprovalState, ApprovedCall, CallApproval, OpenedApproval};
use toolcrib_view::dialect::MetaName;
use toolcrib_view::shape;
use toolcrib_view::view::Tool;

use super::decision::{ApprovalVerdict, keys_of};
use super::run_call::{WaitGuard, held_answer};
use crate::answer::CallAnswer;
use crate::approvals::question::{self, KEY, PersonAnswer};
use crate::approvals::record::{CallSummary, HeldCall, HeldCaller, HeldDemand, call_row, program, run_chain};
use crate::approvals::{OPEN_OF_ONE, RememberedCall, blocking};
use crate::consent::Consent;
use crate::context::RequestContext;
use crate::listener::ANSWER;
use crate::own_tasks::{OwnTask, TaskStart};
use crate::path::CallPath;
use crate::tool_call::{ApprovalTicket, AskedToolCall, CallResult, ToolCall, problem_of};

/// What the sealed states are for.
const PURPOSE: &str = "call-approval";
/// Under which key a modern client is asked to open the page of an approval.
const PAGE_KEY: &str = "toolcrib-approval-page";
/// How long one request waits for a call that runs, whatever its deadlines are.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What a sealed state says. Whose it is, and for which call, is in the store.
#[derive(Debug, Serialize, Deserialize)]
struct TicketText {
    approval: String,
}

/// What a request waits with.
#[derive(Debug, Clone, Copy)]
struct Wait<'a> {
    call: &'a ToolCall,
    /// The arguments without secrets.
    shown: &'a Raw,
    /// Why it waits; empty where nothing asks by now.
    said: &'a str,
}

/// What became of asking the caller's person.
enum PersonStep {
    Answered(PersonAnswer),
    /// The client asks, and comes back with the answer.
    Ask(Raw),
    /// No one can be asked here.
    Inbox,
}

impl RequestContext<'_> {
    /// What a request carries that comes back for its approval. It is taken out: it is not for the server.
    pub(crate) fn approval_ticket(&self, params: &mut Raw) -> Option<ApprovalTicket> {
        if !params.may_have(ask::REQUEST_STATE) || self.depth > 0 {
            return None;
        }
        let state = ask::state(params)?;
        let text = toolcrib_protocol::json::text(state.as_str())?;
        let ticket: TicketText = serde_json::from_slice(&self.path.sealer.open(PURPOSE, &text)?).ok()?;
        let answer = ask::answers(params).ok().flatten().and_then(|mut answers| answers.remove(KEY));
        *params = params.edit(&[(ask::REQUEST_STATE, Edit::Remove), (ask::INPUT_RESPONSES, Edit::Remove)]);
        Some(ApprovalTicket { id: ticket.approval, answer })
    }

    /// The yes that this caller gave to the same tool before and that still counts.
    pub(crate) fn remembered_consent(&self, tool: &Tool, demand: &Demand) -> Option<Consent> {
        self.path.approvals.remembered(&remembered_call(self, tool), demand)
    }

    /// A call that needs a yes first.
    pub(crate) async fn held_call(&self, held: AskedToolCall<'_>) -> CallResult {
        let AskedToolCall { call, original, shown, asked, ticket } = held;
        let (id, answer) = ticket.map_or((None, None), |ticket| (Some(ticket.id), ticket.answer));
        let approval = match id {
            Some(id) => self.approval_of_ticket(&call.tool.id, original, &id).await,
            None => self.approval_of_call(call, original, shown, asked.demand()).await,
        };
        match approval {
            Ok(approval) => {
                let said = asked.said();
                asked.end(Some(&approval.id));
                self.wait_at(Wait { call, shown, said: &said }, approval, answer).await
            }
            Err(problem) => {
                asked.end(None);
                self.not_made(problem)
            }
        }
    }

    /// A request that comes back for an approval, although nothing asks for one by now: the call is the one that waits,
    /// and no further one.
    pub(crate) async fn attached_call(&self, call: &ToolCall, original: &Raw, ticket: ApprovalTicket) -> CallResult {
        match self.approval_of_ticket(&call.tool.id, original, &ticket.id).await {
            Ok(approval) => self.wait_at(Wait { call, shown: original, said: "" }, approval, ticket.answer).await,
            Err(problem) => Ok(CallAnswer::failed(problem)),
        }
    }

    async fn approval_of_ticket(&self, tool: &ToolId, original: &Raw, id: &str) -> Result<CallApproval, Problem> {
        let call = self.approved_call(tool, original);
        let found = self.path.approvals.get(id).await?.filter(|it| it.call == call);
        found.ok_or_else(|| {
            let message = "`requestState` is for another call, or its approval is not kept any more";
            Problem::new(Kind::InvalidParams, message).hint("Make the call again without it.")
        })
    }

    /// The approval that the call has already, or a new one.
    async fn approval_of_call(
        &self,
        call: &ToolCall,
        original: &Raw,
        shown: &Raw,
        demand: &Demand,
    ) -> Result<CallApproval, Problem> {
        let approvals = &self.path.approvals;
        let key = self.approved_call(&call.tool.id, original);
        let digest = Digest::of(&call.tool.entry.raw).to_string();
        let (store, wanted) = (approvals.store.clone(), key.clone());
        if let Some(found) = blocking(move || Ok(store.of_call(&wanted)?)).await? {
            let waits = matches!(found.state, ApprovalState::Open | ApprovalState::Approved);
            if !waits || found.digest == digest && approvals.held(&found).await?.demand.demand() == *demand {
                return Ok(found);
            }
            if found.state == ApprovalState::Open {
                self.path.expire_approval(&found.id, "the tool or the rules that ask were changed").await?;
            }
        }
        let (now, expires) = (self.path.clock.now(), demand.expires.unwrap_or(approvals.times.expires));
        let expires = i64::try_from(expires.as_millis()).unwrap_or(i64::MAX);
        let id = format!("apr_{}", random::hex_128());
        let held = serde_json::to_vec(&self.held(call, original, shown, demand)).unwrap_or_default();
        let (store, sealing) = (approvals.store.clone(), Arc::clone(&approvals.sealing));
        let kind = if demand.needs_approval { ApprovalKind::Approve } else { ApprovalKind::Confirm };
        let revision = demand.revision.to_string();
        let opened = blocking(move || {
            let sealed = sealing.seal(&held, &call_row(&id))?;
            let approval = CallApproval {
                id,
                kind,
                state: ApprovalState::Open,
                call: key,
                digest,
                revision,
                created_at: now,
                expires_at: Timestamp(now.0.saturating_add(expires)),
                decided_at: None,
                approver: None,
                reason: None,
                ended_at: None,
                is_collected: false,
                sealed,
                result: None,
            };
            Ok(match store.open(&approval, OPEN_OF_ONE)? {
                OpenedApproval::New => Some((approval, true)),
                OpenedApproval::Known(known) => store.get(&known)?.map(|known| (known, false)),
                OpenedApproval::Full => None,
            })
        });
        let Some((approval, is_new)) = opened.await? else {
            let message = format!("{OPEN_OF_ONE} of your calls wait for a yes, which is the limit");
            let hint = "Wait until some of them are decided or expire; `toolcrib approval list` shows them.";
            return Err(Problem::new(Kind::Busy, message).hint(hint));
        };
        if !is_new {
            return Ok(approval);
        }
        drop(approvals.watch(&approval.id, approval.expires_at, now));
        if let Some(session) = &self.caller.session {
            approvals.keep_session(&approval.id, session);
        }
        approvals.opened().notify_one();
        approvals.changed(&approval.id).await;
        // A halt that was added meanwhile has seen this one, or is seen here.
        if self.path.halt_of(&approval).await.is_some() {
            self.path.expire_approval(&approval.id, "its caller is halted").await?;
        }
        Ok(approval)
    }

    fn held(&self, call: &ToolCall, original: &Raw, shown: &Raw, demand: &Demand) -> HeldCall {
        let own = ["_meta", "arguments", ask::INPUT_RESPONSES, ask::REQUEST_STATE].map(|key| (key, Edit::Remove));
        HeldCall {
            params: call.params.edit(&own).as_str().to_owned(),
            arguments: original.as_str().to_owned(),
            shown: shown.as_str().to_owned(),
            demand: HeldDemand::from(demand),
            caller: HeldCaller::new(self.caller, keys_of(self.snapshot, &self.caller.principal.id)),
            request: self.label(),
            depth: self.depth,
            is_left_to_run: self.place.is_some(),
            summary: CallSummary::of(&call.tool, shown),
        }
    }

    pub(super) fn approved_call(&self, tool: &ToolId, original: &Raw) -> ApprovedCall {
        let Self { caller, path, .. } = self;
        // Keys in another order and other blanks are the same arguments.
        let arguments = path.store.audit().hash_arguments(Digest::of(original).to_string().as_bytes());
        ApprovedCall {
            principal: caller.principal.id.clone(),
            profile: caller.profile.clone(),
            chain: self.chain(),
            tool: tool.clone(),
            arguments: arguments.to_string(),
        }
    }

    /// What led to the call, as far as another one is another call. The name of a run is enough: it is one caller's, and
    /// after a restart it goes on without the proof of who that was.
    fn chain(&self) -> String {
        let Some(run) = self.run_id() else { return program(&self.caller.principal.identity) };
        let workflow = self.caller.chain.as_deref().and_then(|chain| chain.workflow.as_deref());
        let of = workflow.map(|name| format!(" of `{}`", name.replace('`', "'"))).unwrap_or_default();
        let place = self.place.map(|place| format!(", call `{}`", place.name.replace('`', "'"))).unwrap_or_default();
        format!("{}{of}{place}", run_chain(run))
    }

    async fn wait_at(&self, wait: Wait<'_>, approval: CallApproval, answer: Option<Raw>) -> CallResult {
        if self.place.is_some() {
            return Ok(held_answer(&approval));
        }
        let call = wait.call;
        if approval.kind == ApprovalKind::Confirm && approval.state == ApprovalState::Open {
            match self.ask_person(wait, &approval, answer.as_ref()).await? {
                PersonStep::Ask(question) => return Ok(CallAnswer::of_tool(question, Revision::LATEST)),
                PersonStep::Answered(PersonAnswer::Nothing) => return Ok(next_step(&approval, wait.said)),
                PersonStep::Answered(said) => {
                    if let Err(problem) = self.take_answer(call, &approval, said).await {
                        return Ok(CallAnswer::failed(problem));
                    }
                }
                PersonStep::Inbox => {}
            }
        }
        if !approval.state.has_ended() && self.depth == 0 && self.declares_tasks() {
            return self.wait_as_task(call, approval).await;
        }
        let (path, id, reply) = (self.path, approval.id.clone(), &self.reply);
        let of_run = self.run_id().filter(|_| self.depth > 0);
        let waiting_run = of_run.map(|_| WaitGuard { path: Arc::clone(path), approval: Some(id.clone()) });
        let tell = |round: u64, at: &CallApproval| reply.progress(&progress(round, at), None);
        // A run has no one who would make the same call again: it waits as long as a yes can be given.
        let patience = waiting_run.is_none().then_some(path.approvals.times.wait);
        let waiting = until_ended(path, approval, patience, tell);
        let ended = match self.running {
            None => waiting.await,
            Some(running) => tokio::select! {
                biased;
                () = running.cancelled() => {
                    // What runs already runs on: its result is kept.
                    self.path.expire_approval(&id, "its caller took it back").await.ok();
                    return Err(RpcError::from(Kind::Cancelled));
                }
                ended = waiting => ended,
            },
        };
        waiting_run.into_iter().for_each(WaitGuard::disarm);
        match ended {
            Ok(approval) if approval.state == ApprovalState::Open => Ok(self.waited(&approval, wait.said)),
            Ok(approval) => answer_of(path, &approval, call.by).await,
            Err(problem) => Ok(CallAnswer::failed(problem)),
        }
    }

    /// A yes or a no of the caller's own person. That somebody else was faster changes nothing.
    async fn take_answer(&self, call: &ToolCall, approval: &CallApproval, said: PersonAnswer) -> Result<(), Problem> {
        let by = &self.caller.principal.id;
        let verdict = ApprovalVerdict { id: &approval.id, says_yes: said == PersonAnswer::Yes, by, reason: None };
        match self.path.decide_approval(verdict).await {
            Ok(decided) if decided.state == ApprovalState::Denied => Ok(()),
            Ok(decided) => {
                let demand = self.path.approvals.held(&decided).await?.demand.demand();
                let (approval, digest) = (decided.id, decided.digest);
                let consent = Consent { demand, approval, approver: by.clone(), digest };
                self.path.approvals.remember(remembered_call(self, &call.tool), consent);
                Ok(())
            }
            Err(problem) if problem.kind == Kind::Conflict => Ok(()),
            Err(problem) => Err(problem),
        }
    }

    /// Asks the caller's person, in the way of its client's era.
    async fn ask_person(
        &self,
        wait: Wait<'_>,
        approval: &CallApproval,
        answer: Option<&Raw>,
    ) -> Result<PersonStep, RpcError> {
        if let Some(answer) = answer {
            return Ok(PersonStep::Answered(question::answer(answer)));
        }
        if !self.client.capabilities.form {
            return Ok(PersonStep::Inbox);
        }
        let held = self.path.approvals.held(approval).await.map_err(|problem| RpcError::from(&problem))?;
        let labels = self.snapshot.rules().labels(&wait.call.tool.act());
        let labels: Vec<String> = labels.iter().flat_map(|labels| labels.iter()).map(ToString::to_string).collect();
        let demand = held.demand.demand();
        let about = question::AskedCall { demand: &demand, labels: &labels, said: wait.said, summary: &held.summary };
        let asked = question::question(approval, about, wait.shown.as_str());
        let Some(asked) = asked else { return Ok(PersonStep::Inbox) };
        let Some(session) = &self.caller.session else {
            if self.depth > 0 || self.caller.revision.era() != Era::Modern {
                return Ok(PersonStep::Inbox);
            }
            let state = Some(Raw::from_value(&self.approval_state(&approval.id)));
            let required = InputRequired { questions: vec![(KEY.to_owned(), asked)], state };
            return Ok(PersonStep::Ask(required.to_raw()));
        };
        let Ok(_place) = self.path.asking.try_acquire() else { return Ok(PersonStep::Inbox) };
        let asked = ask::question_for(session.revision, &asked, &random::hex_128(), None);
        let asking = session.ask(self.reply.channel.as_ref(), method::ELICITATION_CREATE, asked.params, ANSWER);
        let answered = match self.running {
            None => asking.await,
            Some(running) => tokio::select! {
                biased;
                () = running.cancelled() => {
                    self.path.expire_approval(&approval.id, "its caller took it back").await.ok();
                    return Err(RpcError::from(Kind::Cancelled));
                }
                answered = asking => answered,
            },
        };
        Ok(match answered {
            Ok(Ok(answer)) => PersonStep::Answered(question::answer(&answer)),
            // It refuses to ask, or is gone.
            Ok(Err(_)) | Err(_) => PersonStep::Inbox,
        })
    }

    /// What a client is answered that has waited in vain: one that opens pages for people is asked to open ours, and comes
    /// back by its state; any other reads the next step.
    fn waited(&self, approval: &CallApproval, said: &str) -> CallAnswer {
        let is_modern = self.caller.session.is_none() && self.caller.revision.era() == Era::Modern;
        let opens_pages = is_modern && self.depth == 0 && self.client.capabilities.url;
        let Some(pages) = self.path.approvals.pages.as_ref().filter(|_| opens_pages) else {
            return next_step(approval, said);
        };
        let params = serde_json::json!({
            "mode": "url", "url": format!("{pages}{}", approval.id),
            "message": format!("{}. Go on to wait for it; the page shows how it stands.", waits(approval)),
        });
        let asked = InputRequest { method: method::ELICITATION_CREATE.to_owned(), params: Raw::from_value(&params) };
        let state = Some(Raw::from_value(&self.approval_state(&approval.id)));
        let required = InputRequired { questions: vec![(PAGE_KEY.to_owned(), asked)], state };
        CallAnswer::of_tool(required.to_raw(), Revision::LATEST)
    }

    /// The state by which a client comes back.
    fn approval_state(&self, id: &str) -> String {
        let text = serde_json::to_vec(&TicketText { approval: id.to_owned() }).unwrap_or_default();
        self.path.sealer.seal(PURPOSE, &text)
    }

    /// The answer for a client that knows tasks: one that ends when the call does.
    async fn wait_as_task(&self, call: &ToolCall, approval: CallApproval) -> CallResult {
        let target = call.tool.id.to_string();
        let begin = TaskStart { target: &target, capabilities: Arc::clone(&self.client.capabilities) };
        let (path, by, revision) = (Arc::clone(self.path), call.by, self.caller.revision);
        let work = move |task: OwnTask| async move {
            task.set_message(waits(&approval));
            let ended = until_ended(&path, approval, None, |_, at| task.set_message(waits(at))).await;
            let answer = match ended {
                Ok(approval) => answer_of(&path, &approval, by).await?,
                Err(problem) => CallAnswer::failed(problem),
            };
            Ok(match answer.form.era() {
                Era::Modern => answer.marked(),
                Era::Legacy => {
                    let info = &path.server_info;
                    convert::result_for(revision, method::TOOLS_CALL, &answer.marked(), info, Caching::NONE)
                }
            })
        };
        let handle = self.path.tasks.run(self.path.servers.scope(), self.caller, begin, work).await;
        Ok(match handle {
            Ok(handle) => CallAnswer::of_tool(handle, Revision::LATEST),
            Err(problem) => CallAnswer::failed(problem),
        })
    }
}

/// What a client reads whose call still waits.
fn next_step(approval: &CallApproval, said: &str) -> CallAnswer {
    let CallApproval { id, expires_at, .. } = approval;
    let who = match approval.kind {
        ApprovalKind::Confirm => "Its person confirms it",
        ApprovalKind::Approve => "Somebody else approves it",
    };
    let hint = format!(
        "The call has not run. {who} with `toolcrib approval approve {id}` until {expires_at}; then make the same call \
         again to get its result."
    );
    let waits = waits(approval);
    let message = if said.is_empty() { waits } else { format!("{waits}: {said}") };
    CallAnswer::failed(Problem::new(Kind::Forbidden, message).hint(hint))
}

fn remembered_call(context: &RequestContext<'_>, tool: &Tool) -> RememberedCall {
    RememberedCall {
        principal: context.caller.principal.id.clone(),
        profile: context.caller.profile.clone(),
        tool: tool.id.clone(),
        digest: Digest::of(&tool.entry.raw).to_string(),
    }
}

/// Waits until an approval has ended; for one that no one has decided about, as long as `patience` says.
pub(super) async fn until_ended(
    path: &Arc<CallPath>,
    approval: CallApproval,
    patience: Option<Duration>,
    tell: impl Fn(u64, &CallApproval),
) -> Result<CallApproval, Problem> {
    let (approvals, id, begun) = (&path.approvals, approval.id.clone(), Instant::now());
    let mut changes = approvals.watch(&id, approval.expires_at, path.clock.now());
    let mut now = approvals.get(&id).await?.unwrap_or(approval);
    if now.state == ApprovalState::Approved {
        // The process may have ended between the yes and the run.
        path.run_approved(&id);
    }
    let (mut round, mut runs_since) = (0, None);
    loop {
        if now.state != ApprovalState::Open {
            runs_since.get_or_insert_with(Instant::now);
        }
        if now.state.has_ended() || runs_since.is_some_and(|since| since.elapsed() > LONGEST) {
            return Ok(now);
        }
        let left = patience.map(|patience| patience.saturating_sub(begun.elapsed()));
        let gives_up = now.state == ApprovalState::Open && left.is_some();
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    changes = approvals.watch(&id, now.expires_at, path.clock.now());
                }
            }
            () = tokio::time::sleep(left.unwrap_or(LONGEST)), if gives_up => return Ok(now),
            () = tokio::time::sleep(approvals.times.progress) => {
                round += 1;
                tell(round, &now);
            }
        }
        now = approvals.get(&id).await?.unwrap_or(now);
    }
}

/// What the caller reads of an approval that has ended.
pub(super) async fn answer_of(
    path: &Arc<CallPath>,
    approval: &CallApproval,
    by: Option<&'static MetaName>,
) -> CallResult {
    let CallApproval { id, state, .. } = approval;
    if matches!(state, ApprovalState::Done | ApprovalState::Unknown) {
        let (store, id) = (path.approvals.store.clone(), id.clone());
        if let Err(problem) = blocking(move || Ok(store.collect(&id)?)).await {
            return Ok(CallAnswer::failed(problem));
        }
    }
    let reason = approval.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let problem = match state {
        ApprovalState::Done => match path.approvals.ended(approval).await {
            Ok(Some(ended)) => return shaped(ended.answer(), by),
            Ok(None) => Problem::new(Kind::Internal, format!("the result of the call `{id}` is not kept any more")),
            Err(problem) => problem,
        },
        ApprovalState::Unknown => {
            let message =
                format!("approval `{id}`: the gateway ended while the call ran, which may have done its work");
            Problem::new(Kind::Unavailable, message).hint("Check before you make the call again; it is not repeated.")
        }
        ApprovalState::Denied => denial(approval),
        ApprovalState::Expired => {
            let message = format!("approval `{id}` has expired{reason}, and the call has not run");
            Problem::new(Kind::Forbidden, message).hint("Make the call again to ask for another one.")
        }
        ApprovalState::Open | ApprovalState::Approved | ApprovalState::Running => {
            let hint = "Make the same call again to get its result.";
            Problem::new(Kind::Busy, format!("the call `{id}` was approved and still runs")).hint(hint)
        }
    };
    Ok(CallAnswer::failed(problem))
}

/// Why a call was not made that somebody said no to.
pub(super) fn denial(approval: &CallApproval) -> Problem {
    let who = approval.approver.as_ref().map_or("no one", |approver| approver.as_str());
    let reason = approval.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let message = format!("the call was denied by `{who}`{reason} (`{}`)", approval.id);
    Problem::new(Kind::Forbidden, message).hint("Ask that one before you make the call again.")
}

/// A result in the form of the tool by which it was called.
fn shaped(answer: CallResult, by: Option<&'static MetaName>) -> CallResult {
    match (answer, by) {
        (Ok(answer), Some(_)) => Ok(answer.map(|result| shape::call(by, result))),
        (Err(error), Some(_)) => Ok(CallAnswer::failed(problem_of(&error))),
        (answer, None) => answer,
    }
}

/// In words: what it waits for.
pub(super) fn waits(approval: &CallApproval) -> String {
    let CallApproval { id, call, .. } = approval;
    let whose = match approval.kind {
        ApprovalKind::Confirm => "confirmation",
        ApprovalKind::Approve => "approval",
    };
    match approval.state {
        ApprovalState::Open => format!("the call of `{}` waits for {whose} `{id}`", call.tool),
        _ => format!("the call of `{}` runs (`{id}`)", call.tool),
    }
}

fn progress(round: u64, approval: &CallApproval) -> Notification {
    let params = serde_json::json!({ "progressToken": 0, "progress": round, "message": waits(approval) });
    Notification::new(method::PROGRESS, Raw::from_value(&params))
}

impl CallPath {
    /// Ends an approval that no one has decided about: whether it was open.
    pub(super) async fn expire_approval(&self, id: &str, reason: &str) -> Result<bool, Problem> {
        let (store, id) = (self.approvals.store.clone(), id.to_owned());
        let decision = ApprovalDecision {
            id: id.clone(),
            state: ApprovalState::Expired,
            approver: None,
            reason: Some(reason.to_owned()),
            begin_until: None,
        };
        let was_open = blocking(move || Ok(store.decide(decision)?)).await?;
        if was_open {
            self.approval_ended(&id).await;
        }
        Ok(was_open)
    }
}

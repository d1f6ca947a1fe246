//! `tools/call` of one tool, of a server or of a source: prepare, run, and one end.

mod session;

use std::sync::Arc;

use http::HeaderMap;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Dialect;
use toolcrib_catalog::pin::Part;
use toolcrib_policy::Denial;
use toolcrib_protocol::error::CAPABILITY_MISSING;
use toolcrib_protocol::param_header::ParamHeaders;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, Revision, RpcError, ask, convert, method, task};
use toolcrib_store::Outcome;
use toolcrib_upstream::{CallError, Server, State};
use toolcrib_view::dialect::MetaName;
use toolcrib_view::schema::CheckOutcome;
use toolcrib_view::view::{Home, SessionPart, Tool};
use toolcrib_view::{reply, resolve, shape};

use crate::admission::{AdmittedCall, AskedCall, Refusal};
use crate::answer::{CallAnswer, Withheld};
use crate::context::RequestContext;
use crate::dispatch::{CallOutcome, unavailable};
use crate::exchange::{ServerRequest, needs_task};
use crate::guard::GuardedCall;
use crate::limits::LimitedCall;
use crate::own_tasks::{OwnTask, TaskStart};
use crate::secret_guard::GuardedText;
use crate::source::{CallDecision, ClientDialog, ClientRound, Invocation};
use session::SessionArgument;

/// The answer to a call of a tool.
pub type CallResult = Result<CallAnswer, RpcError>;

/// A call of a tool, resolved.
#[derive(Debug)]
pub struct ToolCall {
    /// What is called.
    pub tool: Arc<Tool>,
    /// The parameters of the request, whose `name` and `arguments` the two fields around stand for.
    pub params: Raw,
    /// An object.
    pub arguments: Raw,
    /// The meta-tool by which it was called, if any.
    pub by: Option<&'static MetaName>,
}

/// A call that the rules let through only after a yes.
#[derive(Debug)]
pub(crate) struct AskedToolCall<'c> {
    pub(crate) call: &'c ToolCall,
    /// The arguments as they were sent.
    pub(crate) original: &'c Raw,
    /// The same without secrets.
    pub(crate) shown: &'c Raw,
    pub(crate) asked: Box<AskedCall>,
    pub(crate) ticket: Option<ApprovalTicket>,
}

/// What a request carries that comes back for its approval.
#[derive(Debug)]
pub(crate) struct ApprovalTicket {
    /// The approval.
    pub(crate) id: String,
    /// What the person answered.
    pub(crate) answer: Option<Raw>,
}

/// How a call of a tool ended: for the record, and for the caller.
struct ToolOutcome {
    outcome: Outcome,
    answer: CallResult,
}

// === impl ToolOutcome ===

impl ToolOutcome {
    /// A call that failed, as a result with an error.
    fn failed(problem: Problem) -> Self {
        Self { outcome: Outcome::Error(problem.kind), answer: Ok(CallAnswer::failed(problem)) }
    }

    /// What this process did.
    fn own(done: Result<Raw, Problem>) -> Self {
        let outcome = match &done {
            Ok(result) if reply::is_failure(result) => Outcome::ToolError,
            Ok(_) => Outcome::Ok,
            Err(problem) => Outcome::Error(problem.kind),
        };
        Self { outcome, answer: Ok(CallAnswer::from(done)) }
    }

    fn cancelled() -> Self {
        Self { outcome: Outcome::Cancelled, answer: Err(RpcError::from(Kind::Cancelled)) }
    }
}

// === impl RequestContext ===

impl RequestContext<'_> {
    /// Calls a tool that the caller's profile shows.
    ///
    /// # Errors
    /// The rules hide it, its server answered with an error, or it was cancelled. Everything else becomes a result with an error.
    pub async fn call_tool(&mut self, mut call: ToolCall) -> CallResult {
        let mut ticket = self.approval_ticket(&mut call.params);
        let original = call.arguments.clone();
        // Before all else: what has begun by now has its answer, whatever the rules say today.
        if let Some(approval) = self.place.and_then(|place| place.approval)
            && let Some(answer) = Box::pin(self.granted_call(&call, &original, approval)).await
        {
            return answer;
        }
        // Before anything is written down: anyone who reads a handle could use it.
        let (arguments, session) = session::without_session(&call.tool, call.arguments);
        let rules = self.argument_rules(call.tool.server(), Some(&call.tool.id.tool));
        let GuardedText { passed, stored, note, denied } = self.path.secrets.arguments(&rules, arguments).await;
        call.arguments = passed;
        let answers = self.guarded_answers(&rules, call.params).await;
        call.params = answers.passed;
        let recorded = (call.tool.session != SessionPart::Close).then_some(&call.arguments);
        let mut admitted = match self.admit_tool(&call, recorded, &stored).await {
            Ok(admitted) => admitted.counted_by(Arc::clone(call.tool.metrics())),
            Err(Refusal::Asked(asked)) => {
                let unfit = self.not_held(&call, &asked, denied.or(answers.denied)).await;
                if let Some(problem) = unfit {
                    asked.end(None);
                    return self.not_made(problem);
                }
                let held = AskedToolCall { call: &call, original: &original, shown: &stored, asked, ticket };
                // Boxed: it is rare, and the future of each call is moved.
                return Box::pin(self.held_call(held)).await;
            }
            Err(refusal) if self.place.is_some() => {
                return Ok(CallAnswer::refused(self.refusal_problem(&call.tool, &refusal)));
            }
            // The caller may know of it, and its role is too small.
            Err(refusal @ Refusal::Denied(Denial { hidden: false, .. })) => {
                return ToolOutcome::failed(refusal.problem()).answer;
            }
            Err(refusal @ Refusal::Halted(_)) => return ToolOutcome::failed(refusal.problem()).answer,
            // Only what is visible was resolved; the rules say the same again, or the view was built by older ones.
            Err(refusal) => return Err(refusal.or_unknown(|| self.unknown_tool(&call.tool))),
        };
        admitted.note(note);
        admitted.note(answers.note);
        if let Some(ticket) = ticket.take() {
            let answer = Box::pin(self.attached_call(&call, &original, ticket)).await;
            let own = answer.as_ref().ok().and_then(|answer| answer.problem.as_ref());
            admitted.end(own.map_or(Outcome::Ok, |problem| Outcome::Error(problem.kind)));
            return answer;
        }
        let prepared = match denied.or(answers.denied) {
            Some(problem) => Err(problem),
            None => self.prepare(&mut admitted, &call).await,
        };
        let ToolOutcome { outcome, answer } = match prepared {
            Ok(()) => self.run(&mut admitted, &call, session).await,
            Err(problem) => ToolOutcome::failed(problem),
        };
        if outcome == Outcome::Ok && has_acted(&call.tool, &answer) {
            self.path.notify_guards(&self.guarded(&call));
        }
        admitted.end(outcome);
        answer
    }

    /// Decides about a call of a run that is not made yet, as [`RequestContext::call_tool`] does. Opens the approval that
    /// it needs.
    pub async fn decide_tool(&mut self, mut call: ToolCall) -> CallDecision {
        let original = call.arguments.clone();
        let (arguments, _) = session::without_session(&call.tool, call.arguments);
        let rules = self.argument_rules(call.tool.server(), Some(&call.tool.id.tool));
        let GuardedText { passed, stored, denied, .. } = self.path.secrets.arguments(&rules, arguments).await;
        call.arguments = passed;
        let recorded = (call.tool.session != SessionPart::Close).then_some(&call.arguments);
        match self.admit_tool(&call, recorded, &stored).await {
            Ok(admitted) => {
                admitted.discard();
                let unfit = match denied {
                    Some(problem) => Some(problem),
                    None => self.misfit(&call.tool, &call.arguments).await,
                };
                unfit.map_or(CallDecision::Allowed, CallDecision::Refused)
            }
            Err(Refusal::Asked(asked)) => {
                if let Some(problem) = self.not_held(&call, &asked, denied).await {
                    asked.end(None);
                    return CallDecision::Refused(problem);
                }
                let held = AskedToolCall { call: &call, original: &original, shown: &stored, asked, ticket: None };
                match self.held_call(held).await {
                    Ok(CallAnswer { withheld: Some(Withheld::Held(approval)), .. }) => CallDecision::Held(approval),
                    Ok(CallAnswer { problem: Some(problem), .. }) => CallDecision::Refused(*problem),
                    Ok(_) => CallDecision::Refused(Problem::new(Kind::Internal, "the call has a result already")),
                    Err(error) => CallDecision::Refused(problem_of(&error)),
                }
            }
            Err(refusal) => CallDecision::Refused(self.refusal_problem(&call.tool, &refusal)),
        }
    }

    /// Why a call that needs a yes does not even wait for it.
    async fn not_held(&self, call: &ToolCall, asked: &AskedCall, denied: Option<Problem>) -> Option<Problem> {
        if denied.is_some() {
            return denied;
        }
        if let Some(consent) = &self.consent {
            let message =
                format!("the rules ask for another yes than `{}` by now; the call has not run", consent.approval);
            return Some(Problem::new(Kind::Stale, message).hint("Make the call again to ask for it."));
        }
        if is_session_tool(&call.tool) {
            return Some(asked.problem());
        }
        self.misfit(&call.tool, &call.arguments).await
    }

    /// The answer to a call that was not made, which for one that has a place is a refusal.
    pub(crate) fn not_made(&self, problem: Problem) -> CallResult {
        Ok(if self.place.is_some() { CallAnswer::refused(problem) } else { CallAnswer::failed(problem) })
    }

    /// Why the rules refuse a call of a tool, in words: a tool that they hide is unknown.
    fn refusal_problem(&self, tool: &Tool, refusal: &Refusal) -> Problem {
        match refusal {
            Refusal::Denied(Denial { hidden: true, .. }) => resolve::unknown_tool(self.view(), &tool.name),
            refusal => refusal.problem(),
        }
    }

    /// Admits a call; one that needs a confirmation which its caller gave a while ago, with that.
    async fn admit_tool(
        &mut self,
        call: &ToolCall,
        recorded: Option<&Raw>,
        stored: &Raw,
    ) -> Result<AdmittedCall, Refusal> {
        let act = call.tool.act();
        loop {
            let mut asked = self.audited(method::TOOLS_CALL, "", recorded);
            asked.stored = recorded.map(|_| &stored.bytes()[..]);
            asked.target = call.tool.id.to_string().into();
            match self.admit(&act, asked).await {
                Err(Refusal::Asked(asked)) if self.consent.is_none() => {
                    let Some(consent) = self.remembered_consent(&call.tool, asked.demand()) else {
                        return Err(Refusal::Asked(asked));
                    };
                    asked.discard();
                    self.consent = Some(consent);
                }
                admitted => return admitted,
            }
        }
    }

    /// What stands between the admission of a call and its run.
    ///
    /// # Errors
    /// Too many calls, a guard that says no, or arguments that do not fit.
    async fn prepare(&self, admitted: &mut AdmittedCall, call: &ToolCall) -> Result<(), Problem> {
        let (tool, server) = (&call.tool, call.tool.server());
        let returns = server.is_some_and(|server| !needs_task(tool, server)) && self.attaches(&call.params);
        if !returns {
            let limited = LimitedCall { server, tool: Some(&tool.id), arguments: Some(&call.arguments) };
            admitted.hold(self.within_limits(limited)?);
        }
        self.path.guard(&self.guarded(call))?;
        self.misfit(&call.tool, &call.arguments).await.map_or(Ok(()), Err)
    }

    fn guarded<'c>(&'c self, call: &'c ToolCall) -> GuardedCall<'c> {
        let run = self.caller.chain.as_ref().and_then(|chain| chain.run.as_deref());
        let is_of_agent = run.is_some() && run == self.lineage.agent_run.as_deref();
        GuardedCall {
            caller: self.caller,
            view: self.view(),
            tool: &call.tool,
            arguments: &call.arguments,
            is_of_agent,
        }
    }

    async fn run(&mut self, admitted: &mut AdmittedCall, call: &ToolCall, session: SessionArgument) -> ToolOutcome {
        if self.consent.as_ref().is_some_and(|consent| !consent.is_for(&call.tool)) {
            let message = format!("the definition of `{}` was changed since the call was approved", call.tool.id);
            let problem = Problem::new(Kind::Stale, message);
            return ToolOutcome::failed(problem.hint("The call has not run; make it again to ask for another yes."));
        }
        let Some(server) = call.tool.server() else {
            return Box::pin(self.run_source(admitted, call)).await;
        };
        if is_session_tool(&call.tool) {
            return self.session_tool(call, server);
        }
        match self.is_held_now(server, Part::Tool, &call.tool.id.tool).await {
            Ok(false) => {}
            Ok(true) => return ToolOutcome { outcome: Outcome::Denied, answer: Err(self.unknown_tool(&call.tool)) },
            Err(problem) => return ToolOutcome::failed(problem),
        }
        match self.conversation(&call.tool, &session) {
            Ok(conversation) => self.client.conversation = conversation,
            Err(problem) => return ToolOutcome::failed(problem),
        }
        let name = Raw::from_value(&&*call.tool.id.tool);
        let edits = [("name", Edit::Set(name.as_str())), ("arguments", Edit::Set(call.arguments.as_str()))];
        let params = call.params.edit(&edits);
        let outcome = if !self.speaks_modern(server) && needs_task(&call.tool, server) {
            Box::pin(self.call_as_task(admitted, &call.tool, server, &params)).await
        } else {
            self.exchange_tool(admitted, call, server, params).await
        };
        let rules = self.result_rules(server, Some(&call.tool.id.tool));
        let outcome = self.guarded_outcome(admitted, rules, outcome).await;
        self.outcome_of(call, server, outcome)
    }

    /// What a server's answer means to the caller.
    fn outcome_of(&self, call: &ToolCall, server: &Server, outcome: CallOutcome) -> ToolOutcome {
        let form = if self.speaks_modern(server) { Revision::LATEST } else { Revision::LATEST_LEGACY };
        if let (CallOutcome::Answered(_), Some(answered)) = (&outcome, &self.lineage.answered) {
            answered.add([call.tool.id.clone()]);
        }
        match outcome {
            CallOutcome::Answered(Ok(result)) => {
                let outcome = if reply::is_failure(&result) { Outcome::ToolError } else { Outcome::Ok };
                // What asks, or runs on as a task, is for the client and not for its model.
                let is_answer = !ask::is_input_required(&result) && !task::is_task(&result);
                let passed_on = if is_answer { self.passed_on(&call.tool, result) } else { Ok(result) };
                let result = match passed_on {
                    Ok(result) if is_answer && call.by.is_some() => shape::call(call.by, result),
                    Ok(result) => result,
                    Err(problem) => return ToolOutcome::failed(problem),
                };
                ToolOutcome { outcome, answer: Ok(CallAnswer::of_tool(result, form)) }
            }
            CallOutcome::Answered(Err(error)) => {
                let error = convert::error_for(self.caller.revision, error);
                let in_result = call.by.is_some() && error.code != CAPABILITY_MISSING;
                let answer = if in_result { Ok(CallAnswer::failed(problem_of(&error))) } else { Err(error) };
                ToolOutcome { outcome: Outcome::Error(Kind::BadServer), answer }
            }
            CallOutcome::Failed(error) => {
                let problem = match &error {
                    CallError::Ended(_) => self.not_open(&call.tool),
                    error => self.gone(error),
                };
                ToolOutcome { outcome: Outcome::Error(error.kind()), answer: Ok(CallAnswer::failed(problem)) }
            }
            CallOutcome::Cancelled => ToolOutcome::cancelled(),
            CallOutcome::Unanswered(problem) => ToolOutcome::failed(problem),
        }
    }

    /// The answer for a tool that must look as if it were not there.
    fn unknown_tool(&self, tool: &Tool) -> RpcError {
        RpcError::from(&resolve::unknown_tool(self.view(), &tool.name))
    }

    /// Why the arguments do not fit the tool's schema; `None` where they do, and where the server is left to decide.
    async fn misfit(&self, tool: &Arc<Tool>, arguments: &Raw) -> Option<Problem> {
        if tool.checks_arguments() {
            return None;
        }
        match self.check_arguments(tool, arguments).await {
            CheckOutcome::Fits => None,
            // The server decides, as it does where there is no schema.
            CheckOutcome::Unchecked => {
                tool.metrics().record_unchecked();
                None
            }
            CheckOutcome::Faults(faults) => {
                let message = format!("the arguments do not fit `{}`:\n{faults}", tool.id);
                Some(Problem::new(Kind::InvalidParams, message))
            }
        }
    }

    /// Checks arguments against the tool's schema: at once where that is cheap.
    async fn check_arguments(&self, tool: &Arc<Tool>, arguments: &Raw) -> CheckOutcome {
        if let Some(checked) = tool.check_if_cheap().and_then(|check| check.at_once(arguments)) {
            return checked;
        }
        let (checked, arguments) = (Arc::clone(tool), arguments.clone());
        Box::pin(self.path.checks.run(&tool.id.server, move || checked.check().check(&arguments))).await
    }

    /// Has a source run its tool; for a client that knows tasks as one, where it may take long.
    async fn run_source(&self, admitted: &mut AdmittedCall, call: &ToolCall) -> ToolOutcome {
        let internal = || ToolOutcome::failed(Problem::new(Kind::Internal, "the source of the tool is gone"));
        let Home::Source { slow, .. } = &call.tool.home else { return internal() };
        let Some(source) = self.path.source(&call.tool.id.server).cloned() else { return internal() };
        let by = call.by;
        let Some(mut invocation) = self.invocation(call) else { return internal() };
        if *slow && self.depth == 0 && self.declares_tasks() {
            let target = call.tool.id.to_string();
            let begin = TaskStart { target: &target, capabilities: Arc::clone(&self.client.capabilities) };
            let detached = admitted.detach();
            let (bound, path, caller) = (self.result_bound(&call.tool), Arc::clone(self.path), self.caller.clone());
            let work = move |task: OwnTask| async move {
                invocation.dialog = ClientDialog::Task(task);
                let ran = source.run(invocation).await.and_then(|result| {
                    match bound.filter(|bound| !bound.admits(&result)) {
                        Some(bound) => bound.cut(&path.large_results, &caller, &result),
                        None => Ok(result),
                    }
                });
                let ToolOutcome { outcome, answer } = ToolOutcome::own(ran);
                detached.end(outcome);
                Ok(answer?.map(|result| shape::call(by, result)).marked())
            };
            let scope = self.path.servers.scope();
            let handle = self.path.tasks.run(scope, self.caller, begin, work).await;
            let answer = handle.map(|handle| CallAnswer::of_tool(handle, Revision::LATEST));
            // Ended by the task, so nothing of this outcome is recorded.
            return ToolOutcome {
                outcome: Outcome::Cancelled,
                answer: answer.map_err(|problem| RpcError::from(&problem)),
            };
        }
        // A call that was approved is not made by its client.
        let is_of_client = self.place.is_none() && self.depth == 0 && self.consent.is_none();
        if is_of_client && self.caller.session.is_none() && self.takes_questions() {
            invocation.dialog = ClientDialog::Rounds(ClientRound {
                capabilities: Arc::clone(&self.client.capabilities),
                state: ask::state(&call.params),
                answers: call.params.get(ask::INPUT_RESPONSES),
            });
        }
        let run = source.run(invocation);
        let ran = match self.running {
            None => run.await,
            Some(running) => tokio::select! {
                biased;
                () = running.cancelled() => return ToolOutcome::cancelled(),
                ran = run => ran,
            },
        };
        if let Ok(result) = &ran
            && ask::is_input_required(result)
        {
            // For the client, and not for its model.
            let answer = CallAnswer::of_tool(result.clone(), Revision::LATEST);
            return ToolOutcome { outcome: Outcome::Ok, answer: Ok(answer) };
        }
        let ran = ran.and_then(|result| self.passed_on(&call.tool, result));
        let ToolOutcome { outcome, answer } = ToolOutcome::own(ran);
        ToolOutcome { outcome, answer: answer.map(|answer| answer.map(|result| shape::call(by, result))) }
    }

    fn invocation(&self, call: &ToolCall) -> Option<Invocation> {
        Some(Invocation {
            path: self.path.tools()?,
            caller: self.caller.clone(),
            tool: call.tool.id.tool.to_string(),
            arguments: call.arguments.clone(),
            label: self.label(),
            depth: self.depth,
            reply: self.reply.clone(),
            lineage: self.lineage.clone(),
            dialog: ClientDialog::None,
        })
    }

    /// Calls the tool's server with what of the arguments is mirrored in headers. A modern server that refuses them has
    /// changed the tool: its lists are read again, and where that changes the headers, the call is made once more.
    async fn exchange_tool(
        &self,
        admitted: &mut AdmittedCall,
        call: &ToolCall,
        server: &Server,
        params: Raw,
    ) -> CallOutcome {
        let request = |headers| ServerRequest { server, method: method::TOOLS_CALL, params: params.clone(), headers };
        let headers = mirrored(call.tool.param_headers(), &call.arguments);
        let outcome = self.exchange(admitted, request(headers.clone())).await;
        if !outcome.is_out_of_date() || admitted.act().is_none() {
            return outcome;
        }
        let listed_again = server.listed_again().await;
        let now = listed_again.and_then(|inventory| {
            let entry = inventory.tools.iter().find(|entry| entry.key == *call.tool.id.tool)?.clone();
            ParamHeaders::read(&entry.input_schema()?).ok()
        });
        match now.map(|now| mirrored(&now, &call.arguments)).filter(|now| *now != headers) {
            Some(headers) => Box::pin(self.exchange(admitted, request(headers))).await,
            None => outcome,
        }
    }

    /// A server that gives no answer. muster knows no server that was stopped, and its clients look for these words.
    fn gone(&self, error: &CallError) -> Problem {
        let mut problem = unavailable(error);
        let is_stopped = matches!(error, CallError::Unavailable(away) if away.status.state == State::Stopped);
        if is_stopped && self.view().profile.dialect == Dialect::Muster {
            problem.message = format!("server not found: {}", problem.message);
        }
        problem
    }
}

/// Whether a tool opens or closes a session with its server: it is the gateway's own, and does nothing to anyone.
fn is_session_tool(tool: &Tool) -> bool {
    matches!(tool.session, SessionPart::Open | SessionPart::Close)
}

/// Whether a tool has done what was asked. The tools that open and close sessions are the gateway's own, and what they
/// are called with is a handle that no one else may learn; what asks or runs on as a task has done nothing yet.
fn has_acted(tool: &Tool, answer: &CallResult) -> bool {
    !is_session_tool(tool)
        && answer.as_ref().is_ok_and(|answer| !ask::is_input_required(&answer.result) && !task::is_task(&answer.result))
}

fn mirrored(headers: &ParamHeaders, arguments: &Raw) -> HeaderMap {
    headers.mirror(arguments).into_iter().collect()
}

/// A server's error as a problem, for answers that are results.
pub fn problem_of(error: &RpcError) -> Problem {
    Problem::new(Kind::BadServer, error.message.clone())
}

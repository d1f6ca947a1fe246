//! The methods of MCP, each led to what answers it: calls to `call`, the rest to the path that all requests take. The
//! answer is written in the form of the client's revision.

mod answers;
mod call;
mod halted;
mod handshake;
mod route;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use toolcrib_base::{Kind, Problem, Timestamp, ToolId};
use toolcrib_call::admission::{AuditedRequest, record_halted};
use toolcrib_call::{
    ApprovalEnd, CallAnswer, CallDecision, CallResult, CallTool, ClientOptions, InterruptedCall, ProfileSnapshot,
    ReplyChannel, RequestContext, RunCallOutcome, SourceCall, Withheld, problem_of,
};
use toolcrib_catalog::Exposure;
use toolcrib_protocol::convert::{self, Caching};
use toolcrib_protocol::raw::{self, Edit};
use toolcrib_protocol::{
    Answer, Era, Id, Notification, Raw, Request, Revision, RpcError, ask, downgrade, meta, method,
};
use toolcrib_session::{Caller, Channel, RequestSpan};
use toolcrib_view::view::View;
use tracing::Instrument;

use crate::gateway::Gateway;
use halted::HaltedRequest;

pub(crate) use call::outcome_of;

/// One request and the gateway that answers it.
pub(crate) struct RequestHandler<'a> {
    gateway: &'a Arc<Gateway>,
    context: RequestContext<'a>,
}

impl Gateway {
    /// Answers a request of a client that was admitted by `snapshot`. Errors of any kind are answers too; only a request
    /// that the client has cancelled gets none.
    ///
    /// Dropping the future takes the request back, also at the server. A legacy client that only lost its connection may
    /// come back for the answer: the owner of the connections keeps the future for a while.
    pub async fn request(
        self: &Arc<Self>,
        snapshot: &ProfileSnapshot,
        caller: &Caller,
        request: Request,
        channel: Option<Channel>,
    ) -> Option<Answer> {
        let Some(span) = RequestSpan::begin(caller, &request) else {
            return self.answer(snapshot, caller, request, channel).await;
        };
        // Boxed, so that the span adds nothing to the future of a request without one.
        let traced = async {
            let caller = span.caller(caller);
            let answer = self.answer(snapshot, &caller, request, channel).instrument(span.span()).await?;
            span.end(&answer.outcome);
            Some(answer)
        };
        Box::pin(traced).await
    }

    async fn answer(
        self: &Arc<Self>,
        snapshot: &ProfileSnapshot,
        caller: &Caller,
        request: Request,
        channel: Option<Channel>,
    ) -> Option<Answer> {
        self.callers.note(caller, &request.method, self.path.clock.now());
        if let Some(halt) = self.path.halts.of(caller) {
            let refused = HaltedRequest { halt: &halt, canary: None };
            return Some(Box::pin(self.refuse_halted(snapshot, caller, request, refused)).await);
        }
        // Whole, whatever is made of it, and before anything of it is written down.
        match self.path.look_for_canary(caller, &request.params, "a request").await {
            Ok(None) => {}
            Ok(Some(found)) => {
                let refused = HaltedRequest { halt: &found.halt, canary: Some(&found.id) };
                return Some(Box::pin(self.refuse_halted(snapshot, caller, request, refused)).await);
            }
            Err(problem) => return Some(Answer::error(Some(request.id), RpcError::from(&problem))),
        }
        // Before anything that waits, so that a cancellation finds it.
        let running = caller.session.as_ref().map(|session| session.run(&request.id));
        let snapshot = match self.path.awaited_snapshot(snapshot, caller, &request).await {
            Ok(snapshot) => snapshot,
            Err(problem) => return Some(Answer::error(Some(request.id), RpcError::from(&problem))),
        };
        let outcome = match RequestContext::new(&self.path, &snapshot, caller, &request.id) {
            Err(error) => Err(error),
            Ok(context) => {
                let token = channel.as_ref().and_then(|_| meta::progress_token(&request.params));
                let reply = ReplyChannel { channel, token };
                let context = RequestContext { running: running.as_ref(), reply, ..context };
                RequestHandler { gateway: self, context }.answer(&request.method, &request.params).await
            }
        };
        let outcome = outcome.map_err(|error| convert::error_for(caller.revision, error));
        let cancelled = running.is_some_and(|running| running.is_cancelled());
        (!cancelled).then(|| Answer { id: Some(request.id.clone()), outcome })
    }

    /// Checks the headers of a modern request over HTTP that mirror its parameters (`Mcp-Param-*`).
    ///
    /// # Errors
    /// A header is missing, or says something else than the parameter.
    pub fn check_headers(
        &self,
        snapshot: &ProfileSnapshot,
        caller: &Caller,
        request: &Request,
        headers: &HeaderMap,
    ) -> Result<(), RpcError> {
        if request.method != method::TOOLS_CALL || caller.revision.era() == Era::Legacy {
            return Ok(());
        }
        let name = request.params.text("name");
        let snapshot = snapshot.seen_by(&caller.principal, caller.door);
        let tool = name.and_then(|name| snapshot.view().tool(&name));
        let Some(tool) = tool.filter(|tool| !tool.param_headers().is_empty()) else { return Ok(()) };
        let arguments = request.params.get("arguments").unwrap_or_else(Raw::empty_object);
        tool.param_headers().check(headers, &arguments)
    }

    /// Takes a notification of a client.
    pub fn notification(&self, caller: &Caller, notification: &Notification) {
        if notification.method == method::CANCELLED {
            let id = notification.params.get("requestId").and_then(Id::from_raw);
            if let (Some(session), Some(id)) = (&caller.session, id) {
                session.cancel(&id);
            }
        }
        if notification.method == method::ROOTS_CHANGED
            && let Some(session) = &caller.session
        {
            let name = session.name();
            self.path.servers.table().values().for_each(|running| running.server.roots_changed(name));
        }
    }
}

impl CallTool for Gateway {
    fn view(&self, caller: &Caller) -> Result<Arc<View>, Problem> {
        let view = self.path.views.seen_by(&caller.profile, &caller.principal, caller.door);
        view.ok_or_else(|| self.path.views.no_profile(&caller.profile))
    }

    fn call(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, Result<Raw, Problem>> {
        Box::pin(async move {
            let snapshot = self.snapshot_of_source(&call).await?;
            let answer = self.answer_source(&snapshot, call).await;
            answer.map(|answer| answer.result).map_err(|error| Problem::new(Kind::BadServer, error.message))
        })
    }

    fn decide(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, CallDecision> {
        Box::pin(async move {
            let snapshot = match self.snapshot_of_source(&call).await {
                Ok(snapshot) => snapshot,
                Err(problem) => return CallDecision::Refused(problem),
            };
            let id = Id::from_text(call.label);
            let context = self.context_of_source(&snapshot, &id, &call);
            RequestHandler { gateway: &self, context }.decide_of_source(call.tool, call.arguments).await
        })
    }

    fn interrupted(self: Arc<Self>, call: SourceCall<'_>, since: Timestamp) -> BoxFuture<'_, InterruptedCall> {
        Box::pin(async move {
            let snapshot = match self.snapshot_of_source(&call).await {
                Ok(snapshot) => snapshot,
                Err(problem) => return InterruptedCall::Ended(Err(problem)),
            };
            let id = Id::from_text(call.label);
            let context = self.context_of_source(&snapshot, &id, &call);
            let handler = RequestHandler { gateway: &self, context };
            handler.interrupted_of_source(call.tool, call.arguments, since).await
        })
    }

    fn approval_end<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ApprovalEnd>, Problem>> {
        Box::pin(self.path.approval_end(id))
    }

    fn make(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, RunCallOutcome> {
        Box::pin(async move {
            let snapshot = match self.snapshot_of_source(&call).await {
                Ok(snapshot) => snapshot,
                Err(problem) => return RunCallOutcome::Refused(problem),
            };
            let answer = self.answer_source(&snapshot, call).await;
            let answer = answer.unwrap_or_else(|error| CallAnswer::failed(problem_of(&error)));
            let CallAnswer { result, problem, withheld, .. } = answer;
            let problem = problem.map(|problem| *problem);
            let why = || problem.clone().unwrap_or_else(|| Problem::new(Kind::Internal, "the call was not made"));
            match withheld {
                None if ask::is_input_required(&result) => match self.path.question_of(&result) {
                    Ok(question) => RunCallOutcome::Asks(Box::new(question)),
                    Err(why) => RunCallOutcome::Unknown(Problem::new(Kind::BadServer, why)),
                },
                None => RunCallOutcome::Result { result, problem },
                Some(Withheld::Held(approval)) => RunCallOutcome::Held(approval),
                Some(Withheld::Refused) => RunCallOutcome::Refused(why()),
                Some(Withheld::Unknown) => RunCallOutcome::Unknown(why()),
            }
        })
    }
}

impl Gateway {
    /// The snapshot that decides about the call of a source. One with a canary goes no further.
    async fn snapshot_of_source(&self, call: &SourceCall<'_>) -> Result<ProfileSnapshot, Problem> {
        let snapshot = self.path.views.snapshot(&call.caller.profile)?;
        if let Some(found) = self.path.look_for_canary(call.caller, &call.arguments, "a call of a run").await? {
            let audit = self.path.audit(snapshot.rules(), call.caller);
            let asked = AuditedRequest {
                method: method::TOOLS_CALL,
                target: self.path.without_canary(call.tool),
                arguments: Some(&call.arguments.bytes()[..]),
                stored: Some(b"{}"),
                request_id: call.label.to_owned(),
            };
            record_halted(audit, asked, &found.halt, Some(&found.id)).await;
            return Err(found.halt.problem());
        }
        self.path.snapshot_for(&snapshot, call.caller, call.tool, &call.arguments).await
    }

    fn context_of_source<'a>(
        self: &'a Arc<Self>,
        snapshot: &'a ProfileSnapshot,
        id: &'a Id,
        call: &SourceCall<'a>,
    ) -> RequestContext<'a> {
        RequestContext {
            path: &self.path,
            snapshot,
            caller: call.caller,
            id,
            running: None,
            reply: call.reply.clone(),
            client: match call.place {
                None => ClientOptions::of_caller(call.caller),
                Some(_) => ClientOptions::of_run(call.caller),
            },
            depth: call.depth,
            consent: None,
            place: call.place,
            lineage: call.lineage.clone(),
        }
    }

    async fn answer_source(self: &Arc<Self>, snapshot: &ProfileSnapshot, call: SourceCall<'_>) -> CallResult {
        let id = Id::from_text(call.label);
        let context = self.context_of_source(snapshot, &id, &call);
        RequestHandler { gateway: self, context }.call_of_source(call.tool, call.arguments).await
    }
}

impl RequestHandler<'_> {
    async fn answer(self, method: &str, params: &Raw) -> Result<Raw, RpcError> {
        let context = &self.context;
        let modern = context.caller.revision.era() == Era::Modern;
        let (revision, gateway) = (context.caller.revision, self.gateway);
        let natively = context.view().natively();
        let result = match method {
            method::TOOLS_CALL => {
                let answer = self.tools_call(params).await?;
                return Ok(in_client_form(gateway, revision, &answer));
            }
            method::TOOLS_LIST => return self.tools_list(params),
            method::RESOURCES_LIST => return context.listed(params, natively[0]),
            method::RESOURCE_TEMPLATES_LIST => return context.listed(params, natively[1]),
            method::PROMPTS_LIST => return context.listed(params, natively[2]),
            // Boxed, so that the future of a call of a tool, which is the usual one, stays small.
            method::RESOURCES_READ => Box::pin(context.resources_read(params)).await?,
            method::PROMPTS_GET => Box::pin(context.prompts_get(params)).await?,
            method::COMPLETE => Box::pin(context.complete(params)).await?,
            method::DISCOVER if modern => handshake::discover(context.view()),
            method::LISTEN if modern => return Box::pin(context.listen(params)).await,
            method::RESOURCES_SUBSCRIBE if !modern => return Box::pin(context.resources_subscribe(params)).await,
            method::RESOURCES_UNSUBSCRIBE if !modern => return context.resources_unsubscribe(params),
            method::PING if !modern => Raw::empty_object(),
            method::SET_LEVEL if !modern => context.set_level(params)?,
            method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL if modern => {
                Box::pin(context.tasks(method, params)).await?
            }
            other => Box::pin(context.forward(other, params)).await?,
        };
        Ok(converted(gateway, revision, method, &result))
    }

    fn tools_list(&self, params: &Raw) -> Result<Raw, RpcError> {
        let (context, view) = (&self.context, self.context.view());
        let fixed = context.listed(params, view.listed_for(context.caller.session.as_deref()))?;
        // A further page belongs to the list that was counted with its first one.
        if !params.may_have("cursor") {
            self.gateway.count_list(context.caller);
        }
        let revision = context.caller.revision;
        if view.profile.exposure != Exposure::Dynamic || revision.era() != Era::Legacy {
            return Ok(fixed);
        }
        // What a legacy client has loaded is listed for it; a modern client's list never changes by what it does.
        let loaded: BTreeSet<ToolId> = self.gateway.active.of(context.caller, view.profile.active_set);
        if loaded.is_empty() {
            return Ok(fixed);
        }
        // The menu and the largest quota of loaded tools fit one page.
        let tools = loaded.iter().filter_map(|id| view.tool_by_id(id)).map(|tool| tool.exposed());
        let all: Vec<Raw> = view.menu.iter().cloned().chain(tools).collect();
        let all = downgrade::tools_for(revision, &all);
        let list = raw::array(all.iter().map(Raw::as_str));
        Ok(fixed.edit(&[("tools", Edit::Set(list.as_str()))]))
    }
}

/// The answer to a call, which is in the form of one revision, for a client of another.
pub(crate) fn in_client_form(gateway: &Gateway, revision: Revision, answer: &CallAnswer) -> Raw {
    let result = answer.marked();
    // What one legacy end says to the other is theirs; only older clients cannot read all of it.
    if answer.form.era() == Era::Legacy && revision.era() == Era::Legacy && revision.has_structured_content() {
        return result;
    }
    converted(gateway, revision, method::TOOLS_CALL, &result)
}

fn converted(gateway: &Gateway, revision: Revision, method: &str, result: &Raw) -> Raw {
    match revision.era() {
        Era::Modern => convert::result_for(revision, method, result, &gateway.path.server_info, Caching::NONE),
        // What only the modern era has was taken out where the result was received.
        Era::Legacy => downgrade::result_for_revision(revision, method, result),
    }
}

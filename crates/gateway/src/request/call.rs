//! `tools/call`: the name is resolved once, and leads to a tool, a meta-tool or an operation.

use std::sync::Arc;

use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_call::{
    AdmittedCall, CallAnswer, CallDecision, CallResult, InterruptedCall, OwnTask, Refusal, RequestContext, TaskStart,
    ToolCall, problem_of,
};
use toolcrib_policy::Act;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, Revision, RpcError, ask, convert, json, method};
use toolcrib_session::Caller;
use toolcrib_store::Outcome;
use toolcrib_view::dialect::{Act as DialectAct, MetaName};
use toolcrib_view::resolve::{self, ResolveError, Target};
use toolcrib_view::{Operation, reply, shape};

use super::{RequestHandler, in_client_form};
use crate::gateway::Gateway;
use crate::meta;
use crate::operate::name_subject;
use crate::operation::{self, OperationContext};

impl Gateway {
    /// A call by another door than MCP, resolved already: the answer says beside its result what the gateway itself says
    /// of the call.
    pub(crate) async fn call_resolved(
        self: &Arc<Self>,
        context: RequestContext<'_>,
        target: Target,
        params: &Raw,
    ) -> CallResult {
        let caller: &Caller = context.caller;
        let mut handler = RequestHandler { gateway: self, context };
        let answer = handler.call_target(target, params).await;
        let answer = answer.map_err(|error| convert::error_for(caller.revision, error))?;
        let result = in_client_form(self, caller.revision, &answer);
        Ok(answer.map(|_| result))
    }
}

impl RequestHandler<'_> {
    pub(super) async fn tools_call(mut self, params: &Raw) -> CallResult {
        let members = params.members();
        let Some(name) = json::find(&members, "name").and_then(json::text) else {
            return Err(RpcError::from(&Problem::new(Kind::InvalidParams, "`params.name` must be a string")));
        };
        let arguments = match json::find(&members, "arguments") {
            None | Some("null") => Raw::empty_object(),
            Some(arguments) => params.part(arguments),
        };
        if !arguments.is_object() {
            return Err(RpcError::from(&Problem::new(Kind::InvalidParams, "`params.arguments` must be an object")));
        }
        match resolve::call(self.context.view(), &name, arguments) {
            Ok(target) => self.call_target(target, params).await,
            Err(unresolved) => Box::pin(self.unresolved(params, unresolved)).await,
        }
    }

    /// A call that a source makes in the course of an invocation.
    pub(super) async fn call_of_source(mut self, name: &str, arguments: Raw) -> CallResult {
        let params = serde_json::json!({ "name": name });
        let mut edits = vec![("arguments", Edit::Set(arguments.as_str()))];
        if let Some(reply) = self.context.place.and_then(|place| place.reply) {
            edits.extend(reply.state.map(|state| (ask::REQUEST_STATE, Edit::Set(state))));
            edits.extend(reply.answers.map(|answers| (ask::INPUT_RESPONSES, Edit::Set(answers))));
        }
        let params = Raw::from_value(&params).edit(&edits);
        match resolve::invocation(self.context.view(), name, arguments.clone()) {
            Ok(target) => self.call_target(target, &params).await,
            Err(unresolved) if self.context.place.is_some() => {
                self.record_unresolved(&params, &unresolved.name).await;
                Ok(CallAnswer::refused(unresolved.problem))
            }
            Err(unresolved) => self.unresolved(&params, unresolved).await,
        }
    }

    /// Decides about a call that a source is going to make.
    pub(super) async fn decide_of_source(mut self, name: &str, arguments: Raw) -> CallDecision {
        let params = serde_json::json!({ "name": name });
        let params = Raw::from_value(&params).edit(&[("arguments", Edit::Set(arguments.as_str()))]);
        match resolve::invocation(self.context.view(), name, arguments) {
            Ok(target) => self.decide_target(target, params).await,
            Err(unresolved) => {
                self.record_unresolved(&params, &unresolved.name).await;
                CallDecision::Refused(unresolved.problem)
            }
        }
    }

    /// What is known of a call that a source was about to make in a process before this one.
    pub(super) async fn interrupted_of_source(self, name: &str, arguments: Raw, since: Timestamp) -> InterruptedCall {
        let params = Raw::from_value(&serde_json::json!({ "name": name }));
        let mut target = resolve::invocation(self.context.view(), name, arguments);
        while let Ok(Target::Within { target: inner, .. }) = target {
            target = Ok(*inner);
        }
        match target {
            Ok(Target::Tool { tool, arguments, by }) => {
                self.context.interrupted_call(&ToolCall { tool, params, arguments, by }, since).await
            }
            // Nothing else waits for a yes.
            _ => InterruptedCall::Unknown,
        }
    }

    async fn decide_target(&mut self, target: Target, params: Raw) -> CallDecision {
        let context = &mut self.context;
        let (act, name, recorded) = match target {
            Target::Tool { tool, arguments, by } => {
                return context.decide_tool(ToolCall { tool, params, arguments, by }).await;
            }
            Target::Within { target, .. } => return Box::pin(self.decide_target(*target, params)).await,
            Target::Meta { meta, arguments } => (Act::MetaTool { name: meta.name.into() }, meta.name, Some(arguments)),
            Target::Operation { operation, arguments, .. } => {
                (operation.act(), operation.tool, operation.recorded(Some(&arguments)).cloned())
            }
            // They are read and got by rules of their own, which ask for no yes.
            Target::Resource { .. } | Target::Prompt { .. } => return CallDecision::Allowed,
        };
        let admitted = context.would_admit(&act, context.audited(method::TOOLS_CALL, name, recorded.as_ref())).await;
        admitted.map_or_else(|refusal| CallDecision::Refused(refusal.problem()), |()| CallDecision::Allowed)
    }

    pub(super) async fn call_target(&mut self, target: Target, params: &Raw) -> CallResult {
        match target {
            Target::Tool { tool, arguments, by } => {
                self.context.call_tool(ToolCall { tool, params: params.clone(), arguments, by }).await
            }
            Target::Meta { meta, arguments } if meta.act == DialectAct::Route => {
                Box::pin(self.call_route(meta, &arguments, params)).await
            }
            Target::Meta { meta, arguments } => self.call_meta(meta, &arguments).await,
            Target::Within { by, target } => {
                let answer = Box::pin(self.call_target(*target, params)).await?;
                let asks = ask::is_input_required(&answer.result);
                Ok(if asks { answer } else { answer.map(|result| shape::call(Some(by), result)) })
            }
            Target::Operation { operation, arguments, by } => {
                Box::pin(self.call_operation(operation, &arguments, by)).await
            }
            Target::Resource { uri, by } => {
                let asked = ask::carried(params, &Raw::from_value(&serde_json::json!({ "uri": uri })));
                let read = Box::pin(self.context.resources_read(&asked)).await;
                Ok(shaped(read, |result| shape::resource(by, result)))
            }
            Target::Prompt { prompt, arguments, by } => {
                let asked = Raw::from_value(&serde_json::json!({ "name": &*prompt.name }))
                    .edit(&[("arguments", Edit::Set(arguments.as_str()))]);
                let got = Box::pin(self.context.prompts_get(&ask::carried(params, &asked))).await;
                Ok(shaped(got, |result| shape::prompt(by, result)))
            }
        }
    }

    async fn unresolved(&self, params: &Raw, unresolved: ResolveError) -> CallResult {
        self.record_unresolved(params, &unresolved.name).await;
        match unresolved.by {
            Some(_) => Ok(CallAnswer::failed(unresolved.problem)),
            None => Err(RpcError::from(&unresolved.problem)),
        }
    }

    async fn record_unresolved(&self, params: &Raw, name: &str) {
        let asked = self.context.audited(method::TOOLS_CALL, name, Some(params));
        self.context.record_unknown(asked).await;
    }

    async fn call_meta(&self, meta: &'static MetaName, arguments: &Raw) -> CallResult {
        let context = &self.context;
        let act = Act::MetaTool { name: meta.name.into() };
        let admitted = context.admit(&act, context.audited(method::TOOLS_CALL, meta.name, Some(arguments))).await;
        let admitted = admitted.map_err(|refusal| RpcError::from(&refusal.problem()))?;
        let (snapshot, caller, filter) = (context.snapshot, context.caller, context.lineage.searched.as_ref());
        let call = meta::Context { gateway: self.gateway, snapshot, caller, meta, filter, trial: None };
        let done = Box::pin(meta::run(&call, arguments)).await;
        // Before the answer: anyone who reads that tools are loaded finds them after a restart.
        if matches!(meta.act, DialectAct::Load | DialectAct::Unload) {
            self.gateway.keep_active_sets().await;
        }
        admitted.end(outcome_of(&done));
        Ok(done.into())
    }

    async fn call_operation(
        &self,
        operation: &'static Operation,
        arguments: &Raw,
        by: Option<&'static MetaName>,
    ) -> CallResult {
        let context = &self.context;
        let asked = context.audited(method::TOOLS_CALL, operation.tool, operation.recorded(Some(arguments)));
        let admitted = match context.admit(&operation.act(), asked).await {
            Ok(admitted) => admitted,
            Err(refusal @ (Refusal::Denied(_) | Refusal::Halted(_))) => {
                return Ok(CallAnswer::failed(refusal.problem()));
            }
            Err(refusal) => return Err(RpcError::from(&refusal.problem())),
        };
        if operation.slow && context.declares_tasks() {
            let shape = move |result| shape::call(by, result);
            return self.operation_as_task(admitted, operation, arguments.clone(), shape).await;
        }
        let reply = Some(&context.reply);
        let asking =
            OperationContext { snapshot: Some(context.snapshot), caller: context.caller, depth: context.depth, reply };
        let done = operation::run(operation, self.gateway, asking, arguments).await;
        name_subject(&admitted, operation, &done);
        admitted.end(outcome_of(&done));
        let answer = CallAnswer::from(done.map(|value| reply::data(&value)));
        Ok(answer.map(|result| shape::call(by, result)))
    }

    /// Runs a slow operation as a task of our own and answers with it.
    async fn operation_as_task(
        &self,
        admitted: AdmittedCall,
        operation: &'static Operation,
        arguments: Raw,
        shape: impl Fn(Raw) -> Raw + Send + 'static,
    ) -> CallResult {
        let context = &self.context;
        let (gateway, snapshot) = (Arc::clone(self.gateway), context.snapshot.clone());
        let (caller, depth) = (context.caller.clone(), context.depth);
        let begin = TaskStart { target: operation.tool, capabilities: Arc::clone(&context.client.capabilities) };
        let work = move |_: OwnTask| async move {
            let asking = OperationContext { snapshot: Some(&snapshot), caller: &caller, depth, reply: None };
            let done = operation::run(operation, &gateway, asking, &arguments).await;
            admitted.end(outcome_of(&done));
            Ok(CallAnswer::from(done.map(|value| reply::data(&value))).map(shape).marked())
        };
        let path = &self.gateway.path;
        let handle = path.tasks.run(path.servers.scope(), context.caller, begin, work).await;
        let handle = handle.map_err(|problem| RpcError::from(&problem))?;
        Ok(CallAnswer::of_tool(handle, Revision::LATEST))
    }
}

/// What a meta-tool stands for, in the form of its dialect; a question of the server stays what it is.
fn shaped(done: Result<Raw, RpcError>, shape: impl FnOnce(&Raw) -> Raw) -> CallAnswer {
    match done {
        Ok(result) if ask::is_input_required(&result) => CallAnswer::of_tool(result, Revision::LATEST),
        Ok(result) => CallAnswer::own(shape(&result)),
        Err(error) => CallAnswer::failed(problem_of(&error)),
    }
}

/// What is recorded of something that the gateway itself did.
pub(crate) fn outcome_of<T>(done: &Result<T, Problem>) -> Outcome {
    done.as_ref().map_or_else(|problem| Outcome::Error(problem.kind), |_| Outcome::Ok)
}

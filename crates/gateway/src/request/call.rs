//! `tools/call`: by direct name, by a meta-tool, of a server, of the gateway itself.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderMap;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::CallLimits;
use toolcrib_catalog::Dialect;
use toolcrib_catalog::pin::Part;
use toolcrib_policy::Act;
use toolcrib_protocol::error::CAPABILITY_MISSING;
use toolcrib_protocol::param_header::ParamHeaders;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, Revision, RpcError, ask, convert, json, method, task};
use toolcrib_store::Outcome;
use toolcrib_upstream::{CallError, Server, State};
use toolcrib_view::dialect::{Act as DialectAct, MetaName};
use toolcrib_view::schema::CheckOutcome;
use toolcrib_view::view::{Home, SessionPart, Tool};
use toolcrib_view::{Operation, reply};

use crate::conversation;
use crate::dispatch::Ended;
use crate::exchange::{self, Exchanged, Wanted};
use crate::meta;
use crate::operation::{self, Asking};
use crate::passage::{self, Passage, Refused};
use crate::request::{CallAnswer, Passing, away, closing};
use crate::resolve::{self, Target, Unresolved};
use crate::source::Errand;
use crate::task::{Begin, OwnTask, needs_task};

type Answered = Result<CallAnswer, RpcError>;

impl Passing<'_> {
    pub(super) async fn tools_call(self, params: &Raw) -> Answered {
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
        let target = resolve::call(self.view, &name, arguments);
        self.call_target(target, params).await
    }

    /// A call that something of this process makes in the course of an errand.
    pub(crate) async fn errand(self, name: &str, arguments: Raw) -> Answered {
        let params = serde_json::json!({ "name": name });
        let params = Raw::from_value(&params).edit(&[("arguments", Edit::Set(arguments.as_str()))]);
        let target = resolve::errand(self.view, name, arguments);
        self.call_target(target, &params).await
    }

    async fn call_target(mut self, target: Result<Target, Unresolved>, params: &Raw) -> Answered {
        match target {
            Ok(Target::Tool { tool, arguments, by }) => self.call_tool(&tool, params, arguments, by).await,
            Ok(Target::Meta { meta, arguments }) => self.call_meta(meta, &arguments).await,
            Ok(Target::Within { by, target }) => {
                let answer = Box::pin(self.call_target(Ok(*target), params)).await?;
                let asks = ask::is_input_required(&answer.result);
                Ok(if asks { answer } else { answer.map(|result| meta::call::shape(Some(by), result)) })
            }
            Ok(Target::Operation { operation, arguments, by }) => {
                Box::pin(self.call_operation(operation, &arguments, by)).await
            }
            Ok(Target::Resource { uri, by }) => {
                let asked = ask::carried(params, &Raw::from_value(&serde_json::json!({ "uri": uri })));
                match Box::pin(self.resources_read(&asked)).await {
                    Ok(result) if ask::is_input_required(&result) => Ok(CallAnswer::of_tool(result, Revision::LATEST)),
                    Ok(result) => Ok(CallAnswer::own(meta::resources::shape(by, &result))),
                    Err(error) => Ok(CallAnswer::failed(problem_of(&error))),
                }
            }
            Ok(Target::Prompt { prompt, arguments, by }) => {
                let asked = Raw::from_value(&serde_json::json!({ "name": &*prompt.name }))
                    .edit(&[("arguments", Edit::Set(arguments.as_str()))]);
                let asked = ask::carried(params, &asked);
                match Box::pin(self.prompts_get(&asked)).await {
                    Ok(result) if ask::is_input_required(&result) => Ok(CallAnswer::of_tool(result, Revision::LATEST)),
                    Ok(result) => Ok(CallAnswer::own(meta::prompts::shape(by, &result))),
                    Err(error) => Ok(CallAnswer::failed(problem_of(&error))),
                }
            }
            Err(unresolved) => Box::pin(self.unresolved(params, unresolved)).await,
        }
    }

    async fn unresolved(&mut self, params: &Raw, unresolved: Unresolved) -> Answered {
        let asked = self.asked(method::TOOLS_CALL, &unresolved.name, Some(params));
        passage::record_unknown(self.desk(), asked).await;
        match unresolved.by {
            Some(_) => Ok(CallAnswer::failed(unresolved.problem)),
            None => Err(RpcError::from(&unresolved.problem)),
        }
    }

    async fn call_tool(
        &mut self,
        tool: &Arc<Tool>,
        params: &Raw,
        arguments: Raw,
        by: Option<&'static MetaName>,
    ) -> Answered {
        // Before anything is written down: whoever reads a handle could use it.
        let (arguments, named) = conversation::without_session(tool, arguments);
        let closes = tool.session == SessionPart::Close;
        let mut asked = self.asked(method::TOOLS_CALL, "", (!closes).then_some(&arguments));
        asked.target = tool.id.to_string().into();
        let passage = match self.open(&tool.act(), asked).await {
            Ok(passage) => passage,
            // Only what is visible was resolved; the rules say the same again, or the view was built by older ones.
            Err(Refused::Denied(_)) => {
                return Err(RpcError::from(&resolve::unknown_tool(self.view, &tool.name)));
            }
            Err(Refused::Closing) => return Err(closing()),
        };
        let (gateway, profile) = (self.gateway, &self.view.profile);
        let principal = &self.caller.principal.id;
        // What an errand does beside its first call is not another call at a time.
        let concurrent = profile.limits.concurrent.filter(|_| self.depth == 0);
        let limits = CallLimits { concurrent, ..profile.limits };
        let admitted = gateway.throttle.admit(principal, &profile.name, limits, gateway.clock.now());
        // Held until the call has ended, or its future is dropped.
        let _running = match admitted {
            Ok(running) => running,
            Err(problem) => {
                tool.metrics().record(Outcome::Error(Kind::Busy), passage.finish(Outcome::Error(Kind::Busy)));
                return Ok(CallAnswer::failed(problem));
            }
        };
        if let Some(problem) = self.not_loaded(tool) {
            passage.finish(Outcome::Error(Kind::Forbidden));
            return Ok(CallAnswer::failed(problem));
        }
        if let Some(problem) = self.misfit(tool, &arguments).await {
            let outcome = Outcome::Error(problem.kind);
            tool.metrics().record(outcome, passage.finish(outcome));
            return Ok(CallAnswer::failed(problem));
        }
        let Some(server) = tool.server() else {
            return Box::pin(self.call_source(passage, tool, arguments, by)).await;
        };
        if matches!(tool.session, SessionPart::Open | SessionPart::Close) {
            return Ok(self.session_tool(passage, (tool, server), &arguments, by));
        }
        let passage = match self.unless_held(passage, tool, server).await {
            Ok(passage) => passage,
            Err(answered) => return *answered,
        };
        match self.conversation(tool, &named) {
            Ok(conversation) => self.behind.conversation = conversation,
            Err(problem) => {
                let outcome = Outcome::Error(problem.kind);
                tool.metrics().record(outcome, passage.finish(outcome));
                return Ok(CallAnswer::failed(problem));
            }
        }
        let name = Raw::from_value(&&*tool.id.tool);
        let params = params.edit(&[("name", Edit::Set(name.as_str())), ("arguments", Edit::Set(arguments.as_str()))]);
        let Exchanged { ended, passage } = if !self.speaks_modern(server) && needs_task(tool, server) {
            Box::pin(self.drive(passage, (tool, server), &params)).await
        } else {
            self.exchange_tool(passage, (tool, server), params, &arguments).await
        };
        let from = if self.speaks_modern(server) { Revision::LATEST } else { Revision::LATEST_LEGACY };
        let (outcome, answer) = match ended {
            Ended::Answered(Ok(result)) => {
                let outcome = if reply::is_failure(&result) { Outcome::ToolError } else { Outcome::Ok };
                self.learn(tool, outcome, (&arguments, &result));
                // What asks, or runs on as a task, is for the client and not for its model.
                let plain = by.is_none() || ask::is_input_required(&result) || task::is_task(&result);
                let result = if plain { result } else { meta::call::shape(by, result) };
                (outcome, Ok(CallAnswer::of_tool(result, from)))
            }
            Ended::Answered(Err(error)) => {
                let error = convert::error_for(self.caller.revision, error);
                let in_result = by.is_some() && error.code != CAPABILITY_MISSING;
                let answer = if in_result { Ok(CallAnswer::failed(problem_of(&error))) } else { Err(error) };
                (Outcome::Error(Kind::BadServer), answer)
            }
            Ended::Failed(error @ CallError::Ended(_)) => {
                (Outcome::Error(error.kind()), Ok(CallAnswer::failed(self.not_open(tool))))
            }
            Ended::Failed(error) => (Outcome::Error(error.kind()), Ok(CallAnswer::failed(self.gone(&error)))),
            Ended::Cancelled => (Outcome::Cancelled, Err(RpcError::from(Kind::Cancelled))),
            Ended::Unanswered(problem) => (Outcome::Error(problem.kind), Ok(CallAnswer::failed(problem))),
        };
        if let Some(passage) = passage {
            tool.metrics().record(outcome, passage.finish(outcome));
        }
        answer
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

    /// The passage, unless the profile holds the tool back as its server offers it by now: then the answer.
    async fn unless_held(&self, passage: Passage, tool: &Tool, server: &Server) -> Result<Passage, Box<Answered>> {
        let (outcome, answered) = match self.is_held_now(server, (Part::Tool, &tool.id.tool)).await {
            Ok(false) => return Ok(passage),
            Ok(true) => (Outcome::Denied, Err(RpcError::from(&resolve::unknown_tool(self.view, &tool.name)))),
            Err(problem) => (Outcome::Error(problem.kind), Ok(CallAnswer::failed(problem))),
        };
        tool.metrics().record(outcome, passage.finish(outcome));
        Err(Box::new(answered))
    }

    /// Checks arguments against the tool's schema: at once where that is cheap.
    async fn check_arguments(&self, tool: &Arc<Tool>, arguments: &Raw) -> CheckOutcome {
        if let Some(checked) = tool.check_if_cheap().and_then(|check| check.at_once(arguments)) {
            return checked;
        }
        let (checked, arguments) = (Arc::clone(tool), arguments.clone());
        Box::pin(self.gateway.checks.run(&tool.id.server, move || checked.check().check(&arguments))).await
    }

    /// Has a source run its tool; for a client that knows tasks as one, where it may take long.
    async fn call_source(
        &self,
        passage: Passage,
        tool: &Arc<Tool>,
        arguments: Raw,
        by: Option<&'static MetaName>,
    ) -> Answered {
        let Home::Source { slow, .. } = &tool.home else { return Err(RpcError::from(Kind::Internal)) };
        let source = self.gateway.source(&tool.id.server).ok_or_else(|| RpcError::from(Kind::Internal))?;
        let errand = Errand {
            gateway: Arc::clone(self.gateway),
            caller: self.caller.clone(),
            tool: tool.id.tool.to_string(),
            arguments,
            label: json::text(self.id.as_str()).map_or_else(|| self.id.as_str().to_owned(), Cow::into_owned),
            depth: self.depth,
            way: self.way.clone(),
        };
        let run = source.run(errand);
        let (tool, called) = (Arc::clone(tool), tool.id.clone());
        let target = called.to_string();
        let ended = move |passage: Passage, ran: Result<Raw, Problem>| {
            let outcome = match &ran {
                Ok(result) if reply::is_failure(result) => Outcome::ToolError,
                Ok(_) => Outcome::Ok,
                Err(problem) => Outcome::Error(problem.kind),
            };
            tool.metrics().record(outcome, passage.finish(outcome));
            (outcome, CallAnswer::from(ran).map(|result| meta::call::shape(by, result)))
        };
        if *slow && self.depth == 0 && self.declares_tasks() {
            let begin = Begin { target: &target, capabilities: Arc::clone(&self.behind.capabilities) };
            let work = move |_: OwnTask| async move { Ok(ended(passage, run.await).1.marked()) };
            let handle = self.gateway.run_as_task(self.caller, begin, work).await;
            let handle = handle.map_err(|problem| RpcError::from(&problem))?;
            return Ok(CallAnswer::of_tool(handle, Revision::LATEST));
        }
        let ran = match self.running {
            None => run.await,
            Some(running) => tokio::select! {
                biased;
                () = running.cancelled() => {
                    passage.finish(Outcome::Cancelled);
                    return Err(RpcError::from(Kind::Cancelled));
                }
                ran = run => ran,
            },
        };
        let (outcome, answer) = ended(passage, ran);
        if outcome == Outcome::Ok && self.view.profile.learn {
            self.gateway.learning.called(self.caller, &called);
        }
        Ok(answer)
    }

    /// Calls the tool's server with what of the arguments is mirrored in headers. A modern server that refuses them has
    /// changed the tool: its lists are read anew, and where that changes the headers, the call is made once more.
    async fn exchange_tool(
        &self,
        passage: Passage,
        (tool, server): (&Tool, &Server),
        params: Raw,
        arguments: &Raw,
    ) -> Exchanged {
        let wanted = |headers| Wanted { server, method: method::TOOLS_CALL, params: params.clone(), headers };
        let headers = mirrored(tool.param_headers(), arguments);
        let exchanged = self.exchange(passage, wanted(headers.clone())).await;
        let Exchanged { ended, passage: Some(passage) } = exchanged else { return exchanged };
        if !exchange::is_out_of_date(&ended) {
            return Exchanged { ended, passage: Some(passage) };
        }
        let listed_again = server.listed_again().await;
        let now = listed_again.and_then(|inventory| {
            let entry = inventory.tools.iter().find(|entry| entry.key == *tool.id.tool)?.clone();
            ParamHeaders::read(&entry.input_schema()?).ok()
        });
        match now.map(|now| mirrored(&now, arguments)).filter(|now| *now != headers) {
            Some(headers) => Box::pin(self.exchange(passage, wanted(headers))).await,
            None => Exchanged { ended, passage: Some(passage) },
        }
    }

    /// Notes the use of a loaded tool. With `require_load`, one whose server is not active answers with what to do
    /// first.
    fn not_loaded(&self, tool: &Tool) -> Option<Problem> {
        // A tool that is used stays loaded, whether it had to be loaded or not.
        let is_loaded = self.gateway.active.touch(self.caller, self.view.profile.active_set, &tool.id);
        if is_loaded || !self.view.profile.require_load {
            return None;
        }
        let problem =
            Problem::new(Kind::Forbidden, format!("server `{}` of `{}` is not active", tool.id.server, tool.name));
        Some(problem.hint(format!("Activate it first: {}.", resolve::how_to_load(self.view, &tool.id))))
    }

    /// A server that gives no answer. muster knows no server that was stopped, and its clients look for these words.
    fn gone(&self, error: &CallError) -> Problem {
        let mut problem = away(error);
        let is_stopped = matches!(error, CallError::Unavailable(away) if away.status.state == State::Stopped);
        if is_stopped && self.view.profile.dialect == Dialect::Muster {
            problem.message = format!("server not found: {}", problem.message);
        }
        problem
    }

    /// Learns from a call that was done, where the profile wants it.
    fn learn(&self, tool: &Tool, outcome: Outcome, (arguments, result): (&Raw, &Raw)) {
        if outcome != Outcome::Ok || ask::is_input_required(result) || task::is_task(result) {
            return;
        }
        if self.view.profile.learn {
            self.gateway.learning.called(self.caller, &tool.id);
        }
        self.gateway.examples.called(self.caller, self.view, tool, arguments);
    }

    async fn call_meta(&mut self, meta: &'static MetaName, arguments: &Raw) -> Answered {
        let act = Act::MetaTool { name: meta.name.into() };
        let asked = self.asked(method::TOOLS_CALL, meta.name, Some(arguments));
        let passage = match self.open(&act, asked).await {
            Ok(passage) => passage,
            Err(Refused::Denied(denial)) => {
                return Err(RpcError::from(&Problem::new(Kind::Forbidden, denial.to_string())));
            }
            Err(Refused::Closing) => return Err(closing()),
        };
        let context = meta::Context { gateway: self.gateway, view: self.view, caller: self.caller, meta };
        let done = Box::pin(meta::run(&context, arguments)).await;
        let outcome = done.as_ref().map_or_else(|problem| Outcome::Error(problem.kind), |_| Outcome::Ok);
        // Before the answer: whoever reads that tools are loaded finds them after a restart.
        if matches!(meta.act, DialectAct::Load | DialectAct::Unload) {
            self.gateway.keep_active_sets().await;
        }
        passage.finish(outcome);
        Ok(done.into())
    }

    async fn call_operation(
        &mut self,
        operation: &'static Operation,
        arguments: &Raw,
        by: Option<&'static MetaName>,
    ) -> Answered {
        let asked = self.asked(method::TOOLS_CALL, operation.tool, operation.recorded(Some(arguments)));
        let passage = match self.open(&operation.act(), asked).await {
            Ok(passage) => passage,
            Err(Refused::Denied(denial)) => {
                let mut problem = Problem::new(Kind::Forbidden, denial.to_string());
                problem.hint = denial.hint().map(str::to_owned);
                return Ok(CallAnswer::failed(problem));
            }
            Err(Refused::Closing) => return Err(closing()),
        };
        if operation.slow && self.declares_tasks() {
            let shape = move |result| meta::call::shape(by, result);
            return self.operation_as_task(passage, operation, arguments.clone(), shape).await;
        }
        let asking = Asking { view: Some(self.view), caller: self.caller, depth: self.depth };
        let done = operation::run(operation, self.gateway, asking, arguments).await;
        passage.finish(done.as_ref().map_or_else(|problem| Outcome::Error(problem.kind), |_| Outcome::Ok));
        let answer = CallAnswer::from(done.map(|value| reply::data(&value)));
        Ok(answer.map(|result| meta::call::shape(by, result)))
    }
}

fn mirrored(headers: &ParamHeaders, arguments: &Raw) -> HeaderMap {
    headers.mirror(arguments).into_iter().collect()
}

/// A server's error as a problem, for answers that are results.
fn problem_of(error: &RpcError) -> Problem {
    Problem::new(Kind::BadServer, error.message.clone())
}

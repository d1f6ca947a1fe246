//! The path of one request: resolve, decide, dispatch, audit, answer in the client's era.

mod answer;
mod call;
mod hold;
mod offer;
mod own;
mod pending;

use std::sync::Arc;

use http::HeaderMap;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::pin::Part;
use toolcrib_policy::Act;
use toolcrib_protocol::convert::{self, Caching};
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::{
    Answer, Era, Id, Notification, Raw, Request, Revision, RpcError, downgrade, json, meta, method,
};
use toolcrib_session::{Caller, Channel, RunningRequest};
use toolcrib_upstream::CallError;
use toolcrib_view::view::View;

use crate::dispatch::Ended;
use crate::exchange::{Behind, Exchanged, Wanted, Way};
use crate::front;
use crate::gateway::Gateway;
use crate::passage::{Asked, Desk, Passage, Refused};
use toolcrib_store::Outcome;

pub(crate) use answer::CallAnswer;

/// One request on its way.
pub(crate) struct Passing<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) view: &'a View,
    pub(crate) caller: &'a Caller,
    pub(crate) id: &'a Id,
    pub(crate) running: Option<&'a RunningRequest>,
    /// The way back to the client before the answer.
    pub(crate) way: Way,
    /// What of the client decides how servers are called for it.
    pub(crate) behind: Behind,
    /// How deep it is nested in errands; 0 for what a client asks.
    pub(crate) depth: u8,
}

impl Gateway {
    /// Answers a request of a client. Errors of any kind are answers too; only a request that the client has cancelled
    /// gets none.
    ///
    /// Dropping the future takes the request back, also at the server. A legacy client that only lost its connection may
    /// come back for the answer: whoever holds the connections keeps the future for a while.
    pub async fn request(
        self: &Arc<Self>,
        caller: &Caller,
        request: Request,
        channel: Option<Channel>,
    ) -> Option<Answer> {
        // Before anything that waits, so that a cancellation finds it.
        let running = caller.session.as_ref().map(|session| session.run(&request.id));
        let Some(view) = self.view_for(caller, &request).await else {
            let problem = front::no_profile(self, &caller.profile);
            return Some(Answer::error(Some(request.id), RpcError::from(&problem)));
        };
        let token = channel.as_ref().and_then(|_| meta::progress_token(&request.params));
        let outcome = match Behind::read(caller, &request.params) {
            Err(error) => Err(error),
            Ok(behind) => {
                let way = Way { channel, token };
                let (running, id) = (running.as_ref(), &request.id);
                let passing = Passing { gateway: self, view: &view, caller, id, running, way, behind, depth: 0 };
                passing.answer(&request.method, &request.params).await
            }
        };
        let outcome = outcome.map_err(|error| convert::error_for(caller.revision, error));
        let cancelled = running.is_some_and(|running| running.is_cancelled());
        (!cancelled).then(|| Answer { id: Some(request.id.clone()), outcome })
    }

    /// A call by another door than MCP: the answer says beside its result what the gateway itself says of the call.
    pub(crate) async fn called(self: &Arc<Self>, caller: &Caller, request: &Request) -> Result<CallAnswer, RpcError> {
        let view = self.view_for(caller, request).await;
        let view = view.ok_or_else(|| RpcError::from(&front::no_profile(self, &caller.profile)))?;
        let behind = Behind::read(caller, &request.params)?;
        let (way, id) = (Way { channel: None, token: None }, &request.id);
        let passing = Passing { gateway: self, view: &view, caller, id, running: None, way, behind, depth: 0 };
        let answer = passing.tools_call(&request.params).await;
        let answer = answer.map_err(|error| convert::error_for(caller.revision, error))?;
        let result = in_form(self, caller.revision, method::TOOLS_CALL, (&answer.marked(), answer.form));
        Ok(answer.map(|_| result))
    }

    /// Checks the headers of a modern request over HTTP that mirror its parameters (`Mcp-Param-*`).
    pub fn check_headers(&self, caller: &Caller, request: &Request, headers: &HeaderMap) -> Result<(), RpcError> {
        if request.method != method::TOOLS_CALL || caller.revision.era() == Era::Legacy {
            return Ok(());
        }
        let tool = self.view(caller.profile.as_str()).and_then(|view| {
            let name = request.params.text("name")?;
            view.tool(&name).cloned()
        });
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
            let name = session.audit_name();
            self.servers.table().values().for_each(|running| running.server.roots_changed(&name));
        }
    }
}

impl Passing<'_> {
    async fn answer(self, method: &str, params: &Raw) -> Result<Raw, RpcError> {
        let modern = self.caller.revision.era() == Era::Modern;
        let (revision, gateway) = (self.caller.revision, self.gateway);
        let result = match method {
            method::TOOLS_CALL => {
                let answer = self.tools_call(params).await?;
                return Ok(in_form(gateway, revision, method, (&answer.marked(), answer.form)));
            }
            method::TOOLS_LIST => return self.tools_list(params),
            method::RESOURCES_LIST => return self.listed(params, self.view.natively()[0]),
            method::RESOURCE_TEMPLATES_LIST => return self.listed(params, self.view.natively()[1]),
            method::PROMPTS_LIST => return self.listed(params, self.view.natively()[2]),
            // Boxed, so that the future of a call of a tool, which is the usual one, stays small.
            method::RESOURCES_READ => Box::pin(self.resources_read(params)).await?,
            method::PROMPTS_GET => Box::pin(self.prompts_get(params)).await?,
            method::COMPLETE => Box::pin(self.complete(params)).await?,
            method::DISCOVER if modern => self.discover(),
            method::LISTEN if modern => return Box::pin(self.listen(params)).await,
            method::RESOURCES_SUBSCRIBE if !modern => return Box::pin(self.resources_subscribe(params)).await,
            method::RESOURCES_UNSUBSCRIBE if !modern => return self.resources_unsubscribe(params),
            method::PING if !modern => Raw::empty_object(),
            method::SET_LEVEL if !modern => self.set_level(params)?,
            method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL if modern => {
                Box::pin(self.tasks(method, params)).await?
            }
            other => Box::pin(self.forward(other, params)).await?,
        };
        Ok(converted(gateway, revision, method, &result))
    }

    /// Lets a request through to a server and records how it ended. `act` names the server.
    pub(crate) async fn through(
        &self,
        act: &Act,
        asked: Asked<'_>,
        wanted: Wanted<'_>,
        unknown: impl FnOnce() -> Problem,
    ) -> Result<Raw, RpcError> {
        let passage = match self.open(act, asked).await {
            Ok(passage) => passage,
            Err(Refused::Denied(denial)) if !denial.hidden => {
                let mut problem = Problem::new(Kind::Forbidden, denial.to_string());
                problem.hint = denial.hint().map(str::to_owned);
                return Err(RpcError::from(&problem));
            }
            Err(Refused::Denied(_)) => return Err(RpcError::from(&unknown())),
            Err(Refused::Closing) => return Err(closing()),
        };
        let server = wanted.server;
        if let Act::GetPrompt { name, .. } | Act::Complete { reference: name, .. } = act {
            let held = self.is_held_now(server, (Part::Prompt, name)).await;
            // What completes a template is no prompt, and nothing of that name is held.
            let is_prompt = server.inventory().prompts.iter().any(|entry| entry.key == **name);
            if let (true, Ok(true) | Err(_)) = (is_prompt || matches!(act, Act::GetPrompt { .. }), &held) {
                let problem = held.err().unwrap_or_else(unknown);
                passage.finish(Outcome::Error(problem.kind));
                return Err(RpcError::from(&problem));
            }
        }
        let Exchanged { ended, passage } = self.exchange(passage, wanted).await;
        let (outcome, result) = match ended {
            Ended::Answered(Ok(result)) => (Outcome::Ok, Ok(result)),
            Ended::Answered(Err(error)) => (Outcome::Error(Kind::InvalidParams), Err(error)),
            Ended::Failed(error) => (Outcome::Error(error.kind()), Err(RpcError::from(&away(&error)))),
            Ended::Cancelled => (Outcome::Cancelled, Err(RpcError::from(Kind::Cancelled))),
            Ended::Unanswered(problem) => (Outcome::Error(problem.kind), Err(RpcError::from(&problem))),
        };
        if let Some(passage) = passage {
            passage.finish(outcome);
        }
        result
    }

    pub(crate) async fn open(&self, act: &Act, asked: Asked<'_>) -> Result<Passage, Refused> {
        Passage::open(self.desk(), act, asked).await
    }

    pub(crate) fn desk(&self) -> Desk<'_> {
        let gateway = self.gateway;
        Desk {
            log: gateway.store.audit(),
            clock: &*gateway.clock,
            rules: &self.view.rules,
            caller: self.caller,
            keep_arguments: gateway.keep_arguments,
            events: &gateway.events,
        }
    }

    pub(crate) fn asked<'b>(&self, method: &'b str, target: &str, arguments: Option<&'b Raw>) -> Asked<'b> {
        Asked {
            method,
            target: target.into(),
            arguments: arguments.map(|arguments| &arguments.bytes()[..]),
            request_id: self.id.as_str().to_owned(),
        }
    }
}

/// The result of a call, which is in the form of one revision, for a client of another.
fn in_form(gateway: &Gateway, revision: Revision, method: &str, (result, form): (&Raw, Revision)) -> Raw {
    // What one legacy end says to the other is theirs; only older clients cannot read all of it.
    if form.era() == Era::Legacy && revision.era() == Era::Legacy && revision.has_structured_content() {
        return result.clone();
    }
    converted(gateway, revision, method, result)
}

fn converted(gateway: &Gateway, revision: Revision, method: &str, result: &Raw) -> Raw {
    match revision.era() {
        Era::Modern => convert::result_for(revision, method, result, &gateway.server_info, Caching::NONE),
        // What only the modern era has was taken out where the result was received.
        Era::Legacy => downgrade::result_for_revision(revision, method, result),
    }
}

/// A server that cannot be asked, in words for the client.
pub(crate) fn away(error: &CallError) -> Problem {
    let problem = Problem::new(error.kind(), error.to_string());
    match error {
        CallError::Unavailable(away) => problem.hint(crate::advice::of_caller(away)),
        CallError::Full { .. } => {
            problem.hint("Other servers are not affected; try again when some of them have ended.")
        }
        CallError::Ended(_) => problem,
        CallError::Link { .. } => problem.hint("The call may have run; check before you repeat it."),
    }
}

pub(crate) fn closing() -> RpcError {
    RpcError::from(&closing_problem())
}

pub(crate) fn closing_problem() -> Problem {
    Problem::new(Kind::Unavailable, "the gateway is shutting down")
}

/// A required text among the parameters.
pub(crate) fn required_text(params: &Raw, key: &str) -> Result<String, RpcError> {
    let text = json::find(&params.members(), key).and_then(json::text).map(std::borrow::Cow::into_owned);
    text.ok_or_else(|| RpcError::from(&Problem::new(Kind::InvalidParams, format!("`params.{key}` must be a string"))))
}

pub(crate) fn unknown_method(method: &str) -> RpcError {
    let shown: String = method.chars().take(128).collect();
    RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{shown}`"))
}

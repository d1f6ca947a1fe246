//! Requests beside tools: lists, resources, prompts, completion, and methods that only a server knows.

use http::HeaderMap;
use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::pin::Part;
use toolcrib_policy::{Act, Reference};
use toolcrib_protocol::error::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};
use toolcrib_protocol::level::Level;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Raw, RpcError, ask, method};
use toolcrib_store::Outcome;
use toolcrib_upstream::Server;
use toolcrib_view::resolve;
use toolcrib_view::view::{PagedList, Stamp};

use crate::admission::{AdmittedCall, AuditedRequest, Refusal};
use crate::context::RequestContext;
use crate::dispatch::{CallOutcome, unavailable};
use crate::exchange::ServerRequest;
use crate::limits::LimitedCall;
use crate::params::{required_text, unknown_method};

impl RequestContext<'_> {
    /// Lets a request through to a server and records how it ended. `act` names the server.
    ///
    /// # Errors
    /// The rules say no, as `unknown` where they hide the thing; the server cannot be asked, or answered with an error.
    pub(crate) async fn through(
        &self,
        act: &Act,
        mut asked: AuditedRequest<'_>,
        mut request: ServerRequest<'_>,
        unknown: impl FnOnce() -> Problem,
    ) -> Result<Raw, RpcError> {
        let server = request.server;
        let rules = self.argument_rules(Some(server), act.tool());
        let answers = self.guarded_answers(&rules, request.params).await;
        let mut rules = rules;
        if ask::state(&answers.passed).is_some() {
            // What a server has given out comes back to it as it is.
            rules.action = rules.action.without_changes();
        }
        let guarded = self.path.secrets.arguments(&rules, answers.passed).await;
        request.params = guarded.passed;
        let stored = asked.arguments.map(|_| guarded.stored.get("arguments").unwrap_or(guarded.stored));
        asked.stored = stored.as_ref().map(|stored| &stored.bytes()[..]);
        let mut admitted = match self.admit(act, asked).await {
            Ok(admitted) => admitted,
            Err(Refusal::Denied(denial)) if denial.hidden => return Err(RpcError::from(&unknown())),
            Err(refusal) => return Err(RpcError::from(&refusal.problem())),
        };
        admitted.note(guarded.note);
        admitted.note(answers.note);
        let stopped = match guarded.denied.or(answers.denied).map_or_else(|| self.limited(act, &request), Err) {
            Err(problem) => Some(problem),
            Ok(()) => self.held_prompt(act, server, unknown).await,
        };
        let (outcome, result) = match stopped {
            Some(problem) => (Outcome::Error(problem.kind), Err(RpcError::from(&problem))),
            None => match self.asked_and_guarded(&mut admitted, request, act.tool()).await {
                CallOutcome::Answered(Ok(result)) => (Outcome::Ok, Ok(result)),
                CallOutcome::Answered(Err(error)) => (Outcome::Error(Kind::InvalidParams), Err(error)),
                CallOutcome::Failed(error) => (Outcome::Error(error.kind()), Err(RpcError::from(&unavailable(&error)))),
                CallOutcome::Cancelled => (Outcome::Cancelled, Err(RpcError::from(Kind::Cancelled))),
                CallOutcome::Unanswered(problem) => (Outcome::Error(problem.kind), Err(RpcError::from(&problem))),
            },
        };
        admitted.end(outcome);
        result
    }

    async fn asked_and_guarded(
        &self,
        admitted: &mut AdmittedCall,
        request: ServerRequest<'_>,
        tool: Option<&str>,
    ) -> CallOutcome {
        let rules = self.result_rules(request.server, tool);
        let outcome = self.exchange(admitted, request).await;
        self.guarded_outcome(admitted, rules, outcome).await
    }

    /// Holds what is asked for against the limits of its server. A look at a task that runs is no further call.
    fn limited(&self, act: &Act, request: &ServerRequest<'_>) -> Result<(), Problem> {
        if matches!(act, Act::CallTool { .. }) {
            return Ok(());
        }
        let (server, arguments) = (Some(request.server), Some(&request.params));
        self.within_limits(LimitedCall { server, tool: None, arguments }).map(drop)
    }

    /// Why a prompt cannot be asked for at this moment, where the profile holds changed ones back.
    async fn held_prompt(&self, act: &Act, server: &Server, unknown: impl FnOnce() -> Problem) -> Option<Problem> {
        let (Act::GetPrompt { name, .. } | Act::Complete { of: Reference::Prompt, name, .. }) = act else {
            return None;
        };
        let held = self.is_held_now(server, Part::Prompt, name).await;
        // Of what the server does not list, nothing is held.
        let is_prompt =
            matches!(act, Act::GetPrompt { .. }) || server.inventory().prompts.iter().any(|entry| entry.key == **name);
        match held {
            Ok(false) => None,
            _ if !is_prompt => None,
            Ok(true) => Some(unknown()),
            Err(problem) => Some(problem),
        }
    }

    /// From which level on a legacy client hears log messages.
    pub fn set_level(&self, params: &Raw) -> Result<Raw, RpcError> {
        let level = Level::of_message(params).ok_or_else(|| {
            let names = Level::ALL.map(Level::as_str).join(", ");
            RpcError::from(&Problem::new(Kind::InvalidParams, format!("`params.level` must be one of {names}")))
        })?;
        if let Some(session) = &self.caller.session {
            session.set_level(level);
        }
        Ok(Raw::empty_object())
    }

    /// A page of a list.
    pub fn listed(&self, params: &Raw, list: &PagedList) -> Result<Raw, RpcError> {
        let stamp = Stamp { sealer: &self.path.sealer, server_info: &self.path.server_info };
        list.page(self.caller.revision, stamp, params.get("cursor").as_ref())
    }

    pub async fn resources_read(&self, params: &Raw) -> Result<Raw, RpcError> {
        let uri = required_text(params, "uri")?;
        if self.is_own_resource(&uri) {
            return self.own_resource().await;
        }
        if let Some(read) = self.large_result(&uri).await {
            return read;
        }
        let not_found = || self.resource_not_found(&uri);
        let place = self.view().resources.place(&uri).ok_or_else(not_found)?;
        let act = Act::ReadResource { server: place.name.clone(), uri: place.uri.as_str().into() };
        let exact = Raw::from_value(&place.uri);
        let request = ServerRequest {
            server: &place.server,
            method: method::RESOURCES_READ,
            params: params.edit(&[("uri", Edit::Set(exact.as_str()))]),
            headers: HeaderMap::new(),
        };
        let target = format!("{}/{}", place.name, place.uri);
        let asked = self.audited(method::RESOURCES_READ, &target, None);
        let unknown = || Problem::new(Kind::NotFound, format!("resource not found: `{uri}`"));
        let mut read = self.through(&act, asked, request, unknown).await;
        if let Err(error) = &mut read
            && error.code == RESOURCE_NOT_FOUND
        {
            // The server's own words, with the code of the client's era.
            error.code = self.not_found_code();
        }
        if let Err(error) = &mut read
            && place.uri != uri
            && let Some(data) = error.data.as_mut().filter(|data| data.text("uri").as_deref() == Some(&place.uri))
        {
            *data = data.edit(&[("uri", Edit::Set(Raw::from_value(&uri).as_str()))]);
        }
        read
    }

    /// The answer for a resource that this profile does not show, or that does not exist: a caller cannot tell which.
    pub fn resource_not_found(&self, uri: &str) -> RpcError {
        let shown: String = uri.chars().take(500).collect();
        RpcError::new(self.not_found_code(), format!("resource not found: `{shown}`"))
            .with_data(&json!({ "uri": shown }))
    }

    fn not_found_code(&self) -> i64 {
        match self.caller.revision.era() {
            Era::Modern => INVALID_PARAMS,
            Era::Legacy => RESOURCE_NOT_FOUND,
        }
    }

    pub async fn prompts_get(&self, params: &Raw) -> Result<Raw, RpcError> {
        let name = required_text(params, "name")?;
        let unknown = || resolve::unknown_prompt(self.view(), &name);
        let prompt = self.view().prompt(&name).ok_or_else(|| RpcError::from(&unknown()))?;
        let act = Act::GetPrompt { server: prompt.server.clone(), name: prompt.entry.key.as_str().into() };
        let exact = Raw::from_value(&prompt.entry.key);
        let request = ServerRequest {
            server: &prompt.handle,
            method: method::PROMPTS_GET,
            params: params.edit(&[("name", Edit::Set(exact.as_str()))]),
            headers: HeaderMap::new(),
        };
        let arguments = params.get("arguments");
        let target = format!("{}/{}", prompt.server, prompt.entry.key);
        let asked = self.audited(method::PROMPTS_GET, &target, arguments.as_ref());
        self.through(&act, asked, request, unknown).await
    }

    pub async fn complete(&self, params: &Raw) -> Result<Raw, RpcError> {
        let reference = params.get("ref").unwrap_or_else(Raw::empty_object);
        let unknown = || Problem::new(Kind::InvalidParams, "`params.ref` names nothing that is offered here");
        let (of, name, server, edited, key) = if let Some(uri) = reference.text("uri") {
            let place = self.view().resources.template(&uri).or_else(|| self.view().resources.place(&uri));
            let place = place.ok_or_else(|| RpcError::from(&unknown()))?;
            let exact = Raw::from_value(&place.uri);
            let edited = reference.edit(&[("uri", Edit::Set(exact.as_str()))]);
            (Reference::Resource, place.name, place.server, edited, place.uri)
        } else {
            let name = required_text(&reference, "name")?;
            let prompt = self.view().prompt(&name).ok_or_else(|| RpcError::from(&unknown()))?;
            let exact = Raw::from_value(&prompt.entry.key);
            let edited = reference.edit(&[("name", Edit::Set(exact.as_str()))]);
            (Reference::Prompt, prompt.server.clone(), prompt.handle.clone(), edited, prompt.entry.key.clone())
        };
        let nothing = || Raw::from_value(&json!({ "completion": { "values": [], "hasMore": false } }));
        if !server.inventory().has_capability("completions") {
            return Ok(nothing());
        }
        let act = Act::Complete { server: name.clone(), of, name: key.as_str().into() };
        let request = ServerRequest {
            server: &server,
            method: method::COMPLETE,
            params: params.edit(&[("ref", Edit::Set(edited.as_str()))]),
            headers: HeaderMap::new(),
        };
        let asked = self.audited(method::COMPLETE, &format!("{name}/{key}"), None);
        match self.through(&act, asked, request, unknown).await {
            // Whether a server of the first revision completes, only asking tells.
            Err(error) if error.code == METHOD_NOT_FOUND => Ok(nothing()),
            outcome => outcome,
        }
    }

    /// A method that the gateway does not know goes to the profile's server, where it has just one to ask.
    pub async fn forward(&self, name: &str, params: &Raw) -> Result<Raw, RpcError> {
        // Whatever belongs to a family that the rules decide about goes through its own methods or not at all.
        let families = ["notifications/", "tools/", "resources/", "prompts/", "completion/", "tasks/"];
        let ours = families.iter().any(|family| name.starts_with(family)) || is_session_method(name);
        let [(definition, server)] = &self.view().servers[..] else { return Err(unknown_method(name)) };
        // A connector has its tools, and nothing else.
        if ours || definition.connector.is_some() {
            return Err(unknown_method(name));
        }
        let act = Act::Forward { server: definition.name.clone(), method: name.into() };
        let request = ServerRequest { server, method: name, params: params.clone(), headers: HeaderMap::new() };
        let asked = self.audited(name, definition.name.as_str(), Some(params));
        self.through(&act, asked, request, || Problem::new(Kind::UnknownMethod, format!("unknown method `{name}`")))
            .await
    }
}

/// Methods that belong to one hop and are never passed on.
fn is_session_method(name: &str) -> bool {
    matches!(
        name,
        method::INITIALIZE
            | method::PING
            | method::SET_LEVEL
            | method::DISCOVER
            | method::LISTEN
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
    )
}

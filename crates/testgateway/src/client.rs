//! Clients of a [`TestGateway`]: a caller in a profile that asks without a door in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::{PrincipalId, Problem, ProfileName, Role};
use toolcrib_gateway::Gateway;
use toolcrib_protocol::meta::{self, RequestMeta};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Id, Notification, Raw, Request, RequestTrace, Revision, RpcError};
use toolcrib_session::{Caller, Channel, Introduction, Principal, Reader, Session};
use toolcrib_store::Door;
use toolcrib_testkit::eventually;

use crate::TestGateway;

/// A client in one profile.
#[derive(Debug, Clone)]
pub struct Client {
    gateway: Arc<Gateway>,
    /// Who it is for the gateway.
    pub caller: Caller,
    next: Arc<AtomicU64>,
}

// === impl TestGateway ===

impl TestGateway {
    /// A modern client of the principal `local`.
    pub fn modern(&self, profile: &str) -> Client {
        self.client(principal("local", false), profile, Revision::LATEST, None)
    }

    /// A modern client of another principal.
    pub fn modern_of(&self, name: &str, profile: &str) -> Client {
        self.client(principal(name, false), profile, Revision::LATEST, None)
    }

    /// A legacy client of an older revision.
    pub fn older(&self, profile: &str, revision: Revision) -> Client {
        self.session_of(principal("local", false), profile, revision.into(), revision)
    }

    /// A legacy client of the principal `local`.
    pub fn legacy(&self, profile: &str) -> Client {
        self.legacy_of("local", profile)
    }

    /// A legacy client of another principal.
    pub fn legacy_of(&self, name: &str, profile: &str) -> Client {
        self.session_of(principal(name, false), profile, Revision::LATEST_LEGACY.into(), Revision::LATEST_LEGACY)
    }

    /// A legacy client whose session an administrator opened.
    pub fn legacy_admin(&self, profile: &str) -> Client {
        self.session_of(principal("admin", true), profile, Revision::LATEST_LEGACY.into(), Revision::LATEST_LEGACY)
    }

    /// A legacy client that says who it is.
    pub fn legacy_named(&self, client: &str, profile: &str) -> Client {
        let params = Raw::from_value(&json!({"clientInfo": {"name": client, "version": "1"}}));
        let introduction = Introduction::read(&params, Revision::LATEST_LEGACY);
        self.session_of(principal("local", false), profile, introduction, Revision::LATEST_LEGACY)
    }

    /// A legacy client that can be asked this.
    pub fn legacy_asked(&self, profile: &str, capabilities: &Value) -> Client {
        self.legacy_asked_of("local", profile, capabilities)
    }

    /// The same of another principal.
    pub fn legacy_asked_of(&self, name: &str, profile: &str, capabilities: &Value) -> Client {
        let params = Raw::from_value(&json!({ "capabilities": capabilities }));
        let introduction = Introduction::read(&params, Revision::LATEST_LEGACY);
        self.session_of(principal(name, false), profile, introduction, Revision::LATEST_LEGACY)
    }

    /// A client of each era.
    pub fn both(&self, profile: &str) -> [Client; 2] {
        [self.modern(profile), self.legacy(profile)]
    }

    /// A client of each era of a principal of which more is known than its name.
    pub fn both_of(&self, principal: Principal, profile: &str) -> [Client; 2] {
        let modern = self.client(principal.clone(), profile, Revision::LATEST, None);
        let legacy = Revision::LATEST_LEGACY;
        [modern, self.session_of(principal, profile, legacy.into(), legacy)]
    }

    fn session_of(
        &self,
        principal: Principal,
        profile: &str,
        introduction: Introduction,
        revision: Revision,
    ) -> Client {
        let opened = self.gateway.sessions.open(principal.clone(), profile_name(profile), introduction);
        let session = opened.unwrap_or_else(|problem| panic!("expected a session; {problem:?}"));
        self.client(principal, profile, revision, Some(session))
    }

    fn client(&self, principal: Principal, profile: &str, revision: Revision, session: Option<Arc<Session>>) -> Client {
        let caller = Caller {
            principal,
            profile: profile_name(profile),
            door: Door::MCP,
            revision,
            session,
            meta: None,
            trace: RequestTrace::default(),
            chain: None,
        };
        Client { gateway: Arc::clone(&self.gateway), caller, next: Arc::default() }
    }
}

fn principal(name: &str, is_admin: bool) -> Principal {
    Principal::restored(PrincipalId::new(name), if is_admin { Role::Admin } else { Role::Member })
}

fn profile_name(name: &str) -> ProfileName {
    ProfileName::new(name).unwrap_or_else(|error| panic!("`{name}` is no name of a profile: {error:?}"))
}

// === impl Client ===

impl Client {
    /// The same client, administering.
    pub fn admin(mut self) -> Self {
        self.caller.principal.role = Role::Admin;
        self
    }

    /// Asks, and gives the outcome as raw JSON.
    pub async fn raw(&self, method: &str, params: &Raw) -> Result<Raw, RpcError> {
        let id = Id::from_number(self.next.fetch_add(1, Ordering::Relaxed));
        self.with_id(id, method, params.clone(), None).await.expect("the request was not cancelled")
    }

    /// Asks under a chosen id, with a place for progress. `None` when it was cancelled: then there is no answer.
    pub async fn with_id(
        &self,
        id: Id,
        method: &str,
        params: Raw,
        progress: Option<mpsc::Sender<Bytes>>,
    ) -> Option<Result<Raw, RpcError>> {
        let request = Request { id: id.clone(), method: method.to_owned(), params };
        let snapshot = match self.gateway.snapshot(&self.caller.profile) {
            Ok(snapshot) => snapshot,
            // What every door answers before the gateway is asked.
            Err(problem) => return Some(Err(RpcError::from(&problem))),
        };
        let caller = Caller { meta: self.declared(&request.params), ..self.caller.clone() };
        let asked = self.gateway.request(&snapshot, &caller, request, progress.map(Channel::new));
        let answer = eventually(&format!("an answer to `{method}`"), Box::pin(asked)).await?;
        assert_eq!(answer.id, Some(id), "every answer carries the id of its request");
        Some(answer.outcome)
    }

    /// What a modern client says of itself in a request, with what every door requires of it.
    fn declared(&self, params: &Raw) -> Option<Arc<RequestMeta>> {
        let meta = params.get("_meta").unwrap_or_else(Raw::empty_object);
        let date = Raw::from_value(&Revision::LATEST.as_str());
        let required =
            [(meta::PROTOCOL_VERSION, Edit::Add(date.as_str())), (meta::CLIENT_CAPABILITIES, Edit::Add("{}"))];
        let is_modern = self.caller.revision.era() == Era::Modern;
        is_modern.then(|| Arc::new(meta::read(Some(meta.edit(&required))).expect("all that is required")))
    }

    /// Asks.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.raw(method, &Raw::from_value(params)).await.map(|result| result.to_value())
    }

    /// Calls a tool by a name and expects a result, be it an error of the tool.
    pub async fn call(&self, name: &str, arguments: &Value) -> Value {
        let asked = self.ask("tools/call", &json!({"name": name, "arguments": arguments})).await;
        asked.unwrap_or_else(|error| panic!("{name}: expected a result; the error {error:?} came"))
    }

    /// Calls a tool by a name and expects an error of the protocol.
    pub async fn refused(&self, name: &str, arguments: &Value) -> RpcError {
        let asked = self.ask("tools/call", &json!({"name": name, "arguments": arguments})).await;
        match asked {
            Ok(result) => panic!("{name}: expected an error; the result {result} came"),
            Err(error) => error,
        }
    }

    /// Calls a tool and gives the text of its first block.
    pub async fn text(&self, name: &str, arguments: &Value) -> String {
        let result = self.call(name, arguments).await;
        assert_ne!(result["isError"], true, "{name}: {result}");
        text_of(&result)
    }

    /// Does an operation by REST, as this client's principal.
    ///
    /// # Errors
    /// What the operation answers.
    pub async fn operate(&self, tool: &str, arguments: &Value) -> Result<Value, Problem> {
        let operation = self.gateway.operations.by_tool(tool).unwrap_or_else(|| panic!("no operation `{tool}`"));
        let snapshot = self.gateway.snapshot(&self.caller.profile).ok();
        let caller =
            Caller { door: Door::REST, session: None, revision: Revision::LATEST_LEGACY, ..self.caller.clone() };
        let done = self.gateway.operate(operation, snapshot.as_ref(), &caller, Raw::from_value(arguments));
        eventually(&format!("an answer to `{tool}`"), Box::pin(done)).await.map(|answer| answer.to_value())
    }

    /// The listed names, in order.
    pub async fn listed(&self) -> Vec<String> {
        let result = self.ask("tools/list", &json!({})).await;
        let result = result.unwrap_or_else(|error| panic!("expected a list of tools; the error {error:?} came"));
        strings(&result["tools"], "name")
    }

    /// The ids of `find_tools` for a query.
    pub async fn found(&self, arguments: &Value) -> Vec<String> {
        let result = self.call("find_tools", arguments).await;
        strings(&result["structuredContent"]["tools"], "id")
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: &Value) {
        self.gateway.notification(&self.caller, &Notification::new(method, Raw::from_value(params)));
    }

    /// The stream on which a legacy client gets notifications.
    pub fn stream(&self) -> Reader {
        let session = self.caller.session.as_ref().expect("a modern client has no session");
        session.open_stream().unwrap_or_else(|problem| panic!("expected a stream; {problem:?}"))
    }
}

/// The text of the first block.
pub fn text_of(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
}

/// One member of each entry.
pub fn strings(list: &Value, key: &str) -> Vec<String> {
    let member = |entry: &Value| entry[key].as_str().map(str::to_owned);
    let members = list.as_array().and_then(|entries| entries.iter().map(member).collect());
    members.unwrap_or_else(|| panic!("expected a list of objects with the text `{key}`; {list} came"))
}

/// The method of a message on a stream.
pub fn method_of(message: &Bytes) -> String {
    let read: Option<Value> = serde_json::from_slice(message).ok();
    let method = read.as_ref().and_then(|value| value["method"].as_str());
    method.unwrap_or_else(|| panic!("expected a message with a method; {message:?} came")).to_owned()
}

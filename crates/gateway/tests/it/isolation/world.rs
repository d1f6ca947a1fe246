//! Servers that answer each principal differently, by its credential, and a wallet with the credentials.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_base::{PrincipalId, ServerName};
use toolcrib_call::Source;
use toolcrib_flow::workflow::Workflows;
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_testgateway::{File, Setup, TestGateway, profile};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::{Credentials, Proof, Refusal, Renewal, ServerConfig};

/// The servers: one of each era, one with sessions that callers name, one whose connections are shared by definition.
pub(super) const SERVERS: [&str; 4] = ["mod", "leg", "named", "sha"];

/// The people: their names at servers, and as principals here. The last one is the owner of this installation.
pub(super) const PEOPLE: [(&str, &str); 4] =
    [("ann", "user:acme/ann"), ("bob", "user:acme/bob"), ("kit", "key:default/kit"), ("own", "local")];

/// What only one of them may read, and the part of names that only this one may see.
pub(super) fn secrets_of(person: &str) -> [String; 2] {
    [format!("mk-{person}-km"), format!("only{person}")]
}

/// How long a server waits for the answer to its question: many are never answered here, or by another one in vain, and
/// a connection is taken for as long.
const ANSWER: Duration = Duration::from_secs(2);
/// A workflow that whoever may see it runs with its own credentials.
const WORKFLOW: &str =
    "name: peek\nsteps: [{id: one, tool: mod/search, store: true}, {id: two, tool: leg/search, store: true}]\n";

/// Who has which credential, and which ones servers take.
#[derive(Debug, Default)]
pub(super) struct Wallet {
    tokens: Mutex<HashMap<(String, Option<String>), String>>,
    good: Mutex<HashSet<String>>,
    /// What must never have happened at servers.
    pub(super) crossed: Mutex<Vec<String>>,
    /// Which URIs each has asked to hear of. Where one server alone has resources for someone, it is asked about any
    /// URI, with that one's own credential; but about no URI that only others have asked for.
    pub(super) wanted: Mutex<HashSet<(String, String)>>,
    questions: Questions,
    news: News,
}

/// What servers tell of resources: to whom, in order.
#[derive(Debug, Default)]
struct News {
    state: Mutex<NewsState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct NewsState {
    told: Vec<(String, Value)>,
    is_over: bool,
}

// === impl News ===

impl News {
    /// Tells each stream of a person.
    fn tell(&self, person: &str, notification: &Value) {
        self.state.lock().unwrap().told.push((person.to_owned(), notification.clone()));
        self.changed.notify_all();
    }

    /// Writes what is told a person from now on, until the world ends.
    fn write(&self, person: &str, reply: &mut Reply<'_>) {
        let mut state = self.state.lock().unwrap();
        let mut seen = state.told.len();
        while !state.is_over {
            while let Some((whom, notification)) = state.told.get(seen).cloned() {
                seen += 1;
                if whom == person {
                    reply.chunk(format!("data: {notification}\n\n"));
                }
            }
            (state, _) = self
                .changed
                .wait_timeout_while(state, ANSWER, |state| state.told.len() == seen && !state.is_over)
                .unwrap();
        }
    }

    fn close(&self) {
        self.state.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }
}

/// What legacy servers have asked, by id, with the answers that came.
#[derive(Debug, Default)]
struct Questions {
    state: Mutex<QuestionState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QuestionState {
    asked: usize,
    answers: HashMap<String, Value>,
    is_over: bool,
}

// === impl Questions ===

impl Questions {
    fn id(&self, person: &str) -> String {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        format!("{person}-question-{}", state.asked)
    }

    fn answer(&self, id: &str, answer: &Value) {
        self.state.lock().unwrap().answers.insert(id.to_owned(), answer.clone());
        self.changed.notify_all();
    }

    fn wait(&self, id: &str) -> Option<Value> {
        let waiting = |state: &mut QuestionState| !state.is_over && !state.answers.contains_key(id);
        let state = self.state.lock().unwrap();
        let (mut state, _) = self.changed.wait_timeout_while(state, ANSWER, waiting).unwrap();
        state.answers.remove(id)
    }

    fn close(&self) {
        self.state.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }
}

// === impl Wallet ===

impl Wallet {
    pub(super) fn give(&self, server: &str, principal: &str, person: &str, number: u64) {
        let token = format!("tok.{person}.{number}");
        self.good.lock().unwrap().insert(token.clone());
        self.tokens.lock().unwrap().insert((server.to_owned(), of(principal)), token);
    }

    pub(super) fn take(&self, server: &str, principal: &str) {
        self.tokens.lock().unwrap().remove(&(server.to_owned(), of(principal)));
    }

    /// All servers tell a person that a part of a resource of its own has changed, which has another URI than any that
    /// is asked about.
    pub(super) fn tell(&self, person: &str) {
        let params = json!({"uri": format!("note://{}/a/part", secrets_of(person)[1])});
        let told = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
        self.news.tell(person, &told);
    }

    /// The servers take it no more.
    pub(super) fn expire(&self, server: &str, principal: &str) {
        if let Some(token) = self.tokens.lock().unwrap().get(&(server.to_owned(), of(principal))) {
            self.good.lock().unwrap().remove(token);
        }
    }

    fn person(&self, request: &Request) -> Option<String> {
        let token = request.header("authorization")?.strip_prefix("Bearer ")?;
        let is_good = self.good.lock().unwrap().contains(token);
        is_good.then(|| token.split('.').nth(1).unwrap_or_default().to_owned())
    }
}

fn of(principal: &str) -> Option<String> {
    (principal != "local").then(|| principal.to_owned())
}

impl Credentials for Wallet {
    fn headers<'a>(&'a self, server: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        let key = (server.name.to_string(), principal.map(str::to_owned));
        let token = self.tokens.lock().unwrap().get(&key).cloned();
        let header = |token: String| HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        Proof::Known(token.map(|token| (http::header::AUTHORIZATION, header(token))).into_iter().collect::<HeaderMap>())
    }

    fn renew<'a>(&'a self, _: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        Box::pin(std::future::ready(Renewal::NeedsLogin))
    }
}

/// What a server says to a person.
fn result(wallet: &Wallet, person: &str, message: &Value) -> Result<Value, Value> {
    let [mark, only] = secrets_of(person);
    let params = &message["params"];
    let object = json!({"type": "object"});
    let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
    let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true},
        "completions": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let name = params["name"].as_str().unwrap_or_default();
    Ok(match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "instructions": mark}),
        "initialize" => json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": mark, "version": "1"},
            "capabilities": capabilities, "instructions": mark}),
        "tools/list" => json!({"tools": [
            {"name": "search", "description": "Searches", "inputSchema": object},
            {"name": only, "description": format!("Reads the ledger {mark}"), "inputSchema": object},
            {"name": "ask", "description": "Asks", "inputSchema": object},
            {"name": "job", "description": "Takes long", "inputSchema": object},
        ]}),
        "tools/call" if name == "ask" && params["inputResponses"].is_null() && !params["_meta"].is_null() => json!({
            "resultType": "input_required", "requestState": format!("state {mark}"),
            "inputRequests": {"k": {"method": "elicitation/create", "params": {
                "message": mark, "requestedSchema": {"type": "object", "properties": {}}}}}}),
        "tools/call" if name == "ask" => {
            if let Some(state) = params["requestState"].as_str()
                && state != format!("state {mark}")
            {
                return Err(json!({"code": -32602, "message": "unknown state"}));
            }
            text(format!("{mark} answered {}", params["inputResponses"]))
        }
        "tools/call" if name == "job" && params["_meta"].to_string().contains("tasks") => json!({
            "resultType": "task", "taskId": format!("task-{person}"), "status": "working", "statusMessage": mark}),
        "tools/call" if name.starts_with("only") && name != only => {
            return Err(json!({"code": -32602, "message": "no such tool"}));
        }
        "tools/call" => text(format!("{mark} called {name}")),
        "tasks/get" | "tasks/cancel" | "tasks/update" => {
            if params["taskId"] != format!("task-{person}") {
                wallet.crossed.lock().unwrap().push(format!("{person} asked for {}", params["taskId"]));
                return Err(json!({"code": -32602, "message": "no such task"}));
            }
            json!({"taskId": params["taskId"], "status": "working", "statusMessage": mark})
        }
        "resources/list" => json!({"resources": [{"uri": format!("note://{only}/a"), "name": mark}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": format!("note://{only}/{{x}}"), "name": mark}]})
        }
        "resources/subscribe" | "resources/unsubscribe" => {
            let uri = params["uri"].as_str().unwrap_or_default();
            let has_asked = || wallet.wanted.lock().unwrap().contains(&(person.to_owned(), uri.to_owned()));
            if !uri.contains(&only) && !has_asked() {
                wallet.crossed.lock().unwrap().push(format!("{person} subscribes to {}", params["uri"]));
            }
            json!({})
        }
        "resources/read" => {
            let uri = params["uri"].as_str().unwrap_or_default();
            if !uri.contains(&only) {
                return Err(json!({"code": -32002, "message": "no such resource"}));
            }
            json!({"contents": [{"uri": uri, "text": mark}]})
        }
        "prompts/list" => json!({"prompts": [{"name": only, "description": mark}]}),
        "prompts/get" => json!({"messages": [{"role": "user", "content": {"type": "text", "text": mark}}]}),
        "completion/complete" => json!({"completion": {"values": [mark]}}),
        _ => json!({}),
    })
}

fn answer(wallet: &Wallet, is_modern: bool, request: &Request, reply: &mut Reply<'_>) {
    let Some(person) = wallet.person(request) else {
        let challenge = "www-authenticate: Bearer resource_metadata=\"https://x.example/.well-known/y\"";
        return reply.full(401, &[challenge], "");
    };
    if request.method == "GET" && !is_modern {
        reply.head(200, &["content-type: text/event-stream"]);
        wallet.news.write(&person, reply);
        return reply.end();
    }
    if request.method != "POST" {
        return reply.full(405, &[], "");
    }
    let message = request.json();
    if message["id"].is_null() {
        return reply.full(202, &[], "");
    }
    let Some(method) = message["method"].as_str() else { return answered(wallet, &person, &message, reply) };
    let session = request.header("mcp-session-id").unwrap_or_default();
    if !is_modern {
        // A session belongs to whom it was given.
        if method == "server/discover" {
            return reply.full(400, &["content-type: application/json"], "{}");
        }
        if method != "initialize" && !session.starts_with(&format!("session-{person}-")) {
            wallet.crossed.lock().unwrap().push(format!("{person} used {session}"));
        }
        if message["params"]["name"] == "ask" && session.ends_with("-asked") {
            return ask(wallet, &person, &message, reply);
        }
    }
    if method == "subscriptions/listen" {
        return listen(wallet, &person, &message, reply);
    }
    let can_be_asked = message["params"]["capabilities"]["elicitation"].is_object();
    let session = format!("mcp-session-id: session-{person}-{}", if can_be_asked { "asked" } else { "plain" });
    let headers: &[&str] = if method == "initialize" { &[&session] } else { &[] };
    let body = match result(wallet, &person, &message) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
    };
    reply.json(headers, &body);
}

/// Asks within a call, and says what was answered.
fn ask(wallet: &Wallet, person: &str, message: &Value, reply: &mut Reply<'_>) {
    let ([mark, _], id) = (secrets_of(person), wallet.questions.id(person));
    let params = json!({"message": mark, "requestedSchema": {"type": "object", "properties": {}}});
    let question = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
    reply.head(200, &["content-type: text/event-stream"]);
    reply.chunk(format!("data: {question}\n\n"));
    let answer = wallet.questions.wait(&id).unwrap_or_default();
    let result = json!({"content": [{"type": "text", "text": format!("{mark} answered {answer}")}]});
    reply.chunk(format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": message["id"], "result": result})));
    reply.end();
}

/// Acknowledges what is one's own, and tells of it until the world ends.
fn listen(wallet: &Wallet, person: &str, message: &Value, reply: &mut Reply<'_>) {
    let mut asked = message["params"]["notifications"].clone();
    let only = &secrets_of(person)[1];
    for uri in asked["resourceSubscriptions"].as_array().into_iter().flatten() {
        if !uri.as_str().unwrap_or_default().contains(only) {
            wallet.crossed.lock().unwrap().push(format!("{person} listens to {uri}"));
        }
    }
    // This one tells of no lists.
    asked.as_object_mut().unwrap().retain(|key, _| key == "resourceSubscriptions");
    let params = json!({"notifications": asked});
    let taken = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
    reply.head(200, &["content-type: text/event-stream"]);
    reply.chunk(format!("data: {taken}\n\n"));
    wallet.news.write(person, reply);
    reply.end();
}

/// Takes the answer to a question, which must be whose the question is.
fn answered(wallet: &Wallet, person: &str, message: &Value, reply: &mut Reply<'_>) {
    let id = message["id"].as_str().unwrap_or_default();
    if !id.starts_with(&format!("{person}-")) {
        wallet.crossed.lock().unwrap().push(format!("{person} answered {message}"));
    }
    wallet.questions.answer(id, &message["result"]);
    reply.full(202, &[], "");
}

/// A gateway in front of such servers, with workflows.
pub(super) struct World {
    pub(super) gateway: TestGateway,
    pub(super) wallet: Arc<Wallet>,
    /// Runs of workflows.
    _scope: Scope,
    _servers: Vec<HttpServer>,
}

impl Drop for World {
    fn drop(&mut self) {
        // Before the servers, which wait for all who wait for answers.
        self.wallet.questions.close();
        self.wallet.news.close();
    }
}

impl World {
    /// With the credentials that the wallet has.
    pub(super) async fn open(wallet: &Arc<Wallet>) -> Self {
        let mut files: Vec<File> = vec![
            profile("default", "exposure: direct"),
            profile("strict", "exposure: direct\nchanged_tools: hold"),
            profile("meta", "exposure: meta\ngroups: [load, resources, prompts]"),
        ];
        let mut servers = Vec::new();
        for name in SERVERS {
            let wallet = Arc::clone(wallet);
            let server = HttpServer::start(move |request, reply| answer(&wallet, name == "mod", request, reply));
            let more = match name {
                "named" => "session: handle\n",
                "sha" => "session: shared\n",
                _ => "",
            };
            let text = format!("name: {name}\ntransport: http\nurl: {}\nstart: eager\n{more}", server.url());
            files.push((format!("servers/{name}.yaml"), text));
            servers.push(server);
        }
        files.push(("workflows/peek.yaml".to_owned(), WORKFLOW.to_owned()));
        let credentials: Arc<dyn Credentials> = Arc::<Wallet>::clone(wallet);
        let (scope, ground) = (Scope::new(), Setup::default());
        let workflows = Workflows::new(ground.store.runs(), &scope);
        let sources = Arc::new([Arc::clone(&workflows) as Arc<dyn Source>]);
        let gateway = TestGateway::open(&files, Setup { credentials: Some(credentials), sources, ..ground });
        workflows.enter(&gateway.gateway);
        gateway.settle().await;
        Self { gateway, wallet: Arc::clone(wallet), _scope: scope, _servers: servers }
    }

    pub(super) fn log_in(&self, server: &str, person: usize, number: u64) {
        let (name, principal) = PEOPLE[person];
        self.wallet.give(server, principal, name, number);
        self.changed(server, principal);
    }

    /// What the login tells the gateway when a credential changes.
    pub(super) fn changed(&self, server: &str, principal: &str) {
        if principal == "local" {
            return self.gateway.server(server).owner_changed();
        }
        self.gateway.gateway.credential_changed(&ServerName::new(server).unwrap(), &PrincipalId::new(principal));
    }

    pub(super) async fn log_out(&self, server: &str, person: usize) {
        let (_, principal) = PEOPLE[person];
        self.wallet.take(server, principal);
        if principal == "local" {
            self.gateway.server(server).owner_changed();
            return self.gateway.server(server).forget_lists().await;
        }
        let name = ServerName::new(server).unwrap();
        self.gateway.gateway.forget_login(&name, &PrincipalId::new(principal)).await;
    }

    /// Waits until a person sees its own tool of a server, or does not.
    pub(super) async fn until_shown(&self, server: &str, person: usize, is_shown: bool) {
        let (name, principal) = PEOPLE[person];
        let tool = format!("{server}/{}", secrets_of(name)[1]);
        self.until_seen(&format!("{tool}: {is_shown}"), principal, |view| view.tool(&tool).is_some() == is_shown).await;
    }

    /// Waits for what a principal sees of the profile `default`.
    pub(super) async fn until_seen(&self, what: &str, principal: &str, holds: impl Fn(&toolcrib_view::View) -> bool) {
        let profile = toolcrib_base::ProfileName::new("default").unwrap();
        let who = Principal::member(principal);
        self.gateway
            .until(what, |gateway| {
                gateway.path.views.seen_by(&profile, &who, Door::MCP).is_some_and(|view| holds(&view))
            })
            .await;
    }
}

/// All that a principal's clients can list, as one text.
pub(super) async fn everything(world: &World, principal: &str) -> String {
    let mut all = BTreeMap::new();
    for client in [world.gateway.modern_of(principal, "default"), world.gateway.legacy_of(principal, "default")] {
        for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
            let listed = client.ask(method, &json!({})).await.unwrap();
            all.insert((method, format!("{:?}", client.caller.revision)), listed);
        }
    }
    format!("{all:?}")
}

//! Calls of a server that wants a login first: clients that open pages are asked to, others read the link; what cannot be
//! begun says why. Logins themselves are of another crate, so that they are made up here.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use http::HeaderMap;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_call::{LoginPlace, LoginRequest, LoginState, LoginStatus, LoginStep, Logins, UserValue};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, text_of};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::{Credentials, Proof, Refusal, Renewal, ServerConfig};

const LINK: &str = "http://127.0.0.1:1/connect/0123";
/// What clients declare that open pages for people.
const OPENS_PAGES: &str = r#"{"elicitation":{"url":{}}}"#;

/// Nobody is logged in; whoever asks gets the same link, unless logins are broken.
#[derive(Debug, Default)]
pub(crate) struct NoLogins {
    is_broken: bool,
    /// Whose logins were begun, and whether a waiting link was good enough.
    begun: Mutex<Vec<(Option<String>, bool)>>,
    /// The value that a login needs first, if any, and those that were given.
    wanted: Option<String>,
    given: Mutex<Vec<UserValue>>,
}

impl Logins for NoLogins {
    fn begin<'a>(&'a self, request: LoginRequest<'a>) -> BoxFuture<'a, Result<LoginStep, Problem>> {
        self.begun.lock().unwrap().push((request.at.principal.map(str::to_owned), request.joins));
        self.given.lock().unwrap().extend_from_slice(request.values);
        if let Some(name) = &self.wanted {
            let missing = LoginStep::Values(vec![name.clone()]);
            let step = if request.values.is_empty() { missing } else { LoginStep::Done(request.at.server.clone()) };
            return Box::pin(std::future::ready(Ok(step)));
        }
        let broken = Problem::new(Kind::Definition, "nobody may register").hint("set `auth: {client_id: …}`");
        let step = if self.is_broken { Err(broken) } else { Ok(LoginStep::Open(LINK.to_owned())) };
        Box::pin(std::future::ready(step))
    }

    fn complete<'a>(&'a self, _: &'a str, _: &'a Secret) -> BoxFuture<'a, Result<LoginStep, Problem>> {
        Box::pin(std::future::ready(Err(Problem::new(Kind::NotFound, "no such login"))))
    }

    fn renew<'a>(&'a self, _: LoginPlace<'a>) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(std::future::ready(Err(Problem::new(Kind::NotFound, "no such login"))))
    }

    fn end<'a>(&'a self, _: LoginPlace<'a>) -> BoxFuture<'a, Result<bool, Problem>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn status<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<Vec<LoginStatus>, Problem>> {
        let server = ServerName::new("notion").unwrap();
        let state = LoginState::Lapsed("the provider took it back".to_owned());
        let issuer = Some("https://issuer.example".to_owned());
        Box::pin(std::future::ready(Ok(vec![LoginStatus {
            server,
            state,
            issuer,
            scopes: vec!["read".to_owned()],
            sign_on: None,
            failure: None,
            advice: None,
            held_by: None,
        }])))
    }
}

/// Each refusal means a login.
#[derive(Debug)]
pub(crate) struct NoCredentials;

impl Credentials for NoCredentials {
    fn headers<'a>(&'a self, _: &'a ServerConfig, _: Option<&'a str>) -> Proof<'a> {
        Proof::Known(HeaderMap::new())
    }

    fn renew<'a>(&'a self, _: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        Box::pin(std::future::ready(Renewal::NeedsLogin))
    }
}

/// Lists for everyone; calls are refused while it is locked.
pub(crate) struct LockedServer {
    pub(crate) server: HttpServer,
    is_locked: Arc<AtomicBool>,
}

impl LockedServer {
    pub(crate) fn start() -> Self {
        let is_locked = Arc::new(AtomicBool::new(true));
        let locked = Arc::clone(&is_locked);
        let server = HttpServer::start(move |request, reply| answer(request, reply, locked.load(Ordering::SeqCst)));
        Self { server, is_locked }
    }

    fn files(&self) -> [File; 2] {
        let text = format!("name: notion\ntransport: http\nurl: {}\nstart: eager\n", self.server.url());
        [("servers/notion.yaml".to_owned(), text), profile("default", "exposure: direct\nprefix: none")]
    }

    /// The parameters of the calls that came in.
    fn calls(&self) -> Vec<Value> {
        let requests = self.server.requests();
        let calls = requests.iter().map(Request::json).filter(|message| message["method"] == "tools/call");
        calls.map(|message| message["params"].clone()).collect()
    }
}

fn answer(request: &Request, reply: &mut Reply<'_>, is_locked: bool) {
    let message = request.json();
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}),
        "tools/call" if is_locked => return reply.full(401, &["www-authenticate: Bearer"], ""),
        _ => json!({"content": [{"type": "text", "text": "found"}]}),
    };
    reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

async fn gateway(server: &LockedServer, logins: &Arc<NoLogins>) -> TestGateway {
    let setup = Setup {
        credentials: Some(Arc::new(NoCredentials)),
        logins: Some(Arc::clone(logins) as Arc<dyn Logins>),
        ..Setup::default()
    };
    let gateway = TestGateway::open(&server.files(), setup);
    gateway.settle().await;
    gateway
}

async fn modern_call(client: &Client, more: Value) -> Value {
    let capabilities: Value = serde_json::from_str(OPENS_PAGES).unwrap();
    let mut params = json!({"name": "search", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    client.ask("tools/call", &params).await.unwrap()
}

#[tokio::test]
async fn a_modern_client_that_opens_pages_is_asked_to_and_calls_again() {
    let (server, logins) = (LockedServer::start(), Arc::<NoLogins>::default());
    let gateway = gateway(&server, &logins).await;
    let client = gateway.modern_of("key:work/ci", "default");
    let asked = modern_call(&client, json!({})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["toolcrib-login"];
    assert_eq!((question["method"].as_str(), &question["params"]["url"]), (Some("elicitation/create"), &json!(LINK)));
    assert_eq!(*logins.begun.lock().unwrap(), [(Some("key:work/ci".to_owned()), true)], "in the caller's own name");

    server.is_locked.store(false, Ordering::SeqCst);
    let answers = json!({"inputResponses": {"toolcrib-login": {"action": "accept"}}});
    let done = modern_call(&client, answers).await;
    assert_eq!(text_of(&done), "found", "{done}");
    let calls = server.calls();
    assert!(calls.last().unwrap()["inputResponses"].is_null(), "the answer is not for the server: {calls:?}");
}

#[tokio::test]
async fn a_legacy_client_that_opens_pages_gets_the_error_that_names_one() {
    let (server, logins) = (LockedServer::start(), Arc::<NoLogins>::default());
    let gateway = gateway(&server, &logins).await;
    let client = gateway.legacy_asked("default", &serde_json::from_str(OPENS_PAGES).unwrap());
    let error = client.refused("search", &json!({})).await;
    assert_eq!(error.code, -32042, "{error:?}");
    let data = error.data.unwrap().to_value();
    assert_eq!((&data["elicitations"][0]["url"], &data["elicitations"][0]["mode"]), (&json!(LINK), &json!("url")));
    assert!(data["elicitations"][0]["elicitationId"].is_string(), "{data}");
    assert_eq!(*logins.begun.lock().unwrap(), [(None, true)], "`local` is the owner of this installation");
}

#[tokio::test]
async fn a_client_that_opens_no_pages_reads_the_link() {
    let (server, logins) = (LockedServer::start(), Arc::<NoLogins>::default());
    let gateway = gateway(&server, &logins).await;
    for client in gateway.both("default") {
        let result = client.call("search", &json!({})).await;
        let text = text_of(&result);
        let parts = ["server `notion` requires a login", LINK, "`core_auth_login`", "`toolcrib login notion`"];
        assert!(result["isError"] == true && parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[tokio::test]
async fn a_login_that_cannot_be_begun_says_why() {
    let (server, logins) = (LockedServer::start(), Arc::new(NoLogins { is_broken: true, ..NoLogins::default() }));
    let gateway = gateway(&server, &logins).await;
    let text = text_of(&gateway.modern("default").call("search", &json!({})).await);
    let parts = ["requires a login", "nobody may register", "client_id"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[tokio::test]
async fn the_status_of_logins_is_the_caller_s_own() {
    let (server, logins) = (LockedServer::start(), Arc::<NoLogins>::default());
    let gateway = gateway(&server, &logins).await;
    let status = gateway.modern("default").ask("tools/call", &json!({"name": "core_auth_status"})).await.unwrap();
    let text = text_of(&status);
    let parts = ["needs-login", "the provider took it back", "https://issuer.example"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[tokio::test]
async fn values_that_a_server_wants_are_named_and_taken() {
    let server = LockedServer::start();
    let logins = Arc::new(NoLogins { wanted: Some("tracker".to_owned()), ..NoLogins::default() });
    let gateway = gateway(&server, &logins).await;
    let client = gateway.legacy("default").admin();
    let operate = async |arguments: Value| {
        let called = client.call("core_auth_login", &arguments).await;
        serde_json::from_str::<Value>(&text_of(&called)).unwrap()
    };
    let asked = operate(json!({"server": "notion"})).await;
    assert_eq!((asked["status"].as_str(), &asked["values"]), (Some("values_required"), &json!(["tracker"])), "{asked}");
    assert!(asked["message"].as_str().unwrap().contains("toolcrib login notion"), "{asked}");
    let done = operate(json!({"server": "notion", "values": {"tracker": "hush"}})).await;
    assert_eq!(done["status"], "connected", "{done}");
    assert!(!done.to_string().contains("hush"), "{done}");
    assert_eq!(*logins.given.lock().unwrap(), [UserValue { name: "tracker".into(), value: Secret::new("hush") }]);
}

#[tokio::test]
async fn before_the_first_login_a_server_is_found_by_what_its_definition_says() {
    let refuses = HttpServer::start(|_, reply| {
        let challenge = "www-authenticate: Bearer resource_metadata=\"https://x.example/.well-known/y\"";
        reply.full(401, &[challenge], "");
    });
    let url = refuses.url();
    let text = format!("name: wiki\ndescription: Pages and databases\ntransport: http\nurl: {url}\nstart: eager\n");
    let files = [("servers/wiki.yaml".to_owned(), text), profile("default", "")];
    let gateway = TestGateway::settled(&files).await;
    let client = gateway.modern("default");
    let find = async |query: &str| text_of(&client.call("find_tools", &json!({ "query": query })).await);
    for query in ["change a page of the wiki", "search databases", "something else entirely"] {
        let text = find(query).await;
        assert!(
            text.contains("Requires a login first, by core_auth_login: wiki (Pages and databases)."),
            "{query}: {text}"
        );
    }
}

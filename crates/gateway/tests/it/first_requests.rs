//! The first requests of a principal wait until its lists at the servers that it is signed on to have been read, but not
//! for ever, and not where how it stands is what is asked.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use toolcrib_testgateway::{Client, Setup, TestGateway, profile};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::{eventually, eventually_finds, eventually_holds};
use toolcrib_upstream::{CredentialHolder, Credentials, NoCredential, Proof, Refusal, Renewal, ServerConfig};

/// What principals are proven by: each comes with a token, but for the owner. How it stands with all of them.
#[derive(Debug, Default)]
struct Doorman {
    /// The token is not there before the end of the world.
    is_slow: AtomicBool,
    /// The token is of no use.
    is_refused: AtomicBool,
}

impl Credentials for Doorman {
    fn headers<'a>(&'a self, _: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        if principal.is_none() {
            return Proof::Known(HeaderMap::new());
        }
        if self.is_slow.load(Ordering::SeqCst) {
            return Proof::Awaited(Box::pin(std::future::pending()));
        }
        if self.is_refused.load(Ordering::SeqCst) {
            let refused = NoCredential::Unavailable("no exchange".to_owned());
            return Proof::Awaited(Box::pin(std::future::ready(Err(refused))));
        }
        Proof::Known(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer one"))]))
    }

    fn is_automatic(&self, _: &ServerConfig, principal: Option<&str>) -> bool {
        principal.is_some() && !self.is_refused.load(Ordering::SeqCst)
    }

    fn whose(&self, _: &ServerConfig, principal: Option<&str>) -> CredentialHolder {
        if principal.is_none() { CredentialHolder::Owner } else { CredentialHolder::Own }
    }

    fn renew<'a>(&'a self, _: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        Box::pin(std::future::ready(Renewal::NeedsLogin))
    }
}

/// Lists `only` to those who prove themselves; `holds` says that it takes its time for that.
fn answer(request: &Request, reply: &mut Reply<'_>, holds: bool) {
    if request.header("authorization").is_none() {
        return reply.full(401, &["www-authenticate: Bearer"], "");
    }
    let message = request.json();
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}}),
        "tools/list" => {
            if holds {
                reply.wait_for_release(1);
            }
            json!({"tools": [{"name": "only", "description": "Reads the ledger", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": "only was called"}]}),
        "resources/list" => json!({"resources": [{"uri": "note://only", "name": "only"}]}),
        "resources/read" => json!({"contents": [{"uri": params["uri"], "text": "only was read"}]}),
        "prompts/list" => json!({"prompts": [{"name": "only"}]}),
        "prompts/get" => json!({"messages": [{"role": "user", "content": {"type": "text", "text": "only was got"}}]}),
        "completion/complete" => json!({"completion": {"values": ["only was completed"]}}),
        _ => json!({}),
    };
    reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

async fn open(doorman: &Arc<Doorman>, holds: bool) -> (TestGateway, HttpServer) {
    let server = HttpServer::start(move |request, reply| answer(request, reply, holds));
    let gateway = open_over(doorman, &server, Setup::default()).await;
    (gateway, server)
}

async fn open_over(doorman: &Arc<Doorman>, server: &HttpServer, setup: Setup) -> TestGateway {
    let files = [
        (
            "servers/files.yaml".to_owned(),
            format!("name: files\ntransport: http\nurl: {}\nstart: eager\n", server.url()),
        ),
        profile("default", "exposure: direct"),
        profile("meta", "exposure: meta\ngroups: [load, resources, prompts]"),
        profile("muster", "dialect: muster"),
        profile("bare", "exposure: direct\nprefix: none"),
    ];
    let credentials = Arc::clone(doorman) as Arc<dyn Credentials>;
    let gateway = TestGateway::open(&files, Setup { credentials: Some(credentials), ..setup });
    gateway.settle().await;
    gateway
}

/// Requests of which each needs what the server lists: the profile, the method, the parameters.
fn requests() -> Vec<(&'static str, &'static str, Value)> {
    let prompt = json!({"type": "ref/prompt", "name": "files_only"});
    let argument = json!({"name": "x", "value": ""});
    vec![
        ("default", "tools/list", json!({})),
        ("default", "resources/list", json!({})),
        ("default", "prompts/list", json!({})),
        ("default", "tools/call", json!({"name": "files_only", "arguments": {}})),
        ("default", "tools/call", json!({"name": "files/only", "arguments": {}})),
        ("default", "resources/read", json!({"uri": "note://only"})),
        ("default", "prompts/get", json!({"name": "files_only"})),
        ("default", "completion/complete", json!({"ref": prompt, "argument": argument})),
        ("bare", "tools/call", json!({"name": "only", "arguments": {}})),
        ("meta", "tools/call", json!({"name": "find_tools", "arguments": {"query": "ledger"}})),
        ("meta", "tools/call", json!({"name": "describe_tool", "arguments": {"name": "files/only"}})),
        ("meta", "tools/call", json!({"name": "call_tool", "arguments": {"name": "files/only"}})),
        ("meta", "tools/call", json!({"name": "load_tools", "arguments": {"names": ["files/only"]}})),
        ("meta", "tools/call", json!({"name": "list_resources", "arguments": {}})),
        ("meta", "tools/call", json!({"name": "read_resource", "arguments": {"uri": "note://only"}})),
        ("meta", "tools/call", json!({"name": "list_prompts", "arguments": {}})),
        ("meta", "tools/call", json!({"name": "get_prompt", "arguments": {"name": "files_only"}})),
        ("muster", "tools/call", json!({"name": "list_tools", "arguments": {}})),
        ("muster", "tools/call", json!({"name": "filter_tools", "arguments": {"pattern": "*only*"}})),
        ("muster", "tools/call", json!({"name": "call_tool", "arguments": {"name": "x_files_only"}})),
    ]
}

fn shown(outcome: &Result<Value, toolcrib_protocol::RpcError>) -> String {
    outcome.as_ref().map_or_else(|error| format!("{error:?}"), Value::to_string)
}

#[tokio::test]
async fn a_first_request_waits_until_the_lists_of_its_principal_are_read() {
    let (gateway, server) = open(&Arc::default(), true).await;
    let all = requests();
    // Each of someone who was never here.
    let client =
        |(number, (profile, _, _)): (usize, &(&str, _, _))| gateway.modern_of(&format!("user:acme/p{number}"), profile);
    let clients: Vec<Client> = all.iter().enumerate().map(client).collect();
    let asking = all.iter().zip(&clients).map(async |((_, method, params), client)| client.ask(method, params).await);
    let mut asking = Box::pin(join_all(asking));
    let is_asked = || server.requests().iter().any(|request| request.json()["method"] == "tools/list");
    let first = gateway.modern_of("user:acme/p0", "muster");
    let held = async {
        eventually_holds("the lists are read", is_asked).await;
        // How it stands is said meanwhile, and what is not there at all is known at once.
        let read = first.ask("resources/read", &json!({"uri": "auth://status"})).await.unwrap();
        assert!(read.to_string().contains("files"), "{read}");
        let owner = gateway.modern("default").refused("files_only", &json!({})).await;
        assert!(owner.message.contains("files_only"), "{owner:?}");
        let core = first.call("list_core_tools", &json!({})).await;
        assert!(core["isError"] != true, "{core}");
    };
    tokio::select! {
        biased;
        early = &mut asking => panic!("not waited for: {early:?}"),
        () = held => {}
    }
    server.release();
    let answers = eventually("all answers", asking).await;
    for ((profile, method, params), answer) in all.iter().zip(&answers) {
        let (text, asked) = (shown(answer), params.to_string());
        let is_there = answer.as_ref().is_ok_and(|answer| answer["isError"] != true) && text.contains("only");
        assert!(is_there, "{profile} {method} {asked}: {text}");
    }
}

#[tokio::test]
async fn a_first_request_waits_no_longer_than_a_sign_on_may_take() {
    let doorman = Arc::<Doorman>::default();
    doorman.is_slow.store(true, Ordering::SeqCst);
    let (gateway, _server) = open(&doorman, false).await;
    let ann = gateway.modern_of("user:acme/ann", "default");
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let refused = ann.refused("files_only", &json!({})).await;
    assert!(refused.message.contains("files_only"), "{refused:?}");
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(15) && waited < Duration::from_secs(16), "{waited:?}");
}

#[tokio::test]
async fn who_comes_with_a_token_that_counts_need_not_wait_for_the_next_look() {
    let doorman = Arc::<Doorman>::default();
    doorman.is_refused.store(true, Ordering::SeqCst);
    let (gateway, server) = open(&doorman, false).await;
    let ann = gateway.modern_of("user:acme/ann", "default");
    let refused = ann.refused("files_only", &json!({})).await;
    assert!(refused.message.contains("files_only"), "{refused:?}");
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
    doorman.is_refused.store(false, Ordering::SeqCst);
    let called = async || {
        let called = ann.ask("tools/call", &json!({"name": "files_only", "arguments": {}})).await;
        if called.is_ok() { Ok(shown(&called)) } else { Err(shown(&called)) }
    };
    let called = eventually_finds("the tool, long before it is looked at again", called).await;
    assert!(called.contains("only was called"), "{called}");
}

#[tokio::test]
async fn stored_lists_are_their_principals_after_a_restart() {
    let (doorman, is_held) = (Arc::<Doorman>::default(), Arc::<AtomicBool>::default());
    let holds = Arc::clone(&is_held);
    let server = HttpServer::start(move |request, reply| answer(request, reply, holds.load(Ordering::SeqCst)));
    let store = Setup::default().store;
    let gateway = open_over(&doorman, &server, Setup { store: store.clone(), ..Setup::default() }).await;
    assert_eq!(gateway.modern_of("user:acme/ann", "default").listed().await, ["files_only"]);
    let files = "files".parse().unwrap();
    eventually_holds("it is stored", || !store.own_snapshots().of_server(&files).unwrap().is_empty()).await;
    drop(gateway);
    is_held.store(true, Ordering::SeqCst);
    let gateway = open_over(&doorman, &server, Setup { store, ..Setup::default() }).await;
    assert_eq!(gateway.modern_of("user:acme/ann", "default").listed().await, ["files_only"]);
    let profile = toolcrib_base::ProfileName::new("default").unwrap();
    for other in ["user:acme/bob", "local"] {
        let view = gateway
            .gateway
            .path
            .views
            .seen_by(&profile, &toolcrib_session::Principal::member(other), toolcrib_store::Door::MCP)
            .unwrap();
        assert!(view.tools.is_empty(), "{other}");
    }
}

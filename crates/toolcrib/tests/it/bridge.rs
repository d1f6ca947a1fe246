//! The bridge between a client over stdio and a gateway over HTTP: a scripted one that sees every byte, and our own,
//! which is killed and restarted in the middle.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::launch::Program;

use crate::toolcrib::toolcrib;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0",  "id":"i-1", "method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"x":1.50}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A running bridge with its client's ends.
struct Bridge(Program);

impl Bridge {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        Self(toolcrib(home, &[&["bridge"], arguments].concat()).start())
    }

    async fn say(&mut self, line: &str) {
        self.0.types(line).await;
    }

    /// The next line, as it is.
    async fn hears(&mut self) -> String {
        self.0.line().await
    }

    /// The answer to a request; what else is said goes by.
    async fn answer(&mut self, id: &Value) -> Value {
        self.until(|message| message["id"] == *id && message["method"].is_null()).await
    }

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.hears().await).unwrap();
            if fits(&message) {
                return message;
            }
        }
    }

    /// Closes stdin and waits for the end.
    async fn end(mut self) {
        self.0.close();
        assert!(self.0.end().await.success());
    }
}

fn opened(id: &Value) -> Value {
    let capabilities = json!({"tools": {"listChanged": true}});
    json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "x", "version": "1"}}})
}

fn posted(server: &HttpServer, method: &str) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.json()["method"] == method).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_byte_goes_through_and_the_session_is_ended() {
    const NEWS: &str = r#"{"jsonrpc":"2.0", "method" : "x/news","params":{"n":1.50}}"#;
    const LIST: &str = r#"{"method":"tools/list","id":2, "jsonrpc":"2.0","params":{"odd":[1.0, "\u00e4"]}}"#;
    const LISTED: &str = r#"{"jsonrpc":"2.0","id":2,   "result":{"tools":[],"odd":1e2}}"#;
    let server = HttpServer::start(|request: &Request, reply: &mut Reply<'_>| {
        let (message, event) = (request.json(), ["content-type: text/event-stream"]);
        match (request.method.as_str(), message["method"].as_str()) {
            ("GET", _) => {
                reply.head(200, &event);
                reply.chunk(format!(": hello\n\ndata: {NEWS}\n\n"));
                reply.hang();
            }
            ("DELETE", _) => reply.full(204, &[], ""),
            (_, Some("initialize")) => reply.json(&["mcp-session-id: s-1"], &opened(&message["id"])),
            (_, Some("tools/list")) => reply.full(200, &["content-type: application/json"], LISTED),
            (_, Some("tools/call")) => {
                reply.head(200, &event);
                reply.chunk("data: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"roots/list\"}\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":3,\"result\":{}}\n\n");
                reply.end();
            }
            _ => reply.full(202, &[], ""),
        }
    });
    let home = tempfile::tempdir().unwrap();
    let token = home.path().join("token");
    std::fs::write(&token, "from-file\n").unwrap();
    let mut bridge = Bridge::start(home.path(), &[&server.url(), "--token-file", token.to_str().unwrap()]);
    bridge.say(INITIALIZE).await;
    assert_eq!(bridge.hears().await, opened(&json!("i-1")).to_string());
    bridge.say(INITIALIZED).await;
    assert_eq!(bridge.hears().await, NEWS);
    bridge.say(LIST).await;
    assert_eq!(bridge.hears().await, LISTED);
    bridge.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}"#).await;
    assert_eq!(bridge.hears().await, r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#);
    assert_eq!(bridge.hears().await, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "one line");
    let roots = r#"{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}"#;
    bridge.say(roots).await;
    bridge.say("nonsense").await;
    assert!(bridge.hears().await.contains("-32700"));
    bridge.end().await;
    let requests = server.requests();
    let bodies: Vec<&[u8]> = requests.iter().map(|request| &request.body[..]).collect();
    for line in [INITIALIZE, INITIALIZED, LIST, roots] {
        assert!(bodies.contains(&line.as_bytes()), "{line}");
    }
    assert_eq!(requests.last().unwrap().method, "DELETE");
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer from-file"));
        let is_first = request.json()["method"] == "initialize";
        assert_eq!(request.header("mcp-session-id"), (!is_first).then_some("s-1"), "{request:?}");
        assert_eq!(request.header("mcp-protocol-version"), (!is_first).then_some("2025-11-25"), "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_session_is_opened_again_and_what_may_have_run_is_not_repeated() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sessions);
    let server = HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
        let message = request.json();
        let method = message["method"].as_str().unwrap_or_default();
        let present = format!("s-{}", count.load(Ordering::SeqCst));
        match (request.method.as_str(), method) {
            ("GET", _) => reply.full(405, &[], ""),
            ("DELETE", _) => reply.full(204, &[], ""),
            (_, "initialize") => {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                reply.json(&[&format!("mcp-session-id: s-{number}")], &opened(&message["id"]));
            }
            _ if request.header("mcp-session-id") != Some(&present) => reply.full(404, &[], ""),
            (_, "tools/call") => reply.close(),
            (_, "tools/list") => {
                reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": {"session": present}}));
            }
            _ => reply.full(202, &[], ""),
        }
    });
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::start(home.path(), &[&server.url()]);
    bridge.say(INITIALIZE).await;
    bridge.answer(&json!("i-1")).await;
    bridge.say(INITIALIZED).await;
    bridge.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert_eq!(bridge.answer(&json!(1)).await["result"]["session"], "s-1");
    // The gateway forgets.
    sessions.store(7, Ordering::SeqCst);
    bridge.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
    let first: Value = serde_json::from_str(&bridge.hears().await).unwrap();
    assert_eq!(first["method"], "notifications/tools/list_changed");
    assert_eq!(bridge.answer(&json!(2)).await["result"]["session"], "s-8");
    bridge.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"pay"}}"#).await;
    let error = bridge.answer(&json!(3)).await;
    assert!(error["error"]["message"].as_str().unwrap().contains("may have run and is not retried"), "{error}");
    bridge.end().await;
    assert_eq!(posted(&server, "tools/call").len(), 1);
    let again = posted(&server, "initialize");
    assert_eq!(again.len(), 2);
    assert_eq!(again[1].body, INITIALIZE.as_bytes(), "the client's own words");
    assert_eq!(posted(&server, "notifications/initialized").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modern_requests_have_their_headers_and_end_with_their_connection() {
    let server = HttpServer::start(|request: &Request, reply: &mut Reply<'_>| {
        let message = request.json();
        match message["method"].as_str() {
            Some("tools/list") => {
                let schema =
                    json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
                let tools = json!([{"name": "a b", "inputSchema": schema}]);
                reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}}));
            }
            Some("prompts/get") => {
                reply.head(200, &["content-type: text/event-stream"]);
                reply.chunk("data: {\"jsonrpc\":\"2.0\",\"method\":\"x/begun\"}\n\n");
                reply.hang();
            }
            Some("tools/call") => {
                let error = json!({"code": -32_602, "message": "no"});
                let body = json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string();
                reply.full(400, &["content-type: application/json"], body);
            }
            _ => reply.full(202, &[], ""),
        }
    });
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::start(home.path(), &[&server.url()]);
    let modern = |id: u64, method: &str, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    bridge.say(&modern(1, "tools/list", json!({}))).await;
    bridge.answer(&json!(1)).await;
    bridge.say(&modern(2, "tools/call", json!({"name": "a b", "arguments": {"region": "eu"}}))).await;
    assert_eq!(bridge.answer(&json!(2)).await["error"]["message"], "no", "the gateway's own error");
    bridge.say(&modern(3, "prompts/get", json!({"name": "ä"}))).await;
    bridge.until(|message| message["method"] == "x/begun").await;
    bridge.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).await;
    bridge.say(&modern(4, "tools/list", json!({}))).await;
    bridge.answer(&json!(4)).await;
    bridge.end().await;
    let call = &posted(&server, "tools/call")[0];
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "a b"),
        ("mcp-param-region", "eu"),
    ] {
        assert_eq!(call.header(name), Some(value), "{name}");
    }
    assert_eq!(posted(&server, "prompts/get")[0].header("mcp-name"), Some("=?base64?w6Q=?="));
    assert!(posted(&server, "notifications/cancelled").is_empty(), "closing the connection says it");
    assert!(server.requests().iter().all(|request| request.method == "POST"), "no session, no stream, no DELETE");
}

/// Our own gateway; killed when it is dropped.
struct Gateway(Program);

impl Gateway {
    async fn start(home: &Path) -> Self {
        let launch = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"]).env("TOOLCRIB_LOG", "info");
        let mut program = launch.start();
        program.logs("serving url=").await;
        Self(program)
    }

    async fn kill(mut self) {
        self.0.signal(Signal::KILL);
        self.0.end().await;
    }
}

#[tokio::test]
async fn our_own_gateway_is_killed_and_restarted() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::create_dir_all(home.join("servers")).unwrap();
    let program = json!(toolcrib_testkit::fake_server());
    std::fs::write(home.join("servers/alpha.yaml"), format!("name: alpha\ncommand: {program}\nstart: eager\n"))
        .unwrap();
    // While it is away the bridge looks here, where no one is, and not at the default port, where someone may be.
    std::fs::write(home.join("config.toml"), "listen = \"127.0.0.1:9\"\n").unwrap();
    let gateway = Gateway::start(home).await;
    // Found by the home folder, with its token, and at another port the second time.
    let mut bridge = Bridge::start(home, &[]);
    bridge.say(INITIALIZE).await;
    assert_eq!(bridge.answer(&json!("i-1")).await["result"]["protocolVersion"], "2025-11-25");
    bridge.say(INITIALIZED).await;
    let call = |id: u64, name: &str, arguments: Value, is_modern: bool| {
        let mut params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": id}});
        if is_modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let steps = |steps: u64| json!({"steps": steps});
    for (id, is_modern) in [(1, false), (2, true)] {
        bridge.say(&call(id, "alpha_progress", steps(1), is_modern)).await;
        assert_eq!(bridge.answer(&json!(id)).await["result"]["content"][0]["text"], "1 steps");
    }
    for (id, is_modern) in [(3, false), (4, true)] {
        bridge.say(&call(id, "alpha_progress", json!({"steps": 100_000, "ms": 100}), is_modern)).await;
        bridge.until(|message| message["params"]["progressToken"] == id).await;
    }
    gateway.kill().await;
    let second = Gateway::start(home).await;
    let mut lost = Vec::new();
    while lost.len() < 2 {
        let answer = bridge.until(|message| message["id"] == 3 || message["id"] == 4).await;
        let text = answer["error"]["message"].as_str().unwrap().to_owned();
        assert!(text.contains("may have run and is not retried"), "{text}");
        lost.push(answer["id"].clone());
    }
    assert!(lost.contains(&json!(3)) && lost.contains(&json!(4)), "{lost:?}");
    for (id, is_modern) in [(5, false), (6, true)] {
        bridge.say(&call(id, "alpha_progress", steps(2), is_modern)).await;
        assert_eq!(bridge.answer(&json!(id)).await["result"]["content"][0]["text"], "2 steps");
    }
    // Asked while it is away, so it cannot have run and waits.
    second.kill().await;
    bridge.say(&call(7, "alpha_progress", steps(3), true)).await;
    let _third = Gateway::start(home).await;
    let answer = bridge.answer(&json!(7)).await;
    assert_eq!(answer["result"]["content"][0]["text"], "3 steps", "{answer}");
    bridge.end().await;
}

#[tokio::test]
async fn who_may_not_come_in_is_told_what_to_do() {
    let server = HttpServer::start(|_: &Request, reply: &mut Reply<'_>| reply.full(401, &[], ""));
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::start(home.path(), &[&server.url()]);
    bridge.say(INITIALIZE).await;
    let error = bridge.answer(&json!("i-1")).await;
    assert!(error["error"]["message"].as_str().unwrap().contains("requires a token"), "{error}");
    bridge.end().await;
    let ran = crate::toolcrib::run(home.path(), &["bridge", "ftp://x"], &[]).await;
    ran.fails(1, &["is not an endpoint"]);
}

//! Scripted servers behind a house, and clients that speak to it in bytes, as over stdio.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::ProfileName;
use toolcrib_gateway::duplex::{Duplex, OUT, Terms};
use toolcrib_protocol::RequestTrace;
use toolcrib_protocol::json::Rules;
use toolcrib_session::Principal;
use toolcrib_testgateway::{File, TestGateway};
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

/// The definition of a scripted server over HTTP.
pub(crate) fn over_http(name: &str, server: &ScriptedServer) -> File {
    over_http_with(name, server, "")
}

/// As [`over_http`], with further lines.
pub(crate) fn over_http_with(name: &str, server: &ScriptedServer, more: &str) -> File {
    (format!("servers/{name}.yaml"), format!("name: {name}\ntransport: http\nurl: {}\n{more}", server.url()))
}

/// The definition of a scripted server over stdio.
pub(crate) fn over_stdio(name: &str, server: &ScriptedServer) -> File {
    over_stdio_with(name, server, "")
}

/// As [`over_stdio`], with further lines.
pub(crate) fn over_stdio_with(name: &str, server: &ScriptedServer, more: &str) -> File {
    let program = toolcrib_testkit::fake_server();
    let args = json!(["--relay", server.relay()]);
    (format!("servers/{name}.yaml"), format!("name: {name}\ncommand: {}\nargs: {args}\n{more}", json!(program)))
}

/// The definition of one of both.
pub(crate) fn over(name: &str, server: &ScriptedServer, stdio: bool) -> File {
    if stdio { over_stdio(name, server) } else { over_http(name, server) }
}

/// Waits until what a server heard is as wanted.
pub(crate) async fn heard(
    server: &Arc<ScriptedServer>,
    what: &str,
    wanted: impl Fn(&[toolcrib_testkit::script::ReceivedMessage]) -> bool + Send + 'static,
) {
    let server = Arc::clone(server);
    let waited = tokio::task::spawn_blocking(move || server.wait(wanted));
    assert!(eventually(what, waited).await.unwrap(), "the server waited in vain for {what}");
}

/// A client on a connection of its own.
pub(crate) struct Wire {
    duplex: Arc<Duplex>,
    heard: mpsc::Receiver<Bytes>,
    pub(crate) speaks: Speaks,
    next: u64,
}

// === impl Wire ===

impl Wire {
    /// A client that can be asked what `capabilities` say.
    pub(crate) async fn open(house: &TestGateway, profile: &str, speaks: Speaks, capabilities: &Value) -> Self {
        Self::of("local", house, profile, speaks, capabilities).await
    }

    /// The client of a principal.
    pub(crate) async fn of(
        principal: &str,
        house: &TestGateway,
        profile: &str,
        speaks: Speaks,
        capabilities: &Value,
    ) -> Self {
        let (out, heard) = mpsc::channel(OUT);
        let principal = Principal::member(principal);
        let snapshot = house.gateway.snapshot(&ProfileName::new(profile).unwrap()).unwrap();
        let rules = Rules::strict(64);
        let terms = Terms { principal, snapshot, is_owner: false, rules, takes_modern: true };
        let duplex = Arc::new(Duplex::new(Arc::clone(&house.gateway), terms, out));
        let mut wire = Self { duplex, heard, speaks, next: 0 };
        if speaks == Speaks::Legacy {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
            let (answer, _) = wire.ask("initialize", &params.to_string()).await;
            assert!(answer.contains("2025-11-25"), "{answer}");
        }
        wire
    }

    /// Sends a message.
    pub(crate) async fn say(&self, message: &str) {
        eventually("room", self.duplex.take(&Bytes::from(message.to_owned()), RequestTrace::default())).await;
    }

    /// Sends a request and gives its id.
    pub(crate) async fn begin(&mut self, method: &str, params: &str) -> u64 {
        self.next += 1;
        let id = self.next;
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)).await;
        id
    }

    /// The next message, as it was written.
    pub(crate) async fn next(&mut self) -> String {
        let message = eventually("a message", self.heard.recv()).await.expect("the line is open");
        String::from_utf8(message.to_vec()).unwrap()
    }

    /// Sends a request; gives its answer without the envelope, and what came before.
    pub(crate) async fn ask(&mut self, method: &str, params: &str) -> (String, Vec<String>) {
        let id = self.begin(method, params).await;
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            match outcome(&message, id) {
                Some(outcome) => return (outcome, before),
                None => before.push(message),
            }
        }
    }
}

/// The result or error of the answer with this id.
pub(crate) fn outcome(message: &str, id: u64) -> Option<String> {
    let rest = message.strip_prefix(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#))?.strip_suffix('}')?;
    let rest = rest.strip_prefix(r#""result":"#).or_else(|| rest.strip_prefix(r#""error":"#));
    Some(rest.expect("a result or an error").to_owned())
}

/// What a modern client says of itself in each request.
pub(crate) fn declared(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

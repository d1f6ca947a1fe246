//! A gateway of the tests: an HTTP server that answers MCP as it is told and remembers what it was asked.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use toolcrib_base::task::Scope;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server;

/// A request as it arrived: its headers and its message.
pub(crate) type StubRequest = (HeaderMap, Value);

/// In place of a status: no answer at all.
const NEVER: u16 = 0;

/// What the stub answers to one message: a status with a content type and a body.
pub(crate) struct Answer(pub(crate) u16, pub(crate) &'static str, pub(crate) String);

impl Answer {
    /// A result.
    pub(crate) fn result(message: &Value, result: &Value) -> Self {
        Self::json(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    }

    /// A whole message.
    pub(crate) fn json(message: &Value) -> Self {
        Self(200, "application/json", message.to_string())
    }

    /// No answer at all.
    pub(crate) fn never() -> Self {
        Self(NEVER, "", String::new())
    }

    /// A refusal without MCP.
    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self(status, "application/json", body.to_owned())
    }
}

/// A running stub.
pub(crate) struct Stub {
    pub(crate) url: String,
    scope: Scope,
    asked: Arc<Mutex<Vec<StubRequest>>>,
    count: watch::Receiver<usize>,
}

impl Stub {
    /// Starts a gateway that shakes hands by itself and gives every other request to `answer`.
    pub(crate) async fn start(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_raw(move |message| match message["method"].as_str() {
            Some("initialize") => {
                let info = json!({ "name": "stub", "version": "1" });
                let opened = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info });
                Answer::result(message, &opened)
            }
            // A menu that is not muster's, so that tools are called as they are named.
            Some("tools/list") => Answer::result(message, &json!({ "tools": [] })),
            Some("notifications/initialized" | "notifications/cancelled") => Answer(202, "text/plain", String::new()),
            _ => answer(message),
        })
        .await
    }

    /// Starts a gateway that gives every message to `answer`.
    pub(crate) async fn start_raw(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (scope, asked) = (Scope::new(), Arc::new(Mutex::new(Vec::new())));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&asked));
        let (told, count) = watch::channel(0);
        let told = Arc::new(told);
        let serving = server::serve(listener, scope.clone(), move |_, request: http::Request<_>| {
            let (answer, seen, told) = (Arc::clone(&answer), Arc::clone(&seen), Arc::clone(&told));
            async move {
                let (head, body) = request.into_parts();
                let body: Bytes = server::read_body(body, 1 << 20).await.unwrap();
                let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                seen.lock().unwrap().push((head.headers, message.clone()));
                told.send_modify(|count| *count += 1);
                if head.method == http::Method::DELETE {
                    return reply(&Answer::status(204, ""));
                }
                let answer = answer(&message);
                if answer.0 == NEVER {
                    std::future::pending::<()>().await;
                }
                reply(&answer)
            }
        });
        scope.spawn(serving);
        Self { url, scope, asked, count }
    }

    /// The requests for a method so far.
    pub(crate) fn asked(&self, method: &str) -> Vec<StubRequest> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(_, message)| message["method"] == method).cloned().collect()
    }

    /// Waits until a message with this method has arrived.
    pub(crate) async fn hears(&self, method: &str) {
        let mut count = self.count.clone();
        while self.asked(method).is_empty() {
            count.changed().await.unwrap();
        }
    }

    /// Writes `serve.json` and a token, as a gateway of this home does.
    pub(crate) fn settle(&self, home: &Path) {
        let state = home.join("state");
        std::fs::create_dir_all(&state).unwrap();
        std::fs::write(state.join("token"), "own-token\n").unwrap();
        let ready = json!({ "pid": std::process::id(), "url": self.url, "token_file": state.join("token") });
        std::fs::write(state.join("serve.json"), ready.to_string()).unwrap();
    }

    pub(crate) async fn stop(self) {
        self.scope.close(Duration::from_secs(5)).await;
    }
}

fn reply(answer: &Answer) -> Response<Body> {
    let mut response = Response::new(Body::full(answer.2.clone()));
    *response.status_mut() = StatusCode::from_u16(answer.0).unwrap();
    response.headers_mut().insert("content-type", answer.1.parse().unwrap());
    response.headers_mut().insert("mcp-session-id", "s-1".parse().unwrap());
    response
}

/// A tool's result with structured content.
pub(crate) fn structured(content: &Value) -> Value {
    json!({ "content": [{ "type": "text", "text": content.to_string() }], "structuredContent": content })
}

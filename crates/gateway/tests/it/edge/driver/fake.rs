//! A server that notes which calls reached it.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use super::model::TOOLS;

/// A server over HTTP with the tools `t0`, `t1` …
pub(super) struct FakeServer {
    server: HttpServer,
    /// The numbers of the calls, in their order.
    reached: Arc<Mutex<Vec<Value>>>,
}

impl FakeServer {
    /// A server that `waits` lists its tools only once it is released.
    pub(super) fn start(waits: bool) -> Self {
        let reached: Arc<Mutex<Vec<Value>>> = Arc::default();
        let notes = Arc::clone(&reached);
        let server = HttpServer::start(move |request, reply| answer(request, reply, waits, &notes));
        Self { server, reached }
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    pub(super) fn release(&self) {
        self.server.release();
    }

    /// How often a call came here.
    pub(super) fn times(&self, call: usize) -> usize {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.iter().filter(|number| **number == json!(call)).count()
    }
}

fn answer(request: &Request, reply: &mut Reply<'_>, waits: bool, reached: &Mutex<Vec<Value>>) {
    let message = request.json();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
        Some("tools/list") => {
            if waits {
                reply.wait_for_release(1);
            }
            let tools: Vec<_> = (0..TOOLS)
                .map(|number| json!({"name": format!("t{number}"), "inputSchema": {"type": "object"}}))
                .collect();
            json!({ "tools": tools })
        }
        Some("tools/call") => {
            let call = message["params"]["arguments"]["call"].clone();
            reached.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            json!({"content": [{"type": "text", "text": "reached"}]})
        }
        Some("ping") => json!({}),
        None if request.method == "DELETE" => return reply.full(200, &[], ""),
        None => return reply.full(405, &[], ""),
        Some(_) if message["id"].is_null() => return reply.full(202, &[], ""),
        Some(_) => {
            let error = json!({"code": -32_601, "message": "no such method"});
            return reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
    };
    reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

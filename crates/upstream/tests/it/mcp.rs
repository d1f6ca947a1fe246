//! A well-behaved MCP server over scripted HTTP, for tests to deviate from.

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::{Endpoint, ServerConfig};

use crate::world;

/// What `initialize` is answered with in `mcp-session-id`.
pub(crate) const SESSION: &str = "mcp-session-id: s-1";

/// The definition of this server.
pub(crate) fn config(server: &HttpServer) -> ServerConfig {
    world::config(Endpoint::http(&server.url(), &[]))
}

/// The JSON-RPC method of a request; `GET` and `DELETE` for those without a body.
pub(crate) fn method(request: &Request) -> String {
    request.json()["method"].as_str().map_or_else(|| request.method.clone(), str::to_owned)
}

/// How many requests of this method came in.
pub(crate) fn count(server: &HttpServer, wanted: &str) -> usize {
    server.requests().iter().filter(|request| method(request) == wanted).count()
}

pub(crate) fn answer_to(request: &Request, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result})
}

pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// The head of a stream of events.
pub(crate) fn stream(reply: &mut Reply<'_>) {
    reply.head(200, &["content-type: text/event-stream"]);
}

/// Answers as a server with one tool, `echo`, that has no stream of its own.
pub(crate) fn answer(request: &Request, reply: &mut Reply<'_>) {
    let result = match method(request).as_str() {
        "initialize" => {
            let capabilities = json!({"tools": {"listChanged": true}});
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities});
            return reply.json(&[SESSION], &answer_to(request, &result));
        }
        "GET" => return reply.full(405, &[], ""),
        "DELETE" => return reply.full(200, &[], ""),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [{"name": "echo"}]}),
        "tools/call" => text(request.json()["params"]["arguments"]["text"].as_str().unwrap_or("?")),
        _ if request.json()["id"].is_null() || request.json()["method"].is_null() => return reply.full(202, &[], ""),
        _ => json!({}),
    };
    reply.json(&[], &answer_to(request, &result));
}

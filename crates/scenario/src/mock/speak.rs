//! The protocol of mock servers: a message in, its answer out. Only the legacy revisions, which every gateway speaks.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolcrib_base::Limits;
use toolcrib_protocol::error::{INVALID_PARAMS, METHOD_NOT_FOUND};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, Message, Notification, Raw, Request, Revision, RpcError, method};

use super::Live;

/// How deep arguments may nest.
const DEPTH: usize = 64;

/// The largest message, in bytes.
pub(super) fn largest() -> usize {
    Limits::default().request_bytes
}

/// Answers one message; `None` where there is nothing to answer.
pub(super) async fn answer(live: &Live, bytes: &Bytes) -> Option<Answer> {
    match Message::parse(bytes, Rules::strict(DEPTH)) {
        Ok(Message::Request(request)) => {
            let outcome = respond(live, &request).await;
            Some(Answer { id: Some(request.id), outcome: outcome.map(|result| Raw::from_value(&result)) })
        }
        Ok(Message::Notification(_) | Message::Answer(_)) => None,
        Err(bad) => Some(bad.to_answer()),
    }
}

/// Tells that the list of tools has changed.
pub(super) fn changed() -> Bytes {
    Notification::new(method::TOOLS_CHANGED, Raw::empty_object()).to_bytes()
}

async fn respond(live: &Live, request: &Request) -> Result<Value, RpcError> {
    let params = &request.params;
    match request.method.as_str() {
        method::INITIALIZE => {
            let asked = params.text("protocolVersion").unwrap_or_default();
            Ok(json!({
                "protocolVersion": Revision::negotiate_legacy(&asked).as_str(),
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "toolcrib-mock", "version": env!("CARGO_PKG_VERSION") },
            }))
        }
        method::PING => Ok(json!({})),
        method::TOOLS_LIST => Ok(json!({ "tools": live.list() })),
        method::TOOLS_CALL => {
            let name = params.text("name").unwrap_or_default();
            let arguments = params.get("arguments").map(|arguments| arguments.to_value());
            let arguments = match arguments {
                Some(Value::Object(arguments)) => arguments,
                _ => Map::new(),
            };
            let unknown = || RpcError::new(INVALID_PARAMS, format!("unknown tool `{name}`"));
            let (delay, result) = live.call(&name, &arguments).ok_or_else(unknown)?;
            tokio::time::sleep(delay).await;
            Ok(result)
        }
        other => Err(RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{other}`"))),
    }
}

//! The protocol of the servers in here: a message in, its answer out. Only the legacy revisions, which every gateway
//! speaks.

use bytes::Bytes;
use serde_json::{Value, json};
use toolcrib_base::Limits;
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, Message, Raw, Request, Revision, RpcError, method};

/// How deep arguments may nest.
const DEPTH: usize = 64;

/// The largest message, in bytes.
pub(crate) fn largest() -> usize {
    Limits::default().request_bytes
}

/// Answers one message; `None` where there is nothing to answer. `respond` has the server's own methods.
pub(crate) async fn answer(
    bytes: &Bytes,
    name: &str,
    respond: impl AsyncFnOnce(Request) -> Option<Result<Value, RpcError>>,
) -> Option<Answer> {
    let request = match Message::parse(bytes, Rules::strict(DEPTH)) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification(_) | Message::Answer(_)) => return None,
        Err(bad) => return Some(bad.to_answer()),
    };
    let id = request.id.clone();
    let outcome = match request.method.as_str() {
        method::INITIALIZE => Ok(opening(&request.params, name)),
        method::PING => Ok(json!({})),
        _ => {
            let unknown = RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{}`", request.method));
            respond(request).await.unwrap_or(Err(unknown))
        }
    };
    Some(Answer { id: Some(id), outcome: outcome.map(|result| Raw::from_value(&result)) })
}

fn opening(params: &Raw, name: &str) -> Value {
    let asked = params.text("protocolVersion").unwrap_or_default();
    json!({
        "protocolVersion": Revision::negotiate_legacy(&asked).as_str(),
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": name, "version": env!("CARGO_PKG_VERSION") },
    })
}

//! What a mock server answers besides the opening.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolcrib_protocol::error::INVALID_PARAMS;
use toolcrib_protocol::{Answer, Notification, Raw, Request, RpcError, method};

use super::{Live, MockCall};
use crate::speak;

/// Answers one message; `None` where there is nothing to answer. `claims` is what the caller's token says.
pub(super) async fn answer(live: &Live, bytes: &Bytes, claims: Option<&Map<String, Value>>) -> Option<Answer> {
    speak::answer(bytes, "toolcrib-mock", async |request: Request| match request.method.as_str() {
        method::TOOLS_LIST => Some(Ok(json!({ "tools": live.list() }))),
        method::TOOLS_CALL => Some(call(live, &request.params, claims).await),
        _ => None,
    })
    .await
}

/// Tells that the list of tools has changed.
pub(super) fn changed() -> Bytes {
    Notification::new(method::TOOLS_CHANGED, Raw::empty_object()).to_bytes()
}

async fn call(live: &Live, params: &Raw, claims: Option<&Map<String, Value>>) -> Result<Value, RpcError> {
    let name = params.text("name").unwrap_or_default();
    let arguments = match params.get("arguments").map(|arguments| arguments.to_value()) {
        Some(Value::Object(arguments)) => arguments,
        _ => Map::new(),
    };
    let unknown = || RpcError::new(INVALID_PARAMS, format!("unknown tool `{name}`"));
    let (delay, result) = live.call(&name, &MockCall { arguments, claims }).ok_or_else(unknown)?;
    tokio::time::sleep(delay).await;
    Ok(result)
}

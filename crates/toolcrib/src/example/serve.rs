//! The protocol of the example servers: a message in, the messages that answer it out.

use serde_json::{Value, json};
use toolcrib_base::Limits;
use toolcrib_protocol::error::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Answer, Message, Notification, Raw, Request, Revision, RpcError, method};

use bytes::Bytes;

use super::{Arguments, Content, Example};

/// How deep the arguments may nest.
const DEPTH: usize = 32;

/// The largest message, in bytes.
pub(super) fn largest() -> usize {
    Limits::default().request_bytes
}

/// What a message leads to.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The answer to a request, or to what is not a message.
    pub(super) answer: Option<Answer>,
    /// The notification that the server sends on its own.
    pub(super) news: Option<Notification>,
}

/// Takes one message.
pub(super) fn receive(example: &dyn Example, bytes: &Bytes) -> Replies {
    let answer = match Message::parse(bytes, Rules::strict(DEPTH)) {
        Ok(Message::Request(request)) => {
            let outcome = respond(example, &request);
            Some(Answer { id: Some(request.id), outcome: outcome.map(|result| Raw::from_value(&result)) })
        }
        // Nothing runs long enough to be cancelled, and we ask nothing.
        Ok(Message::Notification(_) | Message::Answer(_)) => None,
        Err(bad) => Some(bad.to_answer()),
    };
    let has_changes = example.content().is_some_and(Content::has_changes);
    let news = has_changes.then(|| Notification::new(method::RESOURCES_CHANGED, Raw::empty_object()));
    Replies { answer, news }
}

fn respond(example: &dyn Example, request: &Request) -> Result<Value, RpcError> {
    let unknown = || RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{}`", shown(&request.method)));
    match request.method.as_str() {
        method::INITIALIZE => Ok(initialize(example, &request.params)),
        method::PING => Ok(json!({})),
        method::TOOLS_LIST => Ok(json!({ "tools": example.tools() })),
        method::TOOLS_CALL => call(example, &request.params),
        other => match example.content() {
            Some(content) => respond_with_content(content, other, &request.params).unwrap_or_else(|| Err(unknown())),
            None => Err(unknown()),
        },
    }
}

fn respond_with_content(content: &dyn Content, name: &str, params: &Raw) -> Option<Result<Value, RpcError>> {
    Some(match name {
        method::RESOURCES_LIST => Ok(json!({ "resources": content.resources() })),
        method::RESOURCE_TEMPLATES_LIST => Ok(json!({ "resourceTemplates": content.templates() })),
        method::RESOURCES_READ => {
            let uri = params.text("uri").unwrap_or_default();
            let missing = || RpcError::new(RESOURCE_NOT_FOUND, format!("no resource `{}`", shown(&uri)));
            content.read(&uri).ok_or_else(missing).map(|contents| json!({ "contents": [contents] }))
        }
        method::PROMPTS_LIST => Ok(json!({ "prompts": content.prompts() })),
        method::PROMPTS_GET => prompt(content, params),
        _ => return None,
    })
}

fn initialize(example: &dyn Example, params: &Raw) -> Value {
    let asked = params.text("protocolVersion").unwrap_or_default();
    let about = example.about();
    let mut capabilities = json!({ "tools": {} });
    if example.content().is_some() {
        capabilities["resources"] = json!({ "listChanged": true });
        capabilities["prompts"] = json!({});
    }
    json!({
        "protocolVersion": Revision::negotiate_legacy(&asked).as_str(),
        "capabilities": capabilities,
        "serverInfo": { "name": about.name, "title": about.title, "version": env!("CARGO_PKG_VERSION") },
        "instructions": about.instructions,
    })
}

fn call(example: &dyn Example, params: &Raw) -> Result<Value, RpcError> {
    let name = params.text("name").unwrap_or_default();
    let arguments = arguments(params)?;
    match example.call(&name, &arguments) {
        Some(Ok(told)) => Ok(told.into_result()),
        Some(Err(wrong)) => Ok(json!({ "content": [{ "type": "text", "text": wrong.0 }], "isError": true })),
        None => Err(RpcError::new(INVALID_PARAMS, format!("unknown tool `{}`", shown(&name)))),
    }
}

fn prompt(content: &dyn Content, params: &Raw) -> Result<Value, RpcError> {
    let name = params.text("name").unwrap_or_default();
    let arguments = arguments(params)?;
    let unknown = || RpcError::new(INVALID_PARAMS, format!("unknown prompt `{}`", shown(&name)));
    let prompted = content.prompt(&name, &arguments).ok_or_else(unknown)?;
    prompted.map_err(|wrong| RpcError::new(INVALID_PARAMS, wrong.0))
}

fn arguments(params: &Raw) -> Result<Arguments, RpcError> {
    let value = params.get("arguments").map(|arguments| arguments.to_value()).unwrap_or_default();
    Arguments::new(value).map_err(|wrong| RpcError::new(INVALID_PARAMS, wrong.0))
}

/// A name of the client's as it is repeated in an error.
fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}

//! Calls by plain names, whatever the profile's dialect: where it answers nothing but its meta-tools directly
//! (muster's), a call is wrapped into `call_tool` and its result unwrapped again, so that no one else has to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use toolcrib_base::Problem;
use toolcrib_protocol::inventory::Listing;
use toolcrib_protocol::raw::Writer;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_transport::{CallHandler, CallOptions};

use super::modern::RequestOutcome;
use super::{Client, ToolResult, failure};

/// What is in muster's menu and in no other.
const SIGNS: [&str; 2] = ["call_tool", "list_core_tools"];
/// The tool that calls others.
const CALL: &str = "call_tool";

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct CallObservation {
    pub(crate) outcome: Result<ToolResult, Problem>,
    /// The JSON-RPC error behind a problem, where the gateway answered with one.
    pub(crate) error: Option<RpcError>,
    /// The HTTP status that came with it where one came.
    pub(crate) status: Option<u16>,
}

// === impl Client ===

impl Client {
    /// Calls a tool by its plain name.
    pub(crate) async fn call_plain(&self, name: &str, arguments: &Raw, deadline: Duration) -> CallObservation {
        let menu = match self.wrapping_menu().await {
            Ok(menu) => menu,
            Err(problem) => return CallObservation { outcome: Err(problem), error: None, status: None },
        };
        let Some(menu) = menu.filter(|menu| !menu.iter().any(|own| own == name)) else {
            return self.call_direct(name, arguments, deadline).await;
        };
        debug_assert!(menu.iter().any(|own| own == CALL));
        let seen = self.call_direct(CALL, &named(name, arguments), deadline).await;
        CallObservation { outcome: seen.outcome.map(|result| unwrapped(&result).unwrap_or(result)), ..seen }
    }

    /// Calls any tool where the menu has to be gone through, and lets a person answer what it asks.
    pub(super) async fn call_wrapped(
        &self,
        name: &str,
        arguments: &Raw,
        handler: Option<Arc<dyn CallHandler>>,
    ) -> Result<ToolResult, Problem> {
        let menu = self.wrapping_menu().await?.unwrap_or_default();
        if menu.iter().any(|own| own == name) {
            return self.call(name, arguments, handler).await;
        }
        let result = self.call(CALL, &named(name, arguments), handler).await?;
        Ok(unwrapped(&result).unwrap_or(result))
    }

    /// Calls a tool of the menu as it is, and follows the task where the gateway makes one of the call.
    pub(crate) async fn call_direct(&self, name: &str, arguments: &Raw, deadline: Duration) -> CallObservation {
        let until = Instant::now() + deadline.min(self.deadline);
        let (answered, status) = self.sent(method::TOOLS_CALL, named(name, arguments), deadline).await;
        self.seen(self.followed(answered, until).await, status)
    }

    /// Sends any request of MCP; its result stays as it is, whatever it is.
    pub(crate) async fn send(&self, method: &str, params: Raw, deadline: Duration) -> CallObservation {
        let (answered, status) = self.sent(method, params, deadline).await;
        self.seen(answered, status)
    }

    async fn sent(&self, method: &str, params: Raw, deadline: Duration) -> (RequestOutcome, Option<u16>) {
        let status = Arc::new(AtomicU16::new(0));
        let within = CallOptions::within(deadline.min(self.deadline));
        let options = CallOptions { status: Some(Arc::clone(&status)), ..within };
        let id = self.link.next_id();
        let params = self.with_meta(id, params);
        let answered = self.link.call(id, method, params, options).await;
        (answered, Some(status.load(Ordering::Relaxed)).filter(|status| *status != 0))
    }

    fn seen(&self, answered: RequestOutcome, status: Option<u16>) -> CallObservation {
        match answered {
            Ok(Ok(result)) => CallObservation { outcome: Ok(ToolResult(result)), error: None, status },
            Ok(Err(error)) => {
                CallObservation { outcome: Err(failure::of_rpc(&error, &self.located)), error: Some(error), status }
            }
            Err(error) => CallObservation { outcome: Err(failure::of_link(error, &self.located)), error: None, status },
        }
    }

    /// Whether everything but the menu has to be wrapped: the profile speaks muster's dialect.
    pub(crate) async fn wraps(&self) -> Result<bool, Problem> {
        Ok(self.wrapping_menu().await?.is_some())
    }

    /// The names of the menu, where everything else has to be wrapped. Asked once: a menu does not change its dialect.
    async fn wrapping_menu(&self) -> Result<Option<&[String]>, Problem> {
        let menu = self.menu.get_or_try_init(async || {
            let entries = self.list(Listing::Tools).await?;
            Ok::<_, Problem>(entries.iter().filter_map(|entry| entry.text("name")).collect::<Vec<_>>())
        });
        let menu = menu.await?;
        let wraps = SIGNS.iter().all(|sign| menu.iter().any(|name| name == sign));
        Ok(wraps.then_some(menu.as_slice()))
    }
}

/// A tool's name and its arguments as they were written.
pub(super) fn named(name: &str, arguments: &Raw) -> Raw {
    let mut params = Writer::object(64);
    params.text("name", name);
    params.member("arguments", arguments.as_str());
    params.finish()
}

/// The tool's own result out of that of muster's `call_tool`: JSON `{isError, content, structuredContent?}` as text,
/// and behind it, in their order, the blocks that are not text. `None` when it is not of that form, as an error of
/// `call_tool` itself is not.
fn unwrapped(result: &ToolResult) -> Option<ToolResult> {
    let outer = result.0.to_value();
    let blocks = outer["content"].as_array()?;
    let mut inner: Value = serde_json::from_str(blocks.first()?["text"].as_str()?).ok()?;
    inner.get("isError")?.as_bool()?;
    let mut whole = blocks[1..].iter();
    for block in inner["content"].as_array_mut()? {
        if block["type"] != "text" {
            *block = whole.next()?.clone();
        }
    }
    for key in ["_meta", "structuredContent"] {
        match (outer.get(key), inner.as_object_mut()) {
            (Some(value), _) => inner[key] = value.clone(),
            // In the text it would be something that the tool wrote.
            (None, Some(inner)) if key == "_meta" => drop(inner.remove(key)),
            (None, _) => {}
        }
    }
    Some(ToolResult(Raw::from_value(&inner)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(outer: &Value, expected: Option<&Value>) {
        let found = unwrapped(&ToolResult(Raw::from_value(outer))).map(|result| result.0.to_value());
        assert_eq!(found.as_ref(), expected, "{outer}");
    }

    #[test]
    fn a_wrapped_result_is_what_the_tool_said() {
        let inner = json!({
            "isError": true,
            "content": [
                { "type": "text", "text": "a" },
                { "type": "image", "mimeType": "image/png", "dataSize": 3 },
                { "type": "text", "text": "b" },
                { "type": "hologram", "x": 1 },
            ],
        });
        let image = json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" });
        let outer = json!({
            "isError": true,
            "content": [{ "type": "text", "text": inner.to_string() }, image, { "type": "hologram", "x": 1 }],
            "structuredContent": { "n": 1 },
            "_meta": { "k": "v" },
        });
        let mut expected = inner.clone();
        expected["content"][1] = image;
        expected["_meta"] = json!({ "k": "v" });
        expected["structuredContent"] = json!({ "n": 1 });
        check(&outer, Some(&expected));
    }

    #[test]
    fn what_is_not_wrapped_stays() {
        check(&json!({ "content": [{ "type": "text", "text": "tool not found: x" }], "isError": true }), None);
        check(&json!({ "content": [] }), None);
        check(&json!({ "content": [{ "type": "text", "text": "{\"a\":1}" }] }), None);
        // A block that was promised and is not there must not become half a block.
        let inner = json!({ "isError": false, "content": [{ "type": "image", "dataSize": 3 }] }).to_string();
        check(&json!({ "content": [{ "type": "text", "text": inner }] }), None);
    }
}

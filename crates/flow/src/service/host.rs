//! What a service needs from outside: a caller of tools, and a receiver of events. In the
//! program that is the gateway; tests have their own.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use toolcrib_base::{PrincipalId, Problem, ProfileName, Role};
use toolcrib_call::Invocation;
use toolcrib_gateway::{Gateway, ObjectEvent};
use toolcrib_protocol::Raw;
use toolcrib_session::{Caller, Principal};
use toolcrib_store::Door;

use super::class::Answer;

/// The longest text of an answer that is repeated in an error, in characters.
const SHOWN: usize = 2_000;

/// In whose name a service works when no one asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) principal: PrincipalId,
    pub(super) role: Role,
    pub(super) profile: ProfileName,
}

/// Someone who may call tools.
pub(super) trait ToolCaller: Send + Sync {
    /// Calls a tool by whatever name a dialect gives it.
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Value) -> BoxFuture<'a, Result<Answer, Problem>>;

    /// Those of these tools that are not there.
    fn missing(&self, tools: &[&str]) -> Vec<String>;
}

/// Where services live.
pub(super) trait ServiceHost: Send + Sync + fmt::Debug {
    /// The owner's hands; nothing while there is no house yet or no more.
    fn hands(&self, owner: &Owner, label: &str) -> Option<Arc<dyn ToolCaller>>;

    /// Emits an event of a service.
    fn emit(&self, event: ObjectEvent);

    /// Whether all tools that there are are known.
    fn is_settled(&self) -> bool;

    /// Changes whenever other tools may be there.
    fn changes(&self) -> watch::Receiver<u64>;
}

// === impl ToolCaller for an invocation ===

impl ToolCaller for Invocation {
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Value) -> BoxFuture<'a, Result<Answer, Problem>> {
        Box::pin(async move {
            let result = Invocation::call(self, tool, Raw::from_value(arguments)).await?;
            Ok(Answer::of(&result.to_value()))
        })
    }

    fn missing(&self, tools: &[&str]) -> Vec<String> {
        Invocation::missing(self, tools.iter().copied())
    }
}

// === impl Answer ===

impl Answer {
    /// A result of `tools/call`.
    pub(super) fn of(result: &Value) -> Self {
        let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let text = texts.join("\n");
        let structured = result.get("structuredContent").filter(|content| content.is_object());
        let parsed = || serde_json::from_str::<Value>(&text).ok().filter(|value| value.is_object() || value.is_array());
        let value = structured.cloned().or_else(parsed).unwrap_or_else(|| text.as_str().into());
        let short = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        Self { value, is_error: result["isError"].as_bool().unwrap_or(false), text: short }
    }
}

// === impl ServiceHost for the gateway ===

/// The gateway, once it is there.
#[derive(Debug)]
pub(super) struct GatewayHost {
    gateway: Mutex<Weak<Gateway>>,
    changes: watch::Sender<u64>,
}

impl GatewayHost {
    pub(super) fn new() -> Self {
        Self { gateway: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// From now on the gateway is there.
    pub(super) fn enter(&self, gateway: &Arc<Gateway>) {
        *self.gateway.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(gateway);
        self.changed();
    }

    /// Other tools may be there.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// The gateway, while there is one.
    pub(super) fn gateway(&self) -> Option<Arc<Gateway>> {
        self.gateway.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

impl ServiceHost for GatewayHost {
    fn hands(&self, owner: &Owner, label: &str) -> Option<Arc<dyn ToolCaller>> {
        let principal = Principal::restored(owner.principal.clone(), owner.role);
        let caller = Caller::without_message(principal, owner.profile.clone(), Door::new("service"));
        let mut invocation = Invocation::new(self.gateway()?, caller);
        label.clone_into(&mut invocation.label);
        Some(Arc::new(invocation))
    }

    fn emit(&self, event: ObjectEvent) {
        if let Some(gateway) = self.gateway() {
            gateway.happened(event);
        }
    }

    fn is_settled(&self) -> bool {
        self.gateway().is_some_and(|gateway| gateway.is_in_step())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read() {
        let check = |result: Value, value: Value, is_error| {
            let answer = Answer::of(&result);
            assert_eq!((answer.value, answer.is_error), (value, is_error), "{result}");
        };
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        check(text("{\"id\": 7}"), json!({"id": 7}), false);
        check(text("7"), json!("7"), false);
        check(text("made it"), json!("made it"), false);
        check(json!({"content": [], "structuredContent": {"a": 1}}), json!({"a": 1}), false);
        check(
            json!({"content": [{"type": "image"}, {"type": "text", "text": "no"}], "isError": true}),
            json!("no"),
            true,
        );
        check(json!({}), json!(""), false);
        let long = Answer::of(&text(&"é".repeat(SHOWN + 5)));
        assert_eq!((long.text.chars().count(), long.value.as_str().unwrap().chars().count()), (SHOWN + 1, SHOWN + 5));
    }
}

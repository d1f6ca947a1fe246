//! The one thing that a run needs of the world: calling tools. Filled by an invocation of the gateway, and by fakes in
//! tests.

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::{Problem, Timestamp};

/// Calls tools as the principal that runs the workflow.
pub trait CallTool: Send + Sync {
    /// Calls a tool by whatever name a dialect gives it. The answer is a result of `tools/call`, also where it says
    /// that the tool failed.
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Value) -> BoxFuture<'a, Result<Value, Problem>>;

    /// The same for a step: `step` is its id in the run, by which what it has begun is found again after a restart.
    fn call_step<'a>(
        &'a self,
        _step: &'a str,
        tool: &'a str,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Problem>> {
        self.call(tool, arguments)
    }

    /// What is known of such a call that a process before this one was about to make, not before `since`. One that waits
    /// for a yes goes on waiting here.
    fn interrupted<'a>(&'a self, tool: &'a str, arguments: &'a Value, since: Timestamp) -> BoxFuture<'a, PastCall>;

    /// Whether calling a tool twice is as good as once, as far as the tool says so.
    fn is_repeatable(&self, tool: &str) -> bool;

    /// Those of the tools that cannot be called.
    fn missing(&self, tools: &[&str]) -> Vec<String>;

    /// Tells what happened to the workflow.
    fn happened(&self, reason: &'static str, message: String, warning: bool);

    /// Tells anyone who waits how far the run is.
    fn report_progress(&self, done: usize, total: usize, message: &str);
}

/// What is known of a call that was under way when the process before ended.
#[derive(Debug)]
pub enum PastCall {
    /// It needed a yes, and this is its result, of `tools/call`.
    Ended(Result<Value, Problem>),
    /// It was not made, and may be.
    NotMade,
    /// It may have left.
    Unknown,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) failed: bool,
    /// The JSON that its text is, else its text; without any text its structured content.
    pub(super) value: Value,
    /// Its structured content, where that is not the value: members that the value lacks are looked for here.
    pub(super) beside: Option<Value>,
}

// === impl Answer ===

impl Answer {
    /// Reads a result of `tools/call`.
    pub(super) fn read(result: &Value) -> Self {
        let texts = result["content"].as_array().into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
        let text = texts.join("\n");
        let parsed = serde_json::from_str(&text).ok().filter(|value: &Value| value.is_object() || value.is_array());
        let structured = result.get("structuredContent").filter(|value| value.is_object());
        let value = match (parsed, structured) {
            (Some(parsed), _) => parsed,
            (None, Some(structured)) if text.is_empty() => structured.clone(),
            // Pictures and the like have no text; what is there is shown as it is.
            (None, None)
                if texts.is_empty() && result.get("content").is_some_and(|it| it != &serde_json::json!([])) =>
            {
                result["content"].clone()
            }
            (None, _) => Value::String(text),
        };
        let beside = structured.filter(|structured| **structured != value).cloned();
        Self { failed: result["isError"] == true, value, beside }
    }

    /// A call that did not come to an answer.
    pub(super) fn failure(text: String) -> Self {
        Self { failed: true, value: Value::String(text), beside: None }
    }

    /// The answer as data: where it is nothing but a text, its structured content, if it has any.
    pub(super) fn data<'a>(value: &'a Value, beside: Option<&'a Value>) -> &'a Value {
        beside.filter(|_| value.is_string()).unwrap_or(value)
    }

    /// The answer as text.
    pub(super) fn text(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }
}

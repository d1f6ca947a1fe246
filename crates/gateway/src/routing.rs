//! What chooses tools for wishes in words, as far as the gateway knows it: no model and no run.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::{Problem, ToolId};
use toolcrib_call::Invocation;

/// Has a model choose a tool, and calls it. Supplied by what knows models.
pub trait RouteIntents: fmt::Debug + Send + Sync {
    /// Chooses one of the tools for what is wanted, and calls it in the name of the caller.
    ///
    /// # Errors
    /// A tool was called and what came of it is not known; the rules refuse the call that was chosen.
    fn route(&self, request: RouteRequest) -> BoxFuture<'static, Result<RoutedIntent, Problem>>;
}

/// What is wanted.
#[derive(Debug)]
pub struct RouteRequest {
    /// In whose name.
    pub invocation: Invocation,
    /// In words.
    pub intent: String,
    /// The tools to choose among, the best first.
    pub candidates: Vec<ToolId>,
}

/// What came of it.
#[derive(Debug)]
pub enum RoutedIntent {
    /// A tool was called.
    Called(RoutedCall),
    /// The model found that none of the tools fits.
    NoMatch {
        /// What it said.
        message: String,
    },
    /// The call waits for a person.
    Waiting {
        /// The run that makes it.
        run: String,
        /// What to do, in words.
        message: String,
    },
    /// No model has chosen, and nothing was called.
    Undecided {
        /// Why.
        why: String,
    },
}

/// A call that a model has chosen.
#[derive(Debug)]
pub struct RoutedCall {
    /// The name of the tool.
    pub tool: String,
    /// What the tool gave: JSON, else text.
    pub result: Value,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The wire by which the model was asked.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Whether that was not the first one.
    pub is_fallback: bool,
}

/// What a result of `tools/call` gave: its structured content, the JSON that its text is, or its text.
pub fn what_it_gave(result: &Value) -> Value {
    if let Some(structured) = result.get("structuredContent").filter(|value| value.is_object()) {
        return structured.clone();
    }
    let blocks = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() {
        return blocks.into();
    }
    let text = texts.join("\n");
    serde_json::from_str(&text)
        .ok()
        .filter(|value: &Value| value.is_object() || value.is_array())
        .unwrap_or(text.into())
}

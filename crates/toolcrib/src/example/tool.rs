//! A tool of an example server: one row of its table, and what it answers.

use serde_json::{Value, json};

use super::{ArgumentError, Arguments};

/// One tool of the server `S`.
pub(super) struct Tool<S: 'static> {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// For the model: what it does, what it takes and what it gives.
    pub(super) description: &'static str,
    pub(super) effect: Effect,
    /// The properties of the arguments; those that [`Tool::required`] names must be there.
    pub(super) properties: fn() -> Value,
    pub(super) required: &'static [&'static str],
    pub(super) run: fn(&S, &Arguments) -> Result<ToolReply, ArgumentError>,
}

/// What a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// It adds to what is there.
    Adds,
    /// It replaces or removes what is there.
    Replaces,
}

/// What a tool answers.
#[derive(Debug, PartialEq)]
pub(crate) struct ToolReply {
    /// For the model and for people.
    pub(crate) text: String,
    /// The same for programs: an object, or null where there is no more than the text.
    pub(crate) structured: Value,
    /// A PNG in base64 that follows the text.
    pub(crate) picture: Option<&'static str>,
}

// === impl Tool ===

impl<S> Tool<S> {
    /// The entry in `tools/list`.
    pub(super) fn entry(&self) -> Value {
        let hints = match self.effect {
            Effect::Reads => json!({ "readOnlyHint": true, "openWorldHint": false }),
            Effect::Adds => json!({ "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false }),
            Effect::Replaces => json!({ "readOnlyHint": false, "destructiveHint": true, "openWorldHint": false }),
        };
        let mut schema = json!({ "type": "object", "properties": (self.properties)() });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema["additionalProperties"] = json!(false);
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema,
            "annotations": hints,
        })
    }
}

/// The entries of a table.
pub(super) fn entries<S>(table: &[Tool<S>]) -> Vec<Value> {
    table.iter().map(Tool::entry).collect()
}

/// Calls a tool of a table.
pub(super) fn call<S>(
    table: &[Tool<S>],
    server: &S,
    name: &str,
    arguments: &Arguments,
) -> Option<Result<ToolReply, ArgumentError>> {
    let tool = table.iter().find(|tool| tool.name == name)?;
    let known = (tool.properties)();
    let outcome = arguments.only(&known).and_then(|()| (tool.run)(server, arguments));
    Some(outcome)
}

// === impl ToolReply ===

impl ToolReply {
    pub(super) fn new(text: impl Into<String>, structured: Value) -> Self {
        Self { text: text.into(), structured, picture: None }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::new(text, Value::Null)
    }

    pub(super) fn picture(png: &'static str) -> Self {
        Self { picture: Some(png), ..Self::text("") }
    }

    /// The result of `tools/call`.
    pub(super) fn into_result(self) -> Value {
        let mut content = Vec::new();
        if !self.text.is_empty() || self.picture.is_none() {
            content.push(json!({ "type": "text", "text": self.text }));
        }
        content.extend(self.picture.map(|png| json!({ "type": "image", "data": png, "mimeType": "image/png" })));
        let mut result = json!({ "content": content });
        if !self.structured.is_null() {
            result["structuredContent"] = self.structured;
        }
        result
    }
}

//! Mock MCP servers: tools whose answers a scenario writes down, over stdio, Streamable HTTP or HTTP+SSE.

mod guard;
mod http;
mod read;
mod speak;
mod stdio;

use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::wrong::Wrong;
use crate::{document, form, template};

pub(crate) use guard::{Exchange, Guard, Protection};
pub(crate) use http::HttpMock;
pub(crate) use read::{behaviour, protection};
pub use stdio::serve as serve_stdio;

/// What a mock server does.
#[derive(Debug, Clone, Default)]
pub struct Mock {
    pub(crate) tools: Vec<Tool>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Option<Value>,
    pub(crate) annotations: Option<Value>,
    pub(crate) responses: Vec<Response>,
    /// Whether the answer is what the token of the call says of its bearer.
    pub(crate) echoes: bool,
}

/// One answer and when it is given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) condition: Map<String, Value>,
    pub(crate) response: Value,
    pub(crate) error: Option<String>,
    pub(crate) delay: Duration,
}

/// What a tool is called with.
#[derive(Debug)]
pub(crate) struct MockCall<'a> {
    pub(crate) arguments: Map<String, Value>,
    /// What the token of the call says, where one was asked for.
    pub(crate) claims: Option<&'a Map<String, Value>>,
}

/// A mock that runs: its tools may change.
#[derive(Debug)]
pub(crate) struct Live {
    mock: RwLock<Mock>,
    changes: watch::Sender<u64>,
}

// === impl Mock ===

impl Mock {
    /// Reads the file of `--mock-config`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(file: &Path, text: &str) -> Result<Self, Vec<Wrong>> {
        let root = document::parse(file, text).map_err(|wrong| vec![wrong])?;
        let found = form::check(&root, &form::MOCK, file);
        if found.is_empty() { Ok(behaviour(&root)) } else { Err(found) }
    }

    /// The file of `--mock-config` for it.
    pub(crate) fn to_file(&self) -> String {
        json!({ "tools": self.tools.iter().map(Tool::to_config).collect::<Vec<_>>() }).to_string()
    }
}

// === impl Live ===

impl Live {
    pub(crate) fn new(mock: Mock) -> Self {
        Self { mock: RwLock::new(mock), changes: watch::Sender::new(0) }
    }

    /// Counts the changes of the list of tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes the place of the mock that was.
    pub(crate) fn replace(&self, mock: Mock) {
        *self.mock.write().unwrap_or_else(PoisonError::into_inner) = mock;
        self.changes.send_modify(|count| *count += 1);
    }

    /// The entries of `tools/list`.
    pub(crate) fn list(&self) -> Vec<Value> {
        let mock = self.mock.read().unwrap_or_else(PoisonError::into_inner);
        mock.tools.iter().map(Tool::entry).collect()
    }

    /// What a call is answered with, and after which time; `None` when there is no such tool.
    pub(crate) fn call(&self, name: &str, request: &MockCall<'_>) -> Option<(Duration, Value)> {
        let mock = self.mock.read().unwrap_or_else(PoisonError::into_inner);
        mock.tools.iter().find(|tool| tool.name == name).map(|tool| tool.call(request))
    }
}

// === impl Tool ===

impl Tool {
    /// A tool that answers with its arguments.
    pub(crate) fn plain(name: String, description: Option<String>) -> Self {
        let response = Response { response: json!({ "tool": name, "status": "ok" }), ..Response::default() };
        Self { name, description, input_schema: None, annotations: None, responses: vec![response], echoes: false }
    }

    fn entry(&self) -> Value {
        let mut schema = self.input_schema.clone().unwrap_or_else(|| json!({}));
        if schema.get("type").is_none() {
            schema["type"] = "object".into();
        }
        let mut entry = json!({ "name": self.name, "inputSchema": schema });
        if let Some(description) = &self.description {
            entry["description"] = description.as_str().into();
        }
        if let Some(annotations) = &self.annotations {
            entry["annotations"] = annotations.clone();
        }
        entry
    }

    fn call(&self, request: &MockCall<'_>) -> (Duration, Value) {
        if self.echoes {
            let claims = request.claims.map_or_else(|| json!({ "token": null }), |claims| json!(claims));
            return (Duration::ZERO, text_result(&claims.to_string(), false));
        }
        let mut arguments = self.defaults();
        arguments.extend(request.arguments.clone());
        let fits = |response: &&Response| !response.condition.is_empty() && response.fits(&arguments);
        // Those with a condition that fits win; else the first that has none, else the first.
        let chosen = self.responses.iter().find(fits);
        let chosen = chosen.or_else(|| self.responses.iter().find(|response| response.condition.is_empty()));
        let Some(chosen) = chosen.or(self.responses.first()) else {
            return (Duration::ZERO, text_result("{}", false));
        };
        (chosen.delay, chosen.result(&Value::Object(arguments)))
    }

    /// Defaults of the schema's properties.
    fn defaults(&self) -> Map<String, Value> {
        let properties = self.input_schema.as_ref().and_then(|schema| schema.get("properties")?.as_object());
        let default = |(name, schema): (&String, &Value)| Some((name.clone(), schema.get("default")?.clone()));
        properties.map(|properties| properties.iter().filter_map(default).collect()).unwrap_or_default()
    }

    fn to_config(&self) -> Value {
        let response = |response: &Response| {
            let mut config = json!({
                "condition": response.condition,
                "response": response.response,
                "delay": format!("{}ms", response.delay.as_millis()),
            });
            if let Some(error) = &response.error {
                config["error"] = error.as_str().into();
            }
            config
        };
        json!({
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "annotations": self.annotations,
            "responses": self.responses.iter().map(response).collect::<Vec<_>>(),
            "echo_token": self.echoes,
        })
    }
}

// === impl Response ===

impl Response {
    /// Whether each argument of the condition has its value; `1` and `"1"` are the same.
    fn fits(&self, arguments: &Map<String, Value>) -> bool {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.condition.iter().all(|(name, wanted)| {
            arguments.get(name).is_some_and(|value| value == wanted || shown(value) == shown(wanted))
        })
    }

    fn result(&self, arguments: &Value) -> Value {
        let given = self.error.as_ref().map_or_else(|| self.response.clone(), |error| error.as_str().into());
        match template::answer(&given, arguments) {
            Ok(Value::String(text)) => text_result(&text, self.error.is_some()),
            Ok(value) => text_result(&value.to_string(), false),
            Err(unknown) => text_result(&unknown, true),
        }
    }
}

fn text_result(text: &str, is_error: bool) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
}

#[cfg(test)]
mod tests;

//! What the templates and conditions of a run see: its input, the results so far, its variables.

use std::collections::HashMap;

use serde_json::{Value, json};

/// How much all results of a run may hold, in bytes of JSON: a bound for the memory, far above what is useful.
const RESULTS_BYTES: usize = 64 * 1024 * 1024;

/// What is known in the course of a run.
#[derive(Debug, Clone)]
pub(super) struct State {
    context: Value,
    /// Whether steps succeeded.
    successes: HashMap<String, bool>,
    bytes: usize,
}

// === impl State ===

impl State {
    pub(super) fn new(input: &Value) -> Self {
        let context = json!({ "input": input, "results": {}, "context": {}, "vars": {} });
        Self { context, successes: HashMap::new(), bytes: 0 }
    }

    /// The roots of templates. `context` is an older word for `results`.
    pub(super) fn context(&self) -> &Value {
        &self.context
    }

    /// Takes a step's result in. Errors when all results together are too much to keep.
    pub(super) fn result(&mut self, id: &str, success: bool, value: &Value) -> Result<(), String> {
        self.bytes += weight(value);
        if self.bytes > RESULTS_BYTES {
            return Err(format!("the results of the run are more than {RESULTS_BYTES} bytes"));
        }
        self.successes.insert(id.to_owned(), success);
        self.context["results"][id] = value.clone();
        self.context["context"][id] = value.clone();
        Ok(())
    }

    pub(super) fn variable(&mut self, name: &str, value: Value) {
        self.context["vars"][name] = value;
    }

    /// Takes a variable away.
    pub(super) fn forget(&mut self, name: &str) {
        if let Some(vars) = self.context["vars"].as_object_mut() {
            vars.remove(name);
        }
    }

    /// Whether an earlier step succeeded, and its result.
    pub(super) fn outcome(&self, id: &str) -> Option<(bool, &Value)> {
        Some((*self.successes.get(id)?, self.context["results"].get(id)?))
    }
}

/// About how many bytes a value is as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + weight(value) + 4).sum::<usize>() + 2,
        _ => 8,
    }
}

//! What the templates and conditions of a run see: its input, the results so far, its variables.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolcrib_base::Timestamp;

use super::condition::StepResult;
use crate::template::Context;

/// How much all results of a run may hold, in bytes of JSON: a bound for the memory, far above what is useful.
const RESULTS_BYTES: usize = 64 * 1024 * 1024;

/// The roots of templates that change during a run.
const RESULTS: &str = "results";
const VARIABLES: &str = "vars";

/// What is known during a run.
#[derive(Debug)]
pub(super) struct State {
    context: Context,
    /// Whether steps succeeded.
    successes: HashMap<String, bool>,
    bytes: usize,
}

// === impl State ===

impl State {
    /// Nothing but the input. `now` is the moment that templates call so.
    pub(super) fn new(input: &Value, now: Timestamp) -> Self {
        let context = Context::from(&json!({ "input": input, RESULTS: {}, VARIABLES: {} })).at(now);
        Self { context, successes: HashMap::new(), bytes: 0 }
    }

    /// The roots of templates.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// The roots of templates that see a result which is not taken in yet.
    pub(super) fn context_with(&self, names: &[&str], value: &Value, beside: Option<&Value>) -> Context {
        self.context.with(RESULTS, names, value.clone(), beside.cloned())
    }

    /// Takes a step's result in, under each of its names, with the structured content that it came with. Errors when
    /// all results together are too much to keep.
    pub(super) fn result(
        &mut self,
        names: &[&str],
        success: bool,
        value: &Value,
        beside: Option<&Value>,
    ) -> Result<(), String> {
        self.bytes += weight(value) + beside.map_or(0, weight);
        if self.bytes > RESULTS_BYTES {
            return Err(format!("the results of the run are more than {RESULTS_BYTES} bytes"));
        }
        self.successes.extend(names.iter().map(|name| ((*name).to_owned(), success)));
        self.context.set(RESULTS, names, value.clone(), beside.cloned());
        Ok(())
    }

    pub(super) fn variable(&mut self, name: &str, value: Value) {
        self.context.set(VARIABLES, &[name], value, None);
    }

    /// Takes a variable away.
    pub(super) fn forget(&mut self, name: &str) {
        self.context.remove(VARIABLES, name);
    }

    /// What an earlier step came to.
    pub(super) fn outcome(&self, id: &str) -> Option<StepResult<'_>> {
        let (value, beside) = self.context.get(RESULTS, id)?;
        Some(StepResult { success: *self.successes.get(id)?, value, beside })
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

//! The arguments of an operation, once they fit its schema.

use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::Invocation;

/// What an operation was given.
#[derive(Debug)]
pub(crate) struct OperationArguments(Map<String, Value>);

impl OperationArguments {
    pub(crate) fn of(invocation: &Invocation) -> Self {
        match invocation.arguments.to_value() {
            Value::Object(arguments) => Self(arguments),
            _ => Self(Map::new()),
        }
    }

    /// A text that must be there and be something.
    pub(crate) fn text(&self, key: &str) -> Result<&str, Problem> {
        let text = self.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| Problem::new(Kind::InvalidParams, format!("{key} argument is required")))
    }

    /// An argument as it is; nothing where it is not given or is null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// The same where null says something too.
    pub(crate) fn even_null(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn object(&self, key: &str) -> Map<String, Value> {
        self.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// A whole number; the schema has its bounds.
    pub(crate) fn number(&self, key: &str, default: u32) -> u32 {
        self.get(key).and_then(Value::as_f64).map_or(default, |number| number as u32)
    }
}

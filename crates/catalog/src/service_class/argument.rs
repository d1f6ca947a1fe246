//! `args` of a service class or a workflow: what it takes, and what does not fit that.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use crate::pattern::Pattern;
use crate::reader::{Cursor, choice};

choice! {
    /// What kind of value an argument takes.
    ArgumentKind {
        String = "string",
        Integer = "integer",
        Boolean = "boolean",
        Number = "number",
        Object = "object",
        Array = "array",
    }
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentDefinition {
    pub kind: ArgumentKind,
    pub required: bool,
    /// What it is when nobody says otherwise.
    pub default: Option<Value>,
    pub description: Option<String>,
    /// The only values; none for any.
    pub choices: Vec<Value>,
    /// The least and the greatest number.
    pub minimum: Option<Number>,
    pub maximum: Option<Number>,
    /// What its texts must match.
    pub pattern: Option<Pattern>,
}

// === impl ArgumentKind ===

impl ArgumentKind {
    /// Whether a value is of this kind. Nothing is converted: a service gets what it was given.
    pub fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            // Some clients know one kind of number only: 3.0 is a whole number.
            Self::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            Self::Boolean => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }
}

// === impl ArgumentDefinition ===

impl ArgumentDefinition {
    /// An argument that takes every value of a kind.
    pub fn of(kind: ArgumentKind) -> Self {
        Self {
            kind,
            required: false,
            default: None,
            description: None,
            choices: Vec::new(),
            minimum: None,
            maximum: None,
            pattern: None,
        }
    }

    /// What is wrong with a value of the right kind: `must be …`.
    pub fn fault(&self, value: &Value) -> Option<String> {
        if !self.choices.is_empty() && !self.choices.contains(value) {
            let choices: Vec<String> = self.choices.iter().map(|choice| format!("`{}`", bare(choice))).collect();
            return Some(format!("must be one of the enum {}", choices.join(", ")));
        }
        let number = value.as_f64();
        let beyond = |bound: &Option<Number>, is: fn(f64, f64) -> bool| {
            bound.as_ref().filter(|bound| number.zip(bound.as_f64()).is_some_and(|(it, bound)| is(it, bound))).cloned()
        };
        if let Some(bound) = beyond(&self.minimum, |it, bound| it < bound) {
            return Some(format!("must be at least the minimum {bound}"));
        }
        if let Some(bound) = beyond(&self.maximum, |it, bound| it > bound) {
            return Some(format!("must be at most the maximum {bound}"));
        }
        let unmatched =
            self.pattern.as_ref().filter(|pattern| value.as_str().is_some_and(|text| !pattern.matches(text)));
        unmatched.map(|pattern| format!("must match the pattern `{}`", pattern.as_str()))
    }

    /// Its JSON Schema.
    pub fn schema(&self) -> Value {
        let mut schema = serde_json::json!({ "type": self.kind.as_str() });
        let bound = |bound: &Option<Number>| bound.clone().map(Value::Number);
        let choices = (!self.choices.is_empty()).then(|| Value::Array(self.choices.clone()));
        for (key, value) in [
            ("description", self.description.as_deref().map(Value::from)),
            ("default", self.default.clone()),
            ("enum", choices),
            ("minimum", bound(&self.minimum)),
            ("maximum", bound(&self.maximum)),
            ("pattern", self.pattern.as_ref().map(|pattern| pattern.as_str().into())),
        ] {
            if let Some(value) = value {
                schema[key] = value;
            }
        }
        schema
    }
}

/// A value without the quotes of a text.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The map of arguments.
pub(crate) fn arguments(cursor: &Cursor<'_>) -> BTreeMap<String, ArgumentDefinition> {
    cursor.map(|_, value| argument(value))
}

fn argument(cursor: &Cursor<'_>) -> Option<ArgumentDefinition> {
    let fields = cursor.clone().fields()?;
    let hint = "add `type: string`, or one of integer, boolean, number, object, array".to_owned();
    let kind: Option<ArgumentKind> =
        fields.require("type", "the kind of its values", hint).and_then(|cursor| cursor.choice());
    let default = fields.get("default");
    let value = default.as_ref().and_then(Cursor::value).filter(|value| !value.is_null());
    if let (Some(kind), Some(default), Some(value)) = (kind, &default, &value)
        && !kind.fits(value)
    {
        default.expected(format_args!("a default that is of the type `{kind}`"));
    }
    let argument = ArgumentDefinition {
        kind: kind.unwrap_or(ArgumentKind::String),
        required: fields.get("required").and_then(|cursor| cursor.flag()).unwrap_or(false),
        default: value,
        description: fields.text("description"),
        choices: fields.get("enum").map(|cursor| cursor.list(|item| item.value())).unwrap_or_default(),
        minimum: fields.get("minimum").or_else(|| fields.untold("min")).and_then(|cursor| cursor.decimal()),
        maximum: fields.get("maximum").or_else(|| fields.untold("max")).and_then(|cursor| cursor.decimal()),
        pattern: fields.get("pattern").and_then(|cursor| pattern(&cursor)),
    };
    if let (Some(default), Some(value)) = (&default, &argument.default)
        && kind.is_some_and(|kind| kind.fits(value))
        && let Some(fault) = argument.fault(value)
    {
        default.problem(fault, None);
    }
    fields.finish();
    kind.map(|_| argument)
}

fn pattern(cursor: &Cursor<'_>) -> Option<Pattern> {
    let parsed = cursor.text()?.parse();
    parsed.map_err(|error: crate::PatternError| cursor.problem(error.to_string(), None)).ok()
}

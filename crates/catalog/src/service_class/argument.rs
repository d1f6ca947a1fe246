//! `args` of a service class: what its services are made of, and what does not fit it.

use std::collections::BTreeMap;

use serde_json::Value;

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

/// The map of arguments.
pub(super) fn arguments(cursor: &Cursor<'_>) -> BTreeMap<String, ArgumentDefinition> {
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
    };
    fields.finish();
    kind.map(|_| argument)
}

//! `args` of a service class or a workflow: what it takes, and what does not fit that.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use crate::pattern::Pattern;
use crate::reader::{Cursor, Fields, choice};

/// The longest text that a length may ask for.
const LENGTH_MAX: u32 = 10_000_000;

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
    /// The default value.
    pub default: Option<Value>,
    pub description: Option<String>,
    /// The only values; none for any.
    pub choices: Vec<Value>,
    /// The least and the greatest number.
    pub minimum: Option<Number>,
    pub maximum: Option<Number>,
    /// The least and the greatest number of characters of its texts.
    pub min_length: Option<u32>,
    pub max_length: Option<u32>,
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
            min_length: None,
            max_length: None,
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
        let length = value.as_str().map(|text| text.chars().count());
        let long = |bound: u32| usize::try_from(bound).unwrap_or(usize::MAX);
        if let Some(bound) = self.min_length.filter(|bound| length.is_some_and(|length| length < long(*bound))) {
            return Some(format!("must have at least the minLength of {bound} characters"));
        }
        if let Some(bound) = self.max_length.filter(|bound| length.is_some_and(|length| length > long(*bound))) {
            return Some(format!("must have at most the maxLength of {bound} characters"));
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
            ("minLength", self.min_length.map(Value::from)),
            ("maxLength", self.max_length.map(Value::from)),
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
    let written = DefinitionFile::of(&fields);
    let number = |cursor: &Option<Cursor<'_>>| cursor.as_ref().and_then(Cursor::decimal);
    let length = |cursor: &Option<Cursor<'_>>| cursor.as_ref().and_then(|cursor| cursor.number(0, LENGTH_MAX));
    let argument = ArgumentDefinition {
        kind: kind.unwrap_or(ArgumentKind::String),
        required: fields.get("required").and_then(|cursor| cursor.flag()).unwrap_or(false),
        default: written.default.as_ref().map(Cursor::value).filter(|value| !value.is_null()),
        description: fields.text("description"),
        choices: written.choices.iter().map(Cursor::value).collect(),
        minimum: number(&written.minimum),
        maximum: number(&written.maximum),
        min_length: length(&written.min_length),
        max_length: length(&written.max_length),
        pattern: written.pattern.as_ref().and_then(pattern),
    };
    fields.finish();
    kind?;
    written.judge(&argument);
    Some(argument)
}

/// The rules of an argument where they are written, to say there what contradicts the others.
struct DefinitionFile<'a> {
    default: Option<Cursor<'a>>,
    list: Option<Cursor<'a>>,
    choices: Vec<Cursor<'a>>,
    minimum: Option<Cursor<'a>>,
    maximum: Option<Cursor<'a>>,
    min_length: Option<Cursor<'a>>,
    max_length: Option<Cursor<'a>>,
    pattern: Option<Cursor<'a>>,
}

impl<'a> DefinitionFile<'a> {
    fn of(fields: &Fields<'a>) -> Self {
        let list = fields.get("enum");
        Self {
            default: fields.get("default"),
            choices: list.as_ref().map(Cursor::items).unwrap_or_default(),
            list,
            minimum: fields.get("minimum").or_else(|| fields.get_unlisted("min")),
            maximum: fields.get("maximum").or_else(|| fields.get_unlisted("max")),
            min_length: fields.either("minLength", "min_length"),
            max_length: fields.either("maxLength", "max_length"),
            pattern: fields.get("pattern"),
        }
    }

    /// Says what no value could fulfil, and what of itself does not fit.
    fn judge(&self, argument: &ArgumentDefinition) {
        let kind = argument.kind;
        let is_number = matches!(kind, ArgumentKind::Integer | ArgumentKind::Number);
        for (rule, fits, kinds) in [
            (&self.minimum, is_number, "`integer` and `number`"),
            (&self.maximum, is_number, "`integer` and `number`"),
            (&self.min_length, kind == ArgumentKind::String, "`string`"),
            (&self.max_length, kind == ArgumentKind::String, "`string`"),
            (&self.pattern, kind == ArgumentKind::String, "`string`"),
        ] {
            if let Some(rule) = rule.as_ref().filter(|_| !fits) {
                let hint = format!("it goes with the type {kinds}: remove the key, or change `type`");
                rule.problem(format!("means nothing for the type `{kind}`"), Some(hint));
            }
        }
        if let (Some(rule), Some(least), Some(most)) = (&self.maximum, &argument.minimum, &argument.maximum)
            && is_number
            && is_empty(kind, least, most)
        {
            rule.problem(format!("no {kind} is at least the minimum {least} and at most the maximum {most}"), None);
        }
        if let (Some(rule), Some(least), Some(most)) = (&self.max_length, argument.min_length, argument.max_length)
            && least > most
        {
            rule.problem(format!("no text has at least {least} characters (minLength) and at most {most}"), None);
        }
        if let Some(list) = self.list.as_ref().filter(|list| list.node().is_list() && self.choices.is_empty()) {
            list.problem(
                "an enum of nothing: no value would do",
                Some("name the values, or remove the key".to_owned()),
            );
        }
        for choice in &self.choices {
            // What is asked of a value beside that it is one of them.
            let others = ArgumentDefinition { choices: Vec::new(), ..argument.clone() };
            let value = choice.value();
            if kind.fits(&value) {
                others.fault(&value).into_iter().for_each(|fault| choice.problem(fault, None));
            } else {
                choice.expected(format_args!("a value of the type `{kind}`"));
            }
        }
        if let (Some(written), Some(value)) = (&self.default, &argument.default) {
            match argument.fault(value) {
                _ if !kind.fits(value) => {
                    written.expected(format_args!("a default that is of the type `{kind}`"));
                }
                Some(fault) => written.problem(fault, None),
                None => {}
            }
        }
    }
}

/// Whether no number of a kind lies between two bounds.
fn is_empty(kind: ArgumentKind, least: &Number, most: &Number) -> bool {
    let (Some(least), Some(most)) = (least.as_f64(), most.as_f64()) else { return false };
    least > most || kind == ArgumentKind::Integer && least.ceil() > most.floor()
}

fn pattern(cursor: &Cursor<'_>) -> Option<Pattern> {
    let parsed = cursor.text()?.parse();
    parsed.map_err(|error: crate::PatternError| cursor.problem(error.to_string(), None)).ok()
}

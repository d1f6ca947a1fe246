//! Paths into JSON values: the fields of templates (`.results.pods.items[0].name`) and the paths of conditions and
//! outputs (`$.items[0].name`, `items.0.name`).

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::context::newer_word;

use super::error::{Fault, TemplateError, shown};

/// How many steps a path may have.
const STEPS: usize = 64;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A field of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Path {
    pub(super) steps: Vec<Step>,
}

/// A step that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingKey {
    pub(super) key: String,
    pub(super) message: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, ".{key}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str(".");
        }
        self.steps.iter().try_for_each(|step| step.fmt(f))
    }
}

impl MissingKey {
    pub(super) fn into_error(self, template: &str) -> TemplateError {
        let message = format!("{} (in `{}`)", self.message, shown(template.trim()));
        TemplateError::new(Fault::Missing(self.key), message)
    }
}

impl Step {
    /// The step as the key of a map.
    pub(super) fn key(&self) -> Cow<'_, str> {
        match self {
            Self::Key(key) => Cow::Borrowed(key),
            Self::Index(index) => Cow::Owned(index.to_string()),
        }
    }
}

/// One step into a value. A key that is a number counts in a list too.
pub(super) fn step<'a>(value: &'a Value, step: &Step) -> Option<&'a Value> {
    match (value, step) {
        (Value::Object(members), Step::Key(key)) => members.get(key),
        (Value::Array(items), Step::Index(index)) => items.get(*index),
        (Value::Array(items), Step::Key(key)) => items.get(key.parse::<usize>().ok()?),
        (Value::Object(members), Step::Index(index)) => members.get(&index.to_string()),
        _ => None,
    }
}

impl Path {
    /// The key directly under a root, if it leads there, by an older word too.
    pub(super) fn under(&self, root: &str) -> Option<&str> {
        match self.steps.as_slice() {
            [Step::Key(first), Step::Key(key), ..] if newer_word(first) == root => Some(key),
            _ => None,
        }
    }

    pub(super) fn walk<'a>(&self, value: &'a Value) -> Result<&'a Value, MissingKey> {
        self.walk_from(value, 0)
    }

    /// Walks what is left of it from that step on.
    pub(super) fn walk_from<'a>(&self, value: &'a Value, from: usize) -> Result<&'a Value, MissingKey> {
        let mut at = value;
        for (index, next) in self.steps.iter().enumerate().skip(from) {
            at = step(at, next).ok_or_else(|| self.missing(index, at))?;
        }
        Ok(at)
    }

    /// Says that the step at `index` leads nowhere from the value `at`.
    pub(super) fn missing(&self, index: usize, at: &Value) -> MissingKey {
        let key = self.steps[index].key().into_owned();
        let before = Path { steps: self.steps[..index].to_vec() };
        MissingKey { message: lacks(&before.to_string(), &key, at), key }
    }

    /// Reads `a.b[0].c`, without anything in front of the first key.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if steps.len() == STEPS {
                return None;
            }
            if let Some(inner) = rest.strip_prefix('[') {
                let (inside, after) = bracket(inner)?;
                steps.push(inside);
                rest = after;
            } else {
                let key = rest.strip_prefix('.').unwrap_or(rest);
                if rest.starts_with('.') && steps.is_empty() {
                    return None;
                }
                let end = key.find(['.', '[']).unwrap_or(key.len());
                if end == 0 {
                    return None;
                }
                steps.push(Step::Key(key[..end].to_owned()));
                rest = &key[end..];
            }
            if !rest.is_empty() && !rest.starts_with(['.', '[']) {
                return None;
            }
        }
        Some(Self { steps })
    }
}

/// What stands in brackets, and what comes after them.
fn bracket(inner: &str) -> Option<(Step, &str)> {
    let quote = inner.chars().next()?;
    if quote == '"' || quote == '\'' {
        let body = &inner[1..];
        let end = body.find(quote)?;
        return Some((Step::Key(body[..end].to_owned()), body[end + 1..].strip_prefix(']')?));
    }
    let end = inner.find(']')?;
    Some((Step::Index(inner[..end].trim().parse().ok()?), &inner[end + 1..]))
}

/// What is said of a key that is not there.
pub(super) fn lacks(place: &str, key: &str, value: &Value) -> String {
    let place = if place == "." { "here".to_owned() } else { format!("in `{place}`") };
    match value {
        Value::Object(members) if members.is_empty() => format!("no `{key}` {place}, which is empty"),
        Value::Object(members) => {
            let known: Vec<&str> = members.keys().take(8).map(String::as_str).collect();
            let more = if members.len() > known.len() { ", …" } else { "" };
            format!("no `{key}` {place}; there is {}{more}", known.join(", "))
        }
        Value::Array(items) => format!("no `{key}` {place}, which is a list of {}", items.len()),
        other => format!("no `{key}` {place}, which is {}", kind(other)),
    }
}

/// What kind of value it is, for people.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A path of a condition or an output: `$.items[0].name`, `items[0].name`, `items.0.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath {
    text: String,
    path: Path,
}

impl JsonPath {
    /// Reads a path; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.trim();
        let bare = bare.strip_prefix('$').unwrap_or(bare);
        let bare = bare.strip_prefix('.').unwrap_or(bare);
        Some(Self { text: text.to_owned(), path: Path::parse(bare)? })
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value at the path. A key that holds the rest of the path as its own name counts too.
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.path.walk(value).ok().or_else(|| value.as_object()?.get(&self.text))
    }
}

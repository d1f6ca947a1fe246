//! Whether anyone can use the schemas of a tool. Checked where files are validated, not where they are loaded: there
//! the gateway finds out at the first call, and only for the tools that are called.

use jsonschema::PatternOptions;
use serde_json::Value;

use crate::pattern::PATTERN_BYTES;
use crate::problem::{masked, shown};
use crate::reader::{Cursor, Fields};

/// How many references a schema may have to be looked at: following a chain of them takes a part of the stack each.
const REFERENCES_MAX: usize = 128;
/// How many patterns it may have: each may take [`PATTERN_BYTES`] once it is compiled.
const PATTERNS_MAX: usize = 64;

/// Tells what is wrong with the schemas of a tool.
pub(crate) fn check(fields: &Fields<'_>) {
    if fields.get("inputSchema").is_none() {
        fields.warn("inputSchema", "is missing", Some("most clients refuse a tool without it".to_owned()));
    }
    for cursor in ["inputSchema", "outputSchema"].into_iter().filter_map(|key| fields.get(key)) {
        if let Some(fault) = fault(&cursor, true) {
            cursor.problem(fault, Some("copy it from `tools/list`, or fix it at the server".to_owned()));
        }
    }
}

/// What is wrong with a schema: of an object, or of anything.
pub(crate) fn fault(cursor: &Cursor<'_>, is_object: bool) -> Option<String> {
    if !cursor.node().is_map() {
        return Some(format!("expected a JSON Schema, got {}", cursor.describe()));
    }
    let value = cursor.value();
    if let Some(kind) = value.get("type").filter(|kind| is_object && *kind != "object") {
        return Some(format!("expected a JSON Schema with `type: object`, got `{}`", masked(&kind.to_string())));
    }
    let (references, patterns) = weigh(&value);
    if references > REFERENCES_MAX || patterns > PATTERNS_MAX {
        let message =
            format!("is not checked: it has more than {REFERENCES_MAX} references or {PATTERNS_MAX} patterns");
        cursor.warn(message, None);
        return None;
    }
    let bounds = PatternOptions::regex().size_limit(PATTERN_BYTES);
    let built = jsonschema::options().with_pattern_options(bounds).build(&value);
    built.err().map(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!(" at `{}`", shown(&place)) };
        format!("expected a JSON Schema, got one that is not valid{place}: {}", masked(&error.to_string()))
    })
}

/// How many references and patterns there are, at most.
fn weigh(value: &Value) -> (usize, usize) {
    let mut sum = (0, 0);
    let mut add = |(references, patterns): (usize, usize)| {
        sum.0 += references;
        sum.1 += patterns;
    };
    match value {
        Value::Object(members) => {
            for (key, inner) in members {
                add(match key.as_str() {
                    "$ref" | "$dynamicRef" | "$recursiveRef" => (1, 0),
                    "pattern" => (0, 1),
                    "patternProperties" => (0, inner.as_object().map_or(0, serde_json::Map::len)),
                    _ => (0, 0),
                });
                add(weigh(inner));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add(weigh(item))),
        _ => {}
    }
    sum
}

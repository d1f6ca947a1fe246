//! Whether anybody can use the schemas of a tool. Checked where files are validated, not where they are loaded: there
//! the gateway finds out at the first call, and only for the tools that are called.

use jsonschema::PatternOptions;
use serde_json::Value;

use crate::pattern::PATTERN_BYTES;
use crate::problem::shown;
use crate::reader::{Cursor, Fields};

/// How many references a schema may have to be looked at: following a chain of them takes a part of the stack each.
const REFERENCES_MAX: usize = 128;

/// Tells what is wrong with the schemas of a tool.
pub(crate) fn check(fields: &Fields<'_>) {
    if fields.get("inputSchema").is_none() {
        fields.warn("inputSchema", "is missing", Some("most clients refuse a tool without it".to_owned()));
    }
    for cursor in ["inputSchema", "outputSchema"].into_iter().filter_map(|key| fields.get(key)) {
        if let Some(fault) = fault(&cursor) {
            cursor.problem(fault, Some("take it as `tools/list` gives it, or mend it at the server".to_owned()));
        }
    }
}

fn fault(cursor: &Cursor<'_>) -> Option<String> {
    let json = cursor.json()?;
    if !cursor.node().is_map() {
        return Some(format!("expected a JSON Schema, got {}", cursor.node().describe()));
    }
    if json.matches("Ref\":").count() + json.matches("$ref\":").count() > REFERENCES_MAX {
        return Some(format!("expected a JSON Schema of at most {REFERENCES_MAX} references, got more"));
    }
    let value: Value = serde_json::from_str(&json).ok()?;
    if let Some(kind) = value.get("type").filter(|kind| *kind != "object") {
        return Some(format!("expected a JSON Schema with `type: object`, got `{}`", shown(&kind.to_string())));
    }
    let bounds = PatternOptions::regex().size_limit(PATTERN_BYTES);
    let built = jsonschema::options().with_pattern_options(bounds).build(&value);
    built.err().map(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!(" at `{}`", shown(&place)) };
        format!("expected a JSON Schema, got one that is not valid{place}: {}", shown(&error.to_string()))
    })
}

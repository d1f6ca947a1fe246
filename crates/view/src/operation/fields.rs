//! What operations read out of their arguments.

use serde_json::Value;
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem};

/// Names every argument that must be there and is not.
pub(super) fn check_required(schema: &Value, arguments: &Value) -> Result<(), Problem> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = names.filter(|name| arguments.get(name).is_none());
    let told: Vec<String> = missing.map(|name| format!("{name} argument is required")).collect();
    if told.is_empty() { Ok(()) } else { Err(Problem::new(Kind::InvalidParams, told.join("; "))) }
}

/// Names the first argument that a schema does not know, with what was probably meant.
pub fn check_known(schema: &Value, arguments: &Value) -> Result<(), Problem> {
    let known = schema["properties"].as_object();
    let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
    let Some(unknown) = arguments.as_object().and_then(|all| all.keys().find(|name| !is_known(name))) else {
        return Ok(());
    };
    Err(unknown_argument(unknown, known.into_iter().flat_map(|known| known.keys().map(String::as_str))))
}

/// The answer to an argument that is unknown, with what was probably meant.
pub fn unknown_argument<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let shown: String = unknown.chars().take(64).collect();
    let names: Vec<&str> = known.collect();
    let close = similar(unknown, names.iter().copied());
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let hint = match (close.first(), names.is_empty()) {
        (Some(name), _) => format!("Did you mean `{name}`?"),
        (None, true) => "There are no arguments here.".to_owned(),
        (None, false) => format!("Known are {}.", quoted(&names)),
    };
    Problem::new(Kind::InvalidParams, format!("unknown argument `{shown}`")).hint(hint)
}

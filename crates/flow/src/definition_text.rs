//! A definition that is given as the text of its file: out of the arguments, and what is wrong with it at which line.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::DefinitionProblem;

use crate::arguments::OperationArguments;

/// The largest text of a definition, in bytes: larger files are not read either.
const TEXT_MAX: usize = 1024 * 1024;

/// The text in the place of the parts of a definition; `None` where those are given.
///
/// # Errors
/// Both are given, or the text is too long.
pub(crate) fn given<'a>(arguments: &'a OperationArguments, parts: &[&str]) -> Result<Option<&'a str>, Problem> {
    let Some(text) = arguments.get("yaml").and_then(Value::as_str) else { return Ok(None) };
    if let Some(part) = parts.iter().find(|part| arguments.get(part).is_some()) {
        let message = format!("`yaml` and `{part}` are mutually exclusive");
        return Err(Problem::new(Kind::InvalidParams, message).hint("Give the text of the file, or its parts."));
    }
    if text.len() > TEXT_MAX {
        return Err(Problem::new(Kind::TooLarge, format!("the definition has more than {TEXT_MAX} bytes")));
    }
    Ok(Some(text))
}

/// A problem with its place in the text.
pub(crate) fn placed(problem: &DefinitionProblem) -> Value {
    let mut placed = json!({ "message": problem.message, "field": problem.field, "hint": problem.hint });
    if let Some(at) = problem.at {
        placed["line"] = at.line.into();
        placed["column"] = at.column.into();
    }
    placed
}

//! A definition that is given as the text of its file: out of the arguments, and what is wrong with it at which line; and
//! the text of a file that was never read because it is wrong.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::Invocation;
use toolcrib_catalog::{DefinitionFile, DefinitionId, DefinitionKind, DefinitionProblem, WriteError};
use toolcrib_gateway::Gateway;

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

/// The file of a definition that is not in force, for who may repair it.
///
/// # Errors
/// The file cannot be read.
pub(crate) async fn unread(
    gateway: &Arc<Gateway>,
    invocation: &Invocation,
    kind: DefinitionKind,
    name: &str,
) -> Result<Option<DefinitionFile>, Problem> {
    match DefinitionId::new(kind, name) {
        Ok(id) if invocation.visibility().is_everything() => gateway.read_file(id).await,
        _ => Ok(None),
    }
}

/// Why a file is not in force, if its text says it.
pub(crate) fn fault(kind: DefinitionKind, name: &str, written: &DefinitionFile) -> Option<Problem> {
    let problems = DefinitionId::new(kind, name).ok()?.check(written.text()).err()?;
    Some(WriteError::Bad(problems).into())
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

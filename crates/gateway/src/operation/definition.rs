//! What operations on servers and on profiles share: reading, writing and removing the file of a definition.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::{DefinitionFile, DefinitionId, DefinitionKind, DefinitionProblem, Files, MASK, WriteError};
use toolcrib_protocol::Raw;

use super::{WRITES, blocking};
use crate::gateway::Gateway;
use toolcrib_view::arguments::{required, text};

/// The largest text of a definition, in bytes: larger files are not read either.
const TEXT_MAX: usize = 1024 * 1024;

/// The definition of a kind that the argument `name` names. A text that is no name cannot be one of a file.
pub(super) fn named(kind: DefinitionKind, arguments: &Raw) -> Result<DefinitionId, Problem> {
    let name = required(arguments, "name")?;
    DefinitionId::new(kind, &name).map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))
}

/// The same of a definition that is there, or not found.
pub(super) fn known(kind: DefinitionKind, arguments: &Raw) -> Result<DefinitionId, Problem> {
    named(kind, arguments).map_err(|problem| match arguments.text("name").filter(|name| !name.is_empty()) {
        // A text that can be no name: nothing has it.
        Some(name) => {
            let shown: String = name.chars().take(128).collect();
            let message = format!("{} `{shown}` not found", kind.noun());
            Problem::new(Kind::NotFound, message).hint(format!("{}.", problem.message))
        }
        None => problem,
    })
}

/// Writes a new file and takes it in.
pub(super) async fn create(gateway: &Arc<Gateway>, which: DefinitionId, arguments: &Raw) -> Result<Value, Problem> {
    let text = given(&which, arguments)?;
    let gateway = writing(gateway)?;
    blocking(move || {
        let written = gateway.files.create(&which, &text)?;
        gateway.take_in();
        Ok(json!({ "name": which.name(), "file": written.file, "revision": written.revision }))
    })
    .await
}

/// Puts a whole new file in the place of the one that the caller has seen.
pub(super) async fn update(gateway: &Arc<Gateway>, which: DefinitionId, arguments: &Raw) -> Result<Value, Problem> {
    let text = given(&which, arguments)?;
    let revision = required(arguments, "revision")?;
    let is_value = arguments.get("definition").is_some();
    let gateway = writing(gateway)?;
    blocking(move || {
        let text = match gateway.files.read(&which)? {
            None => text,
            // What was shown as `****` is what it was.
            Some(before) => match before.revealed(&which, &text) {
                text if is_value => before.amended(&which, &text),
                text => text,
            },
        };
        let written = gateway.files.replace(&which, &text, &revision)?;
        gateway.take_in();
        Ok(json!({ "name": which.name(), "file": written.file, "revision": written.revision }))
    })
    .await
}

/// Removes the file.
pub(super) async fn delete(gateway: &Arc<Gateway>, which: DefinitionId, arguments: &Raw) -> Result<Value, Problem> {
    let revision = text(arguments, "revision")?;
    let gateway = writing(gateway)?;
    blocking(move || {
        let file = gateway.files.remove(&which, revision.as_deref())?;
        gateway.take_in();
        Ok(json!({ "name": which.name(), "file": file, "deleted": true }))
    })
    .await
}

impl Gateway {
    /// The file of a definition as it is now.
    pub async fn read_file(self: &Arc<Self>, which: DefinitionId) -> Result<Option<DefinitionFile>, Problem> {
        let gateway = Arc::clone(self);
        blocking(move || Ok(gateway.files.read(&which)?)).await
    }

    /// Changes files of definitions and takes in what they say then.
    pub async fn change_files<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Files) -> Result<T, WriteError> + Send + 'static,
    ) -> Result<T, Problem> {
        let gateway = writing(self)?;
        blocking(move || {
            let done = change(&gateway.files)?;
            gateway.take_in();
            Ok(done)
        })
        .await
    }
}

impl Gateway {
    /// Where an operation that does more than it writes is only rehearsed: shows the change, and ends it.
    ///
    /// # Errors
    /// Always in a rehearsal, never elsewhere.
    pub async fn end_rehearsal(
        self: &Arc<Self>,
        change: impl FnOnce(&Files) -> Result<(), WriteError> + Send + 'static,
    ) -> Result<(), Problem> {
        if !WRITES.try_with(|scope| scope.is_rehearsal()).unwrap_or(false) {
            return Ok(());
        }
        let gateway = writing(self)?;
        blocking(move || {
            change(&gateway.files)?;
            // It writes nothing, and that is shown.
            gateway.files.put_all(&[])?;
            Ok(())
        })
        .await
    }
}

/// What is wrong with a definition that is not written. What a text says as `****` is what the file says there.
pub(super) async fn validate(gateway: &Arc<Gateway>, which: DefinitionId, arguments: &Raw) -> Result<Value, Problem> {
    let text = given(&which, arguments)?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let hides = text.contains(MASK) && !gateway.files.home().as_os_str().is_empty();
        let before = if hides { gateway.files.read(&which)? } else { None };
        let text = before.map_or_else(|| text.clone(), |before| before.revealed(&which, &text));
        let problems = which.check(&text).err().unwrap_or_default();
        let problems: Vec<Value> = problems.iter().map(problem).collect();
        Ok(json!({ "name": which.name(), "valid": problems.is_empty(), "problems": problems }))
    })
    .await
}

/// What is known of the file: where it is, its revision, what it says, what is wrong with it. `None` without a file.
pub(super) async fn file(gateway: &Arc<Gateway>, which: &DefinitionId) -> Result<Option<Value>, Problem> {
    let (gateway, which) = (Arc::clone(gateway), which.clone());
    blocking(move || {
        let Some(written) = gateway.files.read(&which)? else { return Ok(None) };
        let loaded = gateway.loaded();
        let problems: Vec<Value> = loaded.problems.iter().filter(|it| it.file == written.file).map(problem).collect();
        Ok(Some(json!({
            "file": written.file, "revision": written.revision, "definition": written.shown(&which),
            "yaml": written.shown_text(&which),
            "problems": problems,
        })))
    })
    .await
}

/// A problem of a file with its place.
pub(crate) fn problem(problem: &DefinitionProblem) -> Value {
    let mut value = json!({ "problem": problem.to_string(), "file": problem.file, "hint": problem.hint });
    value["message"] = problem.message.as_str().into();
    value["field"] = problem.field.as_str().into();
    if let Some(at) = problem.at {
        value["line"] = at.line.into();
        value["column"] = at.column.into();
    }
    value
}

/// The answer to a name that nothing has.
pub(super) fn unknown<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Problem {
    let problem = Problem::new(Kind::NotFound, format!("{kind} `{name}` not found"));
    let close: Vec<String> = similar(name, known).iter().map(|name| format!("`{name}`")).collect();
    if close.is_empty() { problem } else { problem.hint(format!("Nearest: {}.", close.join(", "))) }
}

/// The same of a profile.
pub(super) fn unknown_profile(gateway: &Gateway, name: &str) -> Problem {
    let views = gateway.views();
    unknown("profile", name, views.keys().map(ProfileName::as_str))
}

/// The text that is given as YAML or as a value.
pub(super) fn given(id: &DefinitionId, arguments: &Raw) -> Result<String, Problem> {
    let name = id.name();
    let text = match (text(arguments, "yaml")?, arguments.get("definition")) {
        (Some(yaml), None) => yaml,
        (None, Some(definition)) => {
            let definition = definition.to_value();
            let other = definition.get("name").filter(|other| **other != name);
            if let Some(other) = other {
                let message = format!("the definition is named {other} and not `{name}`");
                return Err(Problem::new(Kind::InvalidParams, message));
            }
            id.text_of(&definition)
        }
        _ => {
            return Err(Problem::new(Kind::InvalidParams, "expected one of `definition` and `yaml`"));
        }
    };
    if text.len() > TEXT_MAX {
        return Err(Problem::new(Kind::TooLarge, format!("the definition has more than {TEXT_MAX} bytes")));
    }
    Ok(text)
}

/// The gateway, where it has a home to write to.
pub(super) fn writing(gateway: &Arc<Gateway>) -> Result<Arc<Gateway>, Problem> {
    if gateway.files.home().as_os_str().is_empty() {
        return Err(Problem::new(Kind::Conflict, "this gateway has no home folder to write to"));
    }
    Ok(Arc::clone(gateway))
}

//! Operations on definitions: the files of `workflows/`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_base::nearest::nearest;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{
    DefinitionFile, DefinitionId, DefinitionKind, DefinitionProblem, ObjectName, WorkflowDefinition, WriteError,
};
use toolcrib_view::ObjectKind;

use super::OperationCall;
use crate::definition_text::{self, placed};
use crate::workflow::agents;
use crate::workflow::program::Program;
use crate::workflow::table::{Table, cycle};

/// The members of a definition beside its name.
const MEMBERS: [&str; 9] =
    ["description", "labels", "args", "steps", "onFailure", "on_failure", "output", "timeout", "templates"];

pub(super) fn list(asking: &OperationCall) -> Value {
    let table = asking.inner.table();
    let view = asking.invocation.view().ok();
    let shown = |definition: &Arc<WorkflowDefinition>| {
        let name = definition.name.as_str();
        let available = view.as_ref().is_some_and(|view| view.tool(&format!("workflow/{name}")).is_some());
        let mut shown = json!({ "name": name, "available": available });
        if let Some(description) = &definition.description {
            shown["description"] = description.as_str().into();
        }
        shown["step_count"] = definition.steps.len().into();
        shown["args"] = definition.args.keys().cloned().collect();
        shown
    };
    let visibility = asking.invocation.visibility();
    let known = table.definitions().filter(|it| visibility.has_object(ObjectKind::Workflow, it.name.as_str()));
    let workflows: Vec<Value> = known.map(shown).collect();
    json!({ "total": workflows.len(), "workflows": workflows })
}

pub(super) fn available(asking: &OperationCall) -> Result<Value, Problem> {
    let name = asking.given.text("name")?;
    let table = asking.inner.table();
    if known(asking, &table, name).is_none() {
        return Err(unknown(asking, name));
    }
    if let Some(why) = table.broken.get(name) {
        return Ok(json!({ "name": name, "available": false, "error": why }));
    }
    let missing = table.missing(name, &|tool| asking.invocation.missing([tool]).is_empty());
    let mut answer = json!({ "name": name, "available": missing.is_empty() });
    if !missing.is_empty() {
        answer["missing"] = missing.into();
    }
    Ok(answer)
}

pub(super) async fn get(asking: &OperationCall) -> Result<Value, Problem> {
    let name = asking.given.text("name")?;
    let table = asking.inner.table();
    let Some(definition) = known(asking, &table, name) else { return unread(asking, name).await };
    let which = DefinitionId::Workflow(definition.name.clone());
    let written = asking.gateway.read_file(which).await?;
    let mut answer = json!({ "workflow": definition.spec });
    match written {
        Some(written) => {
            answer["yaml"] = written.text().into();
            answer["file"] = json!(written.file);
            answer["revision"] = written.revision.into();
        }
        // Its file went away a moment ago.
        None => answer["yaml"] = toolcrib_catalog::to_yaml(&Value::Object(definition.spec.clone())).into(),
    }
    Ok(answer)
}

/// A file that never was a workflow, because something is wrong with it: for who may repair it.
async fn unread(asking: &OperationCall, name: &str) -> Result<Value, Problem> {
    let Some(written) = unread_file(asking, name).await? else { return Err(unknown(asking, name)) };
    let fault = definition_text::fault(DefinitionKind::Workflow, name, &written);
    let error = fault.unwrap_or_else(|| unknown(asking, name));
    Ok(json!({
        "workflow": { "name": name }, "available": false, "error": error.message,
        "yaml": written.text(), "file": written.file, "revision": written.revision,
    }))
}

async fn unread_file(asking: &OperationCall, name: &str) -> Result<Option<DefinitionFile>, Problem> {
    definition_text::unread(&asking.gateway, &asking.invocation, DefinitionKind::Workflow, name).await
}

/// The definition of a name, where the caller may know of it.
fn known<'t>(asking: &OperationCall, table: &'t Table, name: &str) -> Option<&'t Arc<WorkflowDefinition>> {
    table.definition(name).filter(|_| asking.invocation.visibility().has_object(ObjectKind::Workflow, name))
}

pub(super) fn validate(asking: &OperationCall) -> Result<Value, Problem> {
    let given = given(asking)?;
    let name = &given.name;
    let checked = check(asking, &given);
    match &checked {
        Ok(_) => {
            let message = format!("Validation successful for workflow {name}");
            asking.inner.emit(name.as_str(), "ValidationSucceeded", message, false);
        }
        Err(problems) => {
            asking.inner.emit(name.as_str(), "ValidationFailed", wrong(problems).message, true);
        }
    }
    match checked {
        Ok(warnings) => {
            let mut said = said(name, format!("Validation successful for workflow {name}"), None);
            if given.is_yaml {
                said["valid"] = true.into();
                said["problems"] = warnings.iter().map(warning).collect();
            }
            Ok(warned(said, &warnings))
        }
        Err(problems) if given.is_yaml => {
            let mut said = said(name, format!("workflow {name} is not valid"), None);
            said["valid"] = false.into();
            said["problems"] = problems.iter().map(placed).collect();
            Ok(said)
        }
        Err(problems) => Err(wrong(&problems)),
    }
}

fn warning(problem: &DefinitionProblem) -> Value {
    let mut warning = placed(problem);
    warning["warning"] = true.into();
    warning
}

pub(super) async fn create(asking: &OperationCall) -> Result<Value, Problem> {
    let given = given(asking)?;
    if asking.inner.table().definition(given.name.as_str()).is_some() {
        return Err(exists(&given.name));
    }
    let warnings = check(asking, &given).map_err(|problems| wrong(&problems))?;
    let GivenDefinition { name, which, text, .. } = given;
    let created = asking.gateway.change_files(move |files| files.create(&which, &text)).await;
    let written = created.map_err(|problem| if problem.kind == Kind::Conflict { exists(&name) } else { problem })?;
    let said =
        said(&name, format!("successfully created workflow {name}: it is the tool workflow_{name}"), Some(&written));
    Ok(warned(said, &warnings))
}

pub(super) async fn update(asking: &OperationCall) -> Result<Value, Problem> {
    let asked = asking.given.text("name")?;
    if asking.inner.table().definition(asked).is_none() && unread_file(asking, asked).await?.is_none() {
        return Err(unknown(asking, asked));
    }
    let given = given(asking)?;
    let warnings = check(asking, &given).map_err(|problems| wrong(&problems))?;
    let GivenDefinition { name, which, text, is_yaml } = given;
    let revision = asking.given.get("revision").and_then(Value::as_str).map(str::to_owned);
    let replaced = asking.gateway.change_files(move |files| {
        let now = files.read(&which)?.ok_or_else(|| WriteError::Missing(which.name().to_owned()))?;
        let text = if is_yaml { text } else { now.amended(&which, &text) };
        files.replace(&which, &text, revision.as_deref().unwrap_or(&now.revision))
    });
    let written = replaced.await?;
    Ok(warned(said(&name, format!("successfully updated workflow {name}"), Some(&written)), &warnings))
}

pub(super) async fn delete(asking: &OperationCall) -> Result<Value, Problem> {
    let asked = asking.given.text("name")?;
    let Ok(name) = ObjectName::new(asked) else { return Err(unknown(asking, asked)) };
    let which = DefinitionId::Workflow(name.clone());
    let removed = asking.gateway.change_files(move |files| files.remove(&which, None)).await;
    removed.map_err(|problem| if problem.kind == Kind::NotFound { unknown(asking, asked) } else { problem })?;
    Ok(said(&name, format!("successfully deleted workflow {name}"), None))
}

/// The definition in the arguments.
struct GivenDefinition {
    name: ObjectName,
    which: DefinitionId,
    text: String,
    /// Whether the text is the caller's own.
    is_yaml: bool,
}

fn given(asking: &OperationCall) -> Result<GivenDefinition, Problem> {
    let name = ObjectName::new(asking.given.text("name")?)
        .map_err(|error| Problem::new(Kind::InvalidParams, format!("validation failed: {error}")))?;
    let which = DefinitionId::Workflow(name.clone());
    if let Some(text) = definition_text::given(&asking.given, &MEMBERS)? {
        return Ok(GivenDefinition { name, which, text: text.to_owned(), is_yaml: true });
    }
    let mut definition = Map::new();
    for key in MEMBERS {
        if let Some(value) = asking.given.get(key) {
            definition.insert(key.to_owned(), value.clone());
        }
    }
    if !definition.contains_key("steps") {
        return Err(Problem::new(Kind::InvalidParams, "steps argument is required")
            .hint("Give `steps`, or the text of the file as `yaml`."));
    }
    let text = which.text_of(&Value::Object(definition));
    Ok(GivenDefinition { name, which, text, is_yaml: false })
}

/// What is wrong with a definition, all of it: what its reader says, its templates, and whether it calls itself. Else
/// its warnings.
fn check(asking: &OperationCall, given: &GivenDefinition) -> Result<Vec<DefinitionProblem>, Vec<DefinitionProblem>> {
    let GivenDefinition { name, which, text, .. } = given;
    which.check(text)?;
    let definition = Arc::new(WorkflowDefinition::of_text(name.as_str(), text)?);
    let program = Program::compile(&definition)?;
    let loaded = asking.gateway.loaded();
    let warnings = program.warnings().iter().cloned().chain(agents::faults(&definition, &loaded.agents)).collect();
    let mut all = loaded.workflows.clone();
    all.insert(name.clone(), definition);
    match cycle(name, &all) {
        None => Ok(warnings),
        Some(way) => Err(vec![DefinitionProblem {
            file: which.new_file(),
            at: None,
            field: "steps".to_owned(),
            message: format!("it calls itself: {way}"),
            hint: Some("Remove one of the calls.".to_owned()),
        }]),
    }
}

/// Problems by their fields: the file is not there yet, so its lines mean nothing.
fn wrong(problems: &[DefinitionProblem]) -> Problem {
    let told = problems.iter().map(|problem| match problem.field.as_str() {
        "" => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    });
    let message = format!("workflow validation failed: {}", told.collect::<Vec<_>>().join("; "));
    let problem = Problem::new(Kind::Definition, message);
    match problems.iter().find_map(|it| it.hint.clone()) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn said(name: &ObjectName, message: impl Into<String>, written: Option<&DefinitionFile>) -> Value {
    let mut said = json!({ "name": name.as_str(), "message": message.into() });
    if let Some(written) = written {
        said["file"] = json!(written.file);
        said["revision"] = written.revision.as_str().into();
    }
    said
}

/// What was said, with warnings: in its message for people, and apart.
fn warned(mut said: Value, warnings: &[DefinitionProblem]) -> Value {
    let told = warnings.iter().map(|it| match &it.hint {
        Some(hint) => format!("{}: {} ({hint})", it.field, it.message),
        None => format!("{}: {}", it.field, it.message),
    });
    let warnings: Vec<String> = told.collect();
    if !warnings.is_empty() {
        let message = said["message"].as_str().unwrap_or_default();
        said["message"] = format!("{message}. Warning: {}", warnings.join("; ")).into();
        said["warnings"] = warnings.into();
    }
    said
}

fn exists(name: &ObjectName) -> Problem {
    Problem::new(Kind::Conflict, format!("workflow `{name}` already exists")).hint("Update it, or choose another name.")
}

fn unknown(asking: &OperationCall, name: &str) -> Problem {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    let problem = Problem::new(Kind::NotFound, format!("workflow `{shown}` not found"));
    let (table, visibility) = (asking.inner.table(), asking.invocation.visibility());
    let known = table.definitions().map(|definition| definition.name.as_str());
    match nearest(name, known.filter(|name| visibility.has_object(ObjectKind::Workflow, name))) {
        Some(close) => problem.hint(format!("Did you mean `{close}`?")),
        None => problem,
    }
}

//! Operations on definitions: the files of `agents/`, `models/` and `connectors/`. What they share is here, what one of them says of
//! itself in a module of its own.

mod agent;
mod connector;
mod model;
mod row;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_base::nearest::nearest;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::admission::closing_problem;
use toolcrib_catalog::{Catalog, DefinitionFile, DefinitionId, DefinitionKind, DefinitionProblem, WriteError};
use toolcrib_gateway::Gateway;

use super::OperationCall;

pub(super) use row::{CONNECTOR_ROWS, ROWS};

/// Does the operation of this name, if it is one of these.
pub(super) async fn run(asking: &OperationCall, operation: &str) -> Option<Result<Value, Problem>> {
    let (form, act): (&dyn DefinitionForm, &str) = match operation.split_at_checked(operation.rfind('_')?)? {
        ("core_agent", act) => (&agent::AgentForm, act),
        ("core_model", act) => (&model::ModelForm, act),
        ("core_connector", act) => (&connector::ConnectorForm, act),
        _ => return None,
    };
    Some(match act {
        "_list" => list(asking, form),
        "_get" => get(asking, form).await,
        "_validate" => validate(asking, form),
        "_create" => create(asking, form).await,
        "_update" => update(asking, form).await,
        "_delete" => delete(asking, form).await,
        _ => return None,
    })
}

/// What is different of agents, models and connectors.
trait DefinitionForm: Sync {
    /// `agent`
    fn noun(&self) -> &'static str;

    fn kind(&self) -> DefinitionKind;

    /// The keys of a definition beside its name.
    fn members(&self) -> &'static [&'static str];

    /// Every one that the caller may know of, as a row of a list.
    fn rows(&self, asking: &OperationCall, loaded: &Catalog) -> Vec<Value>;

    /// What one says, fit to be shown; nothing where there is none, or the caller may not know of it.
    fn shown(&self, asking: &OperationCall, loaded: &Catalog, name: &str) -> Option<ShownDefinition>;

    /// What is wrong with a definition beside what its reader says; what is only odd is the value.
    fn compare(&self, loaded: &Catalog, name: &str, text: &str) -> Result<Vec<String>, Problem>;

    /// What stops working without it.
    fn needed_by(&self, loaded: &Catalog, name: &str) -> Vec<String>;

    /// What is lost by who needs one that is deleted.
    fn loss(&self) -> &'static str {
        "asks it, and cannot run without it"
    }

    /// What a person does with a new one.
    fn next_step(&self, name: &str) -> String;
}

/// What a definition says.
struct ShownDefinition {
    value: Value,
    /// Whether something of it is not shown.
    is_masked: bool,
    /// Whether it is there without a file.
    is_built_in: bool,
    /// Whether it can be called in this profile; nothing of what is not called.
    available: Option<bool>,
}

fn gateway(asking: &OperationCall) -> Result<Arc<Gateway>, Problem> {
    asking.inner.bridge.gateway().ok_or_else(closing_problem)
}

fn list(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<Value, Problem> {
    let rows = form.rows(asking, &gateway(asking)?.loaded());
    let mut answer = json!({ "total": rows.len() });
    answer[form.kind().folder()] = rows.into();
    Ok(answer)
}

async fn get(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<Value, Problem> {
    let name = asking.given.text("name")?;
    let gateway = gateway(asking)?;
    let Some(shown) = form.shown(asking, &gateway.loaded(), name) else { return Err(unknown(asking, form, name)) };
    let mut answer = json!({ "name": name });
    let written = match DefinitionId::new(form.kind(), name) {
        Ok(which) if !shown.is_built_in => gateway.read_file(which).await?,
        _ => None,
    };
    answer["yaml"] = match &written {
        Some(written) if !shown.is_masked => written.text().into(),
        _ => toolcrib_catalog::to_yaml(&shown.value).into(),
    };
    if let Some(written) = written {
        answer["file"] = json!(written.file);
        answer["revision"] = written.revision.into();
    }
    if shown.is_built_in {
        answer["builtIn"] = true.into();
    }
    if let Some(available) = shown.available {
        answer["available"] = available.into();
    }
    answer[form.noun()] = shown.value;
    Ok(answer)
}

fn validate(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<Value, Problem> {
    let given = given(asking, form)?;
    let warnings = check(asking, form, &given)?;
    let message = format!("the definition of the {} `{}` is valid", form.noun(), given.which.name());
    Ok(said(&given.which, &message, None, &warnings))
}

async fn create(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<Value, Problem> {
    let given = given(asking, form)?;
    let exists = || {
        let message = format!("{} `{}` already exists", form.noun(), given.which.name());
        Problem::new(Kind::Conflict, message).hint("Update it, or choose another name.")
    };
    let warnings = check(asking, form, &given)?;
    let (which, text, gateway) = (given.which.clone(), given.text.clone(), gateway(asking)?);
    let created = gateway.change_files(move |files| files.create(&which, &text)).await;
    let written = created.map_err(|problem| if problem.kind == Kind::Conflict { exists() } else { problem })?;
    let name = given.which.name();
    let message = format!("created {} `{name}`: {}", form.noun(), form.next_step(name));
    Ok(said(&given.which, &message, Some(&written), &warnings))
}

async fn update(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<Value, Problem> {
    let asked = asking.given.text("name")?;
    known(asking, form, asked)?;
    let given = given(asking, form)?;
    let warnings = check(asking, form, &given)?;
    let revision = asking.given.get("revision").and_then(Value::as_str).map(str::to_owned);
    let (which, text, gateway) = (given.which.clone(), given.text, gateway(asking)?);
    let replaced = gateway.change_files(move |files| {
        let now = files.read(&which)?.ok_or_else(|| WriteError::Missing(which.name().to_owned()))?;
        files.replace(&which, &now.amended(&which, &text), revision.as_deref().unwrap_or(&now.revision))
    });
    let written = replaced.await?;
    let message = format!("updated {} `{}`", form.noun(), given.which.name());
    Ok(said(&given.which, &message, Some(&written), &warnings))
}

async fn delete(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<Value, Problem> {
    let asked = asking.given.text("name")?;
    let gateway = gateway(asking)?;
    // A file that is wrong is no definition, and can be removed all the same.
    let Ok(which) = DefinitionId::new(form.kind(), asked) else { return Err(unknown(asking, form, asked)) };
    if form.shown(asking, &gateway.loaded(), asked).is_some_and(|shown| shown.is_built_in) {
        return Err(built_in(form, asked));
    }
    let needed_by = form.needed_by(&gateway.loaded(), asked);
    let removed_file = which.clone();
    let removed = gateway.change_files(move |files| files.remove(&removed_file, None)).await;
    removed.map_err(|problem| if problem.kind == Kind::NotFound { unknown(asking, form, asked) } else { problem })?;
    let message = format!("deleted {} `{asked}`", form.noun());
    let warnings: Vec<String> = needed_by.iter().map(|who| format!("{who} {}", form.loss())).collect();
    Ok(said(&which, &message, None, &warnings))
}

/// That one of this name has a file, or not found.
fn known(asking: &OperationCall, form: &dyn DefinitionForm, name: &str) -> Result<(), Problem> {
    match form.shown(asking, &gateway(asking)?.loaded(), name) {
        None => Err(unknown(asking, form, name)),
        Some(shown) if shown.is_built_in => Err(built_in(form, name)),
        Some(_) => Ok(()),
    }
}

/// A definition in the arguments.
struct GivenDefinition {
    which: DefinitionId,
    text: String,
}

fn given(asking: &OperationCall, form: &dyn DefinitionForm) -> Result<GivenDefinition, Problem> {
    let which = DefinitionId::new(form.kind(), asking.given.text("name")?)
        .map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
    let mut definition = Map::new();
    for key in form.members() {
        // An empty `tool_allowlist` may be written as null.
        let value = if *key == "tool_allowlist" { asking.given.even_null(key) } else { asking.given.get(key) };
        if let Some(value) = value {
            definition.insert((*key).to_owned(), value.clone());
        }
    }
    let text = which.text_of(&Value::Object(definition));
    Ok(GivenDefinition { which, text })
}

/// What is wrong with a definition, all of it; else its warnings.
fn check(asking: &OperationCall, form: &dyn DefinitionForm, given: &GivenDefinition) -> Result<Vec<String>, Problem> {
    given.which.check(&given.text).map_err(|problems| wrong(form, &problems))?;
    let findings = given.which.findings(&given.text);
    let mut warnings: Vec<String> = findings.warnings.iter().map(in_words).collect();
    warnings.extend(form.compare(&gateway(asking)?.loaded(), given.which.name(), &given.text)?);
    Ok(warnings)
}

/// By its field: the file is not there yet, so its lines mean nothing.
fn in_words(problem: &DefinitionProblem) -> String {
    match problem.field.as_str() {
        "" => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    }
}

fn wrong(form: &dyn DefinitionForm, problems: &[DefinitionProblem]) -> Problem {
    let told: Vec<String> = problems.iter().map(in_words).collect();
    let message = format!("the definition of the {} is not valid: {}", form.noun(), told.join("; "));
    let problem = Problem::new(Kind::Definition, message);
    match problems.iter().find_map(|it| it.hint.clone()) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn said(which: &DefinitionId, message: &str, written: Option<&DefinitionFile>, warnings: &[String]) -> Value {
    let mut said = json!({ "name": which.name(), "message": message });
    if let Some(written) = written {
        said["file"] = json!(written.file);
        said["revision"] = written.revision.as_str().into();
    }
    if !warnings.is_empty() {
        said["message"] = format!("{message}. Warning: {}", warnings.join("; ")).into();
        said["warnings"] = warnings.into();
    }
    said
}

fn built_in(form: &dyn DefinitionForm, name: &str) -> Problem {
    let problem = Problem::new(Kind::Conflict, format!("{} `{name}` is built in and has no file", form.noun()));
    problem.hint(format!("Create {} of another name.", if form.noun() == "agent" { "an agent" } else { "a model" }))
}

fn unknown(asking: &OperationCall, form: &dyn DefinitionForm, name: &str) -> Problem {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    let problem = Problem::new(Kind::NotFound, format!("{} `{shown}` not found", form.noun()));
    let rows = gateway(asking).map(|gateway| form.rows(asking, &gateway.loaded())).unwrap_or_default();
    match nearest(name, rows.iter().filter_map(|row| row["name"].as_str())) {
        Some(close) => problem.hint(format!("Did you mean `{close}`?")),
        None => problem,
    }
}

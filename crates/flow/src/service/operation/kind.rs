//! Operations on service classes: the files of `service-classes/`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{
    DefinitionFile, DefinitionId, DefinitionKind, DefinitionProblem, ObjectName, ServiceClassDefinition, WriteError,
};
use toolcrib_view::ObjectKind;
use toolcrib_view::Visibility;

use super::call::{OperationCall, said};
use crate::definition_text::{self, placed};
use crate::service::class::Class;
use crate::service::shown;

/// The members of a definition beside its name.
const MEMBERS: [&str; 5] = ["version", "description", "templates", "args", "serviceConfig"];

pub(super) fn list(asking: &OperationCall) -> Value {
    let (classes, visibility) = (asking.table.classes(), asking.invocation.visibility());
    let listed: Vec<Value> = classes
        .iter()
        .filter(|(name, _)| visibility.has_object(ObjectKind::ServiceClass, name.as_str()))
        .map(|(name, class)| match class {
            Ok(class) => shown(asking, &visibility, class),
            Err(_) if !visibility.is_everything() => json!({ "name": name.as_str(), "available": false }),
            Err(faults) => json!({
                "name": name.as_str(), "available": false,
                "error": faults.iter().map(|it| format!("`{}`: {}", it.field, it.message)).collect::<Vec<_>>().join("; "),
            }),
        })
        .collect();
    json!({ "total": listed.len(), "serviceClasses": listed, "mode": "filesystem" })
}

pub(super) async fn get(asking: &OperationCall) -> Result<Value, Problem> {
    let visibility = asking.invocation.visibility();
    let class = match known(asking, asking.given.text("name")?) {
        Ok(class) => class,
        Err(problem) => return unread(asking, problem).await,
    };
    let mut answer = shown(asking, &visibility, &class);
    if visibility.is_everything() {
        let which = DefinitionId::ServiceClass(class.definition.name.clone());
        if let Some(written) = asking.gateway.read_file(which).await? {
            answer["yaml"] = written.text().into();
            answer["file"] = json!(written.file);
            answer["revision"] = written.revision.into();
        }
    }
    Ok(answer)
}

/// A file that is no class, because something is wrong with it: for who may repair it.
async fn unread(asking: &OperationCall, problem: Problem) -> Result<Value, Problem> {
    let Some(written) = unread_file(asking).await? else { return Err(problem) };
    let name = asking.given.text("name")?;
    let error = definition_text::fault(DefinitionKind::ServiceClass, name, &written).unwrap_or(problem);
    Ok(json!({
        "name": name, "available": false, "error": error.message,
        "yaml": written.text(), "file": written.file, "revision": written.revision,
    }))
}

async fn unread_file(asking: &OperationCall) -> Result<Option<DefinitionFile>, Problem> {
    let name = asking.given.text("name")?;
    definition_text::unread(&asking.gateway, &asking.invocation, DefinitionKind::ServiceClass, name).await
}

/// A class as a caller with this visibility may read it.
fn shown(asking: &OperationCall, visibility: &Visibility, class: &Class) -> Value {
    let class = shown::class(class, &asking.missing_tools(class), &asking.missing_needs(class));
    if visibility.is_everything() { class } else { shown::class_of_a_non_admin(class) }
}

/// The class of a name, where the caller may know of it.
fn known(asking: &OperationCall, name: &str) -> Result<Arc<Class>, Problem> {
    let visibility = asking.invocation.visibility();
    if !visibility.has_object(ObjectKind::ServiceClass, name) {
        return Err(crate::service::task::unknown_class(name));
    }
    let class = asking.table.around.class(name);
    class.map_err(|problem| match visibility.is_everything() || problem.kind == Kind::NotFound {
        true => problem,
        // What is wrong repeats the definition.
        false => Problem::new(problem.kind, format!("the definition of service class `{name}` is not valid"))
            .hint("An admin can see the errors with `toolcrib status`."),
    })
}

/// One that is not there, or is wrong, is not available; that is an answer and no error.
pub(super) fn available(asking: &OperationCall) -> Result<Value, Problem> {
    let name = asking.given.text("name")?;
    Ok(match known(asking, name) {
        Ok(class) => {
            let (missing, needs) = (asking.missing_tools(&class), asking.missing_needs(&class));
            let is_available = missing.is_empty() && needs.is_empty();
            json!({ "name": name, "available": is_available, "missingTools": missing, "missingDependencies": needs })
        }
        Err(problem) => json!({ "name": name, "available": false, "error": problem.message }),
    })
}

pub(super) fn validate(asking: &OperationCall) -> Result<Value, Problem> {
    let given = written(asking, None)?;
    let name = &given.name;
    let checked = check(asking, &given);
    match &checked {
        Ok(()) => asking.table.emit_class(name, "Validated", "is valid", false),
        Err(fault) => {
            let what = format!("is not valid: {}", fault.problem().message);
            asking.table.emit_class(name, "ValidationFailed", &what, true);
        }
    }
    let valid = || said(name.as_str(), format!("Validation successful for ServiceClass {name}"), None);
    match checked {
        Ok(()) if given.is_yaml => {
            let mut said = valid();
            (said["valid"], said["problems"]) = (true.into(), json!([]));
            Ok(said)
        }
        Ok(()) => Ok(valid()),
        Err(ClassFault::Text(problems)) if given.is_yaml => {
            let mut said = said(name.as_str(), format!("ServiceClass {name} is not valid"), None);
            said["valid"] = false.into();
            said["problems"] = problems.iter().map(placed).collect();
            Ok(said)
        }
        Err(fault) => Err(fault.problem()),
    }
}

pub(super) async fn create(asking: &OperationCall) -> Result<Value, Problem> {
    let given = written(asking, None)?;
    if asking.table.loaded().service_classes.contains_key(&given.name) {
        return Err(exists(&given.name));
    }
    check(asking, &given).map_err(|fault| fault.problem())?;
    let GivenClass { name, which, text, .. } = given;
    let created = asking.gateway.change_files(move |files| files.create(&which, &text)).await;
    created.map_err(|problem| if problem.kind == Kind::Conflict { exists(&name) } else { problem })?;
    Ok(said(name.as_str(), format!("ServiceClass '{name}' created successfully"), None))
}

pub(super) async fn update(asking: &OperationCall) -> Result<Value, Problem> {
    let before = asking.table.loaded().service_classes.get(asking.given.text("name")?).cloned();
    if before.is_none() && unread_file(asking).await?.is_none() {
        return Err(unknown(asking));
    }
    let given = written(asking, before.as_deref())?;
    check(asking, &given).map_err(|fault| fault.problem())?;
    let GivenClass { name, which, text, is_yaml } = given;
    let revision = asking.given.get("revision").and_then(Value::as_str).map(str::to_owned);
    let replaced = asking.gateway.change_files(move |files| {
        let now = files.read(&which)?.ok_or_else(|| WriteError::Missing(which.name().to_owned()))?;
        let text = if is_yaml { text } else { now.amended(&which, &text) };
        files.replace(&which, &text, revision.as_deref().unwrap_or(&now.revision))
    });
    replaced.await?;
    Ok(said(name.as_str(), format!("ServiceClass '{name}' updated successfully"), None))
}

pub(super) async fn delete(asking: &OperationCall) -> Result<Value, Problem> {
    let Ok(name) = ObjectName::new(asking.given.text("name")?) else { return Err(unknown(asking)) };
    let users: Vec<String> = asking
        .table
        .entries()
        .into_values()
        .filter(|entry| entry.subject().class == name)
        .map(|entry| format!("`{}`", entry.subject().name))
        .collect();
    let which = DefinitionId::ServiceClass(name.clone());
    let removed = asking.gateway.change_files(move |files| files.remove(&which, None)).await;
    removed.map_err(|problem| if problem.kind == Kind::NotFound { unknown(asking) } else { problem })?;
    let mut message = format!("ServiceClass '{name}' deleted successfully");
    if !users.is_empty() {
        message += &format!("; its services {} cannot be started or stopped until it exists again", users.join(", "));
    }
    Ok(said(name.as_str(), message, None))
}

/// The class that a service is checked against before there is one of its name.
pub(super) fn planned(asking: &OperationCall, class: &Value) -> Result<Arc<Class>, Problem> {
    let name = asking.given.text("serviceClassName")?;
    let name = ObjectName::new(name).map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
    lacking(class.get("serviceConfig").or_else(|| class.get("service_config")))?;
    let mut members = class.as_object().cloned().unwrap_or_default();
    members.remove("name");
    let which = DefinitionId::ServiceClass(name.clone());
    let text = which.text_of(&Value::Object(members));
    let definition = ServiceClassDefinition::parse(&which.new_file(), &name, &text);
    let definition = definition.map_err(|problems| Problem::from(WriteError::Bad(problems)))?;
    asking.table.check_class(definition)
}

/// A definition in the arguments.
struct GivenClass {
    name: ObjectName,
    which: DefinitionId,
    text: String,
    /// Whether the text is the caller's own.
    is_yaml: bool,
}

/// Why a text is no class.
enum ClassFault {
    /// What its reader says.
    Text(Vec<DefinitionProblem>),
    /// What it is among the others.
    Whole(Problem),
}

impl ClassFault {
    fn problem(&self) -> Problem {
        match self {
            Self::Text(problems) => WriteError::Bad(problems.clone()).into(),
            Self::Whole(problem) => problem.clone(),
        }
    }
}

/// The text of the definition in the arguments; for an update, with everything that they omit.
fn written(asking: &OperationCall, before: Option<&ServiceClassDefinition>) -> Result<GivenClass, Problem> {
    let name = asking.new_name()?;
    let which = DefinitionId::ServiceClass(name.clone());
    if let Some(text) = definition_text::given(&asking.given, &MEMBERS)? {
        return Ok(GivenClass { name, which, text: text.to_owned(), is_yaml: true });
    }
    let mut definition = Map::new();
    let before = before.map(ServiceClassDefinition::to_value);
    for key in MEMBERS {
        let kept = before.as_ref().and_then(|before| before.get(key));
        if let Some(value) = asking.given.get(key).or(kept) {
            definition.insert(key.to_owned(), value.clone());
        }
    }
    lacking(definition.get("serviceConfig"))?;
    let text = which.text_of(&Value::Object(definition));
    Ok(GivenClass { name, which, text, is_yaml: false })
}

/// What is missing or of another type where clients know the wording of old.
fn lacking(config: Option<&Value>) -> Result<(), Problem> {
    let wrong = |message: String| Err(Problem::new(Kind::InvalidParams, message));
    let empty = json!({});
    let object = |value: Option<&Value>, place: &str| match value {
        None | Some(Value::Null) => Ok(empty.clone()),
        Some(value @ Value::Object(_)) => Ok(value.clone()),
        Some(other) => {
            let kind = match other {
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Bool(_) => "boolean",
                _ => "number",
            };
            let message = format!("cannot unmarshal {kind} into `{place}`, which is an object");
            Err(Problem::new(Kind::InvalidParams, message))
        }
    };
    let config = object(config, "serviceConfig")?;
    let tools = config.get("lifecycleTools").or_else(|| config.get("lifecycle_tools"));
    let Some(tools) = tools.filter(|tools| !tools.is_null()) else {
        return wrong("`serviceConfig.lifecycleTools` is required".to_owned());
    };
    let tools = object(Some(tools), "serviceConfig.lifecycleTools")?;
    for word in ["start", "stop"] {
        let place = format!("serviceConfig.lifecycleTools.{word}");
        let tool = object(tools.get(word), &place)?;
        if tool["tool"].as_str().is_none_or(|name| name.trim().is_empty()) {
            return wrong(format!("`{place}.tool` is required"));
        }
    }
    Ok(())
}

/// Checks a text as a class among the others.
fn check(asking: &OperationCall, given: &GivenClass) -> Result<(), ClassFault> {
    let definition = ServiceClassDefinition::parse(&given.which.new_file(), &given.name, &given.text);
    let definition = definition.map_err(ClassFault::Text)?;
    asking.table.check_class(definition).map(drop).map_err(ClassFault::Whole)
}

fn exists(name: &ObjectName) -> Problem {
    Problem::new(Kind::Conflict, format!("service class `{name}` already exists"))
        .hint("Choose another name, or update it.")
}

fn unknown(asking: &OperationCall) -> Problem {
    let name: String =
        asking.given.text("name").unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect();
    Problem::new(Kind::NotFound, format!("service class `{name}` not found"))
        .hint("List service classes with core_serviceclass_list.")
}

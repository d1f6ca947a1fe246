//! The arguments of a run: what is wrong with them, all at once, and their defaults.

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{ArgumentDefinition, RESERVED_ARGUMENTS, WorkflowDefinition};

/// Answers everything, whatever the definition's `output` says.
const DEBUG: &str = RESERVED_ARGUMENTS[0];
/// Answers at once with the id of the run, which continues.
const DETACH: &str = RESERVED_ARGUMENTS[1];

/// What a run is called with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Input {
    /// With the defaults of what was not given.
    pub(super) values: Value,
    pub(super) debug: bool,
    pub(super) detach: bool,
}

/// Checks what a client gave.
pub(super) fn read(definition: &WorkflowDefinition, given: &Value) -> Result<Input, Problem> {
    let empty = Map::new();
    let given = given.as_object().unwrap_or(&empty);
    let mut faults = Vec::new();
    let mut flag = |key: &str| match given.get(key) {
        None => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => {
            faults.push(format!("wrong type for `{key}`: expected boolean"));
            false
        }
    };
    let (debug, detach) = (flag(DEBUG), flag(DETACH));
    let mut values = Map::new();
    for (name, argument) in &definition.args {
        match given.get(name).filter(|value| !value.is_null()) {
            Some(value) => {
                faults.extend(fault(name, argument, value));
                values.insert(name.clone(), value.clone());
            }
            None => match &argument.default {
                Some(default) => drop(values.insert(name.clone(), default.clone())),
                None if argument.required => faults.push(format!("required field `{name}` is missing")),
                None => {}
            },
        }
    }
    for (name, value) in given.iter().filter(|(name, _)| *name != DEBUG && *name != DETACH) {
        if definition.args.contains_key(name) {
            continue;
        }
        if definition.takes_any {
            values.insert(name.clone(), value.clone());
        } else {
            let known: Vec<String> = definition.args.keys().map(|known| format!("`{known}`")).collect();
            let known =
                if known.is_empty() { "it takes none".to_owned() } else { format!("known are {}", known.join(", ")) };
            let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
            faults.push(format!("unknown argument `{shown}` ({known})"));
        }
    }
    if faults.is_empty() {
        return Ok(Input { values: Value::Object(values), debug, detach });
    }
    let message = format!("the arguments do not fit the workflow `{}`: {}", definition.name, faults.join("; "));
    Err(Problem::new(Kind::InvalidParams, message))
}

fn fault(name: &str, argument: &ArgumentDefinition, value: &Value) -> Option<String> {
    if !argument.kind.fits(value) {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        return Some(format!("wrong type for `{name}`: expected {}, got {got}", argument.kind));
    }
    argument.fault(value).map(|fault| format!("`{name}` {fault}"))
}

/// The schema of a workflow's arguments.
pub(super) fn schema(definition: &WorkflowDefinition) -> Value {
    let properties: Map<String, Value> =
        definition.args.iter().map(|(name, argument)| (name.clone(), argument.schema())).collect();
    let required: Vec<&String> = definition
        .args
        .iter()
        .filter(|(_, argument)| argument.required && argument.default.is_none())
        .map(|(name, _)| name)
        .collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

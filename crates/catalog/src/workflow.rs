//! The definition of a workflow: `workflows/<name>.yaml`, a stored program of tool calls. Both the plain form and that of
//! Kubernetes objects are read, in both spellings. Templates in it are texts here; `flow` reads them.

mod condition;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use crate::define::{self, Definition};
use crate::kind::DefinitionKind;
use crate::object_name::ObjectName;
use crate::period::Period;
use crate::problem::{DefinitionProblem, shown};
use crate::reader::{Cursor, Fields};
use crate::service_class::{ArgumentDefinition, ArgumentKind, arguments};
use crate::template_language::{TemplateLanguage, template_language};

pub use condition::{Condition, Test};
pub use step::{Action, RETRY_DELAY_MAX, Retry, Step};

/// The most steps of a workflow, those within others included.
const STEPS_MAX: usize = 500;

/// Arguments that every workflow takes beside its own: for an answer with everything, and for one at once.
pub const RESERVED_ARGUMENTS: [&str; 2] = ["_debug", "_detach"];

/// A program of tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowDefinition {
    pub name: ObjectName,
    pub description: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub args: BTreeMap<String, ArgumentDefinition>,
    /// Whether arguments that are not declared are passed on; only files without any `args` say so.
    pub takes_any: bool,
    pub steps: Vec<Step>,
    /// What runs when a step has failed; its own failures change nothing.
    pub on_failure: Vec<Step>,
    /// What a run answers, with templates in it; without it the steps.
    pub output: Option<Value>,
    /// How long a run may take.
    pub timeout: Option<Period>,
    /// What its templates are written in.
    pub templates: TemplateLanguage,
    /// What the file says, as it is written.
    pub spec: Map<String, Value>,
}

// === impl WorkflowDefinition ===

impl WorkflowDefinition {
    /// Reads a definition that lies in no file, such as the one that a run was begun with.
    pub fn of_text(name: &str, text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        define::read(Path::new(&format!("workflows/{name}.yaml")), name, text)
    }

    /// The names of all tools that it calls, each once, in the order of the file.
    pub fn tools(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        let steps = self.steps.iter().chain(&self.on_failure);
        for tool in steps.flat_map(Step::all).flat_map(Step::tools) {
            if seen.insert(tool) {
                names.push(tool);
            }
        }
        names
    }
}

impl Definition for WorkflowDefinition {
    const KIND: DefinitionKind = DefinitionKind::Workflow;
    type Name = ObjectName;

    fn name(&self) -> &ObjectName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let body = define::body(root, stem, "Workflow")?;
        let labels = body.labels.as_ref().map(texts);
        let read = read(body.name, body.fields)?;
        Some(match labels {
            Some(labels) => Self { labels, ..read },
            None => read,
        })
    }
}

fn texts(cursor: &Cursor<'_>) -> BTreeMap<String, String> {
    cursor.map(|_, value| value.text().map(str::to_owned))
}

fn read(name: Option<ObjectName>, fields: Fields<'_>) -> Option<WorkflowDefinition> {
    let spec = fields.whole().value();
    for key in ["version", "metadata"] {
        if let Some(cursor) = fields.get_unlisted(key) {
            cursor.warn("means nothing here", None);
        }
    }
    let labels = fields.get("labels").map(|cursor| texts(&cursor)).unwrap_or_default();
    let (args, takes_any) = args(&fields);
    let hint = "add `steps:` with at least one `{id: …, tool: …}`".to_owned();
    let cursor = fields.require("steps", "a list of steps", hint);
    let has_steps = cursor.is_some();
    let steps = cursor.map(|cursor| steps(&cursor)).unwrap_or_default();
    let on_failure = fields.either("onFailure", "on_failure").map(|cursor| step::plain_steps(&cursor));
    let definition = |name| WorkflowDefinition {
        spec: define::named_first(&name, spec),
        name,
        description: fields.text("description"),
        labels,
        args,
        takes_any,
        steps,
        on_failure: on_failure.unwrap_or_default(),
        output: fields.get("output").and_then(|cursor| output(&cursor)),
        timeout: fields.get("timeout").and_then(|cursor| cursor.parsed()),
        templates: template_language(&fields),
    };
    let is_named = name.is_some();
    let read = definition(name.or_else(|| ObjectName::new("unnamed").ok())?);
    fields.finish();
    (is_named && has_steps).then_some(read)
}

/// `args`, or the same in the words of older files: `input_schema` with `args` or `properties`, and `required`.
fn args(fields: &Fields<'_>) -> (BTreeMap<String, ArgumentDefinition>, bool) {
    let outer = fields.get("args").filter(|cursor| !cursor.node().is_null());
    let schema = fields.get_unlisted("input_schema").or_else(|| fields.get_unlisted("inputSchema"));
    let mut required = fields.get_unlisted("required").map(|cursor| names(&cursor)).unwrap_or_default();
    let is_declared = outer.is_some() || schema.is_some();
    let mut all = outer.map(|cursor| arguments(&cursor)).unwrap_or_default();
    if let Some(schema) = schema.and_then(Cursor::fields) {
        schema.get_unlisted("type");
        schema.get_unlisted("additionalProperties");
        let inner = schema.get_unlisted("properties").or_else(|| schema.get_unlisted("args"));
        all.extend(inner.map(|cursor| arguments(&cursor)).unwrap_or_default());
        required.extend(schema.get_unlisted("required").map(|cursor| names(&cursor)).unwrap_or_default());
        schema.finish();
    }
    for name in required {
        if let Some(argument) = all.get_mut(&name) {
            argument.required = true;
        } else {
            let argument = ArgumentDefinition { required: true, ..ArgumentDefinition::of(ArgumentKind::String) };
            all.insert(name, argument);
        }
    }
    for name in all.keys() {
        judge_name(fields, name);
    }
    (all, !is_declared)
}

/// An argument becomes a member of a tool's schema, beside those that every workflow has.
fn judge_name(fields: &Fields<'_>, name: &str) {
    let key = format!("args.{}", shown(name));
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if RESERVED_ARGUMENTS.contains(&name) {
        let hint = format!("choose another name: {} are arguments of every workflow", RESERVED_ARGUMENTS.join(" and "));
        fields.problem(&key, format!("`{name}` is reserved"), Some(hint));
    } else if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
        let hint = "choose one of at most 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`".to_owned();
        fields.warn(&key, "many clients refuse a tool that has an argument of this name", Some(hint));
    }
}

fn names(cursor: &Cursor<'_>) -> Vec<String> {
    cursor.list(|item| item.text().map(str::to_owned))
}

fn output(cursor: &Cursor<'_>) -> Option<Value> {
    if !cursor.node().is_map() {
        cursor.expected("a map: what a run answers");
        return None;
    }
    Some(cursor.value())
}

fn steps(cursor: &Cursor<'_>) -> Vec<Step> {
    if cursor.node().is_list() && cursor.items().is_empty() {
        cursor.problem("workflow must have at least one step", Some("add `{id: …, tool: …}`".to_owned()));
    }
    let steps = step::steps(cursor);
    let count = steps.iter().flat_map(Step::all).count();
    if count > STEPS_MAX {
        cursor.problem(format!("expected at most {STEPS_MAX} steps, got {count}"), None);
    }
    steps
}

#[cfg(test)]
mod tests;

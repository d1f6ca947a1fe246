//! The definition of a service class: `service-classes/<name>.yaml`, a template of lifecycle tools. Both the plain form
//! and that of Kubernetes objects (`apiVersion`, `metadata`, `spec`) are read.

mod argument;
mod tool;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::define::{self, Definition};
use crate::kind::DefinitionKind;
use crate::object_name::ObjectName;
use crate::period::Period;
use crate::problem::DefinitionProblem;
use crate::reader::{Cursor, Fields};
use crate::template_language::{TemplateLanguage, template_language};

pub(crate) use argument::arguments;
pub use argument::{ArgumentDefinition, ArgumentKind};
pub(crate) use tool::expectation;
pub use tool::{Expectation, LifecycleTool, LifecycleTools};

/// The largest threshold of a health check.
const THRESHOLD_MAX: u32 = 1_000;
/// How many dependencies a class or a service may name.
const DEPENDENCIES_MAX: usize = 64;

/// A template of services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceClassDefinition {
    pub name: ObjectName,
    pub description: Option<String>,
    /// As written; it means nothing here.
    pub version: Option<String>,
    /// The arguments of its services. Without any, services take whatever they are given.
    pub args: BTreeMap<String, ArgumentDefinition>,
    /// What people call this kind of service.
    pub service_type: Option<String>,
    /// A template of default names.
    pub default_name: Option<String>,
    /// Names of service classes, services and servers that must run first.
    pub dependencies: Vec<ObjectName>,
    pub tools: LifecycleTools,
    pub health: HealthCheck,
    pub timeouts: ServiceTimeouts,
    /// Values that are made when a service has started, by templates.
    pub outputs: BTreeMap<String, Value>,
    /// What its templates are written in.
    pub templates: TemplateLanguage,
}

/// When and how often a running service is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCheck {
    /// Without the key: whether there is a tool for it.
    pub enabled: bool,
    pub interval: Period,
    /// After how many failures in a row it is unhealthy.
    pub failure_threshold: u32,
    /// After how many successes in a row it is healthy again.
    pub success_threshold: u32,
}

/// How long the tools of a service may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTimeouts {
    /// Starting and restarting.
    pub create: Period,
    /// Stopping.
    pub delete: Period,
    /// Asking for its status and its health.
    pub health_check: Period,
}

impl Default for ServiceTimeouts {
    fn default() -> Self {
        Self { create: Period::seconds(60), delete: Period::seconds(60), health_check: Period::seconds(10) }
    }
}

// === impl ServiceClassDefinition ===

impl ServiceClassDefinition {
    /// Reads a text as the class of that name; `file` is named in the problems.
    pub fn parse(file: &Path, name: &ObjectName, text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        define::read(file, name.as_str(), text)
    }
}

impl Definition for ServiceClassDefinition {
    const KIND: DefinitionKind = DefinitionKind::ServiceClass;
    type Name = ObjectName;

    fn name(&self) -> &ObjectName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let body = define::body(root, stem, "ServiceClass")?;
        let rest = rest(&body.fields);
        body.fields.finish();
        Some(rest?.named(body.name?))
    }
}

/// Everything but the name, which stands elsewhere in each form.
struct Rest(ServiceClassDefinition);

impl Rest {
    fn named(self, name: ObjectName) -> ServiceClassDefinition {
        ServiceClassDefinition { name, ..self.0 }
    }
}

fn rest(fields: &Fields<'_>) -> Option<Rest> {
    let description = fields.text("description");
    let version = fields.text("version");
    // Words of older files: kept out of the way, as nothing follows from them.
    for key in ["metadata", "type"] {
        if let Some(cursor) = fields.get_unlisted(key) {
            cursor.warn("means nothing here", None);
        }
    }
    let outer = fields.get("args").map(|cursor| argument::arguments(&cursor));
    let hint = "add `serviceConfig:` with `lifecycleTools:` in it".to_owned();
    let config = fields.require_either("serviceConfig", "service_config", "what its services do", hint)?.fields()?;
    // Some files have the arguments one level too deep; they are meant all the same.
    let inner = config.get_unlisted("args");
    if let (Some(_), Some(inner)) = (&outer, &inner) {
        inner.problem("stands here and above", Some("keep the outer `args`".to_owned()));
    }
    let args = outer.or_else(|| inner.map(|cursor| argument::arguments(&cursor))).unwrap_or_default();
    let hint = "add `lifecycleTools:` with `start` and `stop`".to_owned();
    let tools = config.require_either("lifecycleTools", "lifecycle_tools", "the tools of its services", hint);
    let tools = tools.and_then(|cursor| tool::tools(cursor));
    let has_check = tools.as_ref().is_some_and(|tools| tools.health_check.is_some());
    let definition = ServiceClassDefinition {
        name: ObjectName::new("unnamed").ok()?,
        description,
        version,
        templates: template_language(fields),
        args,
        service_type: config.either("serviceType", "service_type").and_then(|cursor| cursor.text().map(str::to_owned)),
        default_name: config.either("defaultName", "default_name").and_then(|cursor| cursor.text().map(str::to_owned)),
        dependencies: config.get("dependencies").map(|cursor| dependencies(&cursor)).unwrap_or_default(),
        health: health(config.either("healthCheck", "health_check"), has_check),
        timeouts: config.get("timeout").and_then(timeouts).unwrap_or_default(),
        outputs: config.get("outputs").map(|cursor| cursor.map(|_, value| Some(value.value()))).unwrap_or_default(),
        tools: tools.clone().unwrap_or_else(LifecycleTools::none),
    };
    config.finish();
    tools.map(|_| Rest(definition))
}

/// `dependencies`: names, each once.
pub(crate) fn dependencies(cursor: &Cursor<'_>) -> Vec<ObjectName> {
    let mut names: Vec<ObjectName> = Vec::new();
    for item in cursor.items() {
        let Some(text) = item.text() else { continue };
        item.fits(crate::object_name::PATTERN);
        match ObjectName::new(text) {
            Ok(name) if names.contains(&name) => item.expected("each name once"),
            Ok(_) if names.len() >= DEPENDENCIES_MAX => item.expected(format_args!("at most {DEPENDENCIES_MAX} names")),
            Ok(name) => names.push(name),
            Err(_) => item.expected("the name of a service class, a service or a server"),
        }
    }
    names
}

fn health(cursor: Option<Cursor<'_>>, has_check: bool) -> HealthCheck {
    let usual =
        HealthCheck { enabled: has_check, interval: Period::seconds(30), failure_threshold: 3, success_threshold: 1 };
    let Some(fields) = cursor.and_then(Cursor::fields) else { return usual };
    let threshold = |key, other, usual| {
        let cursor: Option<Cursor<'_>> = fields.either(key, other);
        cursor.and_then(|cursor| cursor.number(1, THRESHOLD_MAX)).unwrap_or(usual)
    };
    let health = HealthCheck {
        enabled: fields.get("enabled").and_then(|cursor| cursor.flag()).unwrap_or(has_check),
        interval: fields.get("interval").and_then(|cursor| cursor.parsed()).unwrap_or(usual.interval),
        failure_threshold: threshold("failureThreshold", "failure_threshold", usual.failure_threshold),
        success_threshold: threshold("successThreshold", "success_threshold", usual.success_threshold),
    };
    fields.finish();
    health
}

fn timeouts(cursor: Cursor<'_>) -> Option<ServiceTimeouts> {
    let fields = cursor.fields()?;
    let usual = ServiceTimeouts::default();
    let timeouts = ServiceTimeouts {
        create: fields.get("create").and_then(|cursor| cursor.parsed()).unwrap_or(usual.create),
        delete: fields.get("delete").and_then(|cursor| cursor.parsed()).unwrap_or(usual.delete),
        health_check: fields
            .either("healthCheck", "health_check")
            .and_then(|cursor| cursor.parsed())
            .unwrap_or(usual.health_check),
    };
    fields.finish();
    Some(timeouts)
}

#[cfg(test)]
mod tests;

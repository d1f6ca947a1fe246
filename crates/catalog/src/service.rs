//! The definition of a service: `services/<name>.yaml`, one instance of a service class. How it is right now lies in
//! `state/`, never in this file.

use serde_json::{Map, Value, json};
use toolcrib_base::ProfileName;

use crate::define::{self, Definition};
use crate::kind::DefinitionKind;
use crate::object_name::ObjectName;
use crate::reader::{Cursor, Fields};
use crate::service_class;

/// A service that is there again after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceDefinition {
    pub name: ObjectName,
    /// The class that says what it does.
    pub class: ObjectName,
    pub description: Option<String>,
    pub args: Map<String, Value>,
    /// Whether it is started with the gateway.
    pub auto_start: bool,
    /// What must run before it, beside the dependencies of its class.
    pub dependencies: Vec<ObjectName>,
    /// In which profile its tools are called when no one asks: at the start and for its health. Without the key in that
    /// of its creator, else in `default`.
    pub profile: Option<ProfileName>,
}

// === impl ServiceDefinition ===

impl Definition for ServiceDefinition {
    const KIND: DefinitionKind = DefinitionKind::Service;
    type Name = ObjectName;

    fn name(&self) -> &ObjectName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let body = define::body(root, stem, "Service")?;
        read(body.name, body.fields)
    }
}

fn read(name: Option<ObjectName>, fields: Fields<'_>) -> Option<ServiceDefinition> {
    let hint = "add `serviceClassName:` with the name of a service class".to_owned();
    let class = fields.require_either("serviceClassName", "service_class_name", "its service class", hint);
    let class = class.and_then(|cursor| define::an_object_name(&cursor));
    // What other gateways write beside it: how it was then, which is not what it is now.
    for key in ["serviceClassType", "enabled", "version", "persist", "createdAt", "updatedAt", "metadata"] {
        if let Some(cursor) = fields.get_unlisted(key) {
            cursor.warn("means nothing here", None);
        }
    }
    let args = fields.get("args").map(|cursor| cursor.map(|_, value| Some(value.value()))).unwrap_or_default();
    let definition = |name, class| ServiceDefinition {
        name,
        class,
        description: fields.text("description"),
        args: args.into_iter().collect(),
        auto_start: fields.either("autoStart", "auto_start").and_then(|cursor| cursor.flag()).unwrap_or(false),
        dependencies: fields.get("dependencies").map(|cursor| service_class::dependencies(&cursor)).unwrap_or_default(),
        profile: fields.get("profile").and_then(|cursor| profile(&cursor)),
    };
    let complete = name.is_some() && class.is_some();
    let placeholder = ObjectName::new("unnamed").ok()?;
    let read = definition(name.unwrap_or_else(|| placeholder.clone()), class.unwrap_or(placeholder));
    fields.finish();
    complete.then_some(read)
}

pub(crate) fn profile(cursor: &Cursor<'_>) -> Option<ProfileName> {
    cursor.fits("^[a-z0-9][a-z0-9-]{0,63}$");
    let name = ProfileName::new(cursor.text()?);
    if name.is_err() {
        cursor.expected("the name of a profile");
    }
    name.ok()
}

impl ServiceDefinition {
    /// The definition with the keys of its YAML form.
    pub fn to_value(&self) -> Value {
        let mut value = json!({ "name": self.name.as_str(), "serviceClassName": self.class.as_str() });
        if let Some(description) = &self.description {
            value["description"] = description.as_str().into();
        }
        if !self.args.is_empty() {
            value["args"] = self.args.clone().into();
        }
        if self.auto_start {
            value["autoStart"] = true.into();
        }
        if !self.dependencies.is_empty() {
            value["dependencies"] = self.dependencies.iter().map(Value::from).collect();
        }
        if let Some(profile) = &self.profile {
            value["profile"] = profile.as_str().into();
        }
        value
    }
}

#[cfg(test)]
mod tests;

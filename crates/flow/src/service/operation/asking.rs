//! Who asks, with what, and what is there for whoever asks.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::ObjectName;
use toolcrib_gateway::Errand;

use crate::service::class::Class;
use crate::service::house::{Hands, Owner};
use crate::service::table::{Servers, Table};

/// One operation that somebody asks for.
pub(super) struct Asking {
    pub(super) table: Arc<Table>,
    pub(super) errand: Errand,
    arguments: Map<String, Value>,
}

impl Servers for Asking {
    fn state(&self, server: &str) -> Option<String> {
        self.errand.gateway.server_condition(server)?["state"].as_str().map(str::to_owned)
    }
}

impl Asking {
    pub(super) fn new(table: Arc<Table>, errand: Errand) -> Self {
        let arguments = errand.arguments.to_value().as_object().cloned().unwrap_or_default();
        Self { table, errand, arguments }
    }

    /// What whoever asks may do.
    pub(super) fn hands(&self, label: &str) -> Arc<dyn Hands> {
        let mut errand = self.errand.clone();
        label.clone_into(&mut errand.label);
        Arc::new(errand)
    }

    /// In whose name a service works that is made now.
    pub(super) fn owner(&self) -> Owner {
        let caller = &self.errand.caller;
        let profile: &ProfileName = &caller.profile;
        Owner {
            principal: caller.principal.id.clone(),
            administers: caller.principal.is_admin,
            profile: profile.clone(),
        }
    }

    /// A text among the arguments that must be there and be something.
    pub(super) fn text(&self, key: &str) -> Result<&str, Problem> {
        let text = self.arguments.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| Problem::new(Kind::InvalidParams, format!("`{key}` is required")))
    }

    /// A name that something new shall have.
    pub(super) fn new_name(&self) -> Result<ObjectName, Problem> {
        ObjectName::new(self.text("name")?).map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.arguments.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn object(&self, key: &str) -> Map<String, Value> {
        self.arguments.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// An argument as it is; nothing where it is not given or is null.
    pub(super) fn given(&self, key: &str) -> Option<&Value> {
        self.arguments.get(key).filter(|value| !value.is_null())
    }

    /// Those of a class's tools that are not there for whoever asks.
    pub(super) fn missing_tools(&self, class: &Class) -> Vec<String> {
        self.errand.missing(class.definition.tools.names())
    }

    /// What a class depends on that is not there at all.
    pub(super) fn missing_needs(&self, class: &Class) -> Vec<String> {
        let is_there = |need: &ObjectName| {
            self.table.entry(need.as_str()).is_some()
                || self.table.loaded().service_classes.contains_key(need)
                || self.state(need.as_str()).is_some()
        };
        let needs = class.definition.dependencies.iter();
        needs.filter(|need| !is_there(need)).map(ToString::to_string).collect()
    }

    /// The class, if all that it needs is there for whoever asks.
    pub(super) fn usable(&self, name: &str) -> Result<Arc<Class>, Problem> {
        let class = self.table.around.class(name)?;
        let missing = self.missing_tools(&class);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            let message = format!("service class `{name}` is not available: missing required tools: {missing}");
            return Err(Problem::new(Kind::Conflict, message)
                .hint("Look with core_service_list whether their servers run, and whether your profile shows them."));
        }
        Ok(class)
    }
}

/// What an operation says when it has done what was asked for.
pub(super) fn said(name: &str, message: impl Into<String>, state: Option<&Value>) -> Value {
    let mut said = json!({ "name": name, "message": message.into() });
    for key in ["state", "health", "error"] {
        if let Some(member) = state.and_then(|state| state.get(key)) {
            said[key] = member.clone();
        }
    }
    said
}

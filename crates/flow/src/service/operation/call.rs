//! Who asks, with what, and what is visible to the caller.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_call::Invocation;
use toolcrib_catalog::ObjectName;
use toolcrib_gateway::Gateway;

use crate::arguments::OperationArguments;
use crate::service::class::Class;
use crate::service::host::{Owner, ToolCaller};
use crate::service::table::{Servers, Table};

/// One operation that someone asks for.
pub(super) struct OperationCall {
    pub(super) table: Arc<Table>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) invocation: Invocation,
    pub(super) given: OperationArguments,
}

impl Servers for OperationCall {
    fn state(&self, server: &str) -> Option<String> {
        self.gateway.server_condition(&self.invocation.visibility(), server)?["state"].as_str().map(str::to_owned)
    }
}

impl OperationCall {
    pub(super) fn new(table: Arc<Table>, gateway: Arc<Gateway>, invocation: Invocation) -> Self {
        let given = OperationArguments::of(&invocation);
        Self { table, gateway, invocation, given }
    }

    /// What the caller may do.
    pub(super) fn hands(&self, label: &str) -> Arc<dyn ToolCaller> {
        let mut invocation = self.invocation.clone();
        label.clone_into(&mut invocation.label);
        Arc::new(invocation)
    }

    /// In whose name a service works that is made now.
    pub(super) fn owner(&self) -> Owner {
        let caller = &self.invocation.caller;
        let profile: &ProfileName = &caller.profile;
        Owner { principal: caller.principal.id.clone(), role: caller.principal.role, profile: profile.clone() }
    }

    /// A name that something new should have.
    pub(super) fn new_name(&self) -> Result<ObjectName, Problem> {
        ObjectName::new(self.given.text("name")?).map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))
    }

    /// Those of a class's tools that are not there for the caller.
    pub(super) fn missing_tools(&self, class: &Class) -> Vec<String> {
        self.invocation.missing(class.definition.tools.names())
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

    /// Whether all that a class needs is visible to the caller.
    pub(super) fn usable(&self, class: &Class) -> Result<(), Problem> {
        let (name, missing) = (&class.definition.name, self.missing_tools(class));
        if !missing.is_empty() {
            let missing = missing.join(", ");
            let message = format!("service class `{name}` is not available: missing required tools: {missing}");
            return Err(Problem::new(Kind::Conflict, message)
                .hint("Check with core_service_list that their servers run, and that your profile shows them."));
        }
        Ok(())
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

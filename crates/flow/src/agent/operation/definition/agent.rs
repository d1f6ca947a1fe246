//! What is special of the definitions of agents.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{AGENT_TOOL_PREFIX, AgentDefinition, AgentFault, Catalog, DefinitionKind, ObjectName};
use toolcrib_view::ObjectKind;

use super::{DefinitionForm, OperationCall, ShownDefinition};

pub(super) struct AgentForm;

const MEMBERS: &[&str] = &[
    "description",
    "instructions",
    "models",
    "model",
    "profile",
    "tools",
    "tools_shown",
    "input",
    "output",
    "limits",
    "runs_as",
    "on_denied",
    "on_unknown",
    "sentinel",
    "config",
    "tool_allowlist",
    "tool_policies",
    "canary_tokens",
    "connectors",
];

impl DefinitionForm for AgentForm {
    fn noun(&self) -> &'static str {
        "agent"
    }

    fn kind(&self) -> DefinitionKind {
        DefinitionKind::Agent
    }

    fn members(&self) -> &'static [&'static str] {
        MEMBERS
    }

    fn rows(&self, asking: &OperationCall, loaded: &Catalog) -> Vec<Value> {
        let visibility = asking.invocation.visibility();
        let known = loaded.agents.values().filter(|it| visibility.has_object(ObjectKind::Agent, it.name.as_str()));
        known.map(|agent| row(asking, loaded, agent)).collect()
    }

    fn shown(&self, asking: &OperationCall, loaded: &Catalog, name: &str) -> Option<ShownDefinition> {
        let agent = loaded.agents.get(name)?;
        let visibility = asking.invocation.visibility();
        visibility.has_object(ObjectKind::Agent, name).then(|| {
            let value = agent.to_shown_value();
            let is_masked = value.as_object() != Some(&agent.spec);
            ShownDefinition { value, is_masked, is_built_in: false, available: Some(is_available(asking, name)) }
        })
    }

    fn compare(&self, loaded: &Catalog, name: &str, text: &str) -> Result<Vec<String>, Problem> {
        let Ok(agent) = AgentDefinition::of_text(name, text) else { return Ok(Vec::new()) };
        let faults = agent.faults(&loaded.known());
        match faults.iter().find(|fault| fault.is_problem()) {
            Some(fault) => Err(Problem::new(Kind::Definition, fault.to_string()).hint(fault.hint())),
            None => Ok(faults.iter().map(in_words).collect()),
        }
    }

    fn needed_by(&self, _: &Catalog, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn next_step(&self, name: &str) -> String {
        format!("it is the tool {AGENT_TOOL_PREFIX}{name}")
    }
}

fn in_words(fault: &AgentFault) -> String {
    format!("{fault} ({})", fault.hint())
}

/// Whether the profile shows its tool.
fn is_available(asking: &OperationCall, name: &str) -> bool {
    asking.invocation.view().is_ok_and(|view| view.tool(&format!("agent/{name}")).is_some())
}

fn row(asking: &OperationCall, loaded: &Catalog, agent: &Arc<AgentDefinition>) -> Value {
    let name = agent.name.as_str();
    let models: Vec<&str> = agent.models.iter().map(ObjectName::as_str).collect();
    let mut row = json!({
        "name": name, "available": is_available(asking, name), "models": models, "runs_as": agent.runs_as.as_str(),
        "tools_shown": agent.tools_shown.as_str(),
    });
    if let Some(description) = &agent.description {
        row["description"] = description.as_str().into();
    }
    if let Some(profile) = &agent.profile {
        row["profile"] = profile.as_str().into();
    }
    if let Some(tools) = &agent.tools {
        row["tools"] = tools.iter().map(ToString::to_string).collect();
    }
    let warnings: Vec<String> = agent.faults(&loaded.known()).iter().map(in_words).collect();
    if !warnings.is_empty() {
        row["warnings"] = warnings.into();
    }
    row
}

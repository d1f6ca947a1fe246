//! The agents that there are, and the tools that they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_catalog::{AgentDefinition, Catalog, DefinitionProblem, ObjectName};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_view::Offer;

use super::tools::CALL;

/// The argument of an agent that declares none.
const TASK: &str = "task";

/// What the files say right now.
#[derive(Debug, Default)]
pub(super) struct Table {
    agents: BTreeMap<ObjectName, Arc<AgentDefinition>>,
    pub(super) offers: Arc<[Offer]>,
}

impl Table {
    pub(super) fn of(loaded: &Catalog, before: &Self) -> (Self, Vec<DefinitionProblem>) {
        let agents = loaded.agents.clone();
        let offers: Arc<[Offer]> = agents.values().filter_map(|agent| offer(agent)).collect();
        let offers = if offers == before.offers { Arc::clone(&before.offers) } else { offers };
        (Self { agents, offers }, Vec::new())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<AgentDefinition>> {
        self.agents.get(name)
    }

    /// The names of all agents.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(ObjectName::as_str)
    }
}

fn offer(agent: &AgentDefinition) -> Option<Offer> {
    let description =
        agent.description.clone().unwrap_or_else(|| format!("Gives a task to the agent `{}`.", agent.name));
    let input = agent.input.clone().unwrap_or_else(|| {
        json!({
            "type": "object",
            "properties": {TASK: {"type": "string", "description": "What to do, in plain words"}},
            "required": [TASK],
        })
    });
    let mut entry = json!({"name": agent.name.as_str(), "description": description, "inputSchema": input});
    if let Some(output) = agent.output.as_ref().filter(|output| output["type"] == "object") {
        entry["outputSchema"] = output.clone();
    }
    let entry = Entry::from_raw(Listing::Tools, Raw::from_value(&entry)).ok()?;
    // It may do whatever its tools do, so no more is claimed of it than of the tool that calls any other.
    Some(Offer { entry, uses: vec![CALL.to_owned()], checks_arguments: false, slow: true })
}

/// What an agent is asked, of the arguments of a call.
pub(super) fn task(agent: &AgentDefinition, arguments: &Raw) -> String {
    let value = arguments.to_value();
    let only_task = value.as_object().filter(|members| members.len() == 1).and_then(|members| members.get(TASK));
    match only_task.and_then(Value::as_str) {
        Some(text) if agent.input.is_none() || !text.is_empty() => text.to_owned(),
        _ => value.to_string(),
    }
}

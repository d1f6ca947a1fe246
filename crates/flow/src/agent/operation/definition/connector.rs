//! What is special of the definitions of connectors. Their secrets are references, which are shown as they are.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{Catalog, ConnectorDefinition, DefinitionKind};

use super::{DefinitionForm, OperationCall, ShownDefinition};

pub(super) struct ConnectorForm;

const MEMBERS: &[&str] =
    &["description", "type", "connector_type", "endpoint", "auth", "auth_config", "tools", "resources", "status"];

impl DefinitionForm for ConnectorForm {
    fn noun(&self) -> &'static str {
        "connector"
    }

    fn kind(&self) -> DefinitionKind {
        DefinitionKind::Connector
    }

    fn members(&self) -> &'static [&'static str] {
        MEMBERS
    }

    fn rows(&self, _: &OperationCall, loaded: &Catalog) -> Vec<Value> {
        loaded.connectors.values().map(|connector| row(loaded, connector)).collect()
    }

    fn shown(&self, _: &OperationCall, loaded: &Catalog, name: &str) -> Option<ShownDefinition> {
        let connector = loaded.connectors.get(name)?;
        let value = Value::Object(connector.spec.clone());
        Some(ShownDefinition { value, is_masked: false, is_built_in: false, available: None })
    }

    fn compare(&self, loaded: &Catalog, name: &str, text: &str) -> Result<Vec<String>, Problem> {
        let is_server = loaded.servers.get(name).is_some_and(|server| server.connector.is_none());
        if is_server {
            let message = format!("the server `{name}` has this name, and a connector is called as a server");
            return Err(Problem::new(Kind::Conflict, message).hint("Choose another name for the connector."));
        }
        let Ok(connector) = ConnectorDefinition::of_text(name, text) else { return Ok(Vec::new()) };
        let open: Vec<String> = connector
            .tools
            .iter()
            .filter(|(_, tool)| tool.action.is_none() && tool.risk.is_none())
            .map(|(tool, _)| format!("`{tool}`"))
            .collect();
        let say = || {
            let tools = open.join(", ");
            format!("nothing is said of {tools}: what a profile and policies allow can be called (add `action_type`)")
        };
        Ok((!open.is_empty()).then(say).into_iter().collect())
    }

    fn needed_by(&self, loaded: &Catalog, name: &str) -> Vec<String> {
        agents(loaded, name).into_iter().map(|agent| format!("agent `{agent}`")).collect()
    }

    fn loss(&self) -> &'static str {
        "has its tools, and loses them"
    }

    fn next_step(&self, name: &str) -> String {
        format!(
            "set its secret with `toolcrib connector rotate {name}`, look at it with `toolcrib connector test {name}`"
        )
    }
}

/// The agents that have its tools.
fn agents(loaded: &Catalog, name: &str) -> Vec<String> {
    let having = loaded.agents.values().filter(|agent| {
        let mut connectors = agent.connectors.iter().flatten();
        connectors.any(|connector| connector.name.as_str() == name)
    });
    having.map(|agent| agent.name.to_string()).collect()
}

fn row(loaded: &Catalog, connector: &ConnectorDefinition) -> Value {
    let name = connector.name.as_str();
    let mut row = json!({
        "name": name, "endpoint": connector.endpoint.to_string(), "auth": connector.auth.kind().as_str(),
        "status": connector.status.as_str(), "tools": connector.tools.keys().collect::<Vec<_>>(),
        "agents": agents(loaded, name),
    });
    if let Some(entry) = connector.auth.vault_entry() {
        row["secret"] = format!("vault:{entry}").into();
    }
    if let Some(description) = &connector.description {
        row["description"] = description.as_str().into();
    }
    row
}

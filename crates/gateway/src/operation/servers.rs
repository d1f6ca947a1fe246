//! The servers: state, tools, last error.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::gateway::Gateway;

pub(super) fn list(gateway: &Arc<Gateway>) -> Value {
    let table = gateway.servers.table();
    let servers: Vec<Value> = table
        .values()
        .map(|running| {
            let (status, inventory) = (running.server.status(), running.server.inventory());
            let mut server = json!({
                "name": running.definition.name.as_str(),
                "title": running.definition.title,
                "transport": running.definition.transport.kind().as_str(),
                "state": status.state.as_str(),
                "since": status.since.to_string(),
                "listed": status.listed,
                "tools": inventory.tools.len(),
                "resources": inventory.resources.len() + inventory.templates.len(),
                "prompts": inventory.prompts.len(),
                "restarts": status.restarts,
                "warnings": inventory.warnings,
            });
            if let Some(error) = status.last_error {
                server["lastError"] = error.into();
            }
            if let Some(next) = status.next_retry {
                server["nextRetry"] = next.to_string().into();
            }
            server
        })
        .collect();
    let problems: Vec<Value> = gateway
        .loaded()
        .problems
        .iter()
        .map(|problem| json!({ "problem": problem.to_string(), "hint": problem.hint }))
        .collect();
    json!({ "mcpServers": servers, "total": servers.len(), "problems": problems })
}

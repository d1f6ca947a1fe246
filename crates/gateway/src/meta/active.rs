//! The tools that the caller has loaded.

use serde_json::{Value, json};
use toolcrib_base::{Problem, ToolId};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_view::reply;

use super::Context;

pub(super) fn run(context: &Context<'_>) -> Result<Raw, Problem> {
    if context.meta.dialect == Dialect::Scooter {
        return Ok(reply::data(&by_server(context)));
    }
    let value = list(context);
    let tools = value["tools"].as_array().cloned().unwrap_or_default();
    if tools.is_empty() {
        return Ok(reply::structured("No tools are currently active.", &value));
    }
    let lines = tools.iter().enumerate().map(|(number, tool)| {
        let text = |key: &str| tool[key].as_str().unwrap_or_default();
        format!("{}. **{}** – {}", number + 1, text("name"), text("summary"))
    });
    let text = format!("{} active tools:\n{}", tools.len(), lines.collect::<Vec<_>>().join("\n"));
    Ok(reply::structured(&text, &value))
}

/// The active list and its count.
pub(super) fn list(context: &Context<'_>) -> Value {
    let active = context.gateway.active.of(context.caller, context.view().profile.active_set);
    let tools: Vec<Value> = active.iter().filter_map(|id| entry(context, id)).collect();
    json!({ "count": tools.len(), "tools": tools })
}

fn entry(context: &Context<'_>, id: &ToolId) -> Option<Value> {
    let tool = context.view().tool_by_id(id)?;
    let summary = toolcrib_search::budget::summary(tool.description());
    Some(json!({ "id": id.to_string(), "name": &*tool.name, "summary": summary }))
}

/// scooter's form: servers with their loaded tools.
pub(super) fn by_server(context: &Context<'_>) -> Value {
    let active = context.gateway.active.of(context.caller, context.view().profile.active_set);
    let mut servers: Vec<(String, Vec<String>)> = Vec::new();
    for id in &active {
        let Some(tool) = context.view().tool_by_id(id) else { continue };
        match servers.last_mut() {
            Some((server, tools)) if server == id.server.as_str() => tools.push(tool.name.to_string()),
            _ => servers.push((id.server.to_string(), vec![tool.name.to_string()])),
        }
    }
    let list: Vec<Value> = servers
        .iter()
        .map(|(server, tools)| json!({ "server": server, "tools": tools, "count": tools.len() }))
        .collect();
    json!({ "count": list.len(), "active_servers": list })
}

//! The servers: their definitions, and how they are.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::Which;
use toolcrib_protocol::Raw;

use super::{Effect, Method, Operation, ROW, Run, definition};
use crate::gateway::Gateway;
use crate::servers::Running;

pub(super) const ROWS: &[Operation] = &[
    Operation {
        tool: "core_mcpserver_create",
        method: Method::Post,
        path: "/servers",
        tag: "servers",
        summary: "Add a server",
        description: "Write the definition of a new server, `servers/<name>.yaml`, and take it in. Give it as a value or as YAML.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        problems: &[Kind::Conflict, Kind::Definition],
        input: r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"definition":{"type":"object","description":"The definition, such as {\"command\":\"npx\",\"args\":[\"-y\",\"…\"]}"},"yaml":{"type":"string","description":"The text of the file"}},"required":["name"],"oneOf":[{"required":["definition"]},{"required":["yaml"]}],"additionalProperties":false}"#,
        output: WRITTEN,
        run: Run::House(|gateway, arguments| {
            Box::pin(async { definition::create(gateway, definition::server(arguments)?, arguments).await })
        }),
        ..ROW
    },
    Operation {
        tool: "core_mcpserver_delete",
        method: Method::Delete,
        path: "/servers/{name}",
        tag: "servers",
        summary: "Remove a server",
        description: "Stop a server and remove the file of its definition.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale],
        input: r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"revision":{"type":"string","description":"Only if the file still has this revision"}},"required":["name"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},"deleted":{"const":true}},"required":["name","file","deleted"]}"#,
        run: Run::House(|gateway, arguments| {
            Box::pin(async { definition::delete(gateway, definition::server(arguments)?, arguments).await })
        }),
        ..ROW
    },
    Operation {
        tool: "core_mcpserver_get",
        path: "/servers/{name}",
        tag: "servers",
        summary: "Show a server",
        description: "Show one server: its state, and its definition with its revision. Values that may be secrets are shown as ****.",
        problems: &[Kind::NotFound, Kind::Definition],
        input: NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"state":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"},"definition":{"type":["object","null"]},"problems":{"type":"array"}},"required":["name"]}"#,
        run: Run::House(|gateway, arguments| Box::pin(get(gateway, arguments))),
        ..ROW
    },
    Operation {
        tool: "core_mcpserver_list",
        path: "/servers",
        tag: "servers",
        summary: "List the servers",
        description: "List the servers with their state, tools and last error.",
        output: r#"{"type":"object","properties":{"mcpServers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"state":{"enum":["idle","starting","ready","failed","stopped"]}},"required":["name","state"]}},"total":{"type":"integer"},"problems":{"type":"array"}},"required":["mcpServers","total","problems"]}"#,
        run: Run::House(|gateway, _| Box::pin(std::future::ready(Ok(list(gateway))))),
        ..ROW
    },
    Operation {
        tool: "core_mcpserver_update",
        method: Method::Put,
        path: "/servers/{name}",
        tag: "servers",
        summary: "Replace the definition of a server",
        description: "Replace the whole definition of a server. `revision` is the one that core_mcpserver_get showed; a file that has changed since is left alone. With `yaml` the comments are yours to keep; a `definition` is written without any.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
        input: r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"revision":{"type":"string"},"definition":{"type":"object"},"yaml":{"type":"string"}},"required":["name","revision"],"oneOf":[{"required":["definition"]},{"required":["yaml"]}],"additionalProperties":false}"#,
        output: WRITTEN,
        run: Run::House(|gateway, arguments| {
            Box::pin(async { definition::update(gateway, definition::server(arguments)?, arguments).await })
        }),
        ..ROW
    },
    Operation {
        tool: "core_mcpserver_validate",
        method: Method::Post,
        path: "/validate/server",
        tag: "servers",
        summary: "Check the definition of a server",
        description: "Say what is wrong with the definition of a server, with places and hints, without writing anything.",
        input: VALIDATE,
        output: VALIDATED,
        run: Run::House(|_, arguments| {
            Box::pin(async { definition::validate(&definition::server(arguments)?, arguments) })
        }),
        ..ROW
    },
];

pub(super) const NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"}},"required":["name"],"additionalProperties":false}"#;
pub(super) const WRITTEN: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","file","revision"]}"#;
pub(super) const VALIDATE: &str = r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"definition":{"type":"object"},"yaml":{"type":"string"}},"required":["name"],"oneOf":[{"required":["definition"]},{"required":["yaml"]}],"additionalProperties":false}"#;
pub(super) const VALIDATED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"valid":{"type":"boolean"},"problems":{"type":"array","items":{"type":"object","properties":{"problem":{"type":"string"},"file":{"type":"string"},"line":{"type":"integer"},"column":{"type":"integer"},"hint":{"type":["string","null"]}},"required":["problem","file"]}}},"required":["name","valid","problems"]}"#;

fn list(gateway: &Arc<Gateway>) -> Value {
    let table = gateway.servers.table();
    let servers: Vec<Value> = table.values().map(shown).collect();
    let problems: Vec<Value> = gateway.loaded().problems.iter().map(definition::problem).collect();
    json!({ "mcpServers": servers, "total": servers.len(), "problems": problems })
}

async fn get(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::server(arguments)?;
    let file = definition::file(gateway, &which).await?;
    let table = gateway.servers.table();
    let running = table.get(which.name()).map(shown);
    if file.is_none() && running.is_none() {
        return Err(definition::unknown("server", which.name(), table.keys().map(ServerName::as_str)));
    }
    let mut value = running.unwrap_or_else(|| json!({ "name": which.name() }));
    for (key, member) in file.iter().filter_map(Value::as_object).flatten() {
        value[key] = member.clone();
    }
    Ok(value)
}

/// How a server is.
pub(super) fn shown(running: &Running) -> Value {
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
}

/// The running server that the argument `name` names.
pub(super) fn running(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Running, Problem> {
    let which: Which = definition::server(arguments)?;
    let table = gateway.servers.table();
    let unknown = || definition::unknown("server", which.name(), table.keys().map(ServerName::as_str));
    table.get(which.name()).cloned().ok_or_else(unknown)
}

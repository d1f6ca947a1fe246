//! The rows of the table of kinds, with their columns.

use serde_json::Value;
use toolcrib_protocol::inventory::Listing;

use super::{Order, Row, Source, Verb};
use crate::output::table::{Column, field, moment, shown};

/// What most rows have in common.
const ROW: Row = Row {
    one: "",
    many: "",
    aliases: &[],
    source: Source::Contexts,
    member: "",
    names: &["name"],
    argument: "name",
    order: Order::FirstColumn,
    columns: &[],
    parts: &[],
    details: &[],
    acts: &[],
};

pub(crate) const TOOLS: Row = Row {
    one: "tool",
    many: "tools",
    source: Source::Operation("core_tool_list"),
    member: "tools",
    names: &["name", "id"],
    columns: &[
        Column::new("NAME", |tool| field(tool, "name")),
        Column::new("SERVER", |tool| field(tool, "server")),
        Column::state("STATE", |tool| field(tool, "state")),
        Column::wide("ID", |tool| field(tool, "id")),
        Column::wide("TITLE", |tool| field(tool, "title")),
        Column::new("DESCRIPTION", |tool| field(tool, "description")),
    ],
    acts: &[(Verb::Get, "core_tool_get"), (Verb::Check, "core_tool_get")],
    ..ROW
};

pub(crate) const SERVERS: Row = Row {
    one: "server",
    many: "servers",
    aliases: &["mcpserver", "mcpservers", "mcps", "mcp-server", "mcp-servers"],
    source: Source::Operation("core_mcpserver_list"),
    member: "mcpServers",
    columns: &[
        Column::new("NAME", |server| field(server, "name")),
        Column::state("STATE", |server| field(server, "state")),
        Column::new("TRANSPORT", |server| first(server, &["transport", "type"])),
        Column::new("TOOLS", |server| first(server, &["tools", "toolsCount"])),
        Column::wide("RESOURCES", |server| field(server, "resources")),
        Column::wide("PROMPTS", |server| field(server, "prompts")),
        Column::wide("RESTARTS", |server| field(server, "restarts")),
        Column::new("SINCE", |server| moment(server, "since")),
        Column::wide("URL", |server| field(server, "url")),
        Column::wide("COMMAND", command_of),
        Column::wide("NEXT RETRY", |server| moment(server, "nextRetry")),
        Column::wide("TITLE", |server| field(server, "title")),
        Column::new("LAST ERROR", trouble_of),
        Column::wide("WARNINGS", |server| field(server, "warnings")),
    ],
    // muster's names for what is there under ours.
    details: &["type", "toolsCount", "error", "statusMessage", "nextRetryAfter", "sessionStatus", "connectedAt"],
    acts: &[
        (Verb::Get, "core_mcpserver_get"),
        (Verb::Create, "core_mcpserver_create"),
        (Verb::Update, "core_mcpserver_update"),
        (Verb::Delete, "core_mcpserver_delete"),
        (Verb::Start, "core_mcpserver_start"),
        (Verb::Stop, "core_mcpserver_stop"),
        (Verb::Restart, "core_mcpserver_restart"),
        (Verb::Status, "core_mcpserver_get"),
        (Verb::Check, "core_mcpserver_get"),
    ],
    ..ROW
};

pub(crate) const PROFILES: Row = Row {
    one: "profile",
    many: "profiles",
    source: Source::Operation("core_profile_list"),
    member: "profiles",
    columns: &[
        Column::new("NAME", |profile| field(profile, "name")),
        Column::new("EXPOSURE", |profile| field(profile, "exposure")),
        Column::new("DIALECT", |profile| field(profile, "dialect")),
        Column::new("SERVERS", |profile| field(profile, "servers")),
        Column::new("TOOLS", |profile| field(profile, "tools")),
        Column::wide("TITLE", |profile| field(profile, "title")),
        Column::new("URL", |profile| field(profile, "url")),
    ],
    acts: &[
        (Verb::Get, "core_profile_get"),
        (Verb::Create, "core_profile_create"),
        (Verb::Update, "core_profile_update"),
        (Verb::Delete, "core_profile_delete"),
        (Verb::Check, "core_profile_get"),
    ],
    ..ROW
};

pub(crate) const RESOURCES: Row = Row {
    one: "resource",
    many: "resources",
    aliases: &["res"],
    source: Source::List(Listing::Resources),
    member: "resources",
    names: &["uri", "name"],
    argument: "uri",
    columns: &[
        Column::new("URI", |resource| field(resource, "uri")),
        Column::new("NAME", |resource| field(resource, "name")),
        Column::new("TYPE", |resource| field(resource, "mimeType")),
        Column::wide("SIZE", |resource| field(resource, "size")),
        Column::wide("TITLE", |resource| field(resource, "title")),
        Column::new("DESCRIPTION", |resource| field(resource, "description")),
    ],
    ..ROW
};

pub(crate) const PROMPTS: Row = Row {
    one: "prompt",
    many: "prompts",
    source: Source::List(Listing::Prompts),
    member: "prompts",
    columns: &[
        Column::new("NAME", |prompt| field(prompt, "name")),
        Column::new("ARGUMENTS", prompt_arguments),
        Column::wide("TITLE", |prompt| field(prompt, "title")),
        Column::new("DESCRIPTION", |prompt| field(prompt, "description")),
    ],
    parts: &[("Arguments", "arguments", PROMPT_ARGUMENTS)],
    ..ROW
};

const PROMPT_ARGUMENTS: &[Column] = &[
    Column::new("NAME", |argument| field(argument, "name")),
    Column::new("REQUIRED", |argument| if argument["required"] == true { "yes" } else { "no" }.to_owned()),
    Column::new("DESCRIPTION", |argument| field(argument, "description")),
];

pub(crate) const MODELS: Row = Row {
    one: "model",
    many: "models",
    source: Source::Operation("core_model_list"),
    member: "models",
    columns: &[
        Column::new("NAME", |model| field(model, "name")),
        Column::new("WIRE", |model| field(model, "wire")),
        Column::new("MODEL", |model| field(model, "model")),
        Column::new("WINDOW", |model| field(model, "window")),
        Column::new("PRICE", price_of),
        Column::new("URL", |model| field(model, "url")),
        Column::wide("KEY", |model| field(model, "key")),
        Column::wide("AGENTS", |model| field(model, "agents")),
        Column::wide("DESCRIPTION", |model| field(model, "description")),
    ],
    acts: &[
        (Verb::Get, "core_model_get"),
        (Verb::Create, "core_model_create"),
        (Verb::Update, "core_model_update"),
        (Verb::Delete, "core_model_delete"),
        (Verb::Check, "core_model_get"),
    ],
    ..ROW
};

pub(crate) const AGENTS: Row = Row {
    one: "agent",
    many: "agents",
    source: Source::Operation("core_agent_list"),
    member: "agents",
    columns: &[
        Column::new("NAME", |agent| field(agent, "name")),
        Column::state("AVAILABLE", |agent| field(agent, "available")),
        Column::new("MODELS", |agent| field(agent, "models")),
        Column::new("TOOLS", |agent| field(agent, "tools")),
        Column::new("RUNS AS", |agent| field(agent, "runs_as")),
        Column::new("DESCRIPTION", |agent| field(agent, "description")),
        Column::wide("PROFILE", |agent| field(agent, "profile")),
        Column::wide("WARNINGS", |agent| field(agent, "warnings")),
    ],
    acts: &[
        (Verb::Get, "core_agent_get"),
        (Verb::Create, "core_agent_create"),
        (Verb::Update, "core_agent_update"),
        (Verb::Delete, "core_agent_delete"),
        (Verb::Check, "core_agent_get"),
    ],
    ..ROW
};

pub(crate) const CONNECTORS: Row = Row {
    one: "connector",
    many: "connectors",
    source: Source::Operation("core_connector_list"),
    member: "connectors",
    columns: &[
        Column::new("NAME", |connector| field(connector, "name")),
        Column::new("AUTH", |connector| field(connector, "auth")),
        Column::new("STATUS", |connector| field(connector, "status")),
        Column::new("TOOLS", |connector| field(connector, "tools")),
        Column::new("ENDPOINT", |connector| field(connector, "endpoint")),
        Column::wide("SECRET", |connector| field(connector, "secret")),
        Column::wide("AGENTS", |connector| field(connector, "agents")),
        Column::wide("DESCRIPTION", |connector| field(connector, "description")),
    ],
    acts: &[
        (Verb::Get, "core_connector_get"),
        (Verb::Create, "core_connector_create"),
        (Verb::Update, "core_connector_update"),
        (Verb::Delete, "core_connector_delete"),
        (Verb::Check, "core_connector_get"),
    ],
    ..ROW
};

pub(crate) const WORKFLOWS: Row = Row {
    one: "workflow",
    many: "workflows",
    aliases: &["wf", "wfs"],
    source: Source::Operation("core_workflow_list"),
    member: "workflows",
    columns: &[
        Column::new("NAME", |workflow| field(workflow, "name")),
        Column::state("STATUS", availability),
        Column::new("DESCRIPTION", |workflow| field(workflow, "description")),
        Column::new("STEPS", |workflow| count(workflow, &["steps", "step_count", "stepCount"])),
        Column::wide("ARGS", |workflow| count(workflow, &["args"])),
    ],
    parts: &[("Steps", "steps", DEFINED_STEPS)],
    acts: &[
        (Verb::Get, "core_workflow_get"),
        (Verb::Create, "core_workflow_create"),
        (Verb::Update, "core_workflow_update"),
        (Verb::Delete, "core_workflow_delete"),
        (Verb::Start, "core_workflow_get"),
        (Verb::Check, "core_workflow_available"),
    ],
    ..ROW
};

const DEFINED_STEPS: &[Column] = &[
    Column::new("ID", |step| field(step, "id")),
    Column::new("DOES", step_of),
    Column::wide("ARGS", |step| field(step, "args")),
    Column::new("DESCRIPTION", |step| field(step, "description")),
];

pub(crate) const EXECUTIONS: Row = Row {
    one: "workflow-execution",
    many: "workflow-executions",
    aliases: &["execution", "executions", "run", "runs", "wfe", "workflowexecution", "workflowexecutions"],
    source: Source::Operation("core_workflow_execution_list"),
    member: "executions",
    names: &["execution_id"],
    argument: "execution_id",
    order: Order::AsGiven,
    columns: &[
        Column::new("ID", |run| field(run, "execution_id")),
        Column::new("WORKFLOW_NAME", |run| field(run, "workflow_name")),
        Column::state("STATUS", |run| field(run, "status")),
        Column::new("STARTED_AT", |run| moment(run, "started_at")),
        Column::wide("COMPLETED_AT", |run| moment(run, "completed_at")),
        Column::new("DURATION_MS", |run| field(run, "duration_ms")),
        Column::wide("STEPS", |run| count(run, &["step_count", "steps"])),
        Column::wide("ERROR", |run| field(run, "error")),
    ],
    parts: &[("Steps", "steps", RUN_STEPS)],
    // It repeats input and steps.
    details: &["result"],
    acts: &[(Verb::Get, "core_workflow_execution_get"), (Verb::Stop, "core_workflow_execution_cancel")],
};

/// The steps of a run, as a record or as a result has them.
pub(crate) const RUN_STEPS: &[Column] = &[
    Column::new("STEP", |step| first(step, &["step_id", "id"])),
    Column::new("TOOL", |step| field(step, "tool")),
    Column::state("STATUS", |step| field(step, "status")),
    Column::new("DURATION_MS", |step| field(step, "duration_ms")),
    Column::wide("INPUT", |step| field(step, "input")),
    Column::wide("RESULT", |step| field(step, "result")),
    Column::new("ERROR", |step| field(step, "error")),
];

/// The steps of a result, which has what came out of them.
pub(crate) const RESULT_STEPS: &[Column] = &[
    Column::new("STEP", |step| field(step, "id")),
    Column::new("TOOL", |step| field(step, "tool")),
    Column::state("STATUS", |step| field(step, "status")),
    Column::new("RESULT", |step| field(step, "result")),
    Column::new("ERROR", |step| field(step, "error")),
];

pub(crate) const SERVICES: Row = Row {
    one: "service",
    many: "services",
    aliases: &["svc", "svcs"],
    source: Source::Operation("core_service_list"),
    member: "services",
    columns: &[
        Column::new("NAME", |service| field(service, "name")),
        Column::state("HEALTH", |service| field(service, "health")),
        Column::state("STATE", |service| field(service, "state")),
        Column::new("SERVICE_TYPE", |service| first(service, &["service_type", "serviceClassType"])),
        Column::wide("CLASS", |service| {
            let own = field(service, "serviceClassName");
            if own.is_empty() { field(&service["metadata"], "serviceClassName") } else { own }
        }),
        Column::wide("ENDPOINT", |service| first(&service["metadata"], &["url", "endpoint"])),
        Column::wide("TOOLS", |service| first(&service["metadata"], &["tools", "toolsCount"])),
        Column::wide("ERROR", |service| first(service, &["error", "lastError"])),
    ],
    acts: &[
        (Verb::Get, "core_service_get"),
        (Verb::Create, "core_service_create"),
        (Verb::Delete, "core_service_delete"),
        (Verb::Start, "core_service_start"),
        (Verb::Stop, "core_service_stop"),
        (Verb::Restart, "core_service_restart"),
        (Verb::Status, "core_service_status"),
        (Verb::Check, "core_service_status"),
    ],
    ..ROW
};

pub(crate) const SERVICE_CLASSES: Row = Row {
    one: "serviceclass",
    many: "serviceclasses",
    aliases: &["sc", "scs", "service-class", "service-classes"],
    source: Source::Operation("core_serviceclass_list"),
    member: "serviceClasses",
    columns: &[
        Column::new("NAME", |class| field(class, "name")),
        Column::state("AVAILABLE", |class| field(class, "available")),
        Column::new("SERVICE_TYPE", |class| first(class, &["serviceType", "service_type"])),
        Column::new("DESCRIPTION", |class| field(class, "description")),
        Column::wide("REQUIRED_TOOLS", |class| field(class, "requiredTools")),
        Column::wide("MISSING_TOOLS", |class| field(class, "missingTools")),
    ],
    acts: &[
        (Verb::Get, "core_serviceclass_get"),
        (Verb::Create, "core_serviceclass_create"),
        (Verb::Update, "core_serviceclass_update"),
        (Verb::Delete, "core_serviceclass_delete"),
        (Verb::Check, "core_serviceclass_available"),
    ],
    ..ROW
};

pub(crate) const EVENTS: Row = Row {
    one: "event",
    many: "events",
    aliases: &["ev"],
    source: Source::Operation("core_events"),
    member: "events",
    names: &["resource_name", "reason"],
    order: Order::AsGiven,
    columns: &[
        Column::new("TIMESTAMP", |event| moment(event, "timestamp")),
        Column::state("TYPE", |event| field(event, "type")),
        Column::new("RESOURCE_TYPE", |event| field(event, "resource_type")),
        Column::new("RESOURCE_NAME", |event| field(event, "resource_name")),
        Column::new("REASON", |event| field(event, "reason")),
        Column::new("MESSAGE", |event| field(event, "message")),
        Column::wide("COUNT", |event| field(event, "count")),
        Column::wide("NAMESPACE", |event| field(event, "namespace")),
    ],
    ..ROW
};

pub(crate) const ENTRIES: Row = Row {
    one: "registry-entry",
    many: "registry-entries",
    aliases: &["entry", "entries", "registry"],
    source: Source::Operation("core_registry_list"),
    member: "entries",
    columns: &[
        Column::new("NAME", |entry| field(entry, "name")),
        Column::new("CATEGORY", |entry| field(entry, "category")),
        Column::state("STATE", entry_state),
        Column::new("SOURCE", |entry| first(entry, &["source", "origin"])),
        Column::new("TITLE", |entry| first(entry, &["title", "description"])),
    ],
    acts: &[(Verb::Get, "core_registry_get")],
    ..ROW
};

pub(crate) const SECRETS: Row = Row {
    one: "secret",
    many: "secrets",
    source: Source::Operation("core_secret_list"),
    member: "secrets",
    columns: &[
        Column::new("NAME", |secret| field(secret, "name")),
        Column::new("SERVERS", |secret| field(secret, "servers")),
        Column::new("PROFILES", |secret| field(secret, "profiles")),
        Column::new("SET AT", |secret| first(secret, &["set_at", "setAt"])),
    ],
    acts: &[(Verb::Delete, "core_secret_delete")],
    ..ROW
};

pub(crate) const CONTEXTS: Row = Row {
    one: "context",
    many: "contexts",
    aliases: &["ctx"],
    source: Source::Contexts,
    columns: &[
        Column::new("CURRENT", |context| field(context, "current")),
        Column::new("NAME", |context| field(context, "name")),
        Column::new("ENDPOINT", |context| field(context, "endpoint")),
        Column::wide("PROFILE", |context| field(context, "profile")),
        Column::wide("TOKEN", |context| field(context, "token")),
        Column::wide("OUTPUT", |context| field(&context["settings"], "output")),
    ],
    ..ROW
};

/// The first of these members that says something.
fn first(row: &Value, keys: &[&str]) -> String {
    keys.iter().map(|key| field(row, key)).find(|text| !text.is_empty()).unwrap_or_default()
}

/// What a person should know of a server: the command that logs in, else its note or error.
fn trouble_of(server: &Value) -> String {
    let next = field(server, "next");
    if next.is_empty() { first(server, &["note", "lastError", "error"]) } else { format!("log in: {next}") }
}

/// A program with its arguments.
fn command_of(server: &Value) -> String {
    let arguments = server["args"].as_array().into_iter().flatten().map(shown);
    std::iter::once(field(server, "command")).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Dollars for a million tokens of input and of output.
fn price_of(model: &Value) -> String {
    let prices = &model["prices"];
    if prices.is_null() { String::new() } else { format!("{} / {}", field(prices, "input"), field(prices, "output")) }
}

/// Whether an entry of the registry is a server already.
fn entry_state(entry: &Value) -> String {
    match entry["configured"].as_bool() {
        Some(true) => "configured".to_owned(),
        Some(false) => "available".to_owned(),
        None => field(entry, "state"),
    }
}

/// A number, or how many there are of something.
fn count(row: &Value, keys: &[&str]) -> String {
    let one = |key: &&str| match &row[*key] {
        Value::Array(items) => Some(items.len().to_string()),
        Value::Object(members) => Some(members.len().to_string()),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    keys.iter().find_map(one).unwrap_or_default()
}

fn availability(row: &Value) -> String {
    match row["available"].as_bool() {
        Some(true) => "Available".to_owned(),
        Some(false) => "Unavailable".to_owned(),
        None => field(row, "status"),
    }
}

/// What a step of a definition does.
fn step_of(step: &Value) -> String {
    let tool = field(step, "tool");
    if !tool.is_empty() {
        return tool;
    }
    let agent = field(step, "agent");
    if !agent.is_empty() {
        return format!("agent {agent}");
    }
    let inner = |value: &Value| count(value, &["steps"]);
    match (["forEach", "for_each"].iter().find(|key| !step[**key].is_null()), &step["parallel"]) {
        (Some(key), _) => format!("for each: {} steps", inner(&step[*key])),
        (None, Value::Array(branches)) => format!("parallel: {} steps", branches.len()),
        _ => String::new(),
    }
}

/// `city, unit?`
fn prompt_arguments(prompt: &Value) -> String {
    let arguments = prompt["arguments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = |argument: &Value| {
        let optional = if argument["required"] == true { "" } else { "?" };
        format!("{}{optional}", field(argument, "name"))
    };
    arguments.iter().map(one).collect::<Vec<_>>().join(", ")
}

//! How a server is shown: our members, and those of muster's `MCPServerInfo`. In the muster dialect `state` is muster's
//! word.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_call::name_at_servers;
use toolcrib_catalog::{ServerLimits, Size, SpokenEra, Start, ToolLimits, Transport, TransportKind};
use toolcrib_protocol::Era;
use toolcrib_upstream::State;
use toolcrib_view::ServerEntry;

use toolcrib_view::Visibility;

/// How a server is.
pub(in crate::operation) fn shown(running: &ServerEntry) -> Value {
    let (status, inventory) = (running.server.status(), running.server.inventory());
    let definition = &running.definition;
    let mut server = json!({
        "name": definition.name.as_str(),
        "title": definition.title,
        "transport": definition.transport.kind().as_str(),
        "state": status.state.as_str(),
        "since": status.since.to_string(),
        "listed": status.listed,
        "tools": inventory.tools.len(),
        "resources": inventory.resources.len() + inventory.templates.len(),
        "prompts": inventory.prompts.len(),
        "restarts": status.restarts,
        "era": definition.era.as_str(),
        "speaks": speaks(running),
        "warnings": inventory.warnings,
    });
    let (load, unanswered, limited) = (running.server.places().load(), unanswered(running), limited(running));
    server["calls"] = json!({
        "running": load.running, "waiting": load.waiting, "places": load.concurrency.calls, "queue": load.queue,
    });
    let limits = limits(&definition.limits);
    if !limits.is_empty() {
        server["limits"] = limits.into();
    }
    if !limited.is_empty() {
        server["limited"] = limited.into();
    }
    if !unanswered.is_empty() {
        server["unanswered"] = unanswered.into();
    }
    if let Some(error) = status.last_error {
        server["lastError"] = error.into();
    }
    if status.state == State::NeedsLogin {
        server["next"] = format!("toolcrib login {}", definition.name).into();
    }
    if let Some(note) = status.note {
        server["note"] = note.into();
    }
    if let Some(half) = status.half_written {
        server["halfWritten"] = half.path.display().to_string().into();
    }
    if let Some(next) = status.next_retry {
        server["nextRetry"] = next.to_string().into();
    }
    server
}

/// How many calls of each tool were given up and never answered.
pub(crate) fn unanswered(running: &ServerEntry) -> Map<String, Value> {
    running.server.unanswered().into_iter().map(|(tool, count)| (tool.to_string(), count.into())).collect()
}

/// How many calls met which limit.
pub(crate) fn limited(running: &ServerEntry) -> Map<String, Value> {
    running.server.refusals().counts().map(|(limit, count)| (limit.key().to_owned(), count.into())).collect()
}

/// The limits that a definition sets.
fn limits(limits: &ServerLimits) -> Map<String, Value> {
    let ServerLimits { concurrent, per_tool, queue, per_minute, argument_bytes, result_bytes, tools } = limits;
    let bytes = |size: &Option<Size>| size.map(Size::bytes);
    let of_tool = |limits: &ToolLimits| {
        let ToolLimits { pattern, concurrent, queue, per_minute, argument_bytes, result_bytes } = limits;
        let members = [
            ("concurrent", json!(concurrent)),
            ("queue", json!(queue)),
            ("per_minute", json!(per_minute)),
            ("argument_bytes", json!(bytes(argument_bytes))),
            ("result_bytes", json!(bytes(result_bytes))),
        ];
        (pattern.as_str().to_owned(), written(members).into())
    };
    let mut shown = written([
        ("concurrent", json!(concurrent)),
        ("per_tool", json!(per_tool)),
        ("queue", json!(queue)),
        ("per_minute", json!(per_minute)),
        ("argument_bytes", json!(bytes(argument_bytes))),
        ("result_bytes", json!(bytes(result_bytes))),
    ]);
    if !tools.is_empty() {
        shown.insert("tools".to_owned(), tools.iter().map(of_tool).collect::<Map<_, _>>().into());
    }
    shown
}

/// The members that have a value.
fn written<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The eras that it has shown to speak, by the name that definitions have for them.
fn speaks(running: &ServerEntry) -> Vec<&'static str> {
    let eras = [(Era::Legacy, SpokenEra::Legacy), (Era::Modern, SpokenEra::Modern)];
    eras.into_iter().filter(|(era, _)| running.server.speaks(*era)).map(|(_, name)| name.as_str()).collect()
}

/// The same with the members of muster's `MCPServerInfo`, secrets as stars.
pub(super) fn info(running: &ServerEntry, in_muster: bool) -> Value {
    let mut server = shown(running);
    let (definition, status) = (&running.definition, running.server.status());
    let mut add = |key: &str, value: Value| {
        if !value.is_null() {
            server[key] = value;
        }
    };
    add("type", kind(definition.transport.kind()).into());
    add("autoStart", (definition.start == Start::Eager).into());
    add("toolsCount", running.server.inventory().tools.len().into());
    add("description", definition.description.clone().into());
    add("toolPrefix", definition.prefix.clone().into());
    add("timeout", definition.timeouts.connect().duration().as_secs().into());
    if let Some(family) = &definition.family {
        add("family", json!({ "name": family.name, "instanceArg": family.instance_arg }));
    }
    let masked = |keys: &mut dyn Iterator<Item = (&String, String)>| -> Value {
        let shown: Map<_, _> = keys.map(|(key, shown)| (key.clone(), shown.into())).collect();
        if shown.is_empty() { Value::Null } else { shown.into() }
    };
    match &definition.transport {
        Transport::Stdio(program) => {
            add("command", program.command.clone().into());
            add("args", if program.args.is_empty() { Value::Null } else { program.args.clone().into() });
            if !program.inherit_env.is_empty() {
                add("inheritEnv", program.inherit_env.clone().into());
            }
            add("env", masked(&mut program.env.iter().map(|(key, value)| (key, value.to_string()))));
        }
        Transport::Http(remote) | Transport::Sse(remote) => {
            add("url", remote.url.to_string().into());
            add("headers", masked(&mut remote.headers.iter().map(|(key, value)| (key, value.to_string()))));
        }
    }
    add("error", status.last_error.clone().into());
    add("statusMessage", status.last_error.into());
    add("nextRetryAfter", status.next_retry.map(|at| at.to_string()).into());
    if status.state == State::Ready {
        add("connectedAt", status.since.to_string().into());
        add("sessionStatus", "connected".into());
    }
    if in_muster {
        add("state", muster_state(definition.transport.kind(), status.state).into());
    }
    server
}

/// What a user of a server may know of it beside its tools: never how it is reached, and no text that it made.
const OF_ANYBODY: [&str; 14] = [
    "name",
    "title",
    "description",
    "transport",
    "type",
    "state",
    "since",
    "listed",
    "autoStart",
    "toolPrefix",
    "family",
    "connectedAt",
    "sessionStatus",
    "next",
];

/// How a server is, as a caller of this scope may read it.
pub(in crate::operation) fn shown_to(scope: &Visibility, running: &ServerEntry) -> Value {
    stripped(shown(&as_seen(scope, running)), scope, running)
}

/// A server as a caller of this scope sees it; who sees everything sees it as its owner does.
pub(super) fn as_seen(scope: &Visibility, running: &ServerEntry) -> ServerEntry {
    let sight = scope.owner().map(|(principal, _)| running.server.seen_by(name_at_servers(principal)));
    let server = sight.map_or_else(|| running.server.clone(), |sight| running.server.as_seen(&sight));
    ServerEntry { definition: Arc::clone(&running.definition), server }
}

/// What is left of a shown server for a caller of this scope; its tools are those that the profile shows.
pub(super) fn stripped(mut server: Value, scope: &Visibility, running: &ServerEntry) -> Value {
    if scope.is_everything() {
        return server;
    }
    if let Some(members) = server.as_object_mut() {
        members.retain(|key, _| OF_ANYBODY.contains(&key.as_str()));
    }
    let tools = scope.tools_of(&running.definition.name);
    server["tools"] = tools.into();
    server["toolsCount"] = tools.into();
    server
}

/// muster's word for a transport.
pub(super) fn kind(kind: TransportKind) -> &'static str {
    match kind {
        TransportKind::Stdio => "stdio",
        TransportKind::Http => "streamable-http",
        TransportKind::Sse => "sse",
    }
}

/// muster's word for a state. It has none for a server that waits for its first call.
fn muster_state(kind: TransportKind, state: State) -> &'static str {
    let is_remote = kind != TransportKind::Stdio;
    match state {
        State::Idle => "waiting",
        State::Starting | State::Installing => "starting",
        State::NeedsLogin => "auth_required",
        State::Ready if is_remote => "connected",
        State::Ready => "running",
        State::Failed if is_remote => "unreachable",
        State::Failed => "failed",
        State::Stopped if is_remote => "disconnected",
        State::Stopped => "stopped",
    }
}

/// Whether muster's list leaves it out unless everything is asked for.
pub(super) fn is_hidden(running: &ServerEntry) -> bool {
    running.server.status().state == State::Failed
}

//! Services and service classes as operations show them. The shapes are those that other gateways' clients know.

use serde_json::{Map, Value, json};

use super::class::{Class, Classes};
use super::table::Entry;

/// The name under which the gateway itself is a service.
pub(super) const AGGREGATOR: &str = "mcp-aggregator";

/// How a service is, in short.
pub(super) fn status(entry: &Entry, classes: &Classes) -> Value {
    let (subject, life) = (entry.subject(), entry.life());
    let mut status = json!({
        "name": subject.name.as_str(), "service_type": class_type(classes, subject.class.as_str()),
        "state": life.state.as_str(), "health": life.health.as_str(),
    });
    put(&mut status, "error", life.error.as_deref());
    status["metadata"] = json!({ "serviceClassName": subject.class.as_str(), "persist": subject.persists });
    if !life.outputs.is_empty() {
        status["outputs"] = life.outputs.clone().into();
    }
    status
}

/// Everything of a service.
pub(super) fn instance(entry: &Entry, classes: &Classes) -> Value {
    let (subject, life) = (entry.subject(), entry.life());
    let mut metadata = Map::new();
    for kept in life.kept.values().filter_map(Value::as_object) {
        metadata.extend(kept.clone());
    }
    let class = classes.get(&subject.class).and_then(|class| class.as_ref().ok());
    let mut dependencies = class.map(|class| class.definition.dependencies.clone()).unwrap_or_default();
    dependencies.extend(subject.dependencies.iter().cloned());
    let mut instance = json!({
        "name": subject.name.as_str(), "serviceClassName": subject.class.as_str(),
        "serviceClassType": class_type(classes, subject.class.as_str()),
        "args": subject.args, "enabled": true, "autoStart": subject.auto_start, "persist": subject.persists,
        "state": life.state.as_str(), "health": life.health.as_str(), "serviceData": metadata,
        "outputs": life.outputs, "createdAt": subject.created.to_string(), "updatedAt": life.updated.to_string(),
        "healthCheckFailures": life.failures, "healthCheckSuccesses": life.successes,
    });
    put(&mut instance, "description", subject.description.as_deref());
    put(&mut instance, "lastError", life.error.as_deref());
    if !dependencies.is_empty() {
        instance["dependencies"] = dependencies.iter().map(Value::from).collect();
    }
    if let Some(checked) = life.checked {
        instance["lastChecked"] = checked.to_string().into();
    }
    instance
}

/// What anyone who may use a service's tools may know of it: never what it was made of, or what a tool answered.
const OF_ANYBODY: [&str; 16] = [
    "name",
    "service_type",
    "serviceClassName",
    "serviceClassType",
    "description",
    "state",
    "health",
    "enabled",
    "autoStart",
    "persist",
    "metadata",
    "createdAt",
    "updatedAt",
    "lastChecked",
    "healthCheckFailures",
    "healthCheckSuccesses",
];

/// The same of a service class: never what its tools are called with.
const CLASS_OF_ANYBODY: [&str; 12] = [
    "name",
    "version",
    "description",
    "serviceType",
    "available",
    "requiredTools",
    "missingTools",
    "missingDependencies",
    "createToolAvailable",
    "deleteToolAvailable",
    "healthCheckToolAvailable",
    "statusToolAvailable",
];

/// [`status`] or [`instance`] for a non-admin.
pub(super) fn of_a_non_admin(service: Value) -> Value {
    only(service, &OF_ANYBODY)
}

/// [`class()`] for a non-admin.
pub(super) fn class_of_a_non_admin(class: Value) -> Value {
    only(class, &CLASS_OF_ANYBODY)
}

fn only(mut value: Value, known: &[&str]) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|key, _| known.contains(&key.as_str()));
    }
    value
}

/// How the gateway itself is: anyone who reads this has reached it.
pub(super) fn aggregator() -> Value {
    json!({ "name": AGGREGATOR, "service_type": "Aggregator", "state": "running", "health": "healthy" })
}

/// How a server is, made of what the list of servers shows of it.
pub(super) fn server(shown: &Value) -> Value {
    let transport = match shown["transport"].as_str().or(shown["type"].as_str()).unwrap_or_default() {
        "http" => "streamable-http",
        other => other,
    };
    // A program runs or not; to an address there is a connection or none.
    let is_remote = transport != "stdio";
    let (state, health) = match shown["state"].as_str().unwrap_or_default() {
        "ready" => (if is_remote { "connected" } else { "running" }, "healthy"),
        "starting" => ("starting", "checking"),
        // It is started by the next call.
        "idle" => ("waiting", "unknown"),
        "failed" => (if is_remote { "unreachable" } else { "failed" }, "unhealthy"),
        _ => (if is_remote { "disconnected" } else { "stopped" }, "unknown"),
    };
    let mut status = json!({ "name": shown["name"], "service_type": "MCPServer", "state": state, "health": health });
    put(&mut status, "error", shown["lastError"].as_str());
    status["metadata"] = json!({ "type": transport, "clientReady": health == "healthy", "tools": shown["tools"] });
    if let Some(restarts) = shown.get("restarts") {
        status["metadata"]["restarts"] = restarts.clone();
    }
    status
}

/// A server, or the gateway, in the shape of [`instance`].
pub(super) fn static_instance(status: &Value) -> Value {
    let mut instance = json!({
        "name": status["name"], "serviceClassName": "", "serviceClassType": status["service_type"], "args": {},
        "enabled": true, "state": status["state"], "health": status["health"],
        "serviceData": status.get("metadata").cloned().unwrap_or_else(|| json!({})), "outputs": {},
    });
    put(&mut instance, "lastError", status["error"].as_str());
    instance
}

/// A class, with which of its tools are visible to the caller. `missing` are those of its tools that are not, `needs`
/// those of its dependencies.
pub(super) fn class(class: &Class, missing: &[String], needs: &[String]) -> Value {
    let definition = &class.definition;
    let mut value = definition.to_value();
    let is_there = |word: &str| class.tool(word).is_some_and(|tool| !missing.contains(&tool.name));
    for (key, member) in [
        ("serviceType", json!(class.service_type())),
        ("available", json!(missing.is_empty() && needs.is_empty())),
        ("requiredTools", json!(definition.tools.names())),
        ("missingTools", json!(missing)),
        ("missingDependencies", json!(needs)),
        ("createToolAvailable", json!(is_there("start"))),
        ("deleteToolAvailable", json!(is_there("stop"))),
        ("healthCheckToolAvailable", json!(is_there("healthCheck"))),
        ("statusToolAvailable", json!(is_there("status"))),
    ] {
        value[key] = member;
    }
    value
}

fn class_type(classes: &Classes, name: &str) -> String {
    let class = classes.get(name).and_then(|class| class.as_ref().ok());
    class.map_or_else(|| name.to_owned(), |class| class.service_type().to_owned())
}

fn put(value: &mut Value, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        value[key] = text.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shown_in_the_words_of_its_transport() {
        for (transport, state, expected) in [
            ("stdio", "ready", ("running", "healthy")),
            ("stdio", "starting", ("starting", "checking")),
            ("stdio", "idle", ("waiting", "unknown")),
            ("stdio", "failed", ("failed", "unhealthy")),
            ("stdio", "stopped", ("stopped", "unknown")),
            ("http", "ready", ("connected", "healthy")),
            ("sse", "starting", ("starting", "checking")),
            ("http", "failed", ("unreachable", "unhealthy")),
            ("http", "stopped", ("disconnected", "unknown")),
        ] {
            let status = server(&json!({"name": "a", "transport": transport, "state": state, "lastError": "e"}));
            assert_eq!((status["state"].as_str(), status["health"].as_str()), (Some(expected.0), Some(expected.1)));
            assert_eq!(status["metadata"]["clientReady"], state == "ready");
            assert_eq!(static_instance(&status)["lastError"], "e");
        }
    }
}

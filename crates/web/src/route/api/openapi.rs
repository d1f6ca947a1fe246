//! `GET /api/v1/openapi.json`: the document of the control API, made of the table of operations.

use std::collections::BTreeMap;

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_base::Kind;
use toolcrib_call::live_events::Kind as EventKind;
use toolcrib_transport::http::body::Body;
use toolcrib_view::{Operation, OperationTable, Permission};

use super::{ROOT, arguments};
use crate::{Site, respond};

/// The document is the same for everyone whom the guard lets in: it tells what there is, not what is in it.
pub(super) fn answer(site: &Site) -> Response<Body> {
    let document = site.openapi.get_or_init(|| document(&site.gateway.operations).to_string().into());
    respond::json(StatusCode::OK, Body::full(document.clone()))
}

fn document(operations: &OperationTable) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations.iter() {
        let methods = paths.entry(operation.path).or_default();
        methods.insert(operation.method.as_str().to_lowercase(), described(operation));
    }
    paths.insert("/events", Map::from_iter([("get".to_owned(), events())]));
    let mut tags: Vec<&str> = operations.iter().map(|operation| operation.tag).chain(["events"]).collect();
    tags.sort_unstable();
    tags.dedup();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolcrib control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Each operation is also a tool (its operationId) and a command (`toolcrib api`). Bodies are JSON; errors are problems of RFC 9457.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": ROOT }],
        "tags": tags.iter().map(|tag| json!({ "name": tag })).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "The gateway's token, `state/token` in \
                     the home folder." },
            },
            "schemas": { "Problem": problem_schema() },
            "responses": { "Problem": {
                "description": "What went wrong and what to do next.",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            } },
        },
    })
}

fn described(operation: &Operation) -> Value {
    let success = if operation.creates { "201" } else { "200" };
    let output = operation.output_schema();
    let mut responses = Map::new();
    let body = json!({ "description": operation.summary, "content": { "application/json": { "schema": output } } });
    responses.insert(success.to_owned(), body);
    for status in statuses(operation) {
        responses.insert(status.to_string(), json!({ "$ref": "#/components/responses/Problem" }));
    }
    responses.insert("default".to_owned(), json!({ "$ref": "#/components/responses/Problem" }));
    let mut entry = json!({
        "operationId": operation.tool, "tags": [operation.tag],
        "summary": operation.summary, "description": operation.description,
        "security": security(operation.permission), "parameters": parameters(operation), "responses": responses,
    });
    if let Some(body) = request_body(operation) {
        entry["requestBody"] = body;
    }
    entry
}

/// The statuses of the problems that it may answer.
fn statuses(operation: &Operation) -> Vec<u16> {
    let always = [Kind::InvalidParams, Kind::Unauthenticated, Kind::Forbidden, Kind::NotFound, Kind::Internal];
    let kinds = always.iter().chain(operation.problems).map(|kind| kind.row().status);
    let more: &[u16] = if operation.method.has_body() { &[405, 408, 413, 415] } else { &[405] };
    let mut statuses: Vec<u16> = kinds.chain(more.iter().copied()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

fn security(permission: Permission) -> Value {
    match permission {
        Permission::Admin => json!([{ "token": [] }]),
        // From this machine nothing needs to be proven.
        Permission::Open => json!([{}, { "token": [] }]),
    }
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let input = operation.input_schema();
    let properties = input["properties"].as_object().cloned().unwrap_or_default();
    let is_required = |name: &str| input["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let in_path: Vec<&str> = operation.path_parameters().collect();
    let mut parameters = Vec::new();
    for (name, schema) in &properties {
        if in_path.contains(&name.as_str()) {
            parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        } else if !operation.method.has_body() {
            parameters.push(json!({ "name": name, "in": "query", "required": is_required(name), "schema": schema }));
        }
    }
    if properties.contains_key("revision") {
        parameters.push(json!({
            "name": "If-Match", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The revision in quotes, as in `ETag`; an alternative to `revision`.",
        }));
    }
    if operation.takes_profile() {
        parameters.push(json!({
            "name": arguments::PROFILE, "in": "query", "required": false, "schema": { "type": "string", "default": "default" },
            "description": "The profile to use.",
        }));
    }
    parameters
}

/// The arguments that are not in the path.
fn request_body(operation: &Operation) -> Option<Value> {
    if !operation.method.has_body() {
        return None;
    }
    let mut schema = operation.input_schema();
    let in_path: Vec<&str> = operation.path_parameters().collect();
    let properties = schema["properties"].as_object_mut()?;
    properties.retain(|name, _| !in_path.contains(&name.as_str()));
    if properties.is_empty() {
        return None;
    }
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    // `If-Match` may stand in for it.
    required.retain(|name| !in_path.iter().any(|it| name == it) && name != "revision");
    let must = !required.is_empty() || schema.get("oneOf").is_some();
    schema["required"] = required.into();
    Some(json!({ "required": must, "content": { "application/json": { "schema": schema } } }))
}

fn events() -> Value {
    let kinds: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({
        "operationId": "events", "tags": ["events"], "summary": "Follow events",
        "description": "Server-sent events: `state` (a server changed its state), `log` (a line of a server's log), \
                        `call` (a call ended), `event` (something happened that core_events lists), and `lost` with \
                        the number of events that were dropped because they were read too slowly.",
        "security": security(Permission::Admin),
        "parameters": [{
            "name": "kinds", "in": "query", "required": false, "explode": false, "style": "form",
            "schema": { "type": "array", "items": { "enum": kinds } }, "description": "Only these kinds of events.",
        }],
        "responses": {
            "200": { "description": "The events", "content": { "text/event-stream": { "schema": { "type": "string" } } } },
            "default": { "$ref": "#/components/responses/Problem" },
        },
    })
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": { "type": "string", "format": "uri-reference" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "code": { "type": "string", "description": "The stable name of the error kind." },
            "hint": { "type": "string", "description": "What to do next." },
        },
        "required": ["type", "title", "status", "detail", "code"],
    })
}

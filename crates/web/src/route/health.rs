//! `/readyz` and `/metrics`.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_transport::http::body::Body;
use toolcrib_upstream::State;

use crate::{Site, respond};

/// Ready when every server's first listing has ended, well or badly, and the profiles show it: then the catalogue is all
/// that can be known. The state of each server says which are away.
pub(super) fn ready(site: &Arc<Site>) -> Response<Body> {
    let table = site.gateway.servers.table();
    let mut ready = true;
    let servers: serde_json::Map<String, Value> = table
        .values()
        .map(|running| {
            let status = running.server.status();
            ready &= status.listed || status.state == State::Stopped;
            let state =
                json!({ "state": status.state.as_str(), "listed": status.listed, "since": status.since.to_string() });
            (running.definition.name.to_string(), state)
        })
        .collect();
    let audit = site.gateway.store().audit().health();
    // Asked after the states: a listing that ended meanwhile is not shown yet.
    ready &= site.gateway.is_in_step();
    let recording = audit.blocked_since.is_none();
    let body = json!({ "ready": ready && recording, "servers": servers, "audit": { "recording": recording } });
    let status = if ready && recording { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    respond::json(status, Body::full(body.to_string()))
}

pub(super) async fn metrics(site: &Arc<Site>) -> Response<Body> {
    site.gateway.gauge_tokens().await;
    let text = site.gateway.metrics.render();
    respond::text(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}

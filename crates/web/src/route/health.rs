//! `/readyz` and `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::{Proof, Role};
use toolcrib_session::Principal;
use toolcrib_transport::http::body::Body;
use toolcrib_upstream::State;
use toolcrib_view::metrics::SinkCounts;

use crate::{Site, respond};

/// Ready when every server's first listing has ended, well or badly, and the profiles show it: then the catalogue is
/// all that can be known. How many servers are in which state everyone reads; which ones, who administers; a
/// stranger, where credentials are needed, only whether it is ready.
pub(super) fn ready(site: &Arc<Site>, principal: &Principal) -> Response<Body> {
    let table = site.gateway.servers().table();
    let mut ready = true;
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    let servers: serde_json::Map<String, Value> = table
        .values()
        .map(|running| {
            let status = running.server.status();
            ready &= status.listed || status.state == State::Stopped;
            *states.entry(status.state.as_str()).or_default() += 1;
            let state =
                json!({ "state": status.state.as_str(), "listed": status.listed, "since": status.since.to_string() });
            (running.definition.name.to_string(), state)
        })
        .collect();
    let audit = site.gateway.store().audit().health();
    // Asked after the states: a listing that ended in the meantime is not shown yet.
    ready &= site.gateway.is_in_step();
    let recording = audit.blocked_since.is_none();
    let mut body = json!({ "ready": ready && recording });
    if principal.identity.proof != Proof::Nothing {
        body["states"] = json!(states);
        body["audit"] = json!({ "recording": recording });
    }
    if principal.role >= Role::Operator {
        body["servers"] = servers.into();
    }
    let status = if ready && recording { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    respond::json(status, Body::full(body.to_string()))
}

/// All counters for administrators and operators, else sums: the names of servers, tools and profiles are not for everyone.
pub(super) async fn metrics(site: &Arc<Site>, principal: &Principal) -> Response<Body> {
    site.gateway.metrics.set_sessions(site.gateway.sessions.count());
    let text = match principal.role >= Role::Operator {
        true => {
            site.gateway.gauge_tokens().await;
            let table = site.gateway.servers().table();
            site.gateway.metrics.set_calls(table.values().map(|running| &running.server));
            let sinks = site.gateway.sink_statuses();
            site.gateway.metrics.set_sinks(sinks.iter().map(|sink| SinkCounts {
                name: &sink.name,
                lag: sink.lag,
                is_failing: sink.failing_since.is_some(),
                totals: [("sent", sink.sent), ("rejected", sink.rejected), ("missed", sink.missed)],
            }));
            site.gateway.metrics.render()
        }
        false => site.gateway.metrics.render_totals(),
    };
    respond::text(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}

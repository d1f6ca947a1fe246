//! How the gateway and its servers are, and what to do about what is not well.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_upstream::State;

use super::{Operation, ROW, Run, definition, servers};
use crate::advice::advice;
use crate::gateway::Gateway;
use crate::servers::Running;

pub(super) const ROWS: &[Operation] = &[Operation {
    tool: "core_status",
    path: "/status",
    tag: "status",
    summary: "Show how everything is",
    description: "Show how the gateway is: its version and uptime, every server with its state, what failed and what to do, the sessions, the audit log, and the problems of definitions with file and line.",
    output: r#"{"type":"object","properties":{"version":{"type":"string"},"started":{"type":"string"},"uptime_s":{"type":"integer"},"sessions":{"type":"integer"},"states":{"type":"object","additionalProperties":{"type":"integer"}},"servers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"state":{"type":"string"},"since":{"type":"string"},"next":{"type":"string"}},"required":["name","state","since"]}},"problems":{"type":"array"},"audit":{"type":"object"}},"required":["version","started","uptime_s","sessions","states","servers","problems","audit"]}"#,
    run: Run::House(|gateway, _| Box::pin(std::future::ready(Ok(status(gateway))))),
    ..ROW
}];

fn status(gateway: &Arc<Gateway>) -> Value {
    let table = gateway.servers.table();
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    let servers: Vec<Value> = table
        .values()
        .map(|running| {
            *states.entry(running.server.status().state.as_str()).or_default() += 1;
            let mut server = servers::shown(running);
            if let Some(next) = next_step(running) {
                server["next"] = next.into();
            }
            server
        })
        .collect();
    let problems: Vec<Value> = gateway.loaded().problems.iter().map(definition::problem).collect();
    let audit = gateway.store.audit().health();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": gateway.started.to_string(),
        "uptime_s": gateway.clock.now().since(gateway.started) / 1_000,
        "sessions": gateway.sessions.count(),
        "states": states,
        "servers": servers,
        "problems": problems,
        "audit": {
            "recording": audit.blocked_since.is_none(), "queued": audit.queued, "lastError": audit.last_error,
        },
    })
}

/// What to do about a server that is not well.
fn next_step(running: &Running) -> Option<String> {
    match running.server.status().state {
        State::Ready | State::Idle | State::Starting => None,
        State::Installing | State::NeedsLogin | State::Stopped | State::Failed => Some(advice(running)),
    }
}

//! How the gateway and its servers are, and what to do about what is not well.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_upstream::State;
use toolcrib_view::{Operation, Permission, ServerEntry};

use super::{ROW, Row, Run, definition, row, servers};
use crate::advice;
use crate::gateway::Gateway;
use toolcrib_view::Visibility;
use toolcrib_view::arguments::flag;

pub(super) const ROWS: &[Row] = &[row(
    Run::AsCaller(|gateway, caller, arguments| Box::pin(std::future::ready(status(gateway, caller, arguments)))),
    Operation {
        tool: "core_status",
        path: "/status",
        tag: "status",
        summary: "Show how everything is",
        description: "Show how the gateway is: its version and uptime, every server with its state, what failed and what to do, the sessions, the audit log, and the problems of definitions with file and line. Who does not administer sees the servers of the profile with their states, its own sessions, and whether the audit log records. `caller` is who asks: the principal, its role in the profile, how it was proven, and the issuer of its token.",
        permission: Permission::Open,
        input: r#"{"type":"object","properties":{"attention":{"type":"boolean","default":false,"description":"Only servers that failed or wait for a login; all are counted"}},"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"version":{"type":"string"},"tools":{"type":"integer","description":"How many tools the servers have in all"},"started":{"type":"string"},"uptime_s":{"type":"integer"},"sessions":{"type":"integer"},"states":{"type":"object","additionalProperties":{"type":"integer"}},"servers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"state":{"type":"string"},"since":{"type":"string"},"next":{"type":"string"}},"required":["name","state","since"]}},"problems":{"type":"array"},"warnings":{"type":"array"},"held":{"type":"integer","description":"How many tools, prompts and templates profiles hold until someone approves their change; for who administers"},"audit":{"type":"object"},"caller":{"type":"object","properties":{"principal":{"type":"string"},"role":{"enum":["viewer","member","operator","admin","owner"]},"proof":{"type":"string"},"issuer":{"type":"string"}},"required":["principal","role","proof"]}},"required":["version","started","uptime_s","sessions","states","servers","problems","warnings","audit","caller"]}"#,
        ..ROW
    },
)];

fn status(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let is_brief = flag(arguments, "attention")?.unwrap_or(false);
    let (table, scope) = (gateway.path.servers.table(), gateway.visibility(caller));
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    let known = table.values().filter(|running| scope.has_server(running.definition.name.as_str()));
    let mut tools = 0;
    let servers: Vec<Value> = known
        .filter(|running| {
            let state = running.server.status().state;
            *states.entry(state.as_str()).or_default() += 1;
            tools += running.server.inventory().tools.len();
            !is_brief || matches!(state, State::Failed | State::NeedsLogin)
        })
        .map(|running| {
            let mut server = servers::shown_to(&scope, running);
            if let Some(next) = next_step(&scope, running) {
                server["next"] = next.into();
            }
            server
        })
        .collect();
    let problems = &gateway.loaded().problems;
    let problems: Vec<Value> = problems.iter().filter(|_| scope.is_everything()).map(definition::problem).collect();
    let warnings = if scope.is_everything() { gateway.configuration.warnings() } else { Vec::new() };
    let held = scope.is_everything().then(|| gateway.held.load().count());
    let health = gateway.path.store.audit().health();
    let mut audit = json!({ "recording": health.blocked_since.is_none() });
    if scope.is_everything() {
        audit["queued"] = json!(health.queued);
        audit["lastError"] = health.last_error.into();
        audit["sinks"] = json!(gateway.sink_statuses());
    }
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": gateway.started.to_string(),
        "uptime_s": gateway.path.clock.now().since(gateway.started) / 1_000,
        "sessions": sessions(gateway, &scope),
        "states": states,
        "tools": tools,
        "servers": servers,
        "problems": problems,
        "warnings": warnings,
        "audit": audit,
        "caller": who(caller),
    });
    if let Some(held) = held {
        status["held"] = held.into();
    }
    Ok(status)
}

/// Who asks, and by which proof.
fn who(caller: &Caller) -> Value {
    let principal = &caller.principal;
    let mut who = json!({
        "principal": principal.id.as_str(),
        "role": principal.role.as_str(),
        "proof": principal.identity.proof.as_str(),
    });
    if let Some(issuer) = &principal.identity.issuer {
        who["issuer"] = (**issuer).into();
    }
    who
}

/// How many sessions are open; of a caller who does not administer its own in its profile.
fn sessions(gateway: &Gateway, scope: &Visibility) -> usize {
    match scope.owner() {
        None => gateway.sessions.count(),
        Some((principal, profile)) => {
            let open = gateway.sessions.of_profile(profile);
            open.iter().filter(|session| session.principal.id == *principal).count()
        }
    }
}

/// What to do about a server that is not well.
fn next_step(scope: &Visibility, running: &ServerEntry) -> Option<String> {
    let status = running.server.status();
    match status.state {
        State::Ready | State::Idle | State::Starting => None,
        State::Installing | State::NeedsLogin | State::Stopped | State::Failed if scope.is_everything() => {
            Some(advice::advice(running))
        }
        State::Installing | State::NeedsLogin | State::Stopped | State::Failed => {
            Some(toolcrib_view::advice::for_caller(&running.definition.name, &status))
        }
    }
}

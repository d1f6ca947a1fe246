//! The sessions that clients of the legacy era have open, and the clients of the modern era that called lately: they have
//! no session, each of their requests stands alone.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_session::Session;
use toolcrib_view::arguments::required;
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, row};
use crate::gateway::Gateway;

/// How many sessions are listed at most.
const MOST: usize = 500;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(Ok(callers(gateway))))),
        Operation {
            tool: "core_client_caller_list",
            path: "/client-callers",
            tag: "clients",
            summary: "List who called lately without a session",
            description: "List the clients of revision 2026-07-28 and later that called since the gateway started: \
                          their name, profile, principal and revision, how many requests and calls of tools they \
                          made, the one that was seen last first. A thousand are remembered.",
            output: r#"{"type":"object","properties":{"callers":{"type":"array","items":{"type":"object",
    "properties":{"client":{"type":"string"},"profile":{"type":"string"},"principal":{"type":"string"},
    "revision":{"type":"string"},"requests":{"type":"integer"},"calls":{"type":"integer"},
    "first":{"type":"string"},"last":{"type":"string"}},"required":["client","profile","principal","revision",
    "requests","calls","first","last"]}},"total":{"type":"integer"}},"required":["callers","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(end(gateway, arguments)))),
        Operation {
            tool: "core_client_session_end",
            method: Method::Delete,
            path: "/client-sessions/{name}",
            tag: "clients",
            summary: "End a client's session",
            description: "End the session of a client and everything that runs for it. The client may open another \
                          one.",
            effect: Effect::Destroys { idempotent: false },
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":64,
    "description":"As `core_client_session_list` names it"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"ended":{"type":"boolean"}},
    "required":["name","ended"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(Ok(list(gateway))))),
        Operation {
            tool: "core_client_session_list",
            path: "/client-sessions",
            tag: "clients",
            summary: "List the sessions of clients",
            description: "List who is connected: the client, its profile, principal and MCP revision, how many \
                          requests it made and how many run, the one that was used last first. Clients of revision \
                          2026-07-28 and later have no session: core_client_caller_list has \
                          them.",
            output: r#"{"type":"object","properties":{"sessions":{"type":"array","items":{"type":"object",
    "properties":{"name":{"type":"string"},"client":{"type":"string"},"profile":{"type":"string"},
    "principal":{"type":"string"},"revision":{"type":"string"},"opened":{"type":"string"},
    "used":{"type":"string"},"requests":{"type":"integer"},"running":{"type":"integer"}},"required":["name",
    "profile","principal","revision","opened","used","requests","running"]}},"total":{"type":"integer"}},
    "required":["sessions","total"]}"#,
            ..ROW
        },
    ),
];

fn callers(gateway: &Arc<Gateway>) -> Value {
    let all = gateway.callers.all();
    let rows = all.iter().take(MOST).map(|(key, record)| {
        json!({
            "client": &*key.client, "profile": key.profile.as_str(), "principal": key.principal.as_str(),
            "revision": key.revision.as_str(), "requests": record.requests, "calls": record.calls,
            "first": record.first.to_string(), "last": record.last.to_string(),
        })
    });
    json!({ "callers": rows.collect::<Vec<_>>(), "total": all.len() })
}

fn list(gateway: &Arc<Gateway>) -> Value {
    let mut all = gateway.sessions.all();
    all.sort_by_key(|session| std::cmp::Reverse(session.times().1));
    let total = all.len();
    let rows: Vec<Value> = all.iter().take(MOST).map(|session| shown(session)).collect();
    json!({ "sessions": rows, "total": total })
}

fn shown(session: &Session) -> Value {
    let ((opened, used), (requests, running)) = (session.times(), session.requests());
    let mut row = json!({
        "name": session.name().to_string(), "profile": session.profile, "principal": session.principal.id.as_str(),
        "revision": session.revision.as_str(), "opened": opened.to_string(), "used": used.to_string(),
        "requests": requests, "running": running,
    });
    if let Some(client) = &session.client {
        row["client"] = (**client).into();
    }
    row
}

fn end(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let name = required(arguments, "name")?;
    let Some(session) = gateway.sessions.all().into_iter().find(|session| *session.name().to_text() == *name) else {
        return Err(Problem::new(Kind::NotFound, format!("no session `{name}`"))
            .hint("list them with `toolcrib api client-session-list`"));
    };
    gateway.sessions.close(&session);
    Ok(json!({ "name": name, "ended": true }))
}

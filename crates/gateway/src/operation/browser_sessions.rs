//! Who is signed in to the pages on this machine.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_view::arguments::text;
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, row};
use crate::gateway::Gateway;

const LISTS: &str = "List the sessions of browsers at the pages of this machine, the one that was used last first. \
                     A session ends an hour after it was last used, and twelve hours after it began.";
const NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":64,
    "description":"As `core_browser_session_list` names it"}},"required":["name"],"additionalProperties":false}"#;
const SESSIONS: &str = r#"{"type":"object","properties":{"sessions":{"type":"array","items":{"type":"object",
    "properties":{"name":{"type":"string"},"browser":{"type":"string"},"principal":{"type":"string"},
    "begun":{"type":"string"},"used":{"type":"string"}},
    "required":["name","browser","principal","begun","used"]}}},"required":["sessions"]}"#;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(end(gateway, arguments)))),
        Operation {
            tool: "core_browser_session_end",
            method: Method::Delete,
            path: "/browser-sessions/{name}",
            tag: "browser-sessions",
            summary: "End a browser session",
            description: "End a session of a browser at the pages of this machine: its cookie opens nothing any more.",
            effect: Effect::Destroys { idempotent: false },
            problems: &[Kind::NotFound],
            input: NAMED,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"ended":{"type":"boolean"}},"required":["name","ended"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(Ok(list(gateway))))),
        Operation {
            tool: "core_browser_session_list",
            path: "/browser-sessions",
            tag: "browser-sessions",
            summary: "List browser sessions",
            description: LISTS,
            output: SESSIONS,
            ..ROW
        },
    ),
];

fn list(gateway: &Arc<Gateway>) -> Value {
    let sessions = gateway.browser_sessions.list().into_iter().map(|session| {
        json!({
            "name": session.name, "browser": session.value.browser, "principal": session.value.principal.id.as_str(),
            "begun": session.begun.to_string(), "used": session.used.to_string(),
        })
    });
    json!({ "sessions": sessions.collect::<Vec<_>>() })
}

fn end(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let name = text(arguments, "name")?.unwrap_or_default();
    if !gateway.browser_sessions.end(&name) {
        return Err(Problem::new(Kind::NotFound, format!("no browser session `{name}`"))
            .hint("list them with `toolcrib api browser-session-list`"));
    }
    Ok(json!({ "name": name, "ended": true }))
}

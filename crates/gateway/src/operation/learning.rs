//! What profiles learned from use: show, reset, export.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_view::view::View;
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;
use toolcrib_view::arguments::required;

/// How many rows are shown; all of them are exported.
const SHOWN: usize = 50;
/// The form of an export.
const VERSION: u32 = 1;

const PROFILE: &str = r#"{"type":"object","properties":{"profile":{"type":"string","description":"The name of the profile"}},"required":["profile"],"additionalProperties":false}"#;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(export(gateway, arguments)))),
        Operation {
            tool: "core_learning_export",
            path: "/learning/{profile}/export",
            tag: "learning",
            summary: "Export what a profile learned",
            description: "Give all that a profile has learned from use as it is kept: stems of words, tools, counts and days. Tools that the profile does not show now are left out.",
            problems: &[Kind::NotFound],
            input: PROFILE,
            output: r#"{"type":"object","properties":{"version":{"type":"integer"},"profile":{"type":"string"},"rows":{"type":"array","items":{"type":"object","properties":{"tool":{"type":"string"},"word":{"type":"string"},"count":{"type":"number"},"day":{"type":"integer","description":"Of the last call, since 1970-01-01"}},"required":["tool","word","count","day"]}}},"required":["version","profile","rows"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(reset(gateway, arguments))),
        Operation {
            tool: "core_learning_reset",
            method: Method::Delete,
            path: "/learning/{profile}",
            tag: "learning",
            summary: "Forget what a profile learned",
            description: "Forget all that a profile has learned from use, examples included. Its searches rank as if nothing had been called.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound],
            input: PROFILE,
            output: r#"{"type":"object","properties":{"profile":{"type":"string"},"tools":{"type":"integer","description":"Of how many tools something was forgotten"}},"required":["profile","tools"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(show(gateway, arguments)))),
        Operation {
            tool: "core_learning_show",
            path: "/learning/{profile}",
            tag: "learning",
            summary: "Show what a profile learned",
            description: "Show which tools a profile raises after which words, strongest first, at most 50. `count` is what the calls are worth today; old ones count less.",
            problems: &[Kind::NotFound],
            input: PROFILE,
            output: r#"{"type":"object","properties":{"profile":{"type":"string"},"learns":{"type":"boolean","description":"Whether the profile says `learn: true`"},"rows":{"type":"array","items":{"type":"object","properties":{"word":{"type":"string"},"tool":{"type":"string"},"count":{"type":"number"}},"required":["word","tool","count"]}},"total":{"type":"integer"}},"required":["profile","learns","rows","total"]}"#,
            ..ROW
        },
    ),
];

fn view(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Arc<View>, Problem> {
    let name = required(arguments, "profile")?;
    let unknown = || match toolcrib_base::ProfileName::new(&name) {
        Ok(name) => gateway.path.views.no_profile(&name),
        Err(error) => Problem::new(Kind::InvalidParams, error.to_string()),
    };
    gateway.view(&name).ok_or_else(unknown)
}

fn show(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let view = view(gateway, arguments)?;
    let mut rows = gateway.learning.rows(&view.profile.name);
    // What is hidden or held does not exist, here as elsewhere.
    rows.retain(|(tool, ..)| view.tool_by_id(tool).is_some());
    // Stable, so that equal ones stay sorted by tool and word.
    rows.sort_by(|a, b| b.2.total_cmp(&a.2));
    let total = rows.len();
    let rows = rows.iter().take(SHOWN).map(|(tool, word, worth, _)| {
        json!({ "word": word, "tool": tool.to_string(), "count": (f64::from(*worth) * 100.0).round() / 100.0 })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json!({ "profile": view.profile.name.as_str(), "learns": view.profile.learn, "rows": rows, "total": total }))
}

fn export(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let view = view(gateway, arguments)?;
    let rows = gateway.learning.rows(&view.profile.name);
    let rows = rows.iter().filter(|(tool, ..)| view.tool_by_id(tool).is_some()).map(
        |(tool, word, _, used)| json!({ "tool": tool.to_string(), "word": word, "count": used.count, "day": used.day }),
    );
    let rows: Vec<Value> = rows.collect();
    Ok(json!({ "version": VERSION, "profile": view.profile.name.as_str(), "rows": rows }))
}

async fn reset(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let profile = view(gateway, arguments)?.profile.name.clone();
    let gateway = Arc::clone(gateway);
    blocking(move || {
        gateway.examples.forget(&profile);
        let tools = gateway.learning.reset(&profile)?;
        Ok(json!({ "profile": profile.as_str(), "tools": tools }))
    })
    .await
}

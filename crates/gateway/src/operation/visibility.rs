//! What profiles hide: the tools that one does not show, and how each of them treats one tool, by which rule, file and
//! line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ToolId};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Entry;
use toolcrib_search::budget;
use toolcrib_session::Caller;
use toolcrib_view::arguments::{required, text};
use toolcrib_view::{Method, Operation, ServerEntry, ServerTable};

use super::{ROW, Row, Run, Words, blocking, definition, page, row};
use crate::gateway::Gateway;

/// How many tools an answer has if nothing else is said, and at most: for each the rule is looked up in the file.
const USUAL: usize = 100;
const MOST: usize = 200;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(hidden(gateway, caller, arguments))),
        Operation {
            tool: "core_tool_hidden",
            path: "/hidden-tools",
            tag: "tools",
            summary: "List the tools that a profile hides",
            description: "List the tools of servers that a profile does not show, each with what hides it: the rule, \
                          the file and the line.",
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"profile":{"type":"string",
    "description":"The profile; the caller's without it"},"server":{"type":"string"},"query":{"type":"string",
    "description":"Words of its id, title or description, in any order"},"limit":{"type":"integer","minimum":1,
    "maximum":200,"default":100},"offset":{"type":"integer","minimum":0,"default":0}},
    "additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"profile":{"type":"string"},"servers":{"type":"array",
    "items":{"type":"string"}},"tools":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},
    "server":{"type":"string"},"title":{"type":["string","null"]},"description":{"type":"string"},
    "hiddenBy":{"type":["string","null"]},"key":{"type":"string"},"file":{"type":"string"},
    "line":{"type":"integer"}},"required":["id","server","description","hiddenBy"]}},"total":{"type":"integer"}},
    "required":["profile","servers","tools","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(visibility(gateway, arguments))),
        Operation {
            tool: "core_tool_visibility",
            method: Method::Get,
            path: "/tools/{name}/visibility",
            tag: "tools",
            summary: "Show which profiles show a tool",
            description: "Show a tool of a server and, for each profile, whether it is visible there, and if not by \
                          which rule, file and line.",
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The exact id server/tool"}},
    "required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"id":{"type":"string"},"server":{"type":"string"},
    "title":{"type":["string","null"]},"description":{"type":"string"},"state":{"type":"string"},
    "profiles":{"type":"array","items":{"type":"object","properties":{"profile":{"type":"string"},
    "visible":{"type":"boolean"},"hiddenBy":{"type":["string","null"]},"key":{"type":"string"},
    "file":{"type":"string"},"line":{"type":"integer"}},"required":["profile","visible","hiddenBy"]}},
    "total":{"type":"integer"}},"required":["id","server","description","state","profiles","total"]}"#,
            ..ROW
        },
    ),
];

/// A tool that a server offers, whatever profiles show.
pub(super) struct OfferedTool<'t> {
    pub(super) id: ToolId,
    running: &'t ServerEntry,
    pub(super) entry: Entry,
}

impl<'t> OfferedTool<'t> {
    /// The tool of an exact id.
    ///
    /// # Errors
    /// No server offers it.
    pub(super) fn find(table: &'t ServerTable, name: &str) -> Result<Self, Problem> {
        let unknown = || {
            let shown: String = name.chars().take(256).collect();
            Problem::new(Kind::NotFound, format!("no server has a tool `{shown}`"))
                .hint("Find its id with `toolcrib find`.")
        };
        let id = ToolId::parse(name).ok_or_else(unknown)?;
        let running = table.get(&id.server).ok_or_else(unknown)?;
        let inventory = running.server.inventory();
        let entry = inventory.tools.iter().find(|tool| *tool.key == *id.tool).ok_or_else(unknown)?.clone();
        Ok(Self { id, running, entry })
    }
}

async fn hidden(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let profile = text(arguments, "profile")?.unwrap_or_else(|| by.profile.to_string());
    let (server, words) = (text(arguments, "server")?, Words::of(arguments)?);
    let (limit, offset) = page(arguments)?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let known = gateway.views();
        let view = known.iter().find(|(name, _)| name.as_str() == profile).map(|(_, view)| Arc::clone(view));
        let view = view.ok_or_else(|| definition::unknown_profile(&gateway, &profile))?;
        let table = gateway.path.servers.table();
        let (mut found, mut servers) = (BTreeMap::<ToolId, Entry>::new(), Vec::new());
        for running in table.values() {
            let inventory = running.server.inventory();
            let before = found.len();
            for entry in &inventory.tools {
                let id = ToolId::new(running.definition.name.clone(), &entry.key);
                let title = entry.title.as_deref().unwrap_or_default();
                let said = entry.description.as_deref().unwrap_or_default();
                if view.tool_by_id(&id).is_none() && words.fit(&[&id.to_string(), title, said]) {
                    found.insert(id, entry.clone());
                }
            }
            if found.len() > before {
                servers.push(running.definition.name.to_string());
            }
        }
        found.retain(|id, _| server.as_deref().is_none_or(|server| server == id.server.as_str()));
        let total = found.len();
        let shown = found.iter().skip(offset).take(limit.unwrap_or(USUAL).min(MOST));
        let rows: Result<Vec<Value>, Problem> =
            shown.map(|(id, entry)| hidden_row(&gateway, &profile, id, entry)).collect();
        Ok(json!({ "profile": profile, "servers": servers, "tools": rows?, "total": total }))
    })
    .await
}

fn hidden_row(gateway: &Gateway, profile: &str, id: &ToolId, entry: &Entry) -> Result<Value, Problem> {
    let said = entry.description.as_deref().unwrap_or_default();
    let row = json!({
        "id": id.to_string(), "server": id.server.as_str(), "title": entry.title, "description": budget::summary(said),
    });
    with_reason(gateway, row, profile, &id.to_string())
}

/// The row with what hides the tool in a profile, if something does.
fn with_reason(gateway: &Gateway, mut row: Value, profile: &str, tool: &str) -> Result<Value, Problem> {
    let mut explained = gateway.explain(profile, tool)?;
    row["visible"] = explained["visible"].take();
    row["hiddenBy"] = explained["hiddenBy"].take();
    for key in ["key", "file", "line"] {
        if let Some(value) = explained["rule"].get(key) {
            row[key] = value.clone();
        }
    }
    Ok(row)
}

async fn visibility(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let name = required(arguments, "name")?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let table = gateway.path.servers.table();
        let OfferedTool { id, running, entry } = OfferedTool::find(&table, &name)?;
        let views = gateway.views();
        let shown = views.keys().take(MOST).map(|profile| {
            let row = json!({ "profile": profile.as_str() });
            with_reason(&gateway, row, profile.as_str(), &name)
        });
        let profiles: Result<Vec<Value>, Problem> = shown.collect();
        Ok(json!({
            "id": id.to_string(), "server": id.server.as_str(), "title": entry.title,
            "description": entry.description.as_deref().unwrap_or_default(),
            "state": running.server.status().state.as_str(), "profiles": profiles?, "total": views.len(),
        }))
    })
    .await
}

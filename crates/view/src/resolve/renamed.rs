//! Old names of tools: of go-ent's own, which began with `go_ent_`, and those that a definition or an entry of the
//! registry tells of (`renamed: {old: new}`).

use std::collections::BTreeMap;

use crate::dialect;
use crate::view::View;
use toolcrib_base::{ServerName, ToolId};

/// How many names a tool may have had.
const STEPS: usize = 8;
/// What go-ent's names began with.
const GO_ENT: &str = "go_ent_";

/// The name that is to be used now, where this profile shows what it names: a hidden tool has no old names either.
pub(super) fn now(view: &View, name: &str) -> Option<String> {
    let servers = view.servers.iter().map(|(server, _)| (&server.name, server.prefix.as_deref(), &server.renamed));
    let mut entries: Vec<_> = view.available.entries().map(|entry| (&entry.name, None, &entry.renamed)).collect();
    entries.extend(servers);
    let told = entries.into_iter().find_map(|(server, prefix, table)| of_table(view, name, server, prefix, table));
    told.or_else(|| of_go_ent(view, name))
}

fn of_table(
    view: &View,
    name: &str,
    server: &ServerName,
    prefix: Option<&str>,
    table: &BTreeMap<String, String>,
) -> Option<String> {
    let (mut tool, _) = table.iter().find(|(old, _)| is_name_of(name, old, server.as_str(), prefix))?;
    for _ in 0..STEPS {
        tool = table.get(tool)?;
        let id = ToolId::new(server.clone(), tool);
        if let Some(tool) = view.tool_by_id(&id) {
            return Some(tool.name.to_string());
        }
        if view.available.get(&id).is_some() {
            return Some(id.to_string());
        }
    }
    None
}

/// Whether a name is how some dialect wrote the tool `old`: bare, as an id or with a prefix.
fn is_name_of(name: &str, old: &str, server: &str, prefix: Option<&str>) -> bool {
    let Some(before) = name.strip_suffix(old) else { return false };
    if before.is_empty() || before.strip_suffix('/') == Some(server) {
        return true;
    }
    let Some(before) = before.strip_suffix('_') else { return false };
    let before = before.strip_prefix("x_").unwrap_or(before);
    before == server || Some(before) == prefix
}

fn of_go_ent(view: &View, name: &str) -> Option<String> {
    let plain = name.strip_prefix(GO_ENT)?;
    if let Some(tool) = view.tool(plain) {
        return Some(tool.name.to_string());
    }
    if let Some(meta) = dialect::lookup(plain, view.profile.dialect) {
        return Some(meta.name.to_owned());
    }
    // Where it is one of several servers its tools have its name before them.
    let mut same = view.tools.iter().filter(|tool| &*tool.id.tool == plain);
    match (same.next(), same.next()) {
        (Some(only), None) => Some(only.name.to_string()),
        _ => None,
    }
}

//! What differs from what was approved, of all servers: listed, and approved or rejected over several servers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::arguments::{required, text, texts};
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, Words, blocking, page, row};
use crate::approval::{Judgement, Selection, ServerChanges, ServerSelection};
use crate::gateway::Gateway;

/// The words of a difference, in the order in which they are listed.
const CHANGES: [&str; 4] = ["added", "removed", "renamed", "changed"];

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(decide(gateway, caller, arguments))),
        Operation {
            tool: "core_held_decide",
            method: Method::Post,
            path: "/held/decide",
            tag: "servers",
            summary: "Approve or reject changes of several servers",
            description: "Approve or reject what of several servers differs from what was approved: `items` as \
                          `core_held_list` names them; without it all that differs of the servers in `digests`. All of \
                          it is decided, or nothing.",
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::InvalidParams, Kind::NotFound],
            input: r#"{"type":"object","properties":{"judgement":{"enum":["approve","reject"]},
    "items":{"type":"array","items":{"type":"string"},"minItems":1,
    "description":"`server/tool:name`, `server/prompt:name`, `server/template:uri`, `server/instructions`"},
    "digests":{"type":"object","additionalProperties":{"type":"string"},
    "description":"By server: only if it still offers what has this digest"}},"required":["judgement"],
    "additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"servers":{"type":"array","items":{"type":"object"}},
    "total":{"type":"integer"},"message":{"type":"string"}},"required":["servers","total","message"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(list(gateway, caller, arguments))),
        Operation {
            tool: "core_held_list",
            path: "/held",
            tag: "servers",
            summary: "List what changed at all servers",
            description: "List what of all servers differs from what was approved, with what changes and who rejected \
                          it. Profiles with `changed_tools: hold` show none of it.",
            input: r#"{"type":"object","properties":{"server":{"type":"string"},
    "query":{"type":"string","description":"Words that the server, the name or the kind of change must have"},
    "limit":{"type":"integer","minimum":1,"maximum":1000},"offset":{"type":"integer","minimum":0}},
    "additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"held":{"type":"array","items":{"type":"object","properties":{
    "item":{"type":"string"},"server":{"type":"string"},"approved":{"type":"boolean"},"change":{"enum":["added",
    "removed","renamed","changed"]},"kind":{"type":"string"},"name":{"type":"string"},"from":{"type":"string"},
    "fields":{"type":"array"},"rejectedBy":{"type":"string"}},"required":["item","server","approved","change","kind",
    "name"]}},"total":{"type":"integer"},"servers":{"type":"array","items":{"type":"string"}},
    "digests":{"type":"object","additionalProperties":{"type":"string"}}},"required":["held","total","servers",
    "digests"]}"#,
            ..ROW
        },
    ),
];

async fn list(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let (gateway, by, arguments) = (Arc::clone(gateway), by.clone(), arguments.clone());
    // Each server's lists are read and compared.
    blocking(move || {
        let wanted = text(&arguments, "server")?;
        let (words, (limit, offset)) = (Words::of(&arguments)?, page(&arguments)?);
        let mut names: Vec<ServerName> = gateway.path.servers.table().keys().cloned().collect();
        names.sort();
        let (mut held, mut servers) = (Vec::new(), Vec::new());
        let mut digests = BTreeMap::new();
        let end = limit.map_or(usize::MAX, |limit| offset.saturating_add(limit));
        for name in &names {
            // One that has just gone differs in nothing.
            let Ok(changes) = gateway.server_changes(name.as_str(), &by) else { continue };
            if changes.difference.is_empty() {
                continue;
            }
            servers.push(name.as_str().to_owned());
            if wanted.as_deref().is_some_and(|wanted| wanted != name.as_str()) {
                continue;
            }
            let fits = |row: &Value| words.fit(&["item", "change"].map(|key| row[key].as_str().unwrap_or_default()));
            let before = held.len();
            held.extend(rows(&changes).into_iter().filter(fits));
            // Only of what is listed: a digest takes longer than a comparison.
            if held.len() > before.max(offset) && before < end {
                digests.insert(name.as_str().to_owned(), changes.digest());
            }
        }
        let total = held.len();
        let held: Vec<Value> = held.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
        Ok(json!({ "held": held, "total": total, "servers": servers, "digests": digests }))
    })
    .await
}

/// What of one server differs, a row for each thing.
fn rows(changes: &ServerChanges) -> Vec<Value> {
    let (difference, rejected) = (changes.difference.to_value(), changes.rejected());
    rows_of(changes.server.as_str(), changes.is_approved(), &difference, &rejected)
}

fn rows_of(server: &str, approved: bool, difference: &Value, rejected: &[Value]) -> Vec<Value> {
    let mut rows = Vec::new();
    for change in CHANGES {
        for entry in difference[change].as_array().into_iter().flatten() {
            let (kind, name) = (&entry["kind"], &entry[if change == "renamed" { "to" } else { "name" }]);
            let (kind_word, name_word) = (kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
            let item = match kind_word {
                "instructions" => format!("{server}/{kind_word}"),
                _ => format!("{server}/{kind_word}:{name_word}"),
            };
            let mut row = json!({
                "item": item, "server": server, "approved": approved, "change": change, "kind": kind,
                "name": name,
            });
            for key in ["from", "fields"] {
                if !entry[key].is_null() {
                    row[key] = entry[key].clone();
                }
            }
            if let Some(by) = rejected.iter().find(|it| it["kind"] == *kind && it["name"] == *name) {
                row["rejectedBy"] = by["by"].clone();
            }
            rows.push(row);
        }
    }
    rows
}

async fn decide(gateway: &Arc<Gateway>, by: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let judgement = match required(arguments, "judgement")?.as_str() {
        "reject" => Judgement::Reject,
        _ => Judgement::Approve,
    };
    let digests = arguments.get("digests").map(|digests| digests.to_value()).unwrap_or_default();
    let wanted = selections(&texts(arguments, "items").unwrap_or_default(), &digests)?;
    let servers = gateway.decide_each(wanted, judgement, by).await?;
    let total: u64 = servers.iter().filter_map(|one| one["total"].as_u64()).sum();
    let word = if judgement == Judgement::Approve { "approved" } else { "rejected" };
    let message = format!("{total} changes of {} servers are {word}", servers.len());
    Ok(json!({ "servers": servers, "total": total, "message": message }))
}

/// What is meant of each server.
fn selections(items: &[String], digests: &Value) -> Result<Vec<ServerSelection>, Problem> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in items {
        let Some((server, name)) = item.split_once('/').filter(|(server, name)| !server.is_empty() && !name.is_empty())
        else {
            let message = format!("`{item}` names no change of a server");
            return Err(Problem::new(Kind::InvalidParams, message).hint("Such as `kit/tool:add`: see core_held_list."));
        };
        names.entry(server.to_owned()).or_default().push(name.to_owned());
    }
    if items.is_empty() {
        let servers = digests.as_object().into_iter().flatten();
        names.extend(servers.map(|(server, _)| (server.clone(), Vec::new())));
    }
    if names.is_empty() {
        let hint = "Give `items`, or the servers as `digests`: see core_held_list.";
        return Err(Problem::new(Kind::InvalidParams, "nothing is named that could be decided about").hint(hint));
    }
    let selection = |(server, names): (String, Vec<String>)| {
        let digest = digests[&server].as_str().map(str::to_owned);
        ServerSelection { server, which: Selection { names, digest } }
    };
    Ok(names.into_iter().map(selection).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_decided_server_by_server_and_without_items_those_that_are_named() {
        let digests = json!({ "a": "1", "b": "2" });
        let of = |items: &[&str]| {
            let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
            selections(&items, &digests).map(|all| {
                let each =
                    all.into_iter().map(|it| format!("{} {:?} {:?}", it.server, it.which.names, it.which.digest));
                each.collect::<Vec<_>>()
            })
        };
        let some = of(&["b/tool:x/y", "a/instructions", "b/prompt:p"]).unwrap();
        assert_eq!(some, [r#"a ["instructions"] Some("1")"#, r#"b ["tool:x/y", "prompt:p"] Some("2")"#]);
        assert_eq!(of(&[]).unwrap(), [r#"a [] Some("1")"#, r#"b [] Some("2")"#]);
        assert!(of(&["tool:x"]).is_err() && of(&["/x"]).is_err());
        assert!(selections(&[], &Value::Null).is_err());
    }

    #[test]
    fn each_difference_of_a_server_is_a_row() {
        let rejected = [json!({ "kind": "tool", "name": "b", "by": "ann" })];
        let difference = json!({
            "added": [{ "kind": "instructions", "name": "" }],
            "renamed": [{ "kind": "tool", "from": "a", "to": "b" }],
        });
        let rows = rows_of("kit", true, &difference, &rejected);
        assert_eq!((&rows[0]["item"], &rows[1]["item"]), (&json!("kit/instructions"), &json!("kit/tool:b")));
        assert_eq!((&rows[1]["from"], &rows[1]["rejectedBy"]), (&json!("a"), &json!("ann")));
    }
}

//! Searching tools: compact hits within a budget, never whole schemas unless asked.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_search::budget::{self, DEFAULT_HITS, Entry};
use toolcrib_search::{Detail, Hits, Query, Ranker, tokens};

use super::{Context, flag, number, text};
use crate::view::{AVAILABLE, Found};
use crate::{dialect, reply};

/// The most hits of one answer.
const MOST: u64 = 100;
/// Hits beyond this number are shown by their ids only.
const WITH_SIGNATURE: usize = DEFAULT_HITS;

/// What is asked, whatever the dialect calls it.
#[derive(Debug)]
struct Ask {
    query: String,
    server: Option<String>,
    limit: usize,
    offset: usize,
    fold: bool,
    detail: Shown,
    max_tokens: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Names,
    Signatures,
    Schemas,
}

pub(super) fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    match context.meta.dialect {
        Dialect::Muster => super::list::filter(context, arguments),
        Dialect::Scooter => super::list::servers(context, arguments),
        Dialect::Native => {
            let ask = native(context, arguments)?;
            let hits = search(context, &ask);
            Ok(render(context, &ask, &hits))
        }
        Dialect::GoEnt => {
            let query = super::required(arguments, "query")?;
            let limit = number(arguments, "limit")?.filter(|limit| *limit > 0).unwrap_or(10).min(MOST);
            let ask = Ask { limit: usize::try_from(limit).unwrap_or(10), ..plain(context, query) };
            let hits = search(context, &ask);
            Ok(go_ent(context, &ask, &hits))
        }
    }
}

fn plain(context: &Context<'_>, query: String) -> Ask {
    Ask {
        query,
        server: None,
        limit: DEFAULT_HITS,
        offset: 0,
        fold: true,
        detail: Shown::Signatures,
        max_tokens: context.view.profile.max_tokens as usize,
    }
}

fn native(context: &Context<'_>, arguments: &Raw) -> Result<Ask, Problem> {
    let limit = number(arguments, "limit")?.unwrap_or(DEFAULT_HITS as u64);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::new(Kind::InvalidParams, format!("`limit` must be from 1 to {MOST}")));
    }
    let detail = match text(arguments, "detail")?.as_deref() {
        None | Some("signatures") => Shown::Signatures,
        Some("names") => Shown::Names,
        Some("schemas") => Shown::Schemas,
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("`detail` is `{shown}`; expected `names`, `signatures` or `schemas`");
            return Err(Problem::new(Kind::InvalidParams, message));
        }
    };
    let query = text(arguments, "query")?.unwrap_or_default();
    let base = plain(context, query);
    let max_tokens = number(arguments, "max_tokens")?.and_then(|most| usize::try_from(most).ok());
    Ok(Ask {
        server: text(arguments, "server")?.filter(|server| !server.is_empty()),
        limit: usize::try_from(limit).unwrap_or(DEFAULT_HITS),
        offset: number(arguments, "offset")?.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0),
        fold: flag(arguments, "fold")?.unwrap_or(true),
        detail,
        max_tokens: max_tokens.map_or(base.max_tokens, |most| most.clamp(50, 100_000)),
        ..base
    })
}

fn search(context: &Context<'_>, ask: &Ask) -> Hits {
    context.view.search.search(&Query {
        server: ask.server.as_deref(),
        limit: ask.limit,
        offset: ask.offset,
        fold: ask.fold,
        ..Query::new(&ask.query)
    })
}

/// A hit with what it is.
fn with_tools<'a>(context: &'a Context<'_>, hits: &'a Hits) -> Vec<(&'a toolcrib_search::Hit, Found<'a>)> {
    let found = hits.hits.iter().filter_map(|hit| Some((hit, Found::of(context.view, &hit.id)?)));
    found.collect()
}

fn render(context: &Context<'_>, ask: &Ask, hits: &Hits) -> Raw {
    let found = with_tools(context, hits);
    let summaries: Vec<String> = found.iter().map(|(_, tool)| tool.summary()).collect();
    let truncated = hits.total > ask.offset + found.len();
    let mut head = heading(context, ask, hits, found.len());
    if found.iter().any(|(_, found)| !found.is_there()) {
        let load = dialect::name_of(dialect::Act::Load, context.view.profile.dialect);
        head.push_str(&format!(" ({AVAILABLE} ones are started by {load})"));
    }
    let names_only = ask.detail == Shown::Names || found.len() > WITH_SIGNATURE;
    let body = if names_only {
        let lines: Vec<String> = found.iter().map(|(hit, _)| format!("- {}", hit.id)).collect();
        lines.join("\n")
    } else {
        let entries: Vec<Entry<'_>> = found
            .iter()
            .zip(&summaries)
            .map(|((hit, tool), summary)| Entry {
                id: &hit.id,
                name: tool.name(),
                signature: tool.signature(),
                summary,
                also: &hit.also,
            })
            .collect();
        budget::render(&entries, ask.max_tokens.saturating_sub(tokens::estimate(&head) + 2)).text
    };
    let tools: Vec<Value> = found
        .iter()
        .zip(&summaries)
        .map(|((hit, tool), summary)| {
            let signature = match ask.detail {
                Shown::Names => String::new(),
                _ => tool.signature().render(Detail::OptionalNames),
            };
            let mut value = json!({
                "id": hit.id.to_string(), "name": tool.name(), "server": hit.id.server.as_str(),
                "signature": signature, "summary": summary, "score": rounded(hit.score), "state": tool.state(),
                "also": hit.also.iter().map(ToString::to_string).collect::<Vec<_>>(),
            });
            if ask.detail == Shown::Schemas {
                value["inputSchema"] = tool.input_schema().map_or(Value::Null, |schema| schema.to_value());
            }
            value
        })
        .collect();
    let mut body = if body.is_empty() { head } else { format!("{head}\n{body}") };
    if ask.detail == Shown::Schemas {
        for (hit, tool) in &found {
            if let Some(schema) = tool.input_schema() {
                body.push_str(&format!("\n{}: {}", hit.id, schema.as_str()));
            }
        }
    }
    reply::structured(&body, &json!({ "total": hits.total, "truncated": truncated, "tools": tools }))
}

/// What the list below is, and what to do when it is not what was wanted.
fn heading(context: &Context<'_>, ask: &Ask, hits: &Hits, shown: usize) -> String {
    let mut text = match (shown, ask.query.trim().is_empty()) {
        (0, true) => "No tools are available.".to_owned(),
        (0, false) => {
            let mut servers: Vec<_> = context.view.servers.iter().map(|(server, _)| server.name.as_str()).collect();
            servers.truncate(20);
            format!("No tool matches. Try other words: action, object, service. Servers: {}.", servers.join(", "))
        }
        (shown, _) if hits.total > ask.offset + shown => format!("{shown} of {} tools:", hits.total),
        (1, _) => "1 tool:".to_owned(),
        (shown, _) => format!("{shown} tools:"),
    };
    let pending = context.view.pending();
    if !pending.is_empty() {
        let names: Vec<_> = pending.iter().take(5).map(|name| name.as_str()).collect();
        text.push_str(&format!(" (still being listed: {})", names.join(", ")));
    }
    text
}

fn go_ent(context: &Context<'_>, ask: &Ask, hits: &Hits) -> Raw {
    let found = with_tools(context, hits);
    let active = context.gateway.active.of(context.caller, context.view.profile.active_set);
    let mut text = format!("# Found {} tools for \"{}\"\n", found.len(), ask.query);
    if found.is_empty() {
        text.push_str("\nNo tools found. Try other words.\n");
    }
    let mut tools = Vec::new();
    for (number, (hit, tool)) in found.iter().enumerate() {
        let is_active = active.contains(&hit.id);
        let mark = if is_active { " ✓ (active)" } else { "" };
        text.push_str(&format!("\n{}. **{}**{mark}\n   {}\n", number + 1, tool.name(), tool.summary()));
        let mut value = json!({
            "name": tool.name(), "description": tool.description(), "active": is_active, "score": rounded(hit.score),
            "category": tool.category(), "keywords": tool.keywords(),
        });
        if !tool.is_there() {
            value["state"] = tool.state().into();
        }
        tools.push(value);
    }
    reply::structured(&text, &json!({ "total": hits.total, "tools": tools }))
}

/// Four decimals: more are noise, and answers must be equal for equal questions.
fn rounded(score: f32) -> f64 {
    (f64::from(score) * 10_000.0).round() / 10_000.0
}

//! Listing tools in muster's and scooter's form.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_search::{Query, Ranker, budget};

use super::{Context, flag, number, text};
use crate::reply;
use crate::view::{AVAILABLE, Candidate};

/// How long a summary is in muster's form, in characters.
const SUMMARY: usize = 120;

/// `list_tools`: every tool with its description.
pub(super) fn run(context: &Context<'_>) -> Result<Raw, Problem> {
    let mut tools: Vec<Value> = context
        .view
        .tools
        .iter()
        .map(|tool| json!({ "name": &*tool.name, "description": tool.description() }))
        .collect();
    tools.extend(context.view.operations.iter().map(|it| json!({ "name": it.tool, "description": it.description })));
    Ok(reply::data(&json!({ "tools": tools })))
}

/// `list_core_tools`: the gateway's own.
pub(super) fn core(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let with_schema = flag(arguments, "include_schema")?.unwrap_or(true);
    let tools: Vec<Value> = context
        .view
        .operations
        .iter()
        .map(|operation| {
            let mut tool = json!({ "name": operation.tool, "description": operation.description });
            if with_schema {
                tool["inputSchema"] = operation.input_schema();
            }
            tool
        })
        .collect();
    let count = tools.len();
    Ok(reply::data(&json!({
        "filters": { "pattern": "core*", "include_schema": with_schema },
        "total_tools": count, "filtered_count": count, "total": count, "truncated": false, "tools": tools,
    })))
}

/// `filter_tools`: by pattern, by description, or ranked by a query.
pub(super) fn filter(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let pattern = text(arguments, "pattern")?.unwrap_or_default();
    let description = text(arguments, "description_filter")?.unwrap_or_default();
    let query = text(arguments, "query")?.unwrap_or_default();
    let sensitive = flag(arguments, "case_sensitive")?.unwrap_or(false);
    let with_schema = flag(arguments, "include_schema")?.unwrap_or(false);
    let limit = number(arguments, "limit")?.unwrap_or(5);
    if limit == 0 {
        return Err(Problem::new(Kind::InvalidParams, "limit must be at least 1"));
    }
    let (limit, offset) = (limit.min(1_000) as usize, number(arguments, "offset")?.unwrap_or(0) as usize);
    let fold = |text: &str| if sensitive { text.to_owned() } else { text.to_lowercase() };
    let glob = match pattern.as_str() {
        "" => None,
        pattern => Some(
            toolcrib_base::Glob::new(&fold(pattern))
                .map_err(|error| Problem::new(Kind::InvalidParams, format!("`pattern` is not a glob: {error}")))?,
        ),
    };
    let wanted = |name: &str, about: &str| {
        glob.as_ref().is_none_or(|glob| glob.matches(&fold(name)))
            && (description.is_empty() || fold(about).contains(&fold(&description)))
    };
    // Without a query every tool is a hit, in order of its id.
    let ranked = Query { limit: usize::MAX, fold: false, ..context.view.query(&query) };
    let hits = context.view.search.search(&ranked).hits;
    let matching: Vec<_> = hits
        .iter()
        .filter_map(|hit| Some((hit.score, context.view.tool_by_id(&hit.id)?)))
        .filter(|(_, tool)| wanted(&tool.name, tool.description()))
        .collect();
    let page: Vec<Value> = matching
        .iter()
        .skip(offset)
        .take(limit)
        .map(|(score, tool)| {
            let mut value = json!({ "name": &*tool.name });
            if with_schema {
                value["description"] = tool.description().into();
                value["inputSchema"] = tool.entry.input_schema().map_or(Value::Null, |schema| schema.to_value());
            } else {
                let line = tool.description().lines().next().unwrap_or_default();
                value["summary"] = line.chars().take(SUMMARY).collect::<String>().into();
            }
            if !query.is_empty() {
                value["score"] = ((f64::from(*score) * 10_000.0).round() / 10_000.0).into();
            }
            value
        })
        .collect();
    Ok(reply::data(&json!({
        "filters": {
            "pattern": pattern, "description_filter": description, "query": query,
            "case_sensitive": sensitive, "include_schema": with_schema, "limit": limit, "offset": offset,
        },
        "total_tools": context.view.tools.len(),
        "filtered_count": page.len(),
        "total": matching.len(),
        "truncated": matching.len() > offset + page.len(),
        "tools": page,
    })))
}

/// `scooter_find`: servers with the names of their tools, the best first.
pub(super) fn servers(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let query = text(arguments, "query")?.unwrap_or_default();
    let ranked = Query { limit: usize::MAX, fold: false, ..context.view.query(&query) };
    let hits = context.view.search.search(&ranked).hits;
    let mut order: Vec<&str> = Vec::new();
    for hit in &hits {
        if !order.contains(&hit.id.server.as_str()) {
            order.push(hit.id.server.as_str());
        }
    }
    let describe = |name: &str| {
        if let [candidate, ..] = context.view.available.of_server(name) {
            return Some(available(candidate, context.view.available.of_server(name)));
        }
        let (definition, _) = context.view.servers.iter().find(|(server, _)| server.name.as_str() == name)?;
        let of_server = context.view.tools.iter().filter(|tool| tool.id.server.as_str() == name);
        let tools: Vec<_> = of_server.map(|tool| &*tool.name).collect();
        Some(json!({
            "name": name, "title": definition.title, "category": definition.category,
            "description": definition.description.as_deref().map(budget::summary),
            "tools": tools, "source": "custom",
        }))
    };
    let found: Vec<Value> = order.into_iter().filter_map(describe).collect();
    Ok(reply::data(&json!({ "tools": found })))
}

/// An entry that nobody has configured, in scooter's form.
fn available(any: &Candidate, all: &[Arc<Candidate>]) -> Value {
    let entry = &any.available.entry;
    let tools: Vec<_> = all.iter().filter(|tool| tool.entry.is_some()).map(|tool| &*tool.id.tool).collect();
    json!({
        "name": entry.name.as_str(), "title": entry.title, "category": entry.category,
        "description": entry.description.as_deref().map(budget::summary),
        "tools": tools, "source": entry.source.as_str(), "state": AVAILABLE,
    })
}

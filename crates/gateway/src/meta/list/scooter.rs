//! `scooter_find`: servers with the names of their tools, the best first.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;
use toolcrib_search::{Query, Ranker, budget};
use toolcrib_view::reply;
use toolcrib_view::view::{AVAILABLE, Candidate};

use crate::meta::Context;
use toolcrib_view::arguments::text;

/// The servers that a query finds.
pub(in crate::meta) async fn servers(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let query = text(arguments, "query")?.unwrap_or_default();
    let asked = context.search_for(&query).await;
    let hits = context.view().search.search(&Query { limit: usize::MAX, fold: false, ..asked.query() }).hits;
    let mut order: Vec<&str> = Vec::new();
    for hit in &hits {
        if !order.contains(&hit.id.server.as_str()) {
            order.push(hit.id.server.as_str());
        }
    }
    let describe = |name: &str| {
        if let [candidate, ..] = context.view().available.of_server(name) {
            return Some(available(candidate, context.view().available.of_server(name)));
        }
        let (definition, _) = context.view().servers.iter().find(|(server, _)| server.name.as_str() == name)?;
        let of_server = context.view().tools.iter().filter(|tool| tool.id.server.as_str() == name);
        let tools: Vec<_> = of_server.map(|tool| &*tool.name).collect();
        Some(json!({
            "name": name, "title": definition.title, "category": definition.category,
            "description": definition.description.as_deref().map(budget::summary),
            "tools": tools, "source": "custom",
        }))
    };
    asked.shown(context.gateway, context.caller, hits.iter().map(|hit| &hit.id));
    let found: Vec<Value> = order.into_iter().filter_map(describe).collect();
    Ok(reply::data(&json!({ "tools": found })))
}

/// An entry that no one has configured, in scooter's form.
fn available(any: &Candidate, all: &[Arc<Candidate>]) -> Value {
    let entry = &any.available.entry;
    let tools: Vec<_> = all.iter().filter(|tool| tool.entry.is_some()).map(|tool| &*tool.id.tool).collect();
    json!({
        "name": entry.name.as_str(), "title": entry.title, "category": entry.category,
        "description": entry.description.as_deref().map(budget::summary),
        "tools": tools, "source": entry.source.as_str(), "state": AVAILABLE,
    })
}

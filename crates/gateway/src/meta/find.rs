//! Searching tools: compact hits within a budget, never whole schemas unless asked. What an answer says is in `answer`.

mod answer;

use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::ToolFilter;
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_search::budget::DEFAULT_HITS;
use toolcrib_search::{Hit, Query, Ranker};
use toolcrib_view::reply;
use toolcrib_view::view::{SearchHit, View};

use super::Context;
use crate::search::SearchRequest;
use toolcrib_view::arguments::{flag, number, text};

/// The most hits of one answer.
const MOST: u64 = 100;
/// So many hits are looked at to say what else matches.
const LOOKED_AT: usize = 100;

/// What is asked, whatever the dialect calls it.
#[derive(Debug)]
struct Ask {
    query: String,
    server: Option<String>,
    limit: usize,
    offset: usize,
    fold: bool,
    detail: DetailLevel,
    max_tokens: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DetailLevel {
    Names,
    Signatures,
    Schemas,
}

pub(super) async fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    match context.meta.dialect {
        Dialect::Muster => super::list::filter(context, arguments).await,
        Dialect::Scooter => super::list::scooter::servers(context, arguments).await,
        Dialect::Native => {
            let ask = native(context, arguments)?;
            Ok(answer::render(context.view(), &ask, shown(context, &ask).await).reply())
        }
        Dialect::GoEnt => {
            let query = toolcrib_view::arguments::required(arguments, "query")?;
            let limit = number(arguments, "limit")?.filter(|limit| *limit > 0).unwrap_or(10).min(MOST);
            let ask = Ask { limit: usize::try_from(limit).unwrap_or(10), ..plain(context.view(), query) };
            Ok(go_ent(context, &ask, &shown(context, &ask).await))
        }
    }
}

/// What a native answer to a query says, with nothing but the query given.
pub(crate) fn told(view: &View, query: &str) -> String {
    let ask = plain(view, query.to_owned());
    answer::render(view, &ask, search(view, &ask, &SearchRequest::plain(view, query), None)).text
}

fn plain(view: &View, query: String) -> Ask {
    Ask {
        query,
        server: None,
        limit: DEFAULT_HITS,
        offset: 0,
        fold: true,
        detail: DetailLevel::Signatures,
        max_tokens: view.profile.max_tokens as usize,
    }
}

fn native(context: &Context<'_>, arguments: &Raw) -> Result<Ask, Problem> {
    let limit = number(arguments, "limit")?.unwrap_or(DEFAULT_HITS as u64);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::new(Kind::InvalidParams, format!("`limit` must be from 1 to {MOST}")));
    }
    let detail = match text(arguments, "detail")?.as_deref() {
        None | Some("signatures") => DetailLevel::Signatures,
        Some("names") => DetailLevel::Names,
        Some("schemas") => DetailLevel::Schemas,
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("`detail` is `{shown}`; expected `names`, `signatures` or `schemas`");
            return Err(Problem::new(Kind::InvalidParams, message));
        }
    };
    let query = text(arguments, "query")?.unwrap_or_default();
    let base = plain(context.view(), query);
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

/// What a search found.
struct Findings<'a> {
    /// The hits of the page with what they are.
    page: Vec<(Hit, SearchHit<'a>)>,
    /// What comes after them, as far as it was looked at.
    rest: Vec<Hit>,
    /// How many tools match.
    total: usize,
    /// Whether what else there is must not be named.
    is_filtered: bool,
}

/// Searches, and remembers what is shown where the profile learns.
async fn shown<'a>(context: &Context<'a>, ask: &Ask) -> Findings<'a> {
    let asked = context.search_for(&ask.query).await;
    let findings = search(context.view(), ask, &asked, context.filter);
    let tools = findings.page.iter().flat_map(|(hit, _)| std::iter::once(&hit.id).chain(&hit.also));
    asked.shown(context.gateway, context.caller, tools);
    findings
}

fn search<'a>(view: &'a View, ask: &Ask, asked: &SearchRequest<'_>, filter: Option<&ToolFilter>) -> Findings<'a> {
    if let Some(filter) = filter {
        return filtered(view, ask, asked, filter);
    }
    let mut hits = view.search.search(&Query {
        server: ask.server.as_deref(),
        limit: ask.limit.max(LOOKED_AT),
        offset: ask.offset,
        fold: ask.fold,
        ..asked.query()
    });
    let rest = hits.hits.split_off(ask.limit.min(hits.hits.len()));
    let page = hits.hits.into_iter().filter_map(|hit| SearchHit::of(view, &hit.id).map(|found| (hit, found)));
    Findings { page: page.collect(), rest, total: hits.total, is_filtered: false }
}

/// The same among the tools that a run may use: nothing is said of any other.
fn filtered<'a>(view: &'a View, ask: &Ask, asked: &SearchRequest<'_>, filter: &ToolFilter) -> Findings<'a> {
    let (server, limit) = (ask.server.as_deref(), usize::MAX);
    let found = view.search.search(&Query { server, limit, offset: 0, fold: false, ..asked.query() });
    let is_allowed = |hit: &Hit| view.tool_by_id(&hit.id).is_some_and(|tool| filter.allows(tool));
    let allowed: Vec<Hit> = found.hits.into_iter().filter(is_allowed).collect();
    let total = allowed.len();
    let mut rest = allowed.into_iter().skip(ask.offset).collect::<Vec<_>>();
    let page = rest.drain(..ask.limit.min(rest.len())).collect::<Vec<_>>();
    let page = page.into_iter().filter_map(|hit| SearchHit::of(view, &hit.id).map(|found| (hit, found)));
    Findings { page: page.collect(), rest, total, is_filtered: true }
}

fn go_ent(context: &Context<'_>, ask: &Ask, findings: &Findings<'_>) -> Raw {
    let found = &findings.page;
    let active = context.gateway.active.of(context.caller, context.view().profile.active_set);
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
            "name": tool.name(), "description": tool.summary(), "active": is_active, "score": rounded(hit.score),
            "category": tool.category(), "keywords": tool.keywords(),
        });
        if !tool.is_there() {
            value["state"] = tool.state().into();
        }
        tools.push(value);
    }
    reply::structured(&text, &json!({ "total": findings.total, "tools": tools }))
}

/// Four decimals: more are noise, and answers must be equal for equal questions.
fn rounded(score: f32) -> f64 {
    (f64::from(score) * 10_000.0).round() / 10_000.0
}

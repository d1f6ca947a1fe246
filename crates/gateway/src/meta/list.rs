//! Listing tools in muster's form; scooter's is in `list/scooter.rs`.

mod row;
pub(super) mod scooter;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_search::{Query, Ranker};
use toolcrib_upstream::{Server, State};
use toolcrib_view::reply;
use toolcrib_view::view::View;

use super::Context;
use crate::search::SearchRequest;
use row::{Detail, Page, Row};
use toolcrib_view::arguments::{flag, number, text};

/// The most rows of one answer.
const MOST: u64 = 1_000;
/// How many rows `filter_tools` gives when no one says.
const FEW: u64 = 5;
/// How many characters of what was asked an answer repeats.
const REPEATED: usize = 200;
/// What the gateway's own operations count against tools of servers: who searches wants to do something with these.
const OWN: f32 = 0.6;

/// `list_tools`: every tool with its description, in pages.
pub(super) fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let Bounds { limit, offset, is_lowered } = bounds(arguments, MOST)?;
    let all = Row::all(context.view());
    let page = Page::cut(&all, offset, limit, |row| row.shown(Detail::Description));
    let mut value = json!({ "tools": page.rows, "total": all.len(), "truncated": page.next.is_some() });
    let wanting: Vec<Value> = wanting_login(context.view())
        .map(|name| json!({ "name": name, "status": "auth_required", "auth_tool": "core_auth_login" }))
        .collect();
    if !wanting.is_empty() {
        value["servers_requiring_auth"] = wanting.into();
    }
    add_next_page(&mut value, page.next, is_lowered, "list_tools");
    Ok(reply::data(&value))
}

/// The servers of a profile that somebody must log in to.
fn wanting_login(view: &View) -> impl Iterator<Item = &str> {
    let wants = |server: &Server| server.status().state == State::NeedsLogin;
    view.servers.iter().filter(move |(_, server)| wants(server)).map(|(definition, _)| definition.name.as_str())
}

/// `list_core_tools`: the gateway's own.
pub(super) fn core(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let with_schema = flag(arguments, "include_schema")?.unwrap_or(true);
    let detail = if with_schema { Detail::Schema } else { Detail::Description };
    let operations = context.view().operations.iter();
    let tools: Vec<Value> = operations.map(|operation| Row::Operation(operation).shown(detail)).collect();
    let count = tools.len();
    Ok(reply::data(&json!({
        "filters": { "pattern": "core*", "include_schema": with_schema },
        "total_tools": count, "filtered_count": count, "total": count, "truncated": false, "tools": tools,
    })))
}

/// What `filter_tools` is asked for.
struct Filter {
    pattern: Option<String>,
    description: Option<String>,
    labels: BTreeMap<String, String>,
    is_sensitive: bool,
}

/// `filter_tools`: by pattern, by description, by labels, or ranked by a query.
pub(super) async fn filter(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let view = context.view();
    let filter = Filter::read(arguments)?;
    let query = text(arguments, "query")?.filter(|query| !query.trim().is_empty());
    let with_schema = flag(arguments, "include_schema")?.unwrap_or(false);
    let Bounds { limit, offset, is_lowered } = bounds(arguments, FEW)?;
    let asked = context.search_for(query.as_deref().unwrap_or_default()).await;
    let fits = filter.fits()?;
    let all = if query.is_some() { ranked(view, &asked) } else { unranked(view) };
    let matching: Vec<(f32, Row<'_>)> = all.into_iter().filter(|(_, row)| fits(row)).collect();
    let detail = if with_schema { Detail::Schema } else { Detail::Summary };
    let page = Page::cut(&matching, offset, limit, |(score, row)| {
        let mut value = row.shown(detail);
        if query.is_some() {
            value["score"] = ((f64::from(*score) * 10_000.0).round() / 10_000.0).into();
        }
        let labels = row.labels();
        if !labels.is_empty() {
            value["labels"] = json!(labels);
        }
        value
    });
    let shown = matching.iter().skip(offset).take(page.rows.len());
    asked.shown(
        context.gateway,
        context.caller,
        shown.filter_map(|(_, row)| match row {
            Row::Tool(tool) => Some(&tool.id),
            Row::Family(family) => family.any().map(|tool| &tool.id),
            Row::Operation(_) => None,
        }),
    );
    let mut filters = filter.echo();
    if let Some(query) = &query {
        filters["query"] = repeated(query).into();
    }
    filters["include_schema"] = with_schema.into();
    filters["limit"] = limit.into();
    filters["offset"] = offset.into();
    let mut value = json!({
        "filters": filters, "total_tools": Row::all(view).len(), "filtered_count": page.rows.len(),
        "total": matching.len(), "truncated": page.next.is_some(), "tools": page.rows,
    });
    add_next_page(&mut value, page.next, is_lowered, "filter_tools");
    Ok(reply::data(&value))
}

/// What was asked as the answer repeats it: no one has to pay for a long text twice.
fn repeated(text: &str) -> String {
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `limit` and `offset`.
struct Bounds {
    limit: usize,
    offset: usize,
    /// Whether more was asked for than one answer has.
    is_lowered: bool,
}

fn bounds(arguments: &Raw, usual: u64) -> Result<Bounds, Problem> {
    let limit = number(arguments, "limit")?.unwrap_or(usual);
    if limit == 0 {
        return Err(Problem::new(Kind::InvalidParams, "limit must be at least 1"));
    }
    let offset = number(arguments, "offset")?.unwrap_or(0);
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Bounds { limit: size(limit.min(MOST)), offset: size(offset), is_lowered: limit > MOST })
}

/// What a page leaves out, and how to get it.
fn add_next_page(value: &mut Value, next: Option<usize>, is_lowered: bool, tool: &str) {
    let lowered = is_lowered.then(|| format!("limit is at most {MOST} and was taken as that."));
    let more = next.map(|next| format!("There are more: {tool} with offset {next}, or filter_tools with a query."));
    if let Some(next) = next {
        value["next_offset"] = next.into();
    }
    let hint: Vec<String> = lowered.into_iter().chain(more).collect();
    if !hint.is_empty() {
        value["hint"] = hint.join(" ").into();
    }
}

/// Everything in the order of its names' owners.
fn unranked(view: &View) -> Vec<(f32, Row<'_>)> {
    Row::all(view).into_iter().map(|row| (0.0, row)).collect()
}

/// What fits a query, best first, equal ones by name.
fn ranked<'a>(view: &'a View, asked: &SearchRequest<'_>) -> Vec<(f32, Row<'a>)> {
    let hits = view.search.search(&Query { limit: usize::MAX, fold: false, ..asked.query() }).hits;
    let mut rows: Vec<(f32, Row<'a>)> = Vec::new();
    let mut told = std::collections::HashSet::new();
    for hit in &hits {
        let Some(tool) = view.tool_by_id(&hit.id) else { continue };
        for row in Row::of_tools(view, std::iter::once(tool)) {
            if told.insert(row.name()) {
                rows.push((hit.score, row));
            }
        }
    }
    // What was learned and what a model says is of servers' tools only.
    let own = Query { limit: usize::MAX, fold: false, learned: &[], meaning: None, ..asked.query() };
    let hits = view.operations.index().search(&own).hits;
    let operation = |name: &str| view.operations.by_tool(name).map(Row::Operation);
    rows.extend(hits.iter().filter_map(|hit| Some((OWN * hit.score, operation(&hit.id.tool)?))));
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name().cmp(b.1.name())));
    rows
}

// === impl Filter ===

impl Filter {
    fn read(arguments: &Raw) -> Result<Self, Problem> {
        let given = |key| Ok::<_, Problem>(text(arguments, key)?.filter(|text| !text.is_empty()));
        let wrong = || Problem::new(Kind::InvalidParams, "labels must be an object of texts");
        let labels = match arguments.get("labels").map(|labels| labels.to_value()) {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(Value::Object(labels)) => {
                let text = |(key, value): (String, Value)| Ok((key, value.as_str().ok_or_else(wrong)?.to_owned()));
                labels.into_iter().map(text).collect::<Result<_, Problem>>()?
            }
            Some(_) => return Err(wrong()),
        };
        Ok(Self {
            pattern: given("pattern")?,
            description: given("description_filter")?,
            labels,
            is_sensitive: flag(arguments, "case_sensitive")?.unwrap_or(false),
        })
    }

    /// What of it was given, and the defaults of the rest.
    fn echo(&self) -> Value {
        let mut echo = json!({ "case_sensitive": self.is_sensitive });
        if let Some(pattern) = &self.pattern {
            echo["pattern"] = repeated(pattern).into();
        }
        if let Some(description) = &self.description {
            echo["description_filter"] = repeated(description).into();
        }
        if !self.labels.is_empty() {
            echo["labels"] = json!(self.labels);
        }
        echo
    }

    /// Whether a row is wanted.
    fn fits(&self) -> Result<impl Fn(&Row<'_>) -> bool + '_, Problem> {
        let is_sensitive = self.is_sensitive;
        let fold = move |text: &str| if is_sensitive { text.to_owned() } else { text.to_lowercase() };
        let glob = match &self.pattern {
            None => None,
            Some(pattern) => Some(
                Glob::new(&fold(pattern))
                    .map_err(|error| Problem::new(Kind::InvalidParams, format!("`pattern` is not a glob: {error}")))?,
            ),
        };
        let part = self.description.as_deref().map(fold);
        Ok(move |row: &Row<'_>| {
            glob.as_ref().is_none_or(|glob| glob.matches(&fold(row.name())))
                && part.as_ref().is_none_or(|part| fold(row.description()).contains(part.as_str()))
                && (self.labels.is_empty() || {
                    let labels = row.labels();
                    self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
                })
        })
    }
}

//! The tools of a profile: list, find, describe, call.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, Problem, Timestamp};
use toolcrib_protocol::Raw;
use toolcrib_search::budget::{self, DEFAULT_HITS};
use toolcrib_search::{Detail, Explanation, Part, Query, Ranker};
use toolcrib_store::{FigureKind, FigureQuery};
use toolcrib_view::view::{SearchHit, View};
use toolcrib_view::{Effect, Method, Operation, Permission, Tool};

use super::{OperationContext, ROW, Row, Run, Words, blocking, page, row};
use crate::gateway::Gateway;
use crate::search::SearchRequest;
use toolcrib_view::arguments::{flag, number, required, text};
use toolcrib_view::resolve;

/// The most hits of one answer.
const MOST: usize = 100;
/// How far back calls count as use, in milliseconds.
const USED_WITHIN: i64 = 7 * 24 * 3_600 * 1_000;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Call,
        Operation {
            tool: "core_tool_call",
            method: Method::Post,
            path: "/tools/{name}/call",
            tag: "tools",
            summary: "Call a tool",
            description: "Call a server's tool by its id or its name, as a client of the profile would: same rules, same record in the audit log. Answers the tool's own result.",
            permission: Permission::Open,
            effect: Effect::Unknown,
            problems: &[
                Kind::InvalidParams,
                Kind::Forbidden,
                Kind::UnknownTool,
                Kind::NotFound,
                Kind::Busy,
                Kind::BadServer,
                Kind::Unavailable,
                Kind::Timeout,
                Kind::Cancelled,
            ],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The tool's id server/tool, or its exposed name"},"arguments":{"type":"object"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"content":{"type":"array"},"isError":{"type":"boolean"}},"required":["content"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Search(find),
        Operation {
            tool: "core_tool_find",
            path: "/search",
            tag: "tools",
            summary: "Find tools",
            description: "Find tools of this profile for a purpose told in plain words, best first.",
            permission: Permission::Open,
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"query":{"type":"string"},"server":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":8},"explain":{"type":"boolean","default":false,"description":"Also how each score comes about"}},"required":["query"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"signature":{"type":"string"},"summary":{"type":"string"},"score":{"type":"number"},"explanation":{"type":["object","null"]}},"required":["id","name","signature","summary","score"]}},"total":{"type":"integer"}},"required":["tools","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::View(get),
        Operation {
            tool: "core_tool_get",
            path: "/tools/{name}",
            tag: "tools",
            summary: "Describe a tool",
            description: "Describe one tool of this profile whole: schemas, annotations, state.",
            permission: Permission::Open,
            problems: &[Kind::UnknownTool],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The tool's id server/tool, or its exposed name"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"server":{"type":"string"},"description":{"type":"string"},"inputSchema":{"type":"object"},"state":{"type":"string"}},"required":["id","name","server","description","inputSchema","state"]}"#,
            ..ROW
        },
    ),
    row(
        Run::LongInProfile(|gateway, context, arguments| Box::pin(listed(gateway, context, arguments))),
        Operation {
            tool: "core_tool_list",
            path: "/tools",
            tag: "tools",
            summary: "List the tools",
            description: "List the tools of this profile with their ids, names and states.",
            permission: Permission::Open,
            problems: &[Kind::NotFound],
            input: r#"{"type":"object","properties":{"server":{"type":"string"},"pattern":{"type":"string","description":"Glob on server/tool"},"query":{"type":"string","description":"Words of its id, title or description, in any order"},"state":{"type":"string"},"effect":{"enum":["read-only","destructive","other"],"description":"What its server says that it does"},"sort":{"enum":["id","size","use"],"default":"id","description":"`size`: the largest definition first; `use`: most calls in the last seven days first, which each row then has"},"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"At most so many; the answer then also names all servers and states, and what each tool costs a model in tokens"},"offset":{"type":"integer","minimum":0,"default":0}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"servers":{"type":"array","items":{"type":"string"}},"states":{"type":"array","items":{"type":"string"}},"tools":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"server":{"type":"string"},"description":{"type":"string"},"state":{"type":"string"},"readOnly":{"const":true},"destructive":{"const":true},"tokens":{"type":"integer"},"calls":{"type":"integer"}},"required":["id","name","server","description","state"]}},"total":{"type":"integer"}},"required":["tools","total"]}"#,
            ..ROW
        },
    ),
];

async fn listed(gateway: &Arc<Gateway>, context: OperationContext<'_>, arguments: &Raw) -> Result<Value, Problem> {
    let no_profile = || Problem::new(Kind::Internal, "a list of tools has no profile");
    let view = context.snapshot.ok_or_else(no_profile)?.view();
    if text(arguments, "sort")?.as_deref() != Some("use") {
        return list(view, &HashMap::new(), arguments);
    }
    let figures = gateway.path.store.figures().clone();
    let now = gateway.path.clock.now();
    let query = FigureQuery {
        kind: FigureKind::Tool,
        name: None,
        since: Timestamp(now.0 - USED_WITHIN),
        until: Timestamp(now.0 + 1),
    };
    let calls = blocking(move || {
        figures.catch_up()?;
        let names = figures.by_name(&query)?;
        Ok(names.into_iter().map(|(name, figures)| (name, figures.calls)).collect::<HashMap<_, _>>())
    });
    list(view, &calls.await?, arguments)
}

/// The tools of a view; `calls` are those of each by its id, where they count.
fn list(view: &View, calls: &HashMap<String, u64>, arguments: &Raw) -> Result<Value, Problem> {
    let server = text(arguments, "server")?;
    let pattern = match text(arguments, "pattern")? {
        None => Glob::everything(),
        Some(pattern) => Glob::new(&pattern)
            .map_err(|error| Problem::new(Kind::InvalidParams, format!("`pattern` is not a glob: {error}")))?,
    };
    let words = Words::of(arguments)?;
    let state = text(arguments, "state")?;
    let effect = text(arguments, "effect")?;
    let (limit, offset) = page(arguments)?;
    let fits = |tool: &&Arc<Tool>| {
        server.as_deref().is_none_or(|server| server == tool.id.server.as_str())
            && pattern.matches_id(tool.id.server.as_str(), &tool.id.tool)
            && state.as_deref().is_none_or(|state| state == tool.state())
            && effect.as_deref().is_none_or(|effect| effect == said_effect(tool))
            && (words.0.is_empty() || {
                let title = tool.entry.title.as_deref().unwrap_or_default();
                words.fit(&[&tool.id.to_string(), title, tool.description()])
            })
    };
    let mut found: Vec<&Arc<Tool>> = view.tools.iter().filter(fits).collect();
    let sort = text(arguments, "sort")?;
    let calls_of = |tool: &Tool| calls.get(&tool.id.to_string()).copied().unwrap_or_default();
    match sort.as_deref() {
        // Counting the tokens of thousands takes long; a larger definition has more of them.
        Some("size") => found.sort_by_key(|tool| Reverse(tool.entry.raw.as_str().len())),
        Some("use") => found.sort_by_cached_key(|tool| Reverse(calls_of(tool))),
        _ => {}
    }
    let total = found.len();
    let tools: Vec<Value> = found
        .into_iter()
        .skip(offset)
        .take(limit.unwrap_or(usize::MAX))
        .map(|tool| {
            let mut row = json!({
                "id": tool.id.to_string(), "name": &*tool.name, "server": tool.id.server.as_str(),
                "title": tool.entry.title, "description": budget::summary(tool.description()), "state": tool.state(),
            });
            match said_effect(tool) {
                "read-only" => row["readOnly"] = true.into(),
                "destructive" => row["destructive"] = true.into(),
                _ => {}
            }
            if limit.is_some() {
                row["tokens"] = tool.tokens().into();
            }
            if sort.as_deref() == Some("use") {
                row["calls"] = calls_of(tool).into();
            }
            row
        })
        .collect();
    let mut answer = json!({ "tools": tools, "total": total });
    if limit.is_some() {
        // Tools are sorted by their servers.
        let mut servers: Vec<&str> = view.tools.iter().map(|tool| tool.id.server.as_str()).collect();
        servers.dedup();
        let states: BTreeSet<&str> = view.tools.iter().map(|tool| tool.state()).collect();
        answer["servers"] = servers.into();
        answer["states"] = states.into_iter().collect();
    }
    Ok(answer)
}

/// What a tool's server says that it does.
fn said_effect(tool: &Tool) -> &'static str {
    match (tool.annotations.read_only, tool.annotations.destructive) {
        (Some(true), _) => "read-only",
        (_, Some(true)) => "destructive",
        _ => "other",
    }
}

pub(super) fn find(view: &View, asked: &SearchRequest<'_>, arguments: &Raw) -> Result<Value, Problem> {
    let server = text(arguments, "server")?;
    let limit = number(arguments, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_HITS);
    let explains = flag(arguments, "explain")?.unwrap_or(false);
    let wanted = Query { server: server.as_deref(), limit: limit.min(MOST), ..asked.query() };
    let hits = view.search.search(&wanted);
    let found = hits.hits.iter().filter_map(|hit| Some((hit, SearchHit::of(view, &hit.id)?)));
    let tools: Vec<Value> = found
        .map(|(hit, found)| {
            let mut tool = json!({
                "id": hit.id.to_string(), "name": found.name(), "server": hit.id.server.as_str(),
                "signature": found.signature().render(Detail::OptionalNames),
                "summary": found.summary(), "score": hit.score, "state": found.state(),
                "also": hit.also.iter().map(ToString::to_string).collect::<Vec<_>>(),
            });
            if explains {
                let explanation = view.search.explain(&wanted, &hit.id);
                tool["explanation"] = explanation.map_or(Value::Null, |it| explained(&it, hit.score));
            }
            tool
        })
        .collect();
    Ok(json!({ "tools": tools, "total": hits.total }))
}

/// How a score comes about, for people who tune their descriptions.
fn explained(explanation: &Explanation, score: f32) -> Value {
    let part = |part: Part| json!({ "raw": part.raw, "scaled": part.scaled, "weight": part.weight, "share": part.scaled * part.weight });
    json!({
        "exact": explanation.exact,
        "words": part(explanation.words), "alike": part(explanation.alike), "meaning": part(explanation.meaning),
        "model": explanation.model.map(part), "server": part(explanation.server),
        // Scores are sums of parts that are cut to 32 bits: what is less than that is nothing.
        "learned": Some(score - explanation.score).filter(|learned| *learned > 1e-5).unwrap_or(0.0),
        "terms": explanation.terms.iter().map(|it| json!({ "word": it.word, "score": it.score })).collect::<Vec<_>>(),
        "corrections":
            explanation.corrections.iter().map(|it| json!({ "from": it.from, "to": it.to })).collect::<Vec<_>>(),
    })
}

fn get(view: &View, arguments: &Raw) -> Result<Value, Problem> {
    let name = required(arguments, "name")?;
    let tool = view.tool(&name).ok_or_else(|| resolve::unknown_tool(view, &name))?;
    let schema = tool.entry.input_schema().map_or_else(|| json!({ "type": "object" }), |schema| schema.to_value());
    // A schema may be `true`, which means the same as one that asks for nothing.
    let schema = if schema.is_object() { schema } else { json!({ "type": "object" }) };
    Ok(json!({
        "id": tool.id.to_string(), "name": &*tool.name, "server": tool.id.server.as_str(),
        "title": tool.entry.title, "description": tool.description(), "inputSchema": schema,
        "outputSchema": tool.entry.output_schema().map(|schema| schema.to_value()),
        "annotations": tool.entry.raw.get("annotations").map(|hints| hints.to_value()),
        "state": tool.state(),
    }))
}

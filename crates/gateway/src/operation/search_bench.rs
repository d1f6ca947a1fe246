//! The search bench: a search as an agent of a profile makes it, with what it gets and why, and a list of cases with what
//! is missed. Nothing is learned from either.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::ProfileSnapshot;
use toolcrib_protocol::Raw;
use toolcrib_search::measure::Scores;
use toolcrib_search::{Query, Ranker, Ranking, tokens};
use toolcrib_view::arguments::{number, required, text};
use toolcrib_view::dialect::{self, Act};
use toolcrib_view::view::View;
use toolcrib_view::{Method, Operation, Permission};

use super::progress::ProgressReport;
use super::{OperationContext, ROW, Row, Run, row, tools};
use crate::gateway::Gateway;
use crate::meta;
use crate::search::{SearchRequest, SearchTrial};

/// How many cases are asked, how long their text is in bytes, and how many tools a case has.
const CASES: usize = 2_000;
const TEXT: usize = 1 << 20;
const RELEVANT: usize = 50;
/// So many hits are looked at for a case, as `toolcrib eval search` does.
const HITS: usize = 10;
/// How many misses are listed, and how much of a query is repeated, in characters.
const MISSES: usize = 200;
const REPEATED: usize = 300;
/// How many hits are explained without `limit`.
const EXPLAINED: u64 = 20;
/// How many cases are asked between two reports of progress.
const STEP: usize = 10;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::LongInProfile(|gateway, context, arguments| Box::pin(eval(gateway, context, arguments))),
        Operation {
            tool: "core_search_eval",
            method: Method::Post,
            path: "/search/eval",
            tag: "tools",
            summary: "Measure the search of a profile",
            description: "Ask a list of cases in a profile, each a query with the tools that answer it: which share is \
                          among the first 1, 5 and 10 hits, and which cases miss a tool. Nothing is learned from it.",
            slow: true,
            problems: &[Kind::NotFound, Kind::InvalidParams, Kind::Cancelled],
            input: concat!(
                r#"{"type":"object","properties":{"cases":{"type":"string","description":"JSON Lines, as `"#,
                r#"queries.jsonl` of `toolcrib eval search`: {\"text\": \"send a letter\", \"relevant\": "#,
                r#"[\"mail/send\"]}, with ids or names of tools; at most 2,000"},"ranking":{"enum":["blend","#,
                r#""tfidf"],"description":"In place of the profile's"}},"required":["cases"],"#,
                r#""additionalProperties":false}"#,
            ),
            output: concat!(
                r#"{"type":"object","properties":{"profile":{"type":"string"},"ranking":{"type":"string"},"#,
                r#""cases":{"type":"integer"},"recall_at_1":{"type":"number"},"recall_at_5":{"type":"number"},"#,
                r#""recall_at_10":{"type":"number"},"mrr":{"type":"number"},"ndcg_at_10":{"type":"number"},"#,
                r#""missed":{"type":"integer","description":"How many cases miss a tool among 10 hits"},"#,
                r#""misses":{"type":"array","items":{"type":"object","properties":{"line":{"type":"integer"},"#,
                r#""text":{"type":"string"},"missing":{"type":"array","items":{"type":"string"}},"#,
                r#""unknown":{"type":"array","items":{"type":"string"},"description":"What the profile does not "#,
                r#"show"},"found":{"type":"array","items":{"type":"string"}}},"required":["line","text","#,
                r#""missing","unknown","found"]}}},"required":["profile","ranking","cases","recall_at_1","#,
                r#""recall_at_5","recall_at_10","mrr","ndcg_at_10","missed","misses"]}"#,
            ),
            ..ROW
        },
    ),
    row(
        Run::LongInProfile(|gateway, context, arguments| Box::pin(try_search(gateway, context, arguments))),
        Operation {
            tool: "core_search_try",
            path: "/search/try",
            tag: "tools",
            summary: "Try a search as an agent",
            description: "Search as an agent of a profile does: the very text that it gets and its tokens, and the \
                          hits with how each score comes about. Nothing is learned from it.",
            permission: Permission::Open,
            problems: &[Kind::NotFound],
            input: concat!(
                r#"{"type":"object","properties":{"query":{"type":"string"},"ranking":{"enum":["blend","tfidf"],"#,
                r#""description":"In place of the profile's"},"limit":{"type":"integer","minimum":1,"#,
                r#""maximum":100,"default":20,"description":"How many hits are explained"}},"#,
                r#""required":["query"],"additionalProperties":false}"#,
            ),
            output: concat!(
                r#"{"type":"object","properties":{"profile":{"type":"string"},"ranking":{"type":"string"},"#,
                r#""tool":{"type":"string","description":"The meta-tool that an agent calls"},"#,
                r#""text":{"type":"string"},"tokens":{"type":"integer"},"learns":{"type":"boolean"},"#,
                r#""tools":{"type":"array","items":{"type":"object"}},"total":{"type":"integer"}},"#,
                r#""required":["profile","ranking","tool","text","tokens","learns","tools","total"]}"#,
            ),
            ..ROW
        },
    ),
];

fn trial(arguments: &Raw) -> Result<SearchTrial, Problem> {
    Ok(SearchTrial { ranking: text(arguments, "ranking")?.as_deref().map(ranking) })
}

/// The ranking of a name that the schema allows.
fn ranking(name: &str) -> Ranking {
    if name == name_of(Ranking::TfIdf) { Ranking::TfIdf } else { Ranking::Blend }
}

/// As profiles name it.
fn name_of(ranking: Ranking) -> &'static str {
    match ranking {
        Ranking::Blend => toolcrib_catalog::Ranking::Blend.as_str(),
        Ranking::TfIdf => toolcrib_catalog::Ranking::TfIdf.as_str(),
    }
}

fn snapshot<'a>(context: &OperationContext<'a>) -> Result<&'a ProfileSnapshot, Problem> {
    context.snapshot.ok_or_else(|| Problem::new(Kind::Internal, "a search has no profile"))
}

async fn try_search(gateway: &Arc<Gateway>, context: OperationContext<'_>, arguments: &Raw) -> Result<Value, Problem> {
    let (snapshot, trial) = (snapshot(&context)?, trial(arguments)?);
    let (view, query) = (snapshot.view(), required(arguments, "query")?);
    let dialect = view.profile.dialect;
    let name = dialect::name_of(Act::Find, dialect);
    let unknown = || Problem::new(Kind::Internal, format!("there is no meta-tool `{name}`"));
    let meta = dialect::lookup(name, dialect).ok_or_else(unknown)?;
    let caller = context.caller;
    let agent = meta::Context { gateway, snapshot, caller, meta, filter: None, trial: Some(trial) };
    let reply = meta::run(&agent, &Raw::from_value(&json!({ "query": query }))).await?;
    let told = text_of(&reply);
    let asked = SearchRequest::tried(gateway, view, &query, trial).await;
    let limit = number(arguments, "limit")?.unwrap_or(EXPLAINED);
    let explained = json!({ "query": query, "limit": limit, "explain": true });
    let mut found = tools::find(view, &asked, &Raw::from_value(&explained))?;
    for (key, value) in [
        ("profile", json!(view.profile.name.as_str())),
        ("ranking", json!(name_of(asked.query().ranking))),
        ("tool", json!(meta.name)),
        ("tokens", json!(tokens::count(&told))),
        ("text", json!(told)),
        ("learns", json!(view.profile.learn)),
    ] {
        found[key] = value;
    }
    Ok(found)
}

/// What a model reads of a reply.
fn text_of(reply: &Raw) -> String {
    let reply = reply.to_value();
    let blocks = reply["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// A query with the tools that answer it.
#[derive(Debug, PartialEq, Eq)]
struct SearchCase {
    line: usize,
    text: String,
    relevant: Vec<String>,
}

async fn eval(gateway: &Arc<Gateway>, context: OperationContext<'_>, arguments: &Raw) -> Result<Value, Problem> {
    let (view, trial) = (snapshot(&context)?.view(), trial(arguments)?);
    let cases = SearchCase::all(&required(arguments, "cases")?)?;
    let (report, _end) = ProgressReport::new(&context);
    let (mut scores, mut misses, mut missed) = (Vec::new(), Vec::new(), 0);
    let mut used = trial.ranking.unwrap_or_default();
    for (at, case) in cases.iter().enumerate() {
        if at % STEP == 0 {
            report.say(at as u64, cases.len() as u64);
        }
        // Others get their turn: a search in a large catalogue takes some milliseconds.
        tokio::task::yield_now().await;
        let asked = SearchRequest::tried(gateway, view, &case.text, trial).await;
        used = asked.query().ranking;
        let (score, miss) = case.judge(view, &asked);
        scores.push(score);
        if let Some(miss) = miss {
            missed += 1;
            misses.extend((misses.len() < MISSES).then_some(miss));
        }
    }
    let Scores { recall: [one, five, ten], reciprocal_rank, ndcg, .. } = Scores::mean(&scores);
    Ok(json!({
        "profile": view.profile.name.as_str(), "ranking": name_of(used), "cases": cases.len(),
        "recall_at_1": one, "recall_at_5": five, "recall_at_10": ten, "mrr": reciprocal_rank, "ndcg_at_10": ndcg,
        "missed": missed, "misses": misses,
    }))
}

// === impl SearchCase ===

impl SearchCase {
    /// Reads cases, one a line.
    fn all(text: &str) -> Result<Vec<Self>, Problem> {
        let wrong = |message: String| Problem::new(Kind::InvalidParams, message);
        if text.len() > TEXT {
            return Err(wrong(format!("`cases` has {} bytes, more than {TEXT}", text.len())));
        }
        let mut cases = Vec::new();
        for (line, number) in text.lines().zip(1_usize..).filter(|(line, _)| !line.trim().is_empty()) {
            let case = Self::read(line, number).map_err(|what| {
                let hint = r#"A line is such as {"text": "send a letter", "relevant": ["mail/send"]}."#;
                wrong(format!("line {number} of `cases` {what}")).hint(hint)
            })?;
            cases.push(case);
        }
        match cases.len() {
            0 => Err(wrong("`cases` has no case".to_owned())),
            number if number > CASES => Err(wrong(format!("`cases` has {number} cases, more than {CASES}"))),
            _ => Ok(cases),
        }
    }

    fn read(text: &str, line: usize) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        let query = value["text"].as_str().filter(|text| !text.trim().is_empty()).ok_or("has no `text`")?;
        let relevant = value["relevant"].as_array().filter(|ids| !ids.is_empty()).ok_or("has no list `relevant`")?;
        if relevant.len() > RELEVANT {
            return Err(format!("names {} tools, more than {RELEVANT}", relevant.len()));
        }
        let ids = relevant.iter().map(|id| id.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        Ok(Self { line, text: query.to_owned(), relevant: ids.ok_or("names a tool that is not a text")? })
    }

    /// How well the search answers it, and what it misses.
    fn judge(&self, view: &View, asked: &SearchRequest<'_>) -> (Scores, Option<Value>) {
        let hits = view.search.search(&Query { limit: HITS, ..asked.query() }).hits;
        let hits: Vec<Vec<String>> = hits
            .iter()
            .map(|hit| std::iter::once(&hit.id).chain(&hit.also).map(ToString::to_string).collect())
            .collect();
        let hits: Vec<Vec<&str>> = hits.iter().map(|ids| ids.iter().map(String::as_str).collect()).collect();
        let known = |name: &String| view.tool(name).map(|tool| tool.id.to_string());
        let relevant: Vec<String> = self.relevant.iter().map(|it| known(it).unwrap_or_else(|| it.clone())).collect();
        let score = Scores::of_hits(&relevant, &hits);
        let is_found = |id: &&String| hits.iter().any(|ids| ids.contains(&id.as_str()));
        let missing: Vec<&String> = relevant.iter().filter(|id| !is_found(id)).collect();
        if missing.is_empty() {
            return (score, None);
        }
        let unknown: Vec<&String> = self.relevant.iter().filter(|name| known(name).is_none()).collect();
        let found: Vec<&str> = hits.iter().filter_map(|ids| ids.first().copied()).collect();
        let text: String = self.text.chars().take(REPEATED).collect();
        let miss = json!({
            "line": self.line, "text": text, "missing": missing, "unknown": unknown, "found": found,
        });
        (score, Some(miss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<usize, &str>) {
        let read = SearchCase::all(text).map(|cases| cases.len()).map_err(|problem| problem.message);
        match expected {
            Ok(number) => assert_eq!(read, Ok(number), "{text}"),
            Err(part) => assert!(read.clone().is_err_and(|message| message.contains(part)), "{text}: {read:?}"),
        }
    }

    #[test]
    fn cases_are_lines_and_a_wrong_one_is_named_by_its_line() {
        let good = r#"{"id":"1","text":"send a letter","relevant":["mail/send"]}"#;
        check(&format!("{good}\n\n{good}\r\n"), Ok(2));
        check(&format!("{good}\n{{}}"), Err("line 2 of `cases` has no `text`"));
        check("[", Err("line 1 of `cases` is not JSON"));
        check(r#"{"text":"a","relevant":[]}"#, Err("has no list `relevant`"));
        check(r#"{"text":"a","relevant":[7]}"#, Err("names a tool that is not a text"));
        check(" \n", Err("no case"));
        check(&vec![good; CASES + 1].join("\n"), Err("more than 2000"));
        check(&"x".repeat(TEXT + 1), Err("more than 1048576"));
    }
}

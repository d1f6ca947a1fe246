//! Measuring a search: a gateway over a home of definitions, asked by `find_tools` over MCP as any client would.

use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use toolcrib_call::LiveEvents;
use toolcrib_protocol::Raw;
use toolcrib_search::measure::Scores;
use toolcrib_search::tokens;

use super::HttpGateway;
use crate::client::{Client, ClientFlags};
use crate::config::Config;
use crate::home::Environment;

/// How many hits are scored.
const HITS: usize = 10;

/// A query with the ids of the tools that answer it.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) relevant: Vec<String>,
}

/// How a set was answered.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// The mean over the questions.
    pub(crate) scores: Scores,
    /// What the text of an answer of the usual length costs: median and most.
    pub(crate) tokens: (usize, usize),
    /// How long such an answer takes at the client, in milliseconds: median and 95th percentile.
    pub(crate) millis: (f64, f64),
}

/// Starts a gateway and asks it.
pub(crate) async fn run(config: Config, events: LiveEvents, questions: &[Question]) -> anyhow::Result<Measurement> {
    let serving = HttpGateway::start(config, events).await?;
    serving.eager_servers_listed().await;
    let home = serving.running.config.home.path().to_owned();
    let flags = ClientFlags::of_gateway(&serving.url, serving.token_file.clone(), home);
    let measured = match Client::open(&flags, &Environment::default()).await {
        Err(error) => Err(error),
        Ok(client) => {
            let measured = ask(&client, questions).await;
            client.close().await;
            measured
        }
    };
    let ended = serving.end().await;
    measured.and_then(|measured| ended.map(|()| measured))
}

async fn ask(client: &Client, questions: &[Question]) -> anyhow::Result<Measurement> {
    // The first search of a process reads tables that the others find ready.
    find(client, &json!({ "query": "warm the caches" })).await?;
    let (mut scores, mut costs, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for Question { text, relevant } in questions {
        let (_, ten) = find(client, &json!({ "query": text, "limit": HITS })).await?;
        scores.push(score(relevant, &ten));
        let start = Instant::now();
        let (answer, _) = find(client, &json!({ "query": text })).await?;
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
        costs.push(tokens::count(&answer));
    }
    costs.sort_unstable();
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| (questions.len() * percent / 100).min(questions.len().saturating_sub(1));
    ensure!(!questions.is_empty(), "there is no question");
    Ok(Measurement {
        scores: Scores::mean(&scores),
        tokens: (costs[at(50)], costs[costs.len() - 1]),
        millis: (times[at(50)], times[at(95)]),
    })
}

/// The text and the data of an answer.
async fn find(client: &Client, arguments: &Value) -> anyhow::Result<(String, Value)> {
    let result = client.call("find_tools", &Raw::from_value(arguments), None).await?;
    if result.is_error() {
        return Err(client.refused(&result).into());
    }
    let data = result.structured().context("read the answer: it has no structured content")?;
    Ok((result.text(), data.to_value()))
}

/// Scores one answer.
fn score(relevant: &[String], answer: &Value) -> Scores {
    let hits = answer["tools"].as_array().into_iter().flatten().map(|hit| {
        let also = hit["also"].as_array().map(Vec::as_slice).unwrap_or_default();
        [&hit["id"]].into_iter().chain(also).filter_map(Value::as_str).collect()
    });
    let hits: Vec<Vec<&str>> = hits.collect();
    Scores::of_hits(relevant, &hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(relevant: &[&str], tools: &Value, expect: [f64; 2]) {
        let relevant: Vec<String> = relevant.iter().map(ToString::to_string).collect();
        let scores = score(&relevant, &json!({ "tools": tools }));
        assert_eq!([scores.recall[0], scores.reciprocal_rank], expect, "{relevant:?} {tools}");
    }

    #[test]
    fn a_hit_stands_for_the_equal_tools_in_it() {
        let folded = json!([{"id": "a/x", "also": ["b/x", "c/x"]}, {"id": "d/y", "also": []}]);
        check(&["a/x"], &folded, [1.0, 1.0]);
        check(&["c/x", "b/x"], &folded, [1.0, 1.0]);
        check(&["d/y"], &folded, [0.0, 0.5]);
        check(&["e/z"], &json!([]), [0.0, 0.0]);
    }
}

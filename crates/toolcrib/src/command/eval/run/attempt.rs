//! One run of a scenario: started, followed to its end, checked.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_model::Money;
use toolcrib_protocol::Raw;

use super::expect::{Expectation, MadeCall, StateExpectation, Trace, cut};
use crate::client::{Rest, encoded};
use crate::output::table::field;

/// Milliseconds that one request waits for news.
const WAIT: u64 = 20_000;

/// What became of one run.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) trace: Trace,
    /// What is not as expected.
    pub(super) wrong: Vec<String>,
    pub(super) took: Duration,
}

/// Runs a scenario once. A run that cannot start fails; a gateway that is gone is an error.
pub(super) async fn make(rest: &Rest, start: &Map<String, Value>, expect: &Expectation) -> Result<Attempt, Problem> {
    let begun = Instant::now();
    let body = Raw::from_value(&Value::Object(start.clone()));
    let run = match rest.ask(Method::POST, &rest.in_profile("/runs"), Some(&body)).await {
        Ok(run) => run.text("run").unwrap_or_default(),
        Err(problem) if is_of_the_run(&problem) => {
            let wrong = vec![format!("the run did not start: {}", problem.message)];
            return Ok(Attempt { wrong, took: begun.elapsed(), ..Attempt::default() });
        }
        Err(problem) => return Err(problem),
    };
    let entries = follow(rest, &run).await?;
    let record = rest.get(&format!("/runs/{}", encoded(&run))).await?.to_value();
    let trace = traced(&record, &entries);
    if trace.end == "waiting" {
        // No one answers it: it would wait for ever.
        rest.ask(Method::POST, &format!("/runs/{}/cancel", encoded(&run)), Some(&Raw::from_value(&json!({})))).await?;
    }
    let mut wrong = expect.check(&trace);
    let took = begun.elapsed();
    for state in &expect.state {
        wrong.extend(check_state(rest, state).await?);
    }
    Ok(Attempt { trace, wrong, took })
}

/// Whether a problem is that of one request, not of the way to the gateway.
fn is_of_the_run(problem: &Problem) -> bool {
    !matches!(problem.kind, Kind::Unavailable | Kind::Unauthenticated | Kind::Timeout | Kind::BadServer)
}

/// Every entry of a run, once it has ended or waits for a person.
async fn follow(rest: &Rest, run: &str) -> Result<Vec<Value>, Problem> {
    let mut entries = Vec::new();
    loop {
        let path = format!("/runs/{}/entries?after={}&wait={WAIT}&limit=1000", encoded(run), entries.len());
        let answer = rest.get(&path).await?.to_value();
        let more = answer["entries"].as_array().cloned().unwrap_or_default();
        let is_more = !more.is_empty();
        entries.extend(more);
        if !is_more && answer["status"] != "running" {
            return Ok(entries);
        }
    }
}

/// What a run was, by its record and its entries.
pub(super) fn traced(record: &Value, entries: &[Value]) -> Trace {
    let mut calls: Vec<MadeCall> = Vec::new();
    let (mut round, mut summaries) = (0, Vec::new());
    for entry in entries {
        let call = field(entry, "call");
        match entry["event"].as_str().unwrap_or_default() {
            "asked" if entry["purpose"] == "summary" => summaries.push(entry["request"].clone()),
            "answered" if !summaries.contains(&entry["request"]) => {
                round += 1;
                for (index, call) in entry["calls"].as_array().into_iter().flatten().enumerate() {
                    calls.push(made(format!("{round}.{}", index + 1), call));
                }
            }
            "decided" if entry["decision"] == "refused" => {
                calls.iter_mut().filter(|made| made.id == call).for_each(|made| made.is_refused = true);
            }
            "result" => {
                let is_error = entry["is_error"] == true;
                calls.iter_mut().filter(|made| made.id == call).for_each(|made| made.is_error = is_error);
            }
            _ => {}
        }
    }
    let end = if record["status"] == "waiting" { "waiting".to_owned() } else { field(record, "end") };
    Trace {
        run: field(record, "run"),
        end,
        output: field(record, "output"),
        calls,
        rounds: record["rounds"].as_u64().unwrap_or(0),
        tokens: record["tokens"].as_u64().unwrap_or(0),
        cost: Money::parse(field(record, "cost").trim_start_matches('$')).unwrap_or_default(),
    }
}

/// A call; one through a menu is that of the tool behind it.
fn made(id: String, call: &Value) -> MadeCall {
    let written = call["arguments"].as_str().unwrap_or_default();
    let arguments: Value = serde_json::from_str(written).unwrap_or_else(|_| written.into());
    let tool = field(call, "tool");
    let key = match tool.as_str() {
        "call_tool" => "name",
        "scooter_call" => "tool",
        _ => return MadeCall { id, tool, arguments, ..MadeCall::default() },
    };
    match arguments[key].as_str() {
        Some(behind) => {
            let (tool, given) = (behind.to_owned(), arguments["arguments"].clone());
            let arguments = if given.is_null() { json!({}) } else { given };
            MadeCall { id, tool, arguments, ..MadeCall::default() }
        }
        None => MadeCall { id, tool, arguments, ..MadeCall::default() },
    }
}

async fn check_state(rest: &Rest, state: &StateExpectation) -> Result<Vec<String>, Problem> {
    let path = rest.in_profile(&format!("/tools/{}/call", encoded(&state.tool)));
    let body = Raw::from_value(&json!({"arguments": state.arguments}));
    let what = format!("afterwards `{}`", state.tool);
    let answer = match rest.ask(Method::POST, &path, Some(&body)).await {
        Ok(answer) => answer.to_value(),
        // That a tool does not exist or may not be called is no state of what it shows.
        Err(problem) if is_of_the_run(&problem) => {
            return Ok(vec![format!("{what} could not be called: {}", problem.message)]);
        }
        Err(problem) => return Err(problem),
    };
    let texts = answer["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    let is_error = answer["isError"] == true;
    if is_error != state.error {
        let word = if is_error { "failed" } else { "did not fail" };
        return Ok(vec![format!("{what} {word}: {}", cut(&text))]);
    }
    Ok(state.text.check(&what, &text))
}

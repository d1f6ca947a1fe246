//! Operations on the journal of a run: its entries, replay, fork, export.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_agent::{Decision, Event, replay as follow};
use toolcrib_base::{Kind, Problem};

use super::OperationCall;
use super::runs::find_given;
use crate::agent::keep;
use crate::agent::shown;
use crate::agent::spans;

pub(super) async fn entries(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let given = &asking.given;
    let number = |key: &str| given.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (after, seen) = (number("after"), number("seen"));
    let limit = u64::from(given.number("limit", 200));
    let wait = Duration::from_millis(number("wait"));
    let mut partial = String::new();
    if let Some(mut feed) = asking.inner.bridge.watched(&run.id) {
        let more = async {
            loop {
                // Its text is not copied: it grows with each piece that arrives.
                let is_more = {
                    let now = feed.borrow_and_update();
                    now.entries > after || now.rest.is_some() || now.partial.chars().count() as u64 > seen
                };
                if is_more || feed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(wait, more).await;
        partial.clone_from(&feed.borrow().partial);
    } else if run.state.status != "ended" && !wait.is_zero() {
        tokio::time::sleep(wait.min(Duration::from_millis(500))).await;
    }
    let store = &asking.inner.bridge.store;
    // Read before the journal: who is told that the run has ended has all of it.
    let status = asking.inner.record(&run.id).await?.map_or(run.state.status, |run| run.state.status);
    // One more than is shown: it says whether there are more.
    let mut new = keep::entries_after(store, &run.id, after, limit + 1).await?;
    let is_all = new.len() as u64 <= limit;
    new.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let first = if new.is_empty() { after.min(asking.inner.entry_count(&run.id).await?) } else { after };
    let shown: Vec<Value> = (first + 1..).zip(&new).map(|(number, entry)| shown::entry(number, entry)).collect();
    let next = first + new.len() as u64;
    let mut answer = json!({"run": run.id, "status": status, "entries": shown, "next": next});
    if is_all && !partial.is_empty() {
        answer["partial"] = partial.into();
    }
    Ok(answer)
}

pub(super) async fn replay(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let all = keep::entries(&asking.inner.bridge.store, &run.id).await?;
    let mut answer = json!({"run": run.id, "entries": all.len(), "follows": true});
    if let Err(error) = follow(&all) {
        answer["follows"] = false.into();
        answer["problem"] = error.to_string().into();
    }
    Ok(answer)
}

pub(super) async fn fork(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let at = asking.given.number("at", 0);
    let model = asking.given.get("model").and_then(Value::as_str);
    asking.inner.fork(&asking.invocation, &run, at, model).await
}

pub(super) async fn export(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let all = keep::entries(&asking.inner.bridge.store, &run.id).await?;
    let format = asking.given.get("format").and_then(Value::as_str).unwrap_or("json");
    let mut answer = json!({"run": run.id, "format": format});
    match format {
        "markdown" => answer["text"] = markdown(&asking.inner.shown(&run).await, &all).into(),
        "otlp" => answer["spans"] = spans::of(&run, &all, asking.given.flag("content")),
        _ => {
            let lines = all.iter().map(|entry| serde_json::from_str(&toolcrib_agent::journal::line(entry)));
            let lines: Result<Vec<Value>, _> = lines.collect();
            let lines = lines.map_err(|error| Problem::new(Kind::Internal, error.to_string()))?;
            answer["journal"] = lines.into();
        }
    }
    Ok(answer)
}

/// A run for people.
fn markdown(record: &Value, entries: &[toolcrib_agent::Entry]) -> String {
    let word = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let mut text = format!("# Run {} of {}\n\n{}\n\n", word("run"), word("agent"), word("task"));
    let _ = writeln!(
        text,
        "Model {}, {} rounds, {} calls, {} tokens, {}.\n",
        word("model"),
        record["rounds"],
        record["calls"],
        record["tokens"],
        word("cost")
    );
    for entry in entries {
        match &entry.event {
            Event::Answered { answer, .. } => {
                let _ = writeln!(text, "## {}\n\n{}\n", entry.at, quoted(&answer.text));
                for call in &answer.calls {
                    let _ = writeln!(text, "- `{}` {}", call.name, fenced(&call.arguments));
                }
            }
            Event::Result { call, result } => {
                let word = if result.is_error { "failed" } else { "gave" };
                let _ = writeln!(text, "Call {call} {word}:\n{}\n", fenced(&result.text));
            }
            Event::Decided { call, decision: Decision::Refused(refusal) } => {
                let _ = writeln!(text, "Call {call} was refused: {}\n", refusal.why);
            }
            Event::Decided { call, decision: Decision::Held(approval) } => {
                let _ = writeln!(text, "Call {call} waits for approval `{approval}`.\n");
            }
            Event::Approval { approval, granted, note } => {
                let word = if *granted { "granted" } else { "refused" };
                let _ = writeln!(text, "Approval `{approval}` was {word}: {note}\n");
            }
            Event::CallWaits { call, question: Some(_), .. } => {
                let _ = writeln!(text, "Call {call} asks a person.\n");
            }
            Event::Replied { call, by, .. } => {
                let _ = writeln!(text, "What call {call} asks was answered by {by}.\n");
            }
            Event::Paused { by } => {
                let _ = writeln!(text, "The run was paused by {by}.\n");
            }
            Event::Unknown { call, why, .. } => {
                let _ = writeln!(text, "It is not known whether call {call} happened: {why}.\n");
            }
            Event::Said { text: message } => {
                let _ = writeln!(text, "## {}, a message\n\n{}\n", entry.at, quoted(message));
            }
            Event::Quarantined { text: message, why } => {
                let _ = writeln!(text, "## {}, a message in quarantine: {why}\n\n{}\n", entry.at, quoted(message));
            }
            Event::Reviewed { item, released, by } => {
                let word = if *released { "released" } else { "refused" };
                let _ = writeln!(text, "What was in quarantine under {item} was {word} by {by}.\n");
            }
            Event::Settled { call, by, .. } => {
                let _ = writeln!(text, "Call {call} was settled by {by}.\n");
            }
            Event::Ended(end) => {
                let _ = writeln!(
                    text,
                    "**Ended: {}**\n\n{}",
                    end.name(),
                    quoted(&shown::end_text(end).unwrap_or_default())
                );
            }
            _ => {}
        }
    }
    text
}

/// A text as a block that nothing in it can end.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("\n{fence}\n{text}\n{fence}")
}

/// A text of a model as a quotation, so that none of it reads as a heading of ours.
fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

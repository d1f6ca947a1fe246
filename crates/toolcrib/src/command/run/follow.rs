//! A run as it happens: what the model says and calls, what the tools give, and how it ends.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::ask::InputRequest;

use super::path;
use crate::client::{Answer, Rest};
use crate::command::call::questions::Person;
use crate::output::table::field;
use crate::output::{Output, print};
use crate::text::{block, line};

/// Milliseconds that one request waits for news.
const WAIT: u64 = 20_000;
/// How much of arguments and results one line shows, in characters.
const SHOWN: usize = 160;

/// Follows a run to its end, or until it waits for something that no one answers here. The first Ctrl-C pauses it, the
/// second one leaves it.
///
/// # Errors
/// The gateway is gone; the run ended without a result; the person left.
pub(super) async fn follow(rest: &Rest, run: &str, after: u64, json: bool, output: Output) -> anyhow::Result<()> {
    let mut screen = Screen { json, quiet: output.quiet, live: output.shows_progress() && !json, partial: 0 };
    let mut next = after;
    let mut person = TerminalPerson::find(json)?;
    let mut is_pausing = false;
    // Kept over the rounds, so that none is missed between two.
    let mut pressed = Box::pin(tokio::signal::ctrl_c());
    loop {
        let seen = screen.partial;
        let asked = path(run, &format!("/entries?after={next}&wait={WAIT}&seen={seen}"));
        let answer = tokio::select! {
            answer = rest.get(&asked) => answer?.to_value(),
            done = &mut pressed => {
                done?;
                pressed = Box::pin(tokio::signal::ctrl_c());
                screen.clear();
                interrupted(rest, run, is_pausing, output).await?;
                is_pausing = true;
                continue;
            }
        };
        for entry in answer["entries"].as_array().into_iter().flatten() {
            screen.entry(entry)?;
        }
        let is_more = answer["next"].as_u64().unwrap_or(next) > next;
        next = answer["next"].as_u64().unwrap_or(next);
        if let Some(partial) = answer["partial"].as_str() {
            screen.partial(partial);
        }
        match answer["status"].as_str() {
            Some("ended") if !is_more => break,
            Some("paused") if !is_more => {
                screen.clear();
                if !json {
                    output.note(&format!("the run is paused; go on with `toolcrib run resume {}`", line(run)));
                }
                return Ok(());
            }
            Some("waiting") if !is_more => {
                screen.clear();
                let shown = rest.get(&path(run, "")).await?;
                let waits = shown.to_value();
                let answered = tokio::select! {
                    answered = person.answer(rest, run, &waits) => answered?,
                    done = &mut pressed => {
                        done?;
                        pressed = Box::pin(tokio::signal::ctrl_c());
                        interrupted(rest, run, is_pausing, output).await?;
                        is_pausing = true;
                        true
                    }
                };
                if answered {
                    continue;
                }
                if !json {
                    super::show(&shown, output)?;
                    output.note(&format!(
                        "the run goes on by itself; follow it with `toolcrib run follow {}`",
                        line(run)
                    ));
                }
                return Ok(());
            }
            _ => {}
        }
    }
    let record = rest.get(&path(run, "")).await?;
    let value = record.to_value();
    if json {
        return finish_json(&record);
    }
    screen.clear();
    let spent = format!(
        "{} rounds, {} calls, {} tokens, {}; run {}",
        field(&value, "rounds"),
        field(&value, "calls"),
        field(&value, "tokens"),
        field(&value, "cost"),
        field(&value, "run")
    );
    if output.is_for_programs() {
        output.answer(&record)?;
    } else if value["end"] == "done" {
        output.text(block(&field(&value, "output")).trim_end())?;
    }
    output.note(&spent);
    ended(&value)
}

/// Pauses the run, or leaves it where that was done already.
async fn interrupted(rest: &Rest, run: &str, is_pausing: bool, output: Output) -> anyhow::Result<()> {
    if is_pausing {
        let problem = Problem::new(Kind::Cancelled, format!("left run {}", line(run)));
        return Err(problem.hint(format!("see how it stands: `toolcrib run show {}`", line(run))).into());
    }
    match rest.ask(Method::POST, &path(run, "/pause"), Some(&Raw::empty_object())).await {
        Ok(_) => output.note("pausing: what is under way ends first; press Ctrl-C again to leave"),
        // It has ended in this moment.
        Err(problem) if problem.kind == Kind::Conflict => {}
        Err(problem) => return Err(problem.into()),
    }
    Ok(())
}

/// The person at the terminal, where there is one: what the run asks is asked there.
struct TerminalPerson {
    person: Option<Arc<dyn Answer>>,
    /// What was asked already.
    asked: HashSet<String>,
}

impl TerminalPerson {
    fn find(json: bool) -> Result<Self, Problem> {
        let person = if json { None } else { Person::find(&[])? };
        Ok(Self { person, asked: HashSet::new() })
    }

    /// Asks what a run that waits asks. Whether anything was answered.
    async fn answer(&mut self, rest: &Rest, run: &str, shown: &Value) -> anyhow::Result<bool> {
        let Some(person) = &self.person else { return Ok(false) };
        let mut is_answered = false;
        for wait in shown["waits"].as_array().into_iter().flatten() {
            let Some(questions) = wait["questions"].as_object() else { continue };
            // The same call may ask again: what it asks is another text then, or another round.
            if !self.asked.insert(format!("{} {wait}", field(shown, "changed_at"))) {
                continue;
            }
            let mut answers = Map::new();
            for (key, asked) in questions {
                let asked = InputRequest { method: field(asked, "method"), params: Raw::from_value(&asked["params"]) };
                answers.insert(key.clone(), person.answer(&asked).await?.to_value());
            }
            if answers.values().any(|answer| answer["action"] == "cancel") {
                return Ok(false);
            }
            let asking = wait["run"].as_str().unwrap_or(run);
            let body = json!({"answer": answers, "to": wait["what"]});
            rest.ask(Method::POST, &path(asking, "/resume"), Some(&Raw::from_value(&body))).await?;
            is_answered = true;
        }
        Ok(is_answered)
    }
}

fn finish_json(record: &toolcrib_protocol::Raw) -> anyhow::Result<()> {
    print(&format!("{}\n", record.as_str()))?;
    ended(&record.to_value())
}

/// A run that ended otherwise than well is an error of the command.
fn ended(value: &Value) -> anyhow::Result<()> {
    if value["end"] == "done" {
        return Ok(());
    }
    let (end, output, run) = (field(value, "end"), field(value, "output"), field(value, "run"));
    let more = if output.is_empty() { String::new() } else { format!(": {}", line(&output)) };
    let problem = Problem::new(Kind::Unavailable, format!("the run ended: {end}{more}"));
    let is_limit = end.starts_with("limit");
    let hint = if is_limit {
        format!("go on with more: `toolcrib run resume {run}`")
    } else {
        format!("see what happened: `toolcrib run export {run} --format markdown`")
    };
    Err(problem.hint(hint).into())
}

/// What is printed while a run goes on.
struct Screen {
    json: bool,
    quiet: bool,
    /// Whether pieces of an answer are shown as they come.
    live: bool,
    /// How much of the answer that is coming was shown, in characters.
    partial: usize,
}

impl Screen {
    fn entry(&mut self, entry: &Value) -> anyhow::Result<()> {
        if self.json {
            print(&format!("{entry}\n"))?;
            return Ok(());
        }
        let Some(text) = (!self.quiet).then(|| words(entry)).flatten() else {
            if entry["event"] == "answered" {
                self.clear();
            }
            return Ok(());
        };
        self.clear();
        let _ = writeln!(std::io::stderr().lock(), "{text}");
        Ok(())
    }

    fn partial(&mut self, text: &str) {
        self.partial = text.chars().count();
        if self.live && !self.quiet {
            let last: String = text.chars().rev().take(72).collect::<Vec<_>>().into_iter().rev().collect();
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{}", line(&last));
        }
    }

    fn clear(&mut self) {
        if self.live && self.partial > 0 {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
        self.partial = 0;
    }
}

fn cut(text: &str) -> String {
    let text = line(text);
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// An entry as a line for people; nothing for those that say nothing to them.
fn words(entry: &Value) -> Option<String> {
    let call = || field(entry, "call");
    Some(match entry["event"].as_str()? {
        "started" => {
            let tools = entry["tools"].as_array().map_or(0, Vec::len);
            let models: Vec<&str> = entry["models"].as_array()?.iter().filter_map(Value::as_str).collect();
            format!("{} with {}, {tools} tools", line(&field(entry, "agent")), line(&models.join(", ")))
        }
        "answered" => {
            let calls = entry["calls"].as_array()?;
            if calls.is_empty() {
                return None;
            }
            let said = field(entry, "text");
            let mut lines: Vec<String> = Some(cut(&said)).filter(|said| !said.is_empty()).into_iter().collect();
            let shown = |call: &Value| format!("→ {} {}", line(&field(call, "tool")), cut(&field(call, "arguments")));
            lines.extend(calls.iter().map(shown));
            lines.join("\n")
        }
        "result" => {
            let mark = if entry["is_error"] == true { "✗" } else { "←" };
            format!("{mark} {} {}", call(), cut(&field(entry, "text")))
        }
        "decided" if entry["decision"] == "refused" => format!("✗ {} refused: {}", call(), cut(&field(entry, "why"))),
        "decided" if entry["decision"] == "held" => {
            format!("… {} waits for approval {}", call(), line(&field(entry, "approval")))
        }
        "approval" => {
            let word = if entry["granted"] == true { "granted" } else { "refused" };
            format!("… approval {} {word}: {}", line(&field(entry, "approval")), cut(&field(entry, "note")))
        }
        "ask_failed" => format!("✗ the model failed: {}", cut(&field(entry, "message"))),
        "unknown" => format!("? {} may have happened: {}", call(), cut(&field(entry, "why"))),
        "settled" => format!("… {} was settled: {}", call(), field(entry, "settlement")),
        "call_waits" if entry["questions"].is_object() => format!("… {} asks a person", call()),
        "replied" => format!("… {} was answered", call()),
        "paused" => format!("… paused by {}", line(&field(entry, "by"))),
        "resumed" => "… the run goes on in another process".to_owned(),
        "model_changed" => "… another model goes on".to_owned(),
        _ => return None,
    })
}

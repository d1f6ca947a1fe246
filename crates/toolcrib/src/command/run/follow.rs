//! A run as it happens: what the model says and calls, what the tools give, and how it ends.

use std::io::Write;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};

use super::path;
use crate::client::Rest;
use crate::output::table::field;
use crate::output::{Output, print};
use crate::text::{block, line};

/// Milliseconds that one request waits for news.
const WAIT: u64 = 20_000;
/// How much of arguments and results one line shows, in characters.
const SHOWN: usize = 160;

/// Follows a run to its end, or until it waits for a person.
///
/// # Errors
/// The gateway is gone; the run ended without a result.
pub(super) async fn follow(rest: &Rest, run: &str, after: u64, json: bool, output: Output) -> anyhow::Result<()> {
    let mut screen = Screen { json, quiet: output.quiet, live: output.shows_progress() && !json, partial: 0 };
    let mut next = after;
    loop {
        let seen = screen.partial;
        let asked = path(run, &format!("/entries?after={next}&wait={WAIT}&seen={seen}"));
        let answer = rest.get(&asked).await?.to_value();
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
            Some("waiting") if !is_more => {
                screen.clear();
                let shown = rest.get(&path(run, "")).await?;
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
        "resumed" => "… the run goes on in another process".to_owned(),
        "model_changed" => "… another model goes on".to_owned(),
        _ => return None,
    })
}

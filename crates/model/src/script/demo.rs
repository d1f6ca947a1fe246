//! The demonstration: tools by the words of the task, then an answer made of their results. It knows no language; it is
//! there to show what runs do without a key.

use serde_json::Value;

use super::fill::Words;
use super::request::{Offer, PastResult, Request};
use super::{Reply, ScriptedCall};

/// The most calls in one turn.
const CALLS: usize = 4;
/// The most of a result that stands in the answer, in characters.
const SHOWN: usize = 600;
/// Words that say nothing about a tool.
const EMPTY_WORDS: [&str; 24] = [
    "the", "and", "for", "with", "from", "that", "this", "then", "what", "which", "all", "are", "you", "can", "please",
    "into", "tool", "use", "how", "one", "any", "has", "its", "out",
];
/// Menus of the gateway: what finds tools, what describes one, what calls one.
const FIND: &str = "find_tools";
const DESCRIBE: &str = "describe_tool";
const CALL: &str = "call_tool";

/// What the demonstration says.
pub(super) fn reply(request: &Request) -> Reply {
    let results = request.last_results();
    let next = if !request.allows_calls {
        Vec::new()
    } else if results.is_empty() {
        first_calls(request)
    } else {
        results.iter().filter_map(|result| follow_up(request, result)).collect()
    };
    if !next.is_empty() {
        let calls = next.into_iter().enumerate();
        let calls = calls.map(|(index, call)| ScriptedCall { id: request.call_id(index), ..call }).collect();
        return Reply { calls, ..Reply::default() };
    }
    let task = request.last_user_text();
    let text = if let Some(schema) = &request.output {
        Words::new(task).fill("", schema, 0).to_string()
    } else if results.is_empty() {
        format!("No tool fits “{}”.", shortened(task))
    } else {
        answer(request, results)
    };
    Reply { text, ..Reply::default() }
}

fn new_call(name: &str, arguments: &Value) -> ScriptedCall {
    ScriptedCall { id: String::new(), name: name.to_owned(), arguments: arguments.to_string() }
}

/// One call for each part of the task that names a tool; else a search for tools, where one is offered.
fn first_calls(request: &Request) -> Vec<ScriptedCall> {
    let task = request.last_user_text();
    let mut calls: Vec<ScriptedCall> = Vec::new();
    for begin in clauses(task) {
        let clause = &task[begin..];
        let end = clauses(clause).get(1).copied().unwrap_or(clause.len());
        let Some(tool) = best(&request.tools, &clause[..end]) else { continue };
        let call = new_call(&tool.name, &Words::new(clause).fill("", &tool.schema, 0));
        if calls.len() < CALLS && !calls.contains(&call) {
            calls.push(call);
        }
    }
    if calls.is_empty() && has(request, FIND) && !task.trim().is_empty() {
        calls.push(new_call(FIND, &serde_json::json!({"query": task.trim()})));
    }
    calls
}

/// What follows a result of a menu: describe what was found, call what was described.
fn follow_up(request: &Request, result: &PastResult) -> Option<ScriptedCall> {
    let call = request.call_of(&result.id)?;
    let said: Option<Value> = serde_json::from_str(&result.text).ok();
    if call.name == FIND {
        let listed = said.as_ref().and_then(|said| {
            let first = said.get("tools")?.as_array()?.first()?;
            first.get("id").or_else(|| first.get("name"))?.as_str().map(str::to_owned)
        });
        let name = listed.or_else(|| named_tool(&result.text))?;
        return has(request, DESCRIBE).then(|| new_call(DESCRIBE, &serde_json::json!({"name": name})));
    }
    if call.name == DESCRIBE && has(request, CALL) {
        let asked: Value = serde_json::from_str(&call.arguments).ok()?;
        let schema = said.as_ref().and_then(|said| said.get("inputSchema")).cloned().unwrap_or_default();
        let arguments = Words::new(request.last_user_text()).fill("", &schema, 0);
        let arguments = if arguments.is_object() { arguments } else { serde_json::json!({}) };
        return Some(new_call(CALL, &serde_json::json!({"name": asked.get("name")?, "arguments": arguments})));
    }
    None
}

/// The first `server/tool` in a text.
fn named_tool(text: &str) -> Option<String> {
    let fits = |one: char| one.is_ascii_alphanumeric() || "_-./".contains(one);
    let words = text.split(|one: char| !fits(one));
    let mut names =
        words.filter(|word| word.split_once('/').is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty()));
    names.next().map(str::to_owned)
}

fn has(request: &Request, name: &str) -> bool {
    request.tools.iter().any(|tool| tool.name == name)
}

/// Where the parts of a task begin.
fn clauses(task: &str) -> Vec<usize> {
    let mut begins = vec![0];
    for separator in [" and ", " then ", "; ", ", ", ". "] {
        begins.extend(task.match_indices(separator).map(|(at, text)| at + text.len()));
    }
    begins.sort_unstable();
    begins.dedup();
    begins
}

/// Words of at least three letters, in lower case, without an `s` at their end.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|one: char| !one.is_alphanumeric()).map(str::to_lowercase);
    let kept = split.filter(|word| word.chars().count() >= 3 && !EMPTY_WORDS.contains(&word.as_str()));
    kept.map(|word| word.strip_suffix('s').map(str::to_owned).unwrap_or(word)).collect()
}

/// The tool that a part of the task means: a word of its name counts three times one of its description. Of equals the
/// first one; the menus of the gateway are none.
fn best<'a>(tools: &'a [Offer], clause: &str) -> Option<&'a Offer> {
    let asked = words(clause);
    let score = |tool: &Offer| {
        let (name, description) = (words(&tool.name), words(&tool.description));
        let of = |word: &String| if name.contains(word) { 3 } else { usize::from(description.contains(word)) };
        asked.iter().map(of).sum::<usize>()
    };
    let candidates = tools.iter().filter(|tool| ![FIND, DESCRIBE, CALL].contains(&tool.name.as_str()));
    let scored = candidates.map(|tool| (score(tool), tool)).filter(|(score, _)| *score >= 2);
    scored.rev().max_by_key(|(score, _)| *score).map(|(_, tool)| tool)
}

fn answer(request: &Request, results: &[PastResult]) -> String {
    let lines = results.iter().map(|result| {
        let call = request.call_of(&result.id);
        let meant = call.filter(|call| call.name == CALL).and_then(|call| {
            let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
            arguments.get("name")?.as_str().map(str::to_owned)
        });
        let name = meant.or_else(|| call.map(|call| call.name.clone())).unwrap_or_default();
        format!("{name}: {}", shortened(&result.text))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    let mut out: String = text.chars().take(SHOWN).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

//! What a client says to an agent, as the task of a run.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem};

/// The most messages of one request.
const MESSAGES: usize = 1000;

fn invalid(what: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParams, what)
}

/// The task of a body `{content}`, `{role, content}` or `{messages: [{role, content}]}`; `messages` counts where both
/// stand.
///
/// # Errors
/// There is no text in it, or it has members that no one reads.
pub(super) fn task(body: &Map<String, Value>) -> Result<String, Problem> {
    const KNOWN: [&str; 3] = ["role", "content", "messages"];
    if let Some(unknown) = body.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        let shown = super::shortened(unknown);
        return Err(invalid(format!("`{shown}` is unknown here")).hint("Send `content`, or `messages`."));
    }
    match body.get("messages") {
        Some(messages) => task_of_messages(messages),
        None => {
            match body.get("content") {
                Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
                Some(Value::String(_)) => Err(invalid("`content` is empty")),
                Some(_) => Err(invalid("`content` must be a string")),
                None => Err(invalid("the body has neither `content` nor `messages`")
                    .hint("Send `{\"content\": \"what to do\"}`.")),
            }
        }
    }
}

/// The task of a conversation: its last message, with what was said before it.
///
/// # Errors
/// It is none, or does not end with a message of the user.
pub(super) fn task_of_messages(messages: &Value) -> Result<String, Problem> {
    let list = messages.as_array().ok_or_else(|| invalid("`messages` must be a list"))?;
    if list.len() > MESSAGES {
        return Err(Problem::new(Kind::TooLarge, format!("more than {MESSAGES} messages")));
    }
    let mut said: Vec<(&str, String)> = Vec::new();
    for (at, message) in list.iter().enumerate() {
        let role = message["role"].as_str().ok_or_else(|| invalid(format!("`messages[{at}]` has no `role`")))?;
        match role {
            "user" | "assistant" | "system" | "developer" => {}
            // What a run did or thought before is in its journal, and what a page shows is the page's.
            "tool" | "activity" | "reasoning" => continue,
            _ => return Err(invalid(format!("`messages[{at}]`: unknown role `{}`", super::shortened(role)))),
        }
        let text = text(&message["content"]).map_err(|what| invalid(format!("`messages[{at}].content`: {what}")))?;
        if !text.trim().is_empty() {
            said.push((role, text));
        }
    }
    let Some((role, last)) = said.pop() else { return Err(invalid("`messages` has no text")) };
    if role != "user" {
        return Err(invalid(format!("the last message is one of `{role}`; the run needs one of `user`")));
    }
    if said.is_empty() {
        return Ok(last);
    }
    let mut task = "The conversation so far:\n".to_owned();
    for (role, text) in said {
        let _ = writeln!(task, "{role}: {text}");
    }
    let _ = write!(task, "\nThe user's message now:\n{last}");
    Ok(task)
}

/// The text of a message: a string, or a list of parts that are all text.
fn text(content: &Value) -> Result<String, String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        // An assistant that only called tools.
        Value::Null => Ok(String::new()),
        Value::Array(parts) => {
            let mut whole = String::new();
            for part in parts {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => whole.push_str(text),
                    (kind, _) => {
                        let kind = super::shortened(kind.unwrap_or("nothing"));
                        return Err(format!("a part is `{kind}`; agents take text only"));
                    }
                }
            }
            Ok(whole)
        }
        _ => Err("expected a string".to_owned()),
    }
}

//! The form of scripts: conditions and answers.

use serde_json::{Map, Value};

use super::request::Request;
use super::{Failure, Reply, ReplyFinish, ScriptedCall};

/// What is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{at}`: {what}")]
pub struct ScriptError {
    at: String,
    what: String,
}

fn wrong<T>(at: &str, what: impl Into<String>) -> Result<T, ScriptError> {
    Err(ScriptError { at: at.to_owned(), what: what.into() })
}

/// An answer and when it is given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    turn: Option<usize>,
    user: Option<String>,
    result: Option<String>,
    fail: Option<Failure>,
    reply: Reply,
}

impl Rule {
    pub(super) fn holds(&self, request: &Request) -> bool {
        self.turn.is_none_or(|turn| turn == request.turn())
            && self.user.as_ref().is_none_or(|part| request.last_user_text().contains(part.as_str()))
            && self
                .result
                .as_ref()
                .is_none_or(|part| request.last_results().iter().any(|result| result.text.contains(part.as_str())))
    }

    pub(super) fn answer(&self, request: &Request) -> Result<Reply, Failure> {
        if let Some(failure) = &self.fail {
            return Err(failure.clone());
        }
        let mut reply = self.reply.clone();
        for (index, call) in reply.calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
            call.id = request.call_id(index);
        }
        Ok(reply)
    }
}

/// The rules of a script in the order in which they are tried, and whether the demonstration comes last.
pub(super) fn read(value: &Value) -> Result<(Vec<Rule>, bool), ScriptError> {
    let script = object(value, "script", &["turns", "rules", "demo"])?;
    let mut rules = Vec::new();
    for (index, one) in list(script.get("rules"), "rules")?.iter().enumerate() {
        rules.push(rule(one, &format!("rules[{index}]"))?);
    }
    for (index, one) in list(script.get("turns"), "turns")?.iter().enumerate() {
        let at = format!("turns[{index}]");
        let mut rule = rule(one, &at)?;
        if rule.turn.replace(index).is_some() {
            return wrong(&at, "its place is its turn");
        }
        rules.push(rule);
    }
    let is_demo = match script.get("demo") {
        None => false,
        Some(Value::Bool(is_demo)) => *is_demo,
        Some(_) => return wrong("demo", "expected true or false"),
    };
    if rules.is_empty() && !is_demo {
        return wrong("script", "it has no answer");
    }
    Ok((rules, is_demo))
}

fn object<'a>(value: &'a Value, at: &str, keys: &[&str]) -> Result<&'a Map<String, Value>, ScriptError> {
    let Some(members) = value.as_object() else { return wrong(at, "expected an object") };
    match members.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => wrong(at, format!("unknown key `{key}`; known are {}", keys.join(", "))),
        None => Ok(members),
    }
}

fn list<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a [Value], ScriptError> {
    match value {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => wrong(at, "expected a list"),
    }
}

fn text(members: &Map<String, Value>, key: &str, at: &str) -> Result<Option<String>, ScriptError> {
    match members.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => wrong(&format!("{at}.{key}"), "expected a text"),
    }
}

fn number(members: &Map<String, Value>, key: &str, at: &str) -> Result<Option<u64>, ScriptError> {
    match members.get(key) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => wrong(&format!("{at}.{key}"), "expected a whole number"),
        },
    }
}

fn size(members: &Map<String, Value>, key: &str, at: &str) -> Result<Option<usize>, ScriptError> {
    Ok(number(members, key, at)?.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
}

fn rule(value: &Value, at: &str) -> Result<Rule, ScriptError> {
    const KEYS: [&str; 10] = ["turn", "user", "result", "say", "think", "calls", "finish", "fail", "cut", "usage"];
    let members = object(value, at, &KEYS)?;
    let mut calls = Vec::new();
    for (index, one) in list(members.get("calls"), at)?.iter().enumerate() {
        calls.push(call(one, &format!("{at}.calls[{index}]"))?);
    }
    let finish = match text(members, "finish", at)?.as_deref() {
        None => ReplyFinish::Complete,
        Some("length") => ReplyFinish::Length,
        Some("filter") => ReplyFinish::Filter,
        Some("refusal") => ReplyFinish::Refusal,
        Some(_) => return wrong(&format!("{at}.finish"), "expected length, filter or refusal"),
    };
    if !["say", "think", "calls", "finish", "fail"].iter().any(|key| members.contains_key(*key)) {
        return wrong(at, "it has no answer");
    }
    let reply = Reply {
        text: text(members, "say", at)?.unwrap_or_default(),
        reasoning: text(members, "think", at)?.unwrap_or_default(),
        calls,
        finish,
        cut: size(members, "cut", at)?,
        hides_usage: members.get("usage") == Some(&Value::Bool(false)),
    };
    Ok(Rule {
        turn: size(members, "turn", at)?,
        user: text(members, "user", at)?,
        result: text(members, "result", at)?,
        fail: members.get("fail").map(|value| failure(value, &format!("{at}.fail"))).transpose()?,
        reply,
    })
}

fn call(value: &Value, at: &str) -> Result<ScriptedCall, ScriptError> {
    let members = object(value, at, &["id", "name", "arguments"])?;
    let Some(name) = text(members, "name", at)? else { return wrong(at, "`name` is missing") };
    let arguments = match members.get("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    Ok(ScriptedCall { id: text(members, "id", at)?.unwrap_or_default(), name, arguments })
}

fn failure(value: &Value, at: &str) -> Result<Failure, ScriptError> {
    let members = object(value, at, &["status", "message", "retry_after"])?;
    let status = number(members, "status", at)?.and_then(|status| u16::try_from(status).ok());
    let Some(status) = status.filter(|status| (400..600).contains(status)) else {
        return wrong(at, "`status` is a number from 400 to 599");
    };
    let message = text(members, "message", at)?.unwrap_or_else(|| "as the script says".to_owned());
    Ok(Failure { status, message, retry_after: number(members, "retry_after", at)? })
}

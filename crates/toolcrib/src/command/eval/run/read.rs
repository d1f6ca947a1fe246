//! Reads scenarios: our own form and Scooter's. What could not fail is refused, with its place and why.

use std::path::Path;

use regex::Regex;
use serde_json::{Map, Value};
use toolcrib_base::nearest::nearest;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::yaml;
use toolcrib_model::Money;

use super::expect::{
    CallExpectation, ENDS, Expectation, Range, StateExpectation, TextExpectation, ToolPattern, ValueExpectation,
    is_certain, path_parts,
};

/// The most rounds, calls and tokens that a run may have; a limit that is not lower says nothing.
const MOST_ROUNDS: u64 = 1_000;
const MOST_CALLS: u64 = 100_000;
const MOST_TOKENS: u64 = 100_000_000;
/// The rounds of a run without an agent and without a limit.
const ROUNDS: u64 = 10;

/// One task and what is expected of it.
#[derive(Debug)]
pub(super) struct EvalScenario {
    pub(super) id: String,
    pub(super) file: String,
    /// What the run is started with: task, agent, model, tools_shown, limits.
    pub(super) start: Map<String, Value>,
    pub(super) expect: Expectation,
}

/// The scenarios of a file.
pub(super) fn scenarios(file: &Path) -> Result<Vec<EvalScenario>, Problem> {
    let name = file.to_string_lossy().into_owned();
    let invalid = |message: String| Problem::new(Kind::InvalidParams, message);
    let text = std::fs::read_to_string(file).map_err(|error| invalid(format!("`{name}`: {error}")))?;
    let root = yaml::parse(file, &text).map_err(|problem| invalid(problem.to_string()))?.value();
    read(&name, &root).map_err(|message| {
        invalid(format!("`{name}`: {message}")).hint("the guide `docs/guides/evaluations.md` has every key")
    })
}

pub(super) fn read(file: &str, root: &Value) -> Result<Vec<EvalScenario>, String> {
    if root.get("steps").is_some() {
        return Err(
            "this is a file of steps without a model; write a `task` and what is expected of its run".to_owned()
        );
    }
    let members = object(root, "the file", &["scenarios", "name", "description", "agent", "model", "tools", "limits"])?;
    let mut found: Vec<EvalScenario> = Vec::new();
    for (index, one) in list(members.get("scenarios"), "scenarios")?.iter().enumerate() {
        let one = scenario(file, members, one, &format!("scenarios[{index}]"))?;
        if found.iter().any(|other| other.id == one.id) {
            return Err(format!("scenarios[{index}]: there are two scenarios `{}`", one.id));
        }
        found.push(one);
    }
    Ok(found)
}

fn scenario(file: &str, shared: &Map<String, Value>, value: &Value, at: &str) -> Result<EvalScenario, String> {
    const KEYS: [&str; 10] =
        ["id", "name", "description", "task", "agent", "model", "tools", "limits", "expect", "validation"];
    let members = object(value, at, &KEYS)?;
    let id = match text(members, "id", at)? {
        Some(id) => id,
        None => text(members, "name", at)?.ok_or_else(|| format!("{at}: `id` is missing"))?,
    };
    let task = text(members, "task", at)?.ok_or_else(|| format!("{at}: `task` is missing"))?;
    let mut start = Map::new();
    start.insert("task".to_owned(), task.into());
    for (key, sent) in [("agent", "agent"), ("model", "model"), ("tools", "tools_shown")] {
        let given = match text(members, key, at)? {
            None => text(shared, key, "the file")?,
            given => given,
        };
        if key == "tools" && given.as_deref().is_some_and(|way| !["menu", "all", "native", "auto"].contains(&way)) {
            return Err(format!("{at}.tools: expected menu, all, native or auto"));
        }
        if let Some(given) = given {
            start.insert(sent.to_owned(), given.into());
        }
    }
    if let Some(limits) = members.get("limits").or_else(|| shared.get("limits")) {
        let at = format!("{at}.limits");
        for (key, value) in object(limits, &at, &["rounds", "calls", "tokens", "cost", "time"])? {
            let is_text = matches!(key.as_str(), "cost" | "time");
            let value = match value {
                Value::Number(number) if is_text => Value::String(number.to_string()),
                Value::String(_) if is_text => value.clone(),
                value if value.as_u64().is_some_and(|number| number > 0) && !is_text => value.clone(),
                _ => {
                    return Err(format!("{at}.{key}: expected {}", if is_text { "a text" } else { "a number from 1" }));
                }
            };
            start.insert(key.clone(), value);
        }
    }
    let expect = match (members.get("expect"), members.get("validation")) {
        (Some(expect), None) => expectation(expect, &start, &format!("{at}.expect"))?,
        (None, Some(validation)) => validation_of_scooter(validation, &format!("{at}.validation"))?,
        (Some(_), Some(_)) => return Err(format!("{at}: either `expect` or `validation`, not both")),
        (None, None) => return Err(format!("{at}: nothing is expected; add `expect`")),
    };
    Ok(EvalScenario { id, file: file.to_owned(), start, expect })
}

/// Scooter's form. Of required patterns each is called, of expected ones at least one.
fn validation_of_scooter(value: &Value, at: &str) -> Result<Expectation, String> {
    const KEYS: [&str; 4] =
        ["required_tool_patterns", "expected_tool_patterns", "response_must_contain", "response_must_not_contain"];
    let members = filled(value, at, &KEYS)?;
    let patterns = |key: &str| -> Result<Vec<ToolPattern>, String> {
        let at = format!("{at}.{key}");
        let read = |text: &String| {
            let pattern = ToolPattern::searched(text).map_err(|error| format!("{at}: {error}"))?;
            if pattern.is_everything() { Err(certain(&at, text)) } else { Ok(pattern) }
        };
        texts(members, key, &at)?.iter().map(read).collect()
    };
    let required = patterns("required_tool_patterns")?.into_iter();
    let required =
        required.map(|tool| CallExpectation { tool, arguments: ValueExpectation::default(), error: None, times: None });
    Ok(Expectation {
        calls: required.collect(),
        any_of: patterns("expected_tool_patterns")?,
        text: TextExpectation {
            contains: texts(members, "response_must_contain", &format!("{at}.response_must_contain"))?,
            not_contains: texts(members, "response_must_not_contain", &format!("{at}.response_must_not_contain"))?,
            ignores_case: true,
            ..TextExpectation::default()
        },
        ..Expectation::default()
    })
}

fn expectation(value: &Value, start: &Map<String, Value>, at: &str) -> Result<Expectation, String> {
    const KEYS: [&str; 11] =
        ["end", "calls", "any_of", "order", "forbidden", "text", "state", "rounds", "call_count", "tokens", "cost"];
    let members = filled(value, at, &KEYS)?;
    let named = |key: &str| format!("{at}.{key}");
    let end = match members.get("end") {
        Some(Value::String(end)) => vec![end.clone()],
        _ => texts(members, "end", &named("end"))?,
    };
    if let Some(unknown) = end.iter().find(|end| !ENDS.contains(&end.as_str())) {
        return Err(format!("{at}.end: no run ends as `{unknown}`; ends are {}", ENDS.join(", ")));
    }
    if ENDS.iter().all(|known| end.iter().any(|end| end == known)) {
        return Err(format!("{at}.end: every end is allowed, so this cannot fail"));
    }
    let globs = |key: &str| -> Result<Vec<ToolPattern>, String> {
        texts(members, key, &named(key))?.iter().map(|text| glob(text, &named(key))).collect()
    };
    let calls = list_of(members, "calls", at)?;
    let calls = calls.iter().enumerate().map(|(index, one)| call(one, &format!("{at}.calls[{index}]")));
    let states = list_of(members, "state", at)?;
    let states = states.iter().enumerate().map(|(index, one)| state(one, &format!("{at}.state[{index}]")));
    let limit = |key: &str| start.get(key).and_then(Value::as_u64);
    let rounds = if start.contains_key("agent") { MOST_ROUNDS } else { ROUNDS };
    let text = match members.get("text") {
        None => TextExpectation::default(),
        Some(text) => TextExpectation { ..text_expectation(text, &named("text"))? },
    };
    let found = Expectation {
        end,
        calls: calls.collect::<Result<_, _>>()?,
        any_of: globs("any_of")?,
        order: globs("order")?,
        forbidden: globs("forbidden")?,
        text,
        state: states.collect::<Result<_, _>>()?,
        rounds: range(members, "rounds", limit("rounds").unwrap_or(rounds), at)?,
        call_count: range(members, "call_count", limit("calls").unwrap_or(MOST_CALLS), at)?,
        tokens: range(members, "tokens", limit("tokens").unwrap_or(MOST_TOKENS), at)?,
        cost: cost(members, start, at)?,
    };
    let no_call = found.forbidden.iter().find(|pattern| pattern.is_everything());
    let is_called =
        !found.order.is_empty() || !found.any_of.is_empty() || found.calls.iter().any(|call| call.times != Some(0));
    match no_call {
        Some(pattern) if is_called => {
            Err(format!("{at}.forbidden: `{}` forbids every call, and others are expected", pattern.text))
        }
        _ => Ok(found),
    }
}

fn call(value: &Value, at: &str) -> Result<CallExpectation, String> {
    let members = object(value, at, &["tool", "arguments", "paths", "matches", "error", "times"])?;
    let tool = text(members, "tool", at)?.ok_or_else(|| format!("{at}: `tool` is missing"))?;
    let error = flag(members, "error", at)?;
    let times = match members.get("times") {
        None => None,
        Some(times) => Some(times.as_u64().ok_or_else(|| format!("{at}.times: expected a whole number"))?),
    };
    Ok(CallExpectation {
        tool: glob(&tool, &format!("{at}.tool"))?,
        arguments: parts(members, "arguments", at)?,
        error,
        times,
    })
}

fn state(value: &Value, at: &str) -> Result<StateExpectation, String> {
    const KEYS: [&str; 11] = [
        "tool",
        "arguments",
        "error",
        "equals",
        "contains",
        "not_contains",
        "matches",
        "not_matches",
        "json",
        "paths",
        "fields",
    ];
    let members = object(value, at, &KEYS)?;
    let tool = text(members, "tool", at)?.ok_or_else(|| format!("{at}: `tool` is missing"))?;
    let arguments = match members.get("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(format!("{at}.arguments: expected an object")),
    };
    let checks: Map<String, Value> = members
        .iter()
        .filter(|(key, _)| !["tool", "arguments", "error"].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let error = flag(members, "error", at)?;
    if checks.is_empty() && error.is_none() {
        return Err(format!("{at}: nothing is expected of the call; add `contains`, `json` or `error`"));
    }
    let text = if checks.is_empty() { TextExpectation::default() } else { text_expectation(&checks.into(), at)? };
    Ok(StateExpectation { tool, arguments, text, error: error.unwrap_or(false) })
}

fn text_expectation(value: &Value, at: &str) -> Result<TextExpectation, String> {
    const KEYS: [&str; 8] = ["equals", "contains", "not_contains", "matches", "not_matches", "json", "paths", "fields"];
    let members = filled(value, at, &KEYS)?;
    let regexes = |key: &str| -> Result<Vec<Regex>, String> {
        let at = format!("{at}.{key}");
        texts(members, key, &at)?.iter().map(|text| regex(text, &at)).collect()
    };
    let equals = match members.get("equals") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(format!("{at}.equals: expected a text")),
    };
    let fields: Map<String, Value> = members
        .get("fields")
        .map(|fields| ("matches".to_owned(), fields.clone()))
        .into_iter()
        .chain(members.get("paths").map(|paths| ("paths".to_owned(), paths.clone())))
        .chain(members.get("json").map(|json| ("json".to_owned(), json.clone())))
        .collect();
    Ok(TextExpectation {
        equals,
        contains: texts(members, "contains", &format!("{at}.contains"))?,
        not_contains: texts(members, "not_contains", &format!("{at}.not_contains"))?,
        matches: regexes("matches")?,
        not_matches: regexes("not_matches")?,
        json: parts(&fields, "json", at)?,
        ignores_case: false,
    })
}

/// What must be in a value: `key` as a part of it, `paths` with their values, `matches` with patterns.
fn parts(members: &Map<String, Value>, key: &str, at: &str) -> Result<ValueExpectation, String> {
    let part = members.get(key).cloned();
    if part.as_ref().is_some_and(|part| part.as_object().is_some_and(Map::is_empty)) {
        return Err(format!("{at}.{key}: every object has this in it, so it cannot fail; leave it out"));
    }
    let of = |key: &str| -> Result<Vec<(String, Value)>, String> {
        let at = format!("{at}.{key}");
        let Some(value) = members.get(key) else { return Ok(Vec::new()) };
        let Some(paths) = value.as_object().filter(|paths| !paths.is_empty()) else {
            return Err(format!("{at}: expected paths such as `$.a.b[0]` with what is there"));
        };
        match paths.keys().find(|path| path_parts(path).is_none()) {
            Some(path) => Err(format!("{at}: `{path}` is not a path such as `$.a.b[0]`")),
            None => Ok(paths.iter().map(|(path, value)| (path.clone(), value.clone())).collect()),
        }
    };
    let mut matches = Vec::new();
    for (path, pattern) in of("matches")? {
        let at = format!("{at}.matches.{path}");
        let pattern = pattern.as_str().ok_or_else(|| format!("{at}: expected a regular expression"))?;
        matches.push((path, regex(pattern, &at)?));
    }
    Ok(ValueExpectation { part, paths: of("paths")?, matches })
}

fn cost(members: &Map<String, Value>, start: &Map<String, Value>, at: &str) -> Result<Option<Money>, String> {
    let Some(value) = members.get("cost") else { return Ok(None) };
    let at = format!("{at}.cost");
    let members = object(value, &at, &["max"])?;
    let max = members.get("max").ok_or_else(|| format!("{at}: `max` is missing"))?;
    let most = dollars(max).ok_or_else(|| format!("{at}.max: expected dollars such as \"0.05\""))?;
    let limit = start.get("cost").and_then(dollars);
    if limit.is_some_and(|limit| limit.0 <= most.0) {
        return Err(format!("{at}.max: the run ends at its limit before, so this cannot fail"));
    }
    Ok(Some(most))
}

fn dollars(value: &Value) -> Option<Money> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Money::parse(text.trim_start_matches('$')).ok()
}

/// A range; `most` is where a run ends anyway.
fn range(members: &Map<String, Value>, key: &str, most: u64, at: &str) -> Result<Range, String> {
    let Some(value) = members.get(key) else { return Ok(Range::default()) };
    let at = format!("{at}.{key}");
    let members = filled(value, &at, &["min", "max"])?;
    let number = |key: &str| match members.get(key) {
        None => Ok(None),
        Some(number) => number.as_u64().map(Some).ok_or_else(|| format!("{at}.{key}: expected a whole number")),
    };
    let (min, max) = (number("min")?, number("max")?);
    if min == Some(0) {
        return Err(format!("{at}.min: nothing is below 0, so this cannot fail"));
    }
    if max.is_some_and(|max| max >= most) {
        return Err(format!("{at}.max: a run has at most {most}, so this cannot fail"));
    }
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return Err(format!("{at}: `min` is above `max`"));
    }
    Ok(Range { min, max })
}

fn glob(text: &str, at: &str) -> Result<ToolPattern, String> {
    ToolPattern::glob(text).map_err(|error| format!("{at}: {error}"))
}

fn regex(text: &str, at: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| format!("{at}: `{text}` is not a regular expression: {error}"))?;
    if is_certain(&regex) { Err(certain(at, text)) } else { Ok(regex) }
}

fn certain(at: &str, text: &str) -> String {
    format!("{at}: `{text}` matches every text, so it says nothing")
}

fn object<'a>(value: &'a Value, at: &str, keys: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let members = value.as_object().ok_or_else(|| format!("{at}: expected an object"))?;
    let Some(unknown) = members.keys().find(|key| !keys.contains(&key.as_str())) else { return Ok(members) };
    let near = nearest(unknown, keys.iter().copied());
    Err(match near {
        Some(near) => format!("{at}: unknown key `{unknown}`; did you mean `{near}`?"),
        None => format!("{at}: unknown key `{unknown}`; known are {}", keys.join(", ")),
    })
}

/// The same where something must be said.
fn filled<'a>(value: &'a Value, at: &str, keys: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let members = object(value, at, keys)?;
    if members.is_empty() { Err(format!("{at}: nothing is expected, so this cannot fail")) } else { Ok(members) }
}

fn list<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a [Value], String> {
    match value {
        Some(Value::Array(items)) if !items.is_empty() => Ok(items),
        Some(Value::Array(_)) => Err(format!("{at}: an empty list cannot fail; leave it out")),
        Some(_) => Err(format!("{at}: expected a list")),
        None => Err(format!("`{at}` is missing")),
    }
}

fn list_of<'a>(members: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a [Value], String> {
    members.get(key).map_or(Ok(&[]), |value| list(Some(value), &format!("{at}.{key}")))
}

/// A list of texts, or one text.
fn texts(members: &Map<String, Value>, key: &str, at: &str) -> Result<Vec<String>, String> {
    let Some(value) = members.get(key) else { return Ok(Vec::new()) };
    let one = [value.clone()];
    let items = if value.is_string() { &one[..] } else { list(Some(value), at)? };
    let text = |item: &Value| match item.as_str() {
        Some("") => Err(format!("{at}: an empty text says nothing")),
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("{at}: expected texts")),
    };
    items.iter().map(text).collect()
}

fn text(members: &Map<String, Value>, key: &str, at: &str) -> Result<Option<String>, String> {
    match members.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("{at}.{key}: expected a text")),
    }
}

fn flag(members: &Map<String, Value>, key: &str, at: &str) -> Result<Option<bool>, String> {
    match members.get(key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(format!("{at}.{key}: expected true or false")),
    }
}

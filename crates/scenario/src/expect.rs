//! Holds an answer against what is expected of it. Everything that is written down is evaluated, whatever the step.

use serde_json::Value;

use crate::drive::CallReply;
use crate::path;
use crate::scenario::Expectation;

/// How much of an answer a fault shows, in characters.
const SHOWN: usize = 600;

/// An answer in the forms that expectations look at.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Whether the call succeeded.
    pub(crate) success: bool,
    /// The text of the result, or of the error.
    pub(crate) text: String,
    /// The result read as JSON where it is JSON, else its text.
    pub(crate) value: Value,
    /// The whole result as JSON.
    pub(crate) raw: String,
    /// Whether there is any content.
    pub(crate) has_content: bool,
    pub(crate) status: Option<u16>,
    /// Names of a list of tools.
    pub(crate) tools: Option<Vec<String>>,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn of_call(told: CallReply) -> Self {
        let status = told.status;
        let result = match told.outcome {
            Ok(result) => result,
            Err(refused) => {
                let failed = Self::failed(refused.text);
                let value = refused.error.unwrap_or_else(|| failed.value.clone());
                return Self { status, raw: value.to_string(), value, ..failed };
            }
        };
        Self { status, ..Self::of_result(&result) }
    }

    /// The result of a tool.
    pub(crate) fn of_result(result: &Value) -> Self {
        let blocks = result["content"].as_array().cloned().unwrap_or_default();
        let mut texts: Vec<String> = blocks
            .iter()
            .map(|block| block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned))
            .collect();
        let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
        if let (true, Some(structured)) = (texts.is_empty(), structured) {
            texts.push(structured.to_string());
        }
        let text = texts.join("\n");
        let read = serde_json::from_str(&text).ok().filter(|value: &Value| value.is_object() || value.is_array());
        Self {
            success: result["isError"] != Value::Bool(true),
            value: read.or_else(|| structured.cloned()).unwrap_or_else(|| Value::String(text.clone())),
            has_content: !blocks.is_empty() || structured.is_some(),
            raw: result.to_string(),
            text,
            status: None,
            tools: None,
        }
    }

    /// A result that is looked at as it is, and not as that of a tool.
    pub(crate) fn of_request(told: CallReply) -> Self {
        let Ok(result) = &told.outcome else { return Self::of_call(told) };
        let success = result["isError"] != Value::Bool(true);
        Self { success, status: told.status, ..Self::done(result.clone()) }
    }

    /// An action without its own result.
    pub(crate) fn done(value: Value) -> Self {
        let text = value.to_string();
        Self { success: true, raw: text.clone(), text, value, has_content: true, status: Some(200), tools: None }
    }

    pub(crate) fn failed(text: String) -> Self {
        let (value, raw) = (Value::String(text.clone()), text.clone());
        Self { success: false, value, raw, text, has_content: false, status: None, tools: None }
    }

    pub(crate) fn of_list(entries: &[Value]) -> Self {
        let names = entries.iter().filter_map(|entry| entry["name"].as_str()).map(str::to_owned).collect();
        Self { tools: Some(names), ..Self::done(Value::Array(entries.to_vec())) }
    }
}

/// What is reported of an answer, which may be long.
pub(crate) fn shortened(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// Every expectation that is not met; nothing when all are.
pub(crate) fn unmet(expected: &Expectation, answer: &Answer) -> Vec<String> {
    let mut unmet = Vec::new();
    let success = expected.success.unwrap_or(expected.error_contains.is_empty());
    if success != answer.success {
        let (wanted, got) = if success { ("succeed", "failed") } else { ("fail", "succeeded") };
        unmet.push(format!("expected the call to {wanted}, it {got}"));
    }
    let lower = answer.text.to_lowercase();
    let holds = |part: &String| lower.contains(&part.to_lowercase());
    for part in expected.contains.iter().filter(|part| !holds(part)) {
        unmet.push(format!("`contains`: `{part}` is not in the answer"));
    }
    for part in expected.not_contains.iter().filter(|part| holds(part)) {
        unmet.push(format!("`not_contains`: `{part}` is in the answer"));
    }
    for part in &expected.error_contains {
        if answer.success {
            unmet.push(format!("`error_contains`: there is no error that could hold `{part}`"));
        } else if !holds(part) {
            unmet.push(format!("`error_contains`: `{part}` is not in the error"));
        }
    }
    for (path, wanted) in &expected.json_path {
        match path::find(&answer.value, path) {
            None => unmet.push(format!("`json_path`: there is nothing at `{path}`, expected {wanted}")),
            Some(found) if !fits(wanted, found) => {
                unmet.push(format!("`json_path`: `{path}` is {}, expected {wanted}", shortened(&found.to_string())));
            }
            Some(_) => {}
        }
    }
    if let Some(wanted) = expected.status_code
        && answer.status != Some(wanted)
    {
        let got = answer.status.map_or_else(|| "there was none".to_owned(), |status| format!("got {status}"));
        unmet.push(format!("`status_code`: expected {wanted}, {got}"));
    }
    of_lists(expected, answer, &mut unmet);
    if !unmet.is_empty() {
        unmet.push(format!("the answer was: {}", shortened(&answer.text)));
    }
    unmet
}

/// What MCP Scooter's form asks of lists and raw results.
fn of_lists(expected: &Expectation, answer: &Answer, unmet: &mut Vec<String>) {
    let listed = |name: &String| answer.tools.as_ref().is_some_and(|tools| tools.contains(name));
    if answer.tools.is_none() && !(expected.tools_contain.is_empty() && expected.tools_not_contain.is_empty()) {
        unmet.push("`tools_contain`: the action gave no list of tools".to_owned());
    }
    for name in expected.tools_contain.iter().filter(|name| !listed(name)) {
        unmet.push(format!("`tools_contain`: `{name}` is not listed"));
    }
    for name in expected.tools_not_contain.iter().filter(|name| listed(name)) {
        unmet.push(format!("`tools_not_contain`: `{name}` is listed"));
    }
    // The text stands in the raw JSON with escapes; either form counts.
    let holds = |part: &String| answer.raw.contains(part.as_str()) || answer.text.contains(part.as_str());
    for part in expected.result_contains.iter().filter(|part| !holds(part)) {
        unmet.push(format!("`result_contains`: `{part}` is not in the result"));
    }
    for part in expected.result_not_contains.iter().filter(|part| holds(part)) {
        unmet.push(format!("`result_not_contains`: `{part}` is in the result"));
    }
    if let Some(wanted) = expected.has_content
        && wanted != answer.has_content
    {
        let word = if wanted { "not_empty" } else { "empty" };
        unmet.push(format!("`result.content`: expected {word}"));
    }
}

/// Whether a value is as wanted: a map has at least the wanted keys, a list the wanted items in order, a number the
/// same value however it is written.
fn fits(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| fits(wanted, found)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| fits(wanted, found))
        }
        (Value::Number(wanted), Value::Number(found)) => wanted == found || wanted.as_f64() == found.as_f64(),
        _ => wanted == found,
    }
}

#[cfg(test)]
mod tests;

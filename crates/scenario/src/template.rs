//! `{{ … }}` in texts: results of earlier steps in `args`, arguments in the answers of mock servers.

use serde_json::{Map, Value};

use crate::path;

/// Functions that may follow an argument after a bar in a mock's answer.
const FUNCTIONS: [(&str, Function); 4] = [
    ("basename", |text| text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()),
    ("lower", |text| text.to_lowercase()),
    ("trim", |text| text.trim().to_owned()),
    ("upper", |text| text.to_uppercase()),
];

type Function = fn(&str) -> String;

/// What is wrong with the use of a template.
pub(crate) type TemplateError = String;

/// Replaces `{{ step.field }}` in every text of a value. What does not begin with the name of a step stays as it is: it
/// belongs to a workflow that is created.
pub(crate) fn fill(value: &Value, results: &Map<String, Value>, steps: &[&str]) -> Result<Value, TemplateError> {
    each_text(value, &|text| {
        replace(text, &|expression| {
            let root = expression.split('.').next().unwrap_or_default();
            if !is_path(expression) || !steps.contains(&root) {
                return Ok(None);
            }
            let result = results.get(root).ok_or_else(|| format!("the step `{root}` has not run yet"))?;
            let found = match expression.split_once('.') {
                None => Some(result),
                Some((_, path)) => path::find(result, path),
            };
            found.cloned().map(Some).ok_or_else(|| format!("`{expression}` is not in the result of `{root}`"))
        })
    })
}

/// Replaces `{{ .arg }}` in every text of a mock's answer; the result of that is a text.
pub(crate) fn answer(value: &Value, arguments: &Value) -> Result<Value, TemplateError> {
    each_text(value, &|text| {
        let filled = replace(text, &|expression| {
            let mut parts = expression.split('|').map(str::trim);
            let Some(path) = parts.next().and_then(|path| path.strip_prefix('.')).filter(|path| is_path(path)) else {
                return Ok(None);
            };
            let functions: Option<Vec<_>> = parts.map(function).collect();
            let Some(functions) = functions else { return Ok(None) };
            let found = path::find(arguments, path);
            let found = found.ok_or_else(|| format!("the call has no argument `{path}`, which the answer needs"))?;
            let text = functions.iter().fold(shown(found), |text, function| function(&text));
            Ok(Some(Value::String(text)))
        })?;
        Ok(filled)
    })
}

/// Tells every path that stands in `{{ … }}` without a leading dot.
pub(crate) fn each_reference(value: &Value, tell: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => {
            for part in text.split("{{").skip(1) {
                let expression = part.split("}}").next().unwrap_or_default().trim();
                if is_path(expression) {
                    tell(expression);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, tell)),
        Value::Object(members) => members.values().for_each(|value| each_reference(value, tell)),
        _ => {}
    }
}

fn function(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

/// Letters, digits, dashes and brackets between dots.
fn is_path(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']' | '/'))
}

fn each_text(value: &Value, fill: &dyn Fn(&str) -> Result<Value, TemplateError>) -> Result<Value, TemplateError> {
    Ok(match value {
        Value::String(text) => fill(text)?,
        Value::Array(items) => Value::Array(items.iter().map(|item| each_text(item, fill)).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| Ok((key.clone(), each_text(value, fill)?));
            Value::Object(members.iter().map(member).collect::<Result<_, TemplateError>>()?)
        }
        other => other.clone(),
    })
}

/// A text that is one expression keeps the type of what it stands for; in a longer text everything becomes text.
fn replace(text: &str, find: &dyn Fn(&str) -> Result<Option<Value>, TemplateError>) -> Result<Value, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(end) = rest[start..].find("}}") else { break };
        let expression = rest[start + 2..start + end].trim();
        let whole = &rest[start..start + end + 2];
        filled.push_str(&rest[..start]);
        match find(expression)? {
            Some(value) if whole == text.trim() => return Ok(value),
            Some(value) => filled.push_str(&shown(&value)),
            None => filled.push_str(whole),
        }
        rest = &rest[start + end + 2..];
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_of_steps_are_filled_in() {
        let results = json!({"run-1": {"id": "x", "n": 3, "list": [{"a": true}]}, "text": "plain"});
        let results = results.as_object().unwrap();
        let steps = ["run-1", "text", "later"];
        for (given, expected) in [
            (json!("{{ run-1.id }}"), json!("x")),
            (json!("{{run-1.n}}"), json!(3)),
            (json!({"a": ["{{ run-1.list.0.a }}"]}), json!({"a": [true]})),
            (json!("id={{ run-1.id }}, n={{ run-1.n }}"), json!("id=x, n=3")),
            (json!("{{ run-1 }}"), results["run-1"].clone()),
            (json!("{{ text }}"), json!("plain")),
            (
                json!("{{ .input.x }} {{ input.x }} {{ eq .a \"b\" }} {{ open"),
                json!("{{ .input.x }} {{ input.x }} {{ eq .a \"b\" }} {{ open"),
            ),
            (json!(7), json!(7)),
        ] {
            assert_eq!(fill(&given, results, &steps).unwrap(), expected, "{given}");
        }
        for (given, part) in [
            (json!("{{ run-1.nothing }}"), "is not in the result of `run-1`"),
            (json!("{{ later.id }}"), "has not run"),
        ] {
            assert!(fill(&given, results, &steps).unwrap_err().contains(part), "{given}");
        }
    }

    #[test]
    fn answers_of_mocks_are_filled_in() {
        let arguments = json!({"name": "n", "count": 2, "deep": {"x": "y"}, "url": "https://h/a/repo"});
        for (given, expected) in [
            (json!({"a": "{{ .name }}", "b": ["{{.count}} of {{ .deep.x }}"]}), json!({"a": "n", "b": ["2 of y"]})),
            (json!("{{ .count }}"), json!("2")),
            (json!("{{ .url | basename | upper }}"), json!("REPO")),
            (json!("{{ .name | unheardOf }}"), json!("{{ .name | unheardOf }}")),
        ] {
            assert_eq!(answer(&given, &arguments).unwrap(), expected, "{given}");
        }
        assert!(answer(&json!("{{ .missing }}"), &arguments).unwrap_err().contains("`missing`"));
    }
}

//! What is said about a field beside its name: bounds, format, default, and why it is JSON.

use super::field::{Field, State};
use super::shape::{Kind, NumberRules, TextRules};
use crate::json::Json;
use crate::text::clipped;

/// Characters of a value that a note shows.
const SHOWN: usize = 120;

/// The pattern of a text that is not blank, which people write anyway.
const ANYTHING: &str = "\\S";

/// A value as JSON, clipped.
fn short(value: &Json) -> String {
    match value {
        Json::Text(text) => clipped(&Json::text(&clipped(text, SHOWN)).to_string(), SHOWN),
        other => clipped(&other.to_string(), SHOWN),
    }
}

/// Short facts about the values that a field takes, each a sentence without its dot.
pub(super) fn facts(field: &Field) -> Vec<String> {
    let shape = &field.shape;
    let mut out = match &shape.kind {
        Kind::Text(rules) => text_facts(rules),
        Kind::Number(rules) => number_facts(rules),
        Kind::List(rules) => span(rules.min, rules.max, "items").into_iter().collect(),
        _ => Vec::new(),
    };
    if let State::Json { reason, .. } = &field.state {
        out.push(match reason {
            Some(reason) => format!("JSON, because {reason}"),
            None => "JSON".to_owned(),
        });
    }
    if shape.is_deprecated {
        out.push("Deprecated".to_owned());
    }
    if let Some(default) = &shape.default {
        out.push(format!("Default if not set: {}", short(default)));
    }
    if let (Some(example), None) = (&shape.example, &shape.default) {
        out.push(format!("Example: {}", short(example)));
    }
    if shape.has_unchecked {
        out.push("More rules are in the schema; they are checked when you send it".to_owned());
    }
    out
}

fn text_facts(rules: &TextRules) -> Vec<String> {
    let mut out: Vec<String> = span(rules.min, rules.max, "characters").into_iter().collect();
    out.extend(rules.format.as_deref().filter(|_| !rules.is_secret).map(|format| match format {
        "date" => "Format: date, as 2026-11-27".to_owned(),
        "date-time" => "Format: date-time, as 2026-11-27T19:48:03Z".to_owned(),
        "time" => "Format: time, as 19:48:03Z".to_owned(),
        other => format!("Format: {}", clipped(other, 60)),
    }));
    let pattern = rules.pattern.as_deref().filter(|pattern| *pattern != ANYTHING);
    out.extend(pattern.map(|pattern| format!("Pattern: {}", clipped(pattern, SHOWN))));
    out
}

fn number_facts(rules: &NumberRules) -> Vec<String> {
    let bound = |words: &str, bound: &Option<std::sync::Arc<str>>| {
        bound.as_deref().map(|bound| format!("{words} {}", clipped(bound, 40)))
    };
    let bounds: Vec<String> = [
        bound("at least", &rules.min),
        bound("above", &rules.above),
        bound("at most", &rules.max),
        bound("below", &rules.below),
        bound("a multiple of", &rules.step),
    ]
    .into_iter()
    .flatten()
    .collect();
    let kind = if rules.is_integer { "Whole number" } else { "Number" };
    if bounds.is_empty() { vec![kind.to_owned()] } else { vec![format!("{kind}, {}", bounds.join(", "))] }
}

fn span(min: Option<usize>, max: Option<usize>, unit: &str) -> Option<String> {
    match (min.filter(|min| *min > 0), max) {
        (Some(min), Some(max)) if min == max => Some(format!("{min} {unit}")),
        (Some(min), Some(max)) => Some(format!("{min} to {max} {unit}")),
        (Some(min), None) => Some(format!("At least {min} {unit}")),
        (None, Some(max)) => Some(format!("At most {max} {unit}")),
        (None, None) => None,
    }
}

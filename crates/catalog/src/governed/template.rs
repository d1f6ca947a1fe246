//! Texts for people with arguments of a call in them: `Open {{ title }} in {{ project.key }}`. They are never more than
//! a text: what is rendered stands beside the whole arguments, in one line, with everything visible and of bounded
//! length, so that it can neither hide nor look like anything else. Pure.

use std::fmt::Write as _;

use serde_json::Value;

use crate::pin::visible;

/// The longest template, in characters.
const TEMPLATE_MAX: usize = 500;
/// So many arguments may be named.
const PLACES_MAX: usize = 16;
/// How deep an argument may lie.
const DEPTH_MAX: usize = 8;
/// So many characters of one argument are shown.
const VALUE_SHOWN: usize = 120;
/// So many of the whole text.
const TEXT_SHOWN: usize = 400;

/// A text with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentTemplate {
    parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// An argument, by its path.
    Argument(Vec<String>),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("expected at most {TEMPLATE_MAX} characters, got {0}")]
    Long(usize),
    #[error("expected characters that a screen shows, got `{0}`")]
    Hidden(String),
    #[error("expected `}}}}` after `{{{{` at character {0}")]
    Open(usize),
    #[error("expected `{{{{` before `}}}}` at character {0}")]
    Closed(usize),
    #[error("expected the name of an argument in `{{{{ }}}}` at character {0}, got something else")]
    Place(usize),
    #[error("expected at most {PLACES_MAX} arguments")]
    Many,
}

// === impl TemplateError ===

impl TemplateError {
    /// The next step.
    pub fn hint(&self) -> String {
        match self {
            Self::Long(_) | Self::Many => "write one line: the whole arguments are shown beside it",
            Self::Hidden(_) => "write it in one line without invisible characters",
            Self::Open(_) | Self::Closed(_) | Self::Place(_) => {
                "write a name of an argument such as `{{ title }}`, or a path such as `{{ issue.key }}`; there are no functions"
            }
        }
        .to_owned()
    }
}

// === impl ArgumentTemplate ===

impl ArgumentTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// It is too long, has something that no screen shows, or a place that names no argument.
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let length = text.chars().count();
        if length > TEMPLATE_MAX {
            return Err(TemplateError::Long(length));
        }
        let shown = visible(text);
        if shown != text {
            let hidden = text.chars().find(|c| visible(&c.to_string()) != c.to_string()).unwrap_or_default();
            return Err(TemplateError::Hidden(visible(&hidden.to_string())));
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        let place = |rest: &str| text[..text.len() - rest.len()].chars().count() + 1;
        loop {
            let (open, close) = (rest.find("{{"), rest.find("}}"));
            let Some(start) = open else {
                if let Some(stray) = close {
                    return Err(TemplateError::Closed(place(&rest[stray..])));
                }
                parts.extend((!rest.is_empty()).then(|| TemplatePart::Text(rest.to_owned())));
                break;
            };
            if let Some(stray) = close.filter(|close| *close < start) {
                return Err(TemplateError::Closed(place(&rest[stray..])));
            }
            parts.extend((start > 0).then(|| TemplatePart::Text(rest[..start].to_owned())));
            let at = place(&rest[start..]);
            let inner = &rest[start + 2..];
            let end = inner.find("}}").ok_or(TemplateError::Open(at))?;
            parts.push(TemplatePart::Argument(path(&inner[..end]).ok_or(TemplateError::Place(at))?));
            rest = &inner[end + 2..];
        }
        let places = parts.iter().filter(|part| matches!(part, TemplatePart::Argument(_))).count();
        if places > PLACES_MAX { Err(TemplateError::Many) } else { Ok(Self { parts }) }
    }

    /// The text over arguments: one line of at most about 400 characters, in which everything is visible. What is not
    /// there is said to be missing, and what is cut is counted.
    pub fn render(&self, arguments: &Value) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(words) => text.push_str(words),
                TemplatePart::Argument(path) => text.push_str(&argument(arguments, path)),
            }
        }
        cut(&text, TEXT_SHOWN)
    }
}

/// `title`, `.title`, `issue.key`, `items.0.name`; `arguments.title` where no argument is called `arguments`.
fn path(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let text = text.strip_prefix('.').unwrap_or(text);
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@' | ':' | '/'))
    };
    let names: Vec<String> = text.split('.').map(str::to_owned).collect();
    (names.len() <= DEPTH_MAX && names.iter().all(|name| is_name(name))).then_some(names)
}

fn find<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn argument(arguments: &Value, path: &[String]) -> String {
    let inside = || path.split_first().filter(|(first, rest)| *first == "arguments" && !rest.is_empty());
    let found = find(arguments, path).or_else(|| find(arguments, inside()?.1));
    match found {
        None => "(missing)".to_owned(),
        Some(Value::String(text)) => cut(&visible(text), VALUE_SHOWN),
        Some(other) => cut(&visible(&other.to_string()), VALUE_SHOWN),
    }
}

/// The beginning of a text, and how much is not there.
fn cut(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most).collect();
    let _ = write!(short, "… ({} more characters)", length - most);
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(text: &str, arguments: &Value) -> String {
        ArgumentTemplate::new(text).unwrap().render(arguments)
    }

    #[test]
    fn arguments_stand_in_their_places() {
        let arguments = json!({
            "title": "Crash", "issue": {"key": "W-1"}, "items": [{"name": "a"}], "n": 3, "ok": true, "none": null,
        });
        for (template, expected) in [
            ("Open {{ title }}", "Open Crash"),
            ("{{.title}} in {{issue.key}}", "Crash in W-1"),
            ("{{ arguments.title }}", "Crash"),
            ("{{ items.0.name }}{{ n }}{{ ok }}{{ none }}", "a3truenull"),
            ("{{ issue }}", r#"{"key":"W-1"}"#),
            ("{{ items.9 }} {{ title.x }} {{ gone }}", "(missing) (missing) (missing)"),
            ("no place { at } all", "no place { at } all"),
        ] {
            assert_eq!(render(template, &arguments), expected, "{template}");
        }
    }

    #[test]
    fn what_is_rendered_is_one_visible_line_of_bounded_length() {
        let text = "a\nArguments  {}\u{202e}\u{200b}\t";
        let rendered = render("{{ text }}", &json!({ "text": text }));
        assert_eq!(rendered, "a<U+000A>Arguments  {}<U+202E><U+200B><U+0009>");
        let long = render("{{ text }}!", &json!({ "text": "x".repeat(10_000) }));
        assert!(long.ends_with("… (9880 more characters)!"), "{long}");
        let places = "{{ text }}".repeat(PLACES_MAX);
        let whole = render(&places, &json!({ "text": "\u{200b}".repeat(10_000) }));
        assert!(whole.chars().count() < TEXT_SHOWN + 40, "{whole}");
        // An argument is no template.
        assert_eq!(render("{{ a }}", &json!({"a": "{{ b }}", "b": "secret"})), "{{ b }}");
    }

    #[test]
    fn what_is_no_template_is_refused_with_its_place() {
        for (template, expected) in [
            ("Open {{ title", "`}}` after `{{` at character 6"),
            ("Open title }}", "`{{` before `}}` at character 12"),
            ("{{ }}", "the name of an argument in `{{ }}` at character 1"),
            ("{{ upper title }}", "at character 1"),
            ("ö {{ a | b }}", "at character 3"),
            ("{{ a..b }}", "at character 1"),
            ("{{ a.b.c.d.e.f.g.h.i }}", "at character 1"),
            ("a\nb", "got `<U+000A>`"),
            ("a\u{200b}", "got `<U+200B>`"),
            (&"x".repeat(501), "at most 500 characters, got 501"),
            (&"{{a}}".repeat(17), "at most 16 arguments"),
        ] {
            let error = ArgumentTemplate::new(template).unwrap_err();
            assert!(error.to_string().contains(expected), "{template}: {error}");
            assert!(!error.hint().is_empty());
        }
    }
}

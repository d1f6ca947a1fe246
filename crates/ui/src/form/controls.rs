//! The controls of a field: text boxes, lists of choices, the picker of an alternative, and what says how an empty one
//! is sent.

use std::fmt::Write;

use super::field::{Field, Label, MAX_ROWS, Presence, State};
use super::render::{Control, Renderer, escape, escape_content, plain_name, shown};
use super::shape::{Choice, Kind};
use crate::json::Json;
use crate::text::{clipped, is_invisible};

/// Characters of a choice that are shown.
const MAX_LABEL: usize = 120;

/// Whether a row can be added to a list or an object.
pub(super) fn can_add(field: &Field, count: usize) -> bool {
    let is_open = match &field.shape.kind {
        Kind::List(rules) => rules.max.is_none_or(|max| count < max),
        Kind::Object(rules) => rules.is_open,
        _ => false,
    };
    is_open && count < MAX_ROWS
}

/// Whether an item can be removed: of a list whose first items differ only the last.
pub(super) fn can_remove(field: &Field, index: usize, count: usize) -> bool {
    match &field.shape.kind {
        Kind::List(rules) => rules.first.is_empty() || index + 1 == count,
        _ => true,
    }
}

/// The control of a field without fields below.
pub(super) fn leaf(renderer: &mut Renderer<'_>, field: &Field, control: &Control) {
    match &field.state {
        State::Text(text) => text_box(renderer, field, control, text),
        State::Choice(choice) => match &field.shape.kind {
            Kind::Choice(choices) if field.is_fixed() => {
                let text = clipped(&choices[0].value.to_string(), MAX_LABEL);
                let _ = write!(renderer.out, "<code class=\"fixed\">{}</code>", shown(&text));
            }
            Kind::Choice(choices) => choice_list(renderer, field, control, choices, choice.as_ref()),
            _ => {}
        },
        State::Json { text, .. } => {
            renderer.hidden("json", "1");
            if field.place.schema.holds_secret() {
                renderer.hidden("secret", "1");
            }
            let lines = text.lines().count().clamp(if field.place.depth == 0 { 12 } else { 2 }, 24);
            text_area(renderer, field, control, text, lines);
            if !matches!(field.shape.kind, Kind::Any(_)) {
                renderer.button("switch", "As a form", Some(&format!("{} as a form", plain_name(field))));
            }
        }
        State::Folded => {
            renderer.button("add", "Fill in", Some(&format!("Fill in {}", plain_name(field))));
        }
        _ => {}
    }
}

fn common(renderer: &mut Renderer<'_>, field: &Field, control: &Control) {
    let focus = renderer.takes_focus();
    let _ = write!(renderer.out, " id=\"{}\" name=\"", control.id);
    renderer.control_name("v");
    let required = if field.place.is_required { " aria-required=\"true\"" } else { "" };
    let _ = write!(renderer.out, "\"{}{required}{focus}", control.attributes);
}

fn text_box(renderer: &mut Renderer<'_>, field: &Field, control: &Control, text: &str) {
    let (is_long, is_secret, mode) = match &field.shape.kind {
        Kind::Text(rules) => {
            let mode = match rules.format.as_deref() {
                Some("email" | "idn-email") => "email",
                Some("uri" | "url" | "uri-reference" | "iri") => "url",
                _ => "text",
            };
            (rules.is_long && !rules.is_secret, rules.is_secret, mode)
        }
        Kind::Number(rules) if rules.is_integer => (false, false, "numeric"),
        _ => (false, false, "decimal"),
    };
    // An input would drop line ends.
    if is_long || text.contains('\n') {
        text_area(renderer, field, control, text, text.split('\n').count().clamp(1, 24));
    } else {
        let kind = if is_secret { "password" } else { "text" };
        if is_secret {
            // For who keeps what was sent, and may not keep this.
            renderer.hidden("secret", "1");
        }
        let _ = write!(
            renderer.out,
            "<input type=\"{kind}\" inputmode=\"{mode}\" autocomplete=\"off\" spellcheck=\"false\""
        );
        common(renderer, field, control);
        renderer.out.push_str(" value=\"");
        escape(text, &mut renderer.out);
        renderer.out.push_str("\">");
    }
    let hides = |character: char| !matches!(character, '\n' | '\t') && is_invisible(character);
    if !is_secret && text.chars().any(hides) {
        let text = shown(&clipped(text, MAX_LABEL));
        let _ = write!(renderer.out, "<p class=\"note\">With its invisible characters: {text}</p>");
    }
}

fn text_area(renderer: &mut Renderer<'_>, field: &Field, control: &Control, text: &str, lines: usize) {
    let _ = write!(renderer.out, "<textarea rows=\"{lines}\" autocomplete=\"off\" spellcheck=\"false\"");
    common(renderer, field, control);
    // The first line end after the tag is dropped.
    renderer.out.push_str(">\n");
    escape_content(text, &mut renderer.out);
    renderer.out.push_str("</textarea>");
}

fn choice_list(
    renderer: &mut Renderer<'_>,
    field: &Field,
    control: &Control,
    choices: &[Choice],
    chosen: Option<&Json>,
) {
    renderer.out.push_str("<select");
    common(renderer, field, control);
    let nothing = if field.place.is_required { "choose…" } else { "not set" };
    let _ = write!(renderer.out, "><option value=\"\">{nothing}</option>");
    let mut is_known = chosen.is_none();
    for choice in choices {
        let is_chosen = chosen.is_some_and(|value| value.is_same(&choice.value));
        is_known |= is_chosen;
        option(renderer, &choice.value, choice.label.as_deref(), is_chosen);
    }
    if let Some(value) = chosen.filter(|_| !is_known) {
        option(renderer, value, None, true);
    }
    renderer.out.push_str("</select>");
}

/// A choice: its value as JSON; texts show without quotes unless that could be mistaken.
fn option(renderer: &mut Renderer<'_>, value: &Json, label: Option<&str>, is_chosen: bool) {
    let json = value.to_string();
    let text = match value {
        Json::Text(text) if Json::parse(text).is_err() && !text.trim().is_empty() && !json.contains('\\') => text,
        _ => json.as_str(),
    };
    let text = match label {
        Some(label) => {
            format!("{} – {}", clipped(text, MAX_LABEL), clipped(label, MAX_LABEL))
        }
        None => clipped(text, MAX_LABEL),
    };
    renderer.out.push_str("<option value=\"");
    escape(&json, &mut renderer.out);
    renderer.out.push_str(if is_chosen { "\" selected>" } else { "\">" });
    // An option holds text alone: what is invisible in it is escaped as in JSON.
    for character in text.chars() {
        if is_invisible(character) {
            let _ = write!(renderer.out, "U+{:04X}", u32::from(character));
        } else {
            escape(character.encode_utf8(&mut [0; 4]), &mut renderer.out);
        }
    }
    renderer.out.push_str("</option>");
}

/// What picks an alternative, and the button that shows its fields.
pub(super) fn picker(renderer: &mut Renderer<'_>, field: &Field, chosen: usize) {
    let Kind::Pick(alternatives) = &field.shape.kind else { return };
    let (id, button) = (renderer.id(), renderer.id());
    let focus = renderer.takes_focus();
    let _ = write!(renderer.out, "<div class=\"picker\"><label for=\"{id}\">Kind</label> <select id=\"{id}\" name=\"");
    renderer.control_name("pick");
    let _ = write!(renderer.out, "\" data-press=\"{button}\"{focus}>");
    for (index, alternative) in alternatives.iter().enumerate() {
        let selected = if index == chosen { " selected" } else { "" };
        let _ = write!(renderer.out, "<option value=\"{index}\"{selected}>");
        escape(&alternative.label, &mut renderer.out);
        renderer.out.push_str("</option>");
    }
    let _ = write!(renderer.out, "</select> <button id=\"{button}\" name=\"");
    renderer.control_name("use");
    renderer.out.push_str("\" value=\"1\">Show its fields</button></div>");
    renderer.hidden("shown", &chosen.to_string());
}

/// How a field is sent in which nothing is entered, where there is a choice.
pub(super) fn presence(renderer: &mut Renderer<'_>, field: &Field) {
    let is_required = field.place.is_required;
    let empty = match (&field.state, &field.shape.kind) {
        (State::Text(_), Kind::Text(rules)) => {
            let is_offered = !is_required || field.wrong.is_some() || field.shape.is_nullable;
            (is_offered && rules.min.unwrap_or(0) == 0).then_some("empty text")
        }
        (State::List(_), Kind::List(rules)) if rules.min.unwrap_or(0) == 0 => (!is_required).then_some("empty list"),
        (State::Object { .. }, _) if !is_required => Some("empty object"),
        _ => None,
    };
    let is_inline = matches!(field.state, State::Json { .. } | State::Choice(_));
    let is_nullable = field.shape.is_nullable && !is_inline;
    // What was filled in shows even where it would not be offered.
    let empty = empty.or_else(|| (field.presence == Presence::Empty && !is_inline).then_some("empty"));
    if empty.is_none() && !is_nullable {
        return;
    }
    let name = match &field.place.label {
        Label::Root => "the value".to_owned(),
        _ => plain_name(field),
    };
    renderer.out.push_str("<select class=\"set\" name=\"");
    renderer.control_name("set");
    renderer.out.push_str("\" aria-label=\"");
    escape(&format!("How {name} is sent"), &mut renderer.out);
    let first = if is_required { "as entered" } else { "not set if empty" };
    let _ = write!(renderer.out, "\"><option value=\"\">{first}</option>");
    let options = [(empty, "empty", Presence::Empty), (is_nullable.then_some("null"), "null", Presence::Null)];
    for (label, value, presence) in options {
        if let Some(label) = label {
            let selected = if field.presence == presence { " selected" } else { "" };
            let _ = write!(renderer.out, "<option value=\"{value}\"{selected}>{label}</option>");
        }
    }
    renderer.out.push_str("</select>");
}

//! The value of what is entered. What is not entered is left out; a value is made even where something is wrong, so
//! that nothing that was typed is lost when a part turns into JSON.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::decimal::{self, Decimal};
use super::field::{Field, Label, Presence, Row, State};
use super::path::{self, Walk};
use super::shape::{Kind, ListRules, NumberRules, TextRules};
use crate::json::Json;

/// Something wrong with a field.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// The path of the field.
    pub(super) control: String,
    /// The JSON pointer of its value.
    pub(super) pointer: String,
    pub(super) message: String,
}

/// What a field says.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Its value; `None` if it is not set.
    pub(super) value: Option<Json>,
    /// Whether anybody entered something in it.
    pub(super) is_filled: bool,
    pub(super) faults: Vec<Fault>,
}

/// Reads what is entered in a field and below.
pub(super) fn evaluate(field: &Field, walk: &mut Walk) -> Reading {
    let mut reading = match &field.state {
        State::Folded => Reading::default(),
        State::Text(text) => entered(field, text, walk),
        State::Choice(choice) => chosen(field, choice.as_ref(), walk),
        State::Object { fields, rows } => object(fields, rows, walk),
        State::List(items) => list(field, items, walk),
        State::Pick { chosen, inner } => {
            let mark = walk.enter(&path::alternative(*chosen), None);
            let reading = evaluate(inner, walk);
            walk.leave(mark);
            reading
        }
        State::Json { text, .. } => json(text, walk),
    };
    if field.presence == Presence::Null && field.shape.is_nullable {
        if reading.is_filled {
            reading.fail(walk, "`null` is chosen, but something is entered: clear it, or do not choose `null`");
        } else {
            reading = Reading { value: Some(Json::Null), is_filled: true, faults: Vec::new() };
        }
        return reading;
    }
    if field.presence == Presence::Empty && matches!(field.state, State::Object { .. } | State::List(_)) {
        reading.is_filled = true;
    }
    match (&field.state, field.place.is_required, reading.is_filled) {
        // What is not filled in is not sent, and nothing in it is missed.
        (State::Pick { .. }, ..) | (_, _, true) => {}
        (_, false, false) => reading = Reading::default(),
        (_, true, false) if reading.value.is_none() => {
            reading.faults.clear();
            reading.fail(walk, missing(field));
        }
        (_, true, false) => {}
    }
    reading
}

fn missing(field: &Field) -> &'static str {
    match &field.state {
        State::Folded => "is required: fill it in",
        State::Choice(_) => "is required: choose a value",
        State::Text(_) if matches!(field.shape.kind, Kind::Text(_)) => {
            "is required: enter a text, or choose “empty text”"
        }
        State::Text(_) => "is required: enter a number",
        State::Json { .. } => "is required: enter JSON",
        _ => "is required",
    }
}

fn entered(field: &Field, text: &str, walk: &Walk) -> Reading {
    let mut reading = Reading::default();
    match &field.shape.kind {
        Kind::Number(rules) if !text.trim().is_empty() => {
            let digits = text.trim();
            reading.is_filled = true;
            match Decimal::parse(digits) {
                Some(decimal) => {
                    reading.value = Some(Json::Number(digits.into()));
                    if let Some(message) = number_fault(rules, digits, &decimal) {
                        reading.fail(walk, message);
                    }
                }
                None => {
                    reading.value = Some(Json::text(text));
                    reading.fail(walk, if rules.is_integer { "is no whole number" } else { "is no number" });
                }
            }
        }
        Kind::Number(_) => {}
        kind => {
            let is_set = !text.is_empty() || field.presence == Presence::Empty;
            if is_set {
                reading.is_filled = true;
                reading.value = Some(Json::text(text));
            }
            if let (Kind::Text(rules), true) = (kind, is_set)
                && let Some(message) = text_fault(rules, text)
            {
                reading.fail(walk, message);
            }
        }
    }
    reading
}

fn number_fault(rules: &NumberRules, digits: &str, decimal: &Decimal) -> Option<String> {
    if rules.is_integer && !decimal.is_integer() {
        return Some("is no whole number".to_owned());
    }
    let against = |bound: &Option<Arc<str>>| {
        bound.as_ref().and_then(|bound| Some((decimal::compare(digits, bound)?, Arc::clone(bound))))
    };
    let checks = [
        (against(&rules.min), "must be at least", &[Ordering::Less][..]),
        (against(&rules.max), "must be at most", &[Ordering::Greater]),
        (against(&rules.above), "must be above", &[Ordering::Less, Ordering::Equal]),
        (against(&rules.below), "must be below", &[Ordering::Greater, Ordering::Equal]),
    ];
    checks.into_iter().find_map(|(order, words, wrong)| {
        let (order, bound) = order?;
        wrong.contains(&order).then(|| format!("{words} {bound}"))
    })
}

fn text_fault(rules: &TextRules, text: &str) -> Option<String> {
    let count = text.chars().count();
    if rules.min.is_some_and(|min| count < min) {
        return Some(format!("must have at least {} characters, not {count}", rules.min.unwrap_or(0)));
    }
    let max = rules.max.filter(|max| count > *max)?;
    Some(format!("must have at most {max} characters, not {count}"))
}

fn chosen(field: &Field, choice: Option<&Json>, walk: &Walk) -> Reading {
    let mut reading = Reading::default();
    let Kind::Choice(choices) = &field.shape.kind else { return reading };
    if field.is_fixed() {
        reading.value = Some(choices[0].value.clone());
        return reading;
    }
    if let Some(value) = choice {
        reading.is_filled = true;
        reading.value = Some(value.clone());
        let is_null = field.shape.is_nullable && matches!(value, Json::Null);
        if !is_null && !choices.iter().any(|choice| choice.value.is_same(value)) {
            let shown = crate::text::clipped(&value.to_string(), 80);
            reading.fail(walk, format!("`{shown}` is not among the choices"));
        }
    }
    reading
}

fn object(fields: &[Field], rows: &[Row], walk: &mut Walk) -> Reading {
    let mut out = Reading { is_filled: !rows.is_empty(), ..Reading::default() };
    let mut entries: Vec<(Arc<str>, Json)> = Vec::with_capacity(fields.len() + rows.len());
    let mut names: HashSet<&str> = HashSet::new();
    for field in fields {
        let Label::Property(name) = &field.place.label else { continue };
        names.insert(name);
        let mark = walk.enter(&path::step(name), Some(name));
        let reading = evaluate(field, walk);
        walk.leave(mark);
        out.is_filled |= reading.is_filled;
        out.faults.extend(reading.faults);
        entries.extend(reading.value.map(|value| (Arc::clone(name), value)));
    }
    for (index, row) in rows.iter().enumerate() {
        let mark = walk.enter(&path::row(index), Some(&row.key));
        let reading = evaluate(&row.field, walk);
        out.faults.extend(reading.faults);
        if row.key.is_empty() {
            out.fail(walk, "enter a key, or remove the row");
        } else if !names.insert(&row.key) {
            out.fail(walk, format!("the key `{}` is there twice", crate::text::clipped(&row.key, 80)));
        }
        walk.leave(mark);
        entries.extend(reading.value.map(|value| (Arc::from(row.key.as_str()), value)));
    }
    out.value = Some(Json::object(entries));
    out
}

fn list(field: &Field, items: &[Field], walk: &mut Walk) -> Reading {
    let mut out = Reading { is_filled: !items.is_empty(), ..Reading::default() };
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let index = index.to_string();
        let mark = walk.enter(&index, Some(&index));
        let reading = evaluate(item, walk);
        walk.leave(mark);
        out.faults.extend(reading.faults);
        values.extend(reading.value);
    }
    let is_sent = !items.is_empty() || field.place.is_required || field.presence == Presence::Empty;
    if let (Kind::List(ListRules { min, max, .. }), true) = (&field.shape.kind, is_sent) {
        let count = items.len();
        if let Some(min) = min.filter(|min| count < *min) {
            out.fail(walk, format!("must have at least {min} items, not {count}"));
        } else if let Some(max) = max.filter(|max| count > *max) {
            out.fail(walk, format!("must have at most {max} items, not {count}"));
        }
    }
    out.value = Some(Json::List(values.into()));
    out
}

fn json(text: &str, walk: &Walk) -> Reading {
    let mut reading = Reading::default();
    if !text.trim().is_empty() {
        reading.is_filled = true;
        match Json::parse(text) {
            Ok(value) => reading.value = Some(value),
            Err(error) => {
                reading.value = Some(Json::text(text));
                reading.fail(walk, format!("is not JSON: {error}"));
            }
        }
    }
    reading
}

// === impl Reading ===

impl Reading {
    fn fail(&mut self, walk: &Walk, message: impl Into<String>) {
        let fault = Fault { control: walk.control.clone(), pointer: walk.pointer.clone(), message: message.into() };
        self.faults.push(fault);
    }
}

//! What the buttons of a form change in it: rows added and removed, folded parts opened, fields turned into JSON.

use super::build::{Builder, MAX_FIELDS};
use super::evaluate::evaluate;
use super::field::{Field, Label, MAX_ROWS, Presence, Row, State};
use super::pairs::Action;
use super::path::{self, Walk};
use super::shape::Kind;
use crate::json::Json;

const FULL: &str = "the form has no room for more fields: switch this part to JSON";

/// Does what a button says, and gives the path of the field to go on at.
pub(super) fn apply(root: &mut Field, builder: &mut Builder<'_>, action: Action, path: &str) -> String {
    let is_full = root.count() >= MAX_FIELDS;
    match action {
        Action::Use => {}
        Action::Add => {
            if let Some(step) = root.find(path).and_then(|field| add(field, builder, is_full)) {
                return format!("{path}{step}");
            }
        }
        Action::Remove => {
            let (parent, step) = path.rsplit_once('/').unwrap_or(("", path));
            if let Some(field) = root.find(parent) {
                remove(field, step);
            }
            return parent.to_owned();
        }
        Action::Switch => {
            if let Some(field) = root.find(path) {
                switch(field, builder);
            }
        }
    }
    path.to_owned()
}

fn add(field: &mut Field, builder: &mut Builder<'_>, is_full: bool) -> Option<String> {
    if is_full {
        field.wrong = Some(FULL.to_owned());
        return None;
    }
    let next = match &field.state {
        State::List(items) => field.item(items.len()),
        State::Object { rows, .. } if rows.len() < MAX_ROWS => match &field.shape.kind {
            Kind::Object(rules) => Some(field.below(Label::Row, rules.rest.clone(), true)),
            _ => None,
        },
        _ => None,
    };
    match (&mut field.state, next) {
        (State::List(items), Some(place)) if items.len() < MAX_ROWS => {
            items.push(builder.blank(place, true));
            Some(format!("/{}", items.len() - 1))
        }
        (State::Object { rows, .. }, Some(place)) => {
            rows.push(Row { key: String::new(), field: builder.blank(place, true) });
            Some(format!("/{}", path::row(rows.len() - 1)))
        }
        (State::Folded, _) => {
            let place = field.place.clone();
            *field = builder.blank(place, true);
            None
        }
        _ => {
            field.wrong = Some(FULL.to_owned());
            None
        }
    }
}

fn remove(field: &mut Field, step: &str) {
    match &mut field.state {
        State::List(items) => {
            if let Some(index) = step.parse::<usize>().ok().filter(|index| *index < items.len()) {
                items.remove(index);
                for (index, item) in items.iter_mut().enumerate() {
                    item.place.label = Label::Item(index);
                }
            }
        }
        State::Object { rows, .. } => {
            let index = step.strip_prefix("~+").and_then(|index| index.parse::<usize>().ok());
            if let Some(index) = index.filter(|index| *index < rows.len()) {
                rows.remove(index);
            }
        }
        _ => {}
    }
}

/// JSON becomes fields, fields become JSON. What is no JSON stays, and says why.
pub(super) fn switch(field: &mut Field, builder: &mut Builder<'_>) {
    let place = field.place.clone();
    let State::Json { text, .. } = &field.state else {
        let reading = evaluate(field, &mut Walk::default());
        let is_blank = !reading.is_filled && field.place.depth > 0;
        let text = reading.value.filter(|_| !is_blank).map(|value| value.pretty()).unwrap_or_default();
        field.state = State::Json { text, reason: None };
        field.presence = Presence::AsEntered;
        return;
    };
    if text.trim().is_empty() {
        *field = builder.blank(place, true);
        return;
    }
    match Json::parse(text) {
        Ok(value) => {
            let is_nullable = field.shape.is_nullable;
            *field = builder.fill(place, &value);
            field.shape.is_nullable = is_nullable;
        }
        Err(error) => field.wrong = Some(format!("is not JSON: {error}")),
    }
}

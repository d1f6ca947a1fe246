//! One field of a form: its place in the schema, and what is entered.

use std::sync::Arc;

use super::path::{self, Walk};
use super::shape::{Kind, Shape};
use crate::json::Json;

/// Rows that a list or a map may have in a form.
pub(super) const MAX_ROWS: usize = 200;

/// What a field is called.
#[derive(Debug, Clone)]
pub(super) enum Label {
    /// The whole form.
    Root,
    /// By the name of a property.
    Property(Arc<str>),
    /// By its number in a list, from 0.
    Item(usize),
    /// By the key beside it.
    Row,
    /// Not at all: the picker above has the label.
    Alternative,
}

/// Where a field stands in its schema.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) label: Label,
    pub(super) schema: Json,
    pub(super) is_required: bool,
    pub(super) depth: usize,
    /// The references that led here; one of them again is a recursion.
    pub(super) trail: Arc<[Arc<str>]>,
}

/// What is said beside the value itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Presence {
    /// What is entered; nothing, if nothing is.
    #[default]
    AsEntered,
    /// An empty text, list or object, if nothing is entered.
    Empty,
    /// `null`.
    Null,
}

/// What is entered.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Not shown until somebody asks for it; nothing is entered.
    Folded,
    /// In a text box: a text, or the digits of a number.
    Text(String),
    /// One of the choices.
    Choice(Option<Json>),
    /// Fields of the properties in the order of the shape, and rows of others.
    Object { fields: Vec<Field>, rows: Vec<Row> },
    /// Items.
    List(Vec<Field>),
    /// An alternative.
    Pick { chosen: usize, inner: Box<Field> },
    /// JSON text, and why no form shows it.
    Json { text: String, reason: Option<String> },
}

/// A property that the schema does not name.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) field: Field,
}

/// A field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) shape: Shape,
    pub(super) presence: Presence,
    pub(super) state: State,
    pub(super) wrong: Option<String>,
}

// === impl Field ===

impl Field {
    /// The place of a field below this one.
    pub(super) fn below(&self, label: Label, schema: Json, is_required: bool) -> Place {
        Place { label, schema, is_required, depth: self.place.depth + 1, trail: Arc::clone(&self.place.trail) }
    }

    /// The place of the item with an index.
    pub(super) fn item(&self, index: usize) -> Option<Place> {
        let Kind::List(rules) = &self.shape.kind else { return None };
        let schema = rules.first.get(index).unwrap_or(&rules.items).clone();
        Some(self.below(Label::Item(index), schema, true))
    }

    /// Whether it is JSON although its schema has a form.
    pub(super) fn is_unfit(&self) -> bool {
        matches!(self.state, State::Json { .. }) && !matches!(self.shape.kind, Kind::Any(_))
    }

    /// Whether it has one value alone, which is not entered.
    pub(super) fn is_fixed(&self) -> bool {
        self.place.is_required
            && matches!(self.state, State::Choice(_))
            && !self.shape.is_nullable
            && matches!(&self.shape.kind, Kind::Choice(choices) if choices.len() == 1)
    }

    /// The fields right below, each with its step, the key of its value and itself.
    pub(super) fn children(&self) -> Vec<(String, Option<String>, &Self)> {
        match &self.state {
            State::Object { fields, rows } => fields
                .iter()
                .map(|field| {
                    let name = match &field.place.label {
                        Label::Property(name) => &**name,
                        _ => "",
                    };
                    (path::step(name), Some(name.to_owned()), field)
                })
                .chain(
                    rows.iter().enumerate().map(|(index, row)| (path::row(index), Some(row.key.clone()), &row.field)),
                )
                .collect(),
            State::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, field)| (index.to_string(), Some(index.to_string()), field))
                .collect(),
            State::Pick { chosen, inner } => vec![(path::alternative(*chosen), None, &**inner)],
            _ => Vec::new(),
        }
    }

    fn children_mut(&mut self) -> Vec<&mut Self> {
        match &mut self.state {
            State::Object { fields, rows } => {
                fields.iter_mut().chain(rows.iter_mut().map(|row| &mut row.field)).collect()
            }
            State::List(items) => items.iter_mut().collect(),
            State::Pick { inner, .. } => vec![inner],
            _ => Vec::new(),
        }
    }

    /// How many fields it has, itself included.
    pub(super) fn count(&self) -> usize {
        1 + self.children().iter().map(|(.., child)| child.count()).sum::<usize>()
    }

    /// How many fields of it are JSON although their schemas have a form.
    pub(super) fn unfit_count(&self) -> usize {
        usize::from(self.is_unfit()) + self.children().iter().map(|(.., child)| child.unfit_count()).sum::<usize>()
    }

    /// The field of a path.
    pub(super) fn find(&mut self, path: &str) -> Option<&mut Self> {
        let mut field = self;
        for wanted in path.split('/').skip(1) {
            let index = field.children().iter().position(|(step, ..)| step == wanted)?;
            field = field.children_mut().into_iter().nth(index)?;
        }
        Some(field)
    }

    /// Writes what is wrong at the field with a JSON pointer, or at the nearest above it.
    pub(super) fn refuse(&mut self, pointer: &str, message: &str) {
        let mut walk = Walk::default();
        let mut nearest = String::new();
        self.nearest(pointer, &mut walk, &mut nearest);
        if let Some(field) = self.find(&nearest) {
            field.wrong.get_or_insert_with(|| message.to_owned());
        }
    }

    fn nearest(&self, pointer: &str, walk: &mut Walk, nearest: &mut String) {
        nearest.clone_from(&walk.control);
        for (step, key, child) in self.children() {
            let mark = walk.enter(&step, key.as_deref());
            let rest = pointer.strip_prefix(walk.pointer.as_str());
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                child.nearest(pointer, walk, nearest);
                walk.leave(mark);
                return;
            }
            walk.leave(mark);
        }
    }

    /// Forgets what was wrong, here and below.
    pub(super) fn forget_wrongs(&mut self) {
        self.wrong = None;
        self.children_mut().into_iter().for_each(Self::forget_wrongs);
    }
}

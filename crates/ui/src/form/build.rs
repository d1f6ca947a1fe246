//! Fields made of a schema: blank, of a value, or of what a browser sent. All three share the bounds.

use std::collections::HashMap;
use std::sync::Arc;

use super::evaluate::evaluate;
use super::field::{Field, Label, MAX_ROWS, Place, Presence, Row, State};
use super::merge::Resolver;
use super::pairs::Pairs;
use super::path::{self, Walk};
use super::shape::{Alternative, Kind, ObjectRules, Shape};
use crate::json::Json;

/// Deepest nesting of fields; what is below is JSON.
pub(super) const MAX_DEPTH: usize = 12;
/// Fields of one form; more are JSON.
pub(super) const MAX_FIELDS: usize = 1_000;
/// Fields that a blank form begins with; more are folded.
const BLANK_FIELDS: usize = 300;
/// Nesting up to which what is optional is not folded.
pub(super) const OPEN_DEPTH: usize = 2;
/// Fields that are tried to find the alternative of a value.
const MAX_TRIES: usize = 20_000;
/// Schemas that are looked at for one form.
const MAX_SCHEMAS: usize = 60_000;
/// Items that a required list begins with, at most.
const FIRST_ITEMS: usize = 3;

/// Makes fields within bounds.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    resolver: Resolver<'a>,
    fields: usize,
    tries: usize,
    open_depth: usize,
    /// Whether another alternative was picked than the one that was shown.
    pub(super) has_new_pick: bool,
}

// === impl Builder ===

impl<'a> Builder<'a> {
    /// For the fields of one document. What is optional is folded below `open_depth`.
    pub(super) fn new(document: &'a Json, open_depth: usize) -> Self {
        let resolver = Resolver::new(document, MAX_SCHEMAS);
        Self { resolver, fields: 0, tries: MAX_TRIES, open_depth, has_new_pick: false }
    }

    /// The field of a place without its state, and whether the place recurs.
    fn start(&mut self, mut place: Place) -> (Field, bool) {
        self.fields += 1;
        self.resolver.begin();
        let mut shape = Shape::of(&place.schema, &mut self.resolver, place.depth == 0);
        let followed = self.resolver.end();
        let recurs = followed.iter().any(|target| place.trail.contains(target));
        if !followed.is_empty() {
            place.trail = place.trail.iter().cloned().chain(followed).collect();
        }
        let is_leaf = matches!(shape.kind, Kind::Text(_) | Kind::Number(_) | Kind::Choice(_) | Kind::Any(_));
        if place.depth >= MAX_DEPTH && !is_leaf {
            shape.kind = Kind::Any(Some("it is nested too deeply".to_owned()));
        }
        (Field { place, shape, presence: Presence::AsEntered, state: State::Folded, wrong: None }, recurs)
    }

    /// A field in which nothing is entered. One that somebody asked for is not folded.
    pub(super) fn blank(&mut self, place: Place, is_asked: bool) -> Field {
        let (mut field, recurs) = self.start(place);
        let is_far = !field.place.is_required && field.place.depth > self.open_depth;
        let is_folded = !is_asked && (recurs || is_far || self.fields > BLANK_FIELDS);
        field.state = match &field.shape.kind {
            Kind::Text(_) | Kind::Number(_) => State::Text(String::new()),
            Kind::Choice(_) => State::Choice(None),
            Kind::Any(reason) => State::Json { text: String::new(), reason: reason.clone() },
            Kind::Object(_) | Kind::Pick(_) if is_folded => State::Folded,
            Kind::Object(rules) => {
                let places = property_places(&field, rules);
                State::Object {
                    fields: places.into_iter().map(|place| self.blank(place, false)).collect(),
                    rows: Vec::new(),
                }
            }
            Kind::List(rules) => {
                let wanted = if field.place.is_required { rules.min.unwrap_or(0) } else { 0 };
                let count = if is_folded { 0 } else { wanted.min(FIRST_ITEMS) };
                State::List(
                    (0..count).filter_map(|index| field.item(index)).map(|item| self.blank(item, false)).collect(),
                )
            }
            Kind::Pick(alternatives) => {
                let place = alternative_place(&field, alternatives, 0);
                State::Pick { chosen: 0, inner: Box::new(self.inner(&field, |builder| builder.blank(place, false))) }
            }
        };
        field
    }

    /// A field in which a value is entered. What no form shows as it is, is JSON.
    pub(super) fn fill(&mut self, place: Place, value: &Json) -> Field {
        let (mut field, _) = self.start(place);
        self.tries = self.tries.saturating_sub(1);
        if self.tries == 0 || self.fields > MAX_FIELDS {
            field.state =
                State::Json { text: value.pretty(), reason: Some("the value is too large for a form".into()) };
            return field;
        }
        let filled = match (&field.shape.kind, value) {
            (Kind::Choice(choices), _) => choices
                .iter()
                .find(|choice| choice.value.is_same(value))
                .map(|choice| (State::Choice(Some(choice.value.clone())), Presence::AsEntered)),
            (Kind::Any(reason), _) => {
                Some((State::Json { text: value.pretty(), reason: reason.clone() }, Presence::AsEntered))
            }
            (_, Json::Null) if field.shape.is_nullable => {
                let blank = self.blank(field.place.clone(), false);
                Some((blank.state, Presence::Null))
            }
            (Kind::Text(_), Json::Text(text)) if is_typable(text) => {
                let presence = if text.is_empty() { Presence::Empty } else { Presence::AsEntered };
                Some((State::Text(text.to_string()), presence))
            }
            (Kind::Number(_), Json::Number(digits)) => Some((State::Text(digits.to_string()), Presence::AsEntered)),
            (Kind::Object(rules), Json::Object(entries)) => {
                self.fill_object(&field, rules, entries).map(|state| (state, Presence::AsEntered))
            }
            (Kind::List(_), Json::List(items)) if items.len() <= MAX_ROWS => {
                let places = (0..items.len()).filter_map(|index| field.item(index));
                let items = places.zip(items.iter()).map(|(place, item)| self.fill(place, item)).collect();
                Some((State::List(items), Presence::AsEntered))
            }
            (Kind::Pick(alternatives), _) => {
                self.fill_pick(&field, alternatives, value).map(|state| (state, Presence::AsEntered))
            }
            _ => None,
        };
        if let Some((state, presence)) = filled {
            (field.state, field.presence) = (state, presence);
            let can_be_empty = matches!(field.state, State::Object { .. } | State::List(_));
            if can_be_empty && !field.place.is_required && !evaluate(&field, &mut Walk::default()).is_filled {
                field.presence = Presence::Empty;
            }
        } else {
            let reason = format!("{} does not fit the field", value.kind());
            field.state = State::Json { text: value.pretty(), reason: Some(reason) };
        }
        field
    }

    fn fill_object(&mut self, field: &Field, rules: &ObjectRules, entries: &[(Arc<str>, Json)]) -> Option<State> {
        let mut rest: HashMap<&str, &Json> = entries.iter().map(|(key, value)| (&**key, value)).collect();
        let mut fields = Vec::with_capacity(rules.properties.len());
        for place in property_places(field, rules) {
            let value = match &place.label {
                Label::Property(name) => rest.remove(&**name),
                _ => None,
            };
            fields.push(match value {
                Some(value) => self.fill(place, value),
                None => self.blank(place, false),
            });
        }
        if rest.len() > MAX_ROWS || rest.keys().any(|key| !is_line(key)) {
            return None;
        }
        let rows = entries.iter().filter(|(key, _)| rest.contains_key(&**key)).map(|(key, value)| {
            let place = field.below(Label::Row, rules.rest.clone(), true);
            Row { key: key.to_string(), field: self.fill(place, value) }
        });
        Some(State::Object { rows: rows.collect(), fields })
    }

    /// The alternative that shows a value best: first one that says just this value, then the one with the fewest parts
    /// that are JSON, then with the least that is wrong.
    fn fill_pick(&mut self, field: &Field, alternatives: &[Alternative], value: &Json) -> Option<State> {
        let before = self.fields;
        let mut best: Option<(PickRank, usize, Field, usize)> = None;
        for chosen in 0..alternatives.len() {
            self.fields = before;
            let place = alternative_place(field, alternatives, chosen);
            let inner = self.inner(field, |builder| builder.fill(place, value));
            if inner.is_unfit() {
                continue;
            }
            let reading = evaluate(&inner, &mut Walk::default());
            // A part that is required and missing may have been filled in.
            let is_other = reading.value.is_some_and(|said| !said.is_same(value));
            let rank = (is_other, inner.unfit_count(), reading.faults.len());
            if best.as_ref().is_none_or(|(known, ..)| rank < *known) {
                best = Some((rank, chosen, inner, self.fields));
            }
            if rank == (false, 0, 0) {
                break;
            }
        }
        let (_, chosen, inner, fields) = best?;
        self.fields = fields;
        Some(State::Pick { chosen, inner: Box::new(inner) })
    }

    /// The field of an alternative. That it may be null is said by the picker.
    fn inner(&mut self, field: &Field, make: impl FnOnce(&mut Self) -> Field) -> Field {
        let mut inner = make(self);
        if field.shape.is_nullable && inner.presence != Presence::Null {
            inner.shape.is_nullable = false;
        }
        inner
    }

    /// A field of what a browser sent.
    pub(super) fn read(&mut self, place: Place, pairs: &Pairs<'_>, path: &mut String) -> Field {
        let (mut field, _) = self.start(place);
        let entry = pairs.get(path);
        let text = || entry.value.unwrap_or_default().replace("\r\n", "\n");
        field.presence = entry.presence;
        if self.fields > 3 * MAX_FIELDS {
            return field;
        }
        if entry.is_json {
            let reason = match &field.shape.kind {
                Kind::Any(reason) => reason.clone(),
                _ => None,
            };
            field.state = State::Json { text: text(), reason };
            return field;
        }
        field.state = match &field.shape.kind {
            Kind::Text(_) | Kind::Number(_) => State::Text(text()),
            Kind::Choice(_) => State::Choice(
                entry
                    .value
                    .filter(|value| !value.is_empty())
                    .map(|value| Json::parse(value).unwrap_or_else(|_| Json::text(value))),
            ),
            Kind::Any(reason) => State::Json { text: text(), reason: reason.clone() },
            Kind::Object(rules) if field.place.depth == 0 || pairs.is_open(path) => {
                let properties = property_places(&field, rules).into_iter().map(|place| {
                    let step = match &place.label {
                        Label::Property(name) => path::step(name),
                        _ => String::new(),
                    };
                    self.read_below(place, pairs, path, &step)
                });
                let fields = properties.collect();
                let rows = (0..entry.rows.min(MAX_ROWS)).map(|index| {
                    let place = field.below(Label::Row, rules.rest.clone(), true);
                    let key = pairs.get(&format!("{path}/{}", path::row(index))).key.to_owned();
                    Row { key, field: self.read_below(place, pairs, path, &path::row(index)) }
                });
                let rows = rows.collect();
                State::Object { fields, rows }
            }
            Kind::List(_) => {
                let places = (0..entry.rows.min(MAX_ROWS)).filter_map(|index| Some((index, field.item(index)?)));
                let items = places.map(|(index, place)| self.read_below(place, pairs, path, &index.to_string()));
                State::List(items.collect())
            }
            Kind::Pick(alternatives) if entry.pick.is_some() || pairs.is_open(path) => {
                self.read_pick(&field, alternatives, pairs, path)
            }
            Kind::Object(_) | Kind::Pick(_) => State::Folded,
        };
        field
    }

    fn read_below(&mut self, place: Place, pairs: &Pairs<'_>, path: &mut String, step: &str) -> Field {
        let length = path.len();
        path.push('/');
        path.push_str(step);
        let field = self.read(place, pairs, path);
        path.truncate(length);
        field
    }

    /// The alternative that was picked; if another one was shown, with what of its value fits.
    fn read_pick(
        &mut self,
        field: &Field,
        alternatives: &[Alternative],
        pairs: &Pairs<'_>,
        path: &mut String,
    ) -> State {
        let entry = pairs.get(path);
        let last = alternatives.len() - 1;
        let chosen = entry.pick.unwrap_or(0).min(last);
        let shown = entry.shown.unwrap_or(chosen).min(last);
        let step = path::alternative(shown);
        let place = alternative_place(field, alternatives, shown);
        let read = self.inner(field, |builder| builder.read_below(place, pairs, path, &step));
        if shown == chosen {
            return State::Pick { chosen, inner: Box::new(read) };
        }
        self.has_new_pick = true;
        let reading = evaluate(&read, &mut Walk::default());
        let place = alternative_place(field, alternatives, chosen);
        let filled = reading
            .value
            .filter(|_| reading.is_filled)
            .map(|value| self.inner(field, |builder| builder.fill(place.clone(), &value)));
        let inner = match filled.filter(|filled| !filled.is_unfit()) {
            Some(filled) => filled,
            None => self.inner(field, |builder| builder.blank(place, true)),
        };
        State::Pick { chosen, inner: Box::new(inner) }
    }
}

/// How badly an alternative shows a value: whether it says another value, its parts that are JSON, what is wrong.
type PickRank = (bool, usize, usize);

fn property_places(field: &Field, rules: &ObjectRules) -> Vec<Place> {
    let place = |(name, schema, is_required): &(Arc<str>, Json, bool)| {
        field.below(Label::Property(Arc::clone(name)), schema.clone(), *is_required)
    };
    rules.properties.iter().map(place).collect()
}

fn alternative_place(field: &Field, alternatives: &[Alternative], index: usize) -> Place {
    field.below(Label::Alternative, alternatives[index].schema.clone(), field.place.is_required)
}

/// Whether browsers send a text as it is: they change returns, and parsers of HTML drop some controls.
fn is_typable(text: &str) -> bool {
    text.chars().all(|character| matches!(character, '\n' | '\t') || !character.is_control())
}

/// Whether it can be typed in one line as a key; an empty one is a row that is not filled in.
fn is_line(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| !character.is_control())
}

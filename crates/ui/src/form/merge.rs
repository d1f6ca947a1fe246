//! A schema's keywords after its `$ref` and `allOf` are resolved: one flat list. Every loop is bounded, by hops and by
//! fuel, because a server may send a schema that grows without end.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::decimal;
use crate::json::{Json, is_local, pointed};

/// References that are followed to reach one schema.
const MAX_HOPS: usize = 40;

/// Schemas that are looked at for one field.
const FIELD_FUEL: usize = 2_000;

/// The keywords that a form uses, or that it must know of to say that it does not show them.
const KNOWN: [&str; 42] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "nullable",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "contentMediaType",
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "contains",
    "unevaluatedProperties",
];

/// Those that restrict what the form lets through; only the server checks them.
const UNCHECKED: [&str; 9] = [
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "contains",
    "unevaluatedProperties",
    "propertyNames",
];

/// Why a schema has no form, as the end of a sentence.
pub(super) type Reason = String;

/// Flat keywords, and the choices between alternatives among them.
#[derive(Debug, Default, Clone)]
pub(super) struct Keywords {
    words: Vec<(Arc<str>, Json)>,
    /// Each `oneOf` and `anyOf`.
    pub(super) choices: Vec<Arc<[Json]>>,
}

/// Resolves references within one document.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    document: &'a Json,
    /// How many schemas it may still look at, in all and for the one field.
    fuel: usize,
    allowance: usize,
    /// The references that it followed since they were last taken.
    pub(super) followed: Vec<Arc<str>>,
}

// === impl Keywords ===

impl Keywords {
    pub(super) fn get(&self, word: &str) -> Option<&Json> {
        self.words.iter().find(|(name, _)| &**name == word).map(|(_, value)| value)
    }

    pub(super) fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.get(word).is_some())
    }

    pub(super) fn text(&self, word: &str) -> Option<Arc<str>> {
        match self.get(word) {
            Some(Json::Text(text)) if !text.trim().is_empty() => Some(Arc::clone(text)),
            _ => None,
        }
    }

    pub(super) fn is_true(&self, word: &str) -> bool {
        matches!(self.get(word), Some(Json::Bool(true)))
    }

    /// Whether it has rules that the form does not check.
    pub(super) fn has_unchecked(&self) -> bool {
        self.has_any(&UNCHECKED)
    }

    /// The types that it allows; none if it does not say.
    pub(super) fn types(&self) -> Vec<Arc<str>> {
        self.get("type").map(type_names).unwrap_or_default()
    }

    /// As a schema again, without what describes it and without the first of its choices.
    pub(super) fn base(&self) -> Json {
        let annotations = ["title", "description", "default", "examples", "example"];
        let mut entries: Vec<(Arc<str>, Json)> =
            self.words.iter().filter(|(word, _)| !annotations.contains(&&**word)).cloned().collect();
        let rest: Vec<Json> = self.choices.iter().skip(1).map(choice_of).collect();
        if !rest.is_empty() {
            entries.push(("allOf".into(), Json::List(rest.into())));
        }
        Json::Object(entries.into())
    }

    fn set(&mut self, word: &str, value: Json) {
        match self.words.iter_mut().find(|(name, _)| &**name == word) {
            Some(entry) => entry.1 = value,
            None => self.words.push((word.into(), value)),
        }
    }

    fn merge(&mut self, other: Self) -> Result<(), Reason> {
        for (word, theirs) in other.words {
            let value = match self.get(&word) {
                Some(ours) => merged(&word, ours, theirs)?,
                None => theirs,
            };
            self.set(&word, value);
        }
        self.choices.extend(other.choices);
        Ok(())
    }
}

/// A schema that allows one of several.
fn choice_of(alternatives: &Arc<[Json]>) -> Json {
    Json::Object(vec![("anyOf".into(), Json::List(Arc::clone(alternatives)))].into())
}

/// A schema that all of several must allow.
pub(super) fn all_of(schemas: Vec<Json>) -> Json {
    Json::Object(vec![("allOf".into(), Json::List(schemas.into()))].into())
}

fn type_names(types: &Json) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for name in std::iter::once(types).chain(types.items()).filter_map(Json::as_text) {
        if !names.iter().any(|known| **known == *name) && names.len() < 8 {
            names.push(name.into());
        }
    }
    // An integer is a number.
    if names.iter().any(|name| &**name == "number") {
        names.retain(|name| &**name != "integer");
    }
    names
}

fn merged(word: &str, ours: &Json, theirs: Json) -> Result<Json, Reason> {
    let larger = |expected: Ordering| match (ours.as_number(), theirs.as_number()) {
        (Some(one), Some(two)) if decimal::compare(one, two) == Some(expected) => ours.clone(),
        _ => theirs.clone(),
    };
    Ok(match word {
        "type" => {
            let (one, two) = (type_names(ours), type_names(&theirs));
            let is_in = |name: &str, all: &[Arc<str>]| all.iter().any(|other| **other == *name);
            let mut both: Vec<Json> = Vec::new();
            for name in &one {
                let narrower = if is_in(name, &two) || (&**name == "integer" && is_in("number", &two)) {
                    Some(Arc::clone(name))
                } else {
                    (&**name == "number" && is_in("integer", &two)).then(|| Arc::from("integer"))
                };
                both.extend(narrower.map(Json::Text));
            }
            if both.is_empty() {
                return Err("its parts ask for different types, so no value fits".to_owned());
            }
            Json::List(both.into())
        }
        "properties" => merged_properties(ours, &theirs),
        "required" => {
            let mut seen = HashSet::new();
            let both = ours.items().iter().chain(theirs.items()).filter_map(Json::as_text);
            Json::List(both.filter(|name| seen.insert(*name)).map(Json::text).collect())
        }
        "enum" => {
            let others: HashSet<String> = theirs.items().iter().map(Json::to_string).collect();
            let both: Arc<[Json]> =
                ours.items().iter().filter(|value| others.contains(&value.to_string())).cloned().collect();
            if both.is_empty() {
                return Err("its parts allow different values, so no value fits".to_owned());
            }
            Json::List(both)
        }
        "const" if !ours.is_same(&theirs) => return Err("its parts ask for different values, so no value fits".into()),
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => larger(Ordering::Greater),
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => larger(Ordering::Less),
        "items" | "additionalProperties" | "additionalItems" => match (ours, &theirs) {
            (Json::Bool(true), _) => theirs,
            (_, Json::Bool(true)) => ours.clone(),
            (Json::Bool(false), _) | (_, Json::Bool(false)) => Json::Bool(false),
            _ => all_of(vec![ours.clone(), theirs]),
        },
        _ => theirs,
    })
}

fn merged_properties(ours: &Json, theirs: &Json) -> Json {
    let mut entries = ours.entries().to_vec();
    let places: HashMap<Arc<str>, usize> =
        entries.iter().enumerate().map(|(index, (name, _))| (Arc::clone(name), index)).collect();
    for (name, schema) in theirs.entries() {
        match places.get(name) {
            Some(place) => entries[*place].1 = all_of(vec![entries[*place].1.clone(), schema.clone()]),
            None => entries.push((Arc::clone(name), schema.clone())),
        }
    }
    Json::Object(entries.into())
}

// === impl Resolver ===

impl<'a> Resolver<'a> {
    /// Looks at `fuel` schemas at most.
    pub(super) fn new(document: &'a Json, fuel: usize) -> Self {
        Self { document, fuel, allowance: 0, followed: Vec::new() }
    }

    /// Begins with the schema of another field.
    pub(super) fn begin(&mut self) {
        self.followed.clear();
        self.allowance = self.fuel.min(FIELD_FUEL);
        self.fuel -= self.allowance;
    }

    /// Ends with it: the references that were followed.
    pub(super) fn end(&mut self) -> Vec<Arc<str>> {
        self.fuel += std::mem::take(&mut self.allowance);
        std::mem::take(&mut self.followed)
    }

    /// The flat keywords of a schema.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn flatten(&mut self, schema: &Json) -> Result<Keywords, Reason> {
        self.flatten_at(schema, 0)
    }

    fn flatten_at(&mut self, schema: &Json, hops: usize) -> Result<Keywords, Reason> {
        if hops > MAX_HOPS {
            return Err("its references lead in a circle".to_owned());
        }
        self.allowance = self.allowance.checked_sub(1).ok_or("its schema is too large for a form")?;
        let entries = match schema {
            Json::Object(entries) => entries,
            Json::Bool(true) => return Ok(Keywords::default()),
            Json::Bool(false) => return Err("its schema allows no value".to_owned()),
            _ => return Err("its schema is not an object".to_owned()),
        };
        let mut out = Keywords::default();
        let mut own = Keywords::default();
        for (word, value) in entries.iter() {
            match (&**word, value) {
                ("$ref", Json::Text(target)) => {
                    let found = self.find(target)?;
                    self.followed.push(Arc::clone(target));
                    out.merge(self.flatten_at(&found, hops + 1)?)?;
                }
                ("$dynamicRef" | "$recursiveRef", _) => return Err("it refers to what only the caller knows".into()),
                ("allOf", Json::List(parts)) => {
                    for part in parts.iter() {
                        out.merge(self.flatten_at(part, hops + 1)?)?;
                    }
                }
                ("oneOf" | "anyOf", Json::List(alternatives)) if !alternatives.is_empty() => {
                    own.choices.push(Arc::clone(alternatives));
                }
                (name, _) if KNOWN.contains(&name) => own.words.push((Arc::clone(word), value.clone())),
                _ => {}
            }
        }
        out.merge(own)?;
        Ok(out)
    }

    /// The schema that a reference names.
    fn find(&self, target: &str) -> Result<Json, Reason> {
        if !is_local(self.document, target) {
            return Err("it refers to another document".to_owned());
        }
        let nothing = || "it refers to a part of the schema that is not there".to_owned();
        pointed(self.document, target).cloned().ok_or_else(nothing)
    }
}

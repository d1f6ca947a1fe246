//! JSON Schemas of what people write, for their editors. They are made of what the readers ask for while they read a
//! text that has every key, so that a schema cannot say anything else than its reader.
//!
//! A schema knows keys, types, words and patterns. What depends on other keys (which go with a transport, what the
//! file is called) only the reader knows: `toolcrib registry validate`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::kind::DefinitionKind;
use crate::problem::Sink;
use crate::reader::Cursor;
use crate::readers::reader;
use crate::trace::{Shape, TracedPlace};
use crate::yaml;

/// The schema of one kind of file, in the draft of 2020-12.
pub fn schema(kind: DefinitionKind) -> Value {
    let row = kind.row();
    if let Some(schema) = row.schema {
        return serde_json::from_str(schema).expect("a test reads it");
    }
    let title = format!("Toolcrib: {} ({}/<name>.yaml)", row.title, row.folder);
    let mut schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "title": title });
    let places = places(kind);
    let root = object(&places, "", kind);
    if let (Some(schema), Value::Object(root)) = (schema.as_object_mut(), root) {
        schema.extend(root);
    }
    schema
}

/// What the reader asks for in all samples. A key is required if it is wherever the map that holds it is.
fn places(kind: DefinitionKind) -> BTreeMap<String, TracedPlace> {
    let traced: Vec<_> = kind.row().samples.iter().map(|text| trace(kind, text)).collect();
    let mut all: BTreeMap<String, TracedPlace> = BTreeMap::new();
    for (path, asked) in traced.iter().flatten() {
        let merged = all.entry(path.clone()).or_insert_with(|| TracedPlace { is_required: true, shape: None });
        merged.shape = merged.shape.take().or_else(|| asked.shape.clone());
        let holders = traced.iter().filter(|places| places.contains_key(parent(path)));
        merged.is_required = holders.clone().all(|places| places.get(path).is_some_and(|asked| asked.is_required));
    }
    all
}

/// What the key at `path` is for.
fn words_of(kind: DefinitionKind, path: &str) -> Option<&'static str> {
    kind.row().words.iter().find(|(key, _)| *key == path).map(|(_, words)| *words)
}

fn trace(kind: DefinitionKind, text: &str) -> BTreeMap<String, TracedPlace> {
    let sink = Sink::tracing(Path::new("sample.yaml"));
    if let Some(root) = yaml::parse_into(text, &sink) {
        reader(kind)("sample", Cursor::root(&root, &sink));
    }
    sink.into_trace().into_places()
}

/// The path of the map or list that holds a place.
fn parent(path: &str) -> &str {
    path.strip_suffix("[]").unwrap_or_else(|| path.rsplit_once('.').map_or("", |(parent, _)| parent))
}

/// The places directly in the map at `path`, with their keys.
fn children<'a>(places: &'a BTreeMap<String, TracedPlace>, path: &str) -> Vec<(&'a str, &'a str, &'a TracedPlace)> {
    let in_it = places.iter().filter(|(place, _)| !place.is_empty() && !place.ends_with("[]") && parent(place) == path);
    in_it.map(|(place, asked)| (place.as_str(), place.rsplit('.').next().unwrap_or(place), asked)).collect()
}

fn object(places: &BTreeMap<String, TracedPlace>, path: &str, kind: DefinitionKind) -> Value {
    let children = children(places, path);
    let mut properties = Map::new();
    for (place, key, _) in &children {
        let mut property = value(places, place, kind);
        if let (Some(property), Some(words)) = (property.as_object_mut(), words_of(kind, place)) {
            property.insert("description".to_owned(), words.into());
        }
        properties.insert((*key).to_owned(), property);
    }
    let required: Vec<&str> =
        children.iter().filter(|(_, _, asked)| asked.is_required).map(|(_, key, _)| *key).collect();
    let mut object = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    let shape = places.get(path).and_then(|asked| asked.shape.as_ref());
    if matches!(shape, Some(Shape::Fields { is_closed: true } | Shape::FieldsOrText)) {
        object["additionalProperties"] = json!(false);
    }
    object
}

fn value(places: &BTreeMap<String, TracedPlace>, path: &str, kind: DefinitionKind) -> Value {
    // A text may be written without quotes, and is then taken for a number or a boolean by others.
    let text = json!(["string", "number", "boolean"]);
    match places.get(path).and_then(|asked| asked.shape.as_ref()) {
        None | Some(Shape::Any) => json!({}),
        Some(Shape::Text(None)) => json!({ "type": text }),
        Some(Shape::Text(Some(pattern))) => json!({ "type": text, "pattern": pattern }),
        Some(Shape::Flag) => json!({ "type": "boolean" }),
        Some(Shape::Number(least, most)) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Some(Shape::Decimal) => json!({ "type": "number" }),
        Some(Shape::Words(words)) => json!({ "enum": words }),
        Some(Shape::List) => json!({ "type": "array", "items": value(places, &format!("{path}[]"), kind) }),
        Some(Shape::TextOrTexts) => {
            json!({ "type": ["string", "number", "boolean", "array"], "items": { "type": text } })
        }
        Some(Shape::Map) => {
            let inner = children(places, path).first().map(|(place, _, _)| value(places, place, kind));
            json!({ "type": "object", "additionalProperties": inner.unwrap_or(json!({})) })
        }
        Some(Shape::Fields { .. }) => object(places, path, kind),
        Some(Shape::FieldsOrText) => json!({ "anyOf": [{ "type": text }, object(places, path, kind)] }),
    }
}

#[cfg(test)]
mod tests;

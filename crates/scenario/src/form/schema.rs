//! The tables as a JSON schema, for editors.

use serde_json::{Map, Value, json};

use super::{SCENARIO, SCOOTER, Shape, Table};

/// The JSON schema of scenario files in both forms.
pub(crate) fn schema() -> Value {
    let mut definitions = Map::new();
    let forms = [reference(&SCENARIO, &mut definitions), reference(&SCOOTER, &mut definitions)];
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of `toolcrib test`",
        "anyOf": forms,
        "$defs": definitions,
    })
}

/// The JSON schema of one map.
pub(crate) fn map(table: &'static Table) -> Value {
    let mut definitions = Map::new();
    let mut schema = object(table, &mut definitions);
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    schema
}

/// A table by reference, because steps hold steps.
fn reference(table: &'static Table, definitions: &mut Map<String, Value>) -> Value {
    if !definitions.contains_key(table.name) {
        definitions.insert(table.name.to_owned(), Value::Null);
        let schema = object(table, definitions);
        definitions.insert(table.name.to_owned(), schema);
    }
    json!({ "$ref": format!("#/$defs/{}", table.name) })
}

fn object(table: &'static Table, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for key in table.keys {
        let mut value = shape(key.shape, definitions);
        let about = if matches!(key.shape, Shape::Ignored) { "ignored, as muster's runner does" } else { key.about };
        if !about.is_empty() {
            value["description"] = about.into();
        }
        properties.insert(key.name.to_owned(), value);
    }
    let required: Vec<&str> = table.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": table.open})
}

fn shape(shape: Shape, definitions: &mut Map<String, Value>) -> Value {
    match shape {
        Shape::Text => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Number(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        Shape::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Time => json!({ "type": "string", "pattern": r"^([0-9.]+(h|m|s|ms|us|µs|ns))+$" }),
        Shape::Texts => texts(),
        Shape::ObjectOrTexts(table) => json!({ "anyOf": [reference(table, definitions), texts()] }),
        Shape::Words(words) => json!({ "enum": words }),
        Shape::Any | Shape::Ignored => json!({}),
        Shape::Map => json!({ "type": "object" }),
        Shape::TextMap => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        Shape::List => json!({ "type": "array" }),
        Shape::Object(table) => reference(table, definitions),
        Shape::Objects(table) => json!({ "type": "array", "items": reference(table, definitions) }),
    }
}

fn texts() -> Value {
    let text = json!({ "type": ["string", "number", "boolean"] });
    json!({ "anyOf": [text, { "type": "array", "items": text }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_has_a_definition() {
        let schema = schema();
        let text = schema.to_string();
        for part in text.split("\"$ref\":\"#/$defs/").skip(1) {
            let name = &part[..part.find('"').unwrap()];
            assert!(schema["$defs"][name].is_object(), "{name}");
        }
        assert!(text.contains("wait_for_state") && text.contains("tools_contain"));
    }
}

//! Values that fit a schema, for forms and for tools.

use serde_json::{Map, Value, json};

/// The schema's properties with their defaults; without a default only what is required, with something of its type.
pub(crate) fn filled(schema: &Value) -> Map<String, Value> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    let values = properties.into_iter().flatten().filter_map(|(name, property)| {
        let value = match property.get("default") {
            Some(default) => default.clone(),
            None if required.contains(&name.as_str()) => fitting(property),
            None => return None,
        };
        Some((name.clone(), value))
    });
    values.collect()
}

fn fitting(property: &Value) -> Value {
    if let Some(choice) = property["enum"].get(0) {
        return choice.clone();
    }
    match property["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_win_and_optional_fields_without_one_are_left_out() {
        let schema = json!({
            "properties": {
                "a": {"type": "integer", "default": 30},
                "b": {"type": "number"},
                "c": {"type": "string"},
                "d": {"enum": ["x", "y"]},
            },
            "required": ["b", "d"],
        });
        assert_eq!(Value::Object(filled(&schema)), json!({"a": 30, "b": 1, "d": "x"}));
    }
}

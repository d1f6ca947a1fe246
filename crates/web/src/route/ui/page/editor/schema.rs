//! The form of a definition: its schema as people fill it in. A text is a text; what is written first stands first. Not
//! here: what may be written, which only the reader of the file says.

use serde_json::{Map, Value};
use toolcrib_catalog::DefinitionKind;
use toolcrib_ui::form::Form;

/// What people write first.
const FIRST: [&str; 20] = [
    "name",
    "title",
    "description",
    "transport",
    "command",
    "args",
    "env",
    "inherit_env",
    "cwd",
    "url",
    "headers",
    "auth",
    "start",
    "timeouts",
    "steps",
    "onFailure",
    "output",
    "timeout",
    "serviceConfig",
    "labels",
];

/// Bounds of an argument, which few have: a form shows those that are there, and takes others by their names.
const BOUNDS: [&str; 6] = ["enum", "minimum", "maximum", "minLength", "maxLength", "pattern"];

/// The blank form of a kind; of a definition that is there without its name, which is that of its file.
pub(super) fn form(kind: DefinitionKind, is_new: bool) -> Form {
    let mut schema = toolcrib_catalog::schema(kind);
    plain(&mut schema);
    for at in ["/$defs/argument", "/properties/args/additionalProperties"] {
        if let Some(argument) = schema.pointer_mut(at) {
            without_bounds(argument);
        }
    }
    // The same as `store`.
    if let Some(options) = schema.pointer_mut("/$defs/options/properties").and_then(Value::as_object_mut) {
        options.shift_remove("output");
    }
    if let Some(properties) = schema["properties"].as_object_mut() {
        if !is_new {
            properties.shift_remove("name");
        }
        *properties = ordered(std::mem::take(properties));
    }
    if let (false, Some(required)) = (is_new, schema["required"].as_array_mut()) {
        required.retain(|name| name != "name");
    }
    // The page says what it is.
    if let Some(root) = schema.as_object_mut() {
        root.shift_remove("title");
    }
    match kind {
        DefinitionKind::Server => Form::folded(&schema),
        _ => Form::of(&schema),
    }
}

fn ordered(mut properties: Map<String, Value>) -> Map<String, Value> {
    let first = FIRST.iter().filter_map(|key| properties.shift_remove_entry(*key)).collect::<Vec<_>>();
    first.into_iter().chain(properties).collect()
}

fn without_bounds(argument: &mut Value) {
    let Some(properties) = argument["properties"].as_object_mut() else { return };
    properties.retain(|name, _| !BOUNDS.contains(&name.as_str()));
    argument["additionalProperties"] = true.into();
    argument["description"] = format!("Beside these it may have {}.", BOUNDS.join(", ")).into();
}

/// Takes out what is for editors alone: that a text without quotes may look like a number, and that other keys are
/// refused, which the reader says with its hint.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.shift_remove("unevaluatedProperties");
            if let Some(Value::Array(types)) = members.get_mut("type")
                && types.iter().any(|name| name == "string")
            {
                types.retain(|name| name != "number" && name != "boolean");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    members.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::String(words)) = members.get_mut("description") {
                *words = words.replace('`', "");
            }
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

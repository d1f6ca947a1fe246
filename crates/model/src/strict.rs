//! Whether a JSON schema lies in the subset that a provider can enforce (`strict`). Pure and careful: what is not known
//! to fit does not fit, and then the schema goes out without `strict`.

use serde_json::{Map, Value};

use crate::json::Json;

/// What a provider enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subset {
    /// OpenAI, "Structured model outputs": "Supported schemas".
    OpenAi,
    /// Anthropic, "Structured outputs": "JSON Schema limitations".
    Anthropic,
}

/// Why a schema does not fit, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at `{at}`: {why}")]
pub struct Misfit {
    /// A JSON pointer into the schema, `#` for the whole.
    pub at: String,
    /// What the subset lacks.
    pub why: &'static str,
}

/// How deep objects may nest.
const DEPTH: usize = 10;
/// How many properties all objects may have together.
const PROPERTIES: usize = 5_000;
/// How many values all enumerations may have together.
const VALUES: usize = 1_000;
/// How long the names of properties and the values of enumerations may be together, in characters.
const CHARACTERS: usize = 120_000;
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "null", "object", "array"];

/// Whether `schema` lies in `subset`.
pub fn fits(schema: &Json, subset: Subset) -> Result<(), Misfit> {
    let value = schema.to_value();
    let mut check = Check { root: &value, subset, properties: 0, values: 0, characters: 0, open: Vec::new() };
    if value.get("type").and_then(Value::as_str) != Some("object") {
        return Err(misfit("#", "the whole is not an object"));
    }
    if value.get("anyOf").is_some() {
        return Err(misfit("#", "the whole has alternatives"));
    }
    check.schema(&value, "#", 0)
}

fn misfit(at: &str, why: &'static str) -> Misfit {
    Misfit { at: at.to_owned(), why }
}

struct Check<'a> {
    root: &'a Value,
    subset: Subset,
    properties: usize,
    values: usize,
    characters: usize,
    /// The references that are being followed.
    open: Vec<String>,
}

impl Check<'_> {
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) -> Result<(), Misfit> {
        let Some(schema) = schema.as_object() else { return Err(misfit(at, "a schema that is no object")) };
        if depth > DEPTH {
            return Err(misfit(at, "nested too deep"));
        }
        if let Some(target) = schema.get("$ref") {
            return self.reference(target, at, depth);
        }
        for (key, value) in schema {
            self.keyword(key, value, at, depth)?;
        }
        let types = types(schema).ok_or_else(|| misfit(at, "an unknown type"))?;
        if types.is_empty() && !["anyOf", "enum", "const"].iter().any(|key| schema.contains_key(*key)) {
            return Err(misfit(at, "no type"));
        }
        if types.contains(&"object") {
            self.object(schema, at)?;
        }
        if types.contains(&"array") && !schema.contains_key("items") {
            return Err(misfit(at, "an array without `items`"));
        }
        Ok(())
    }

    fn keyword(&mut self, key: &str, value: &Value, at: &str, depth: usize) -> Result<(), Misfit> {
        let open_ai = self.subset == Subset::OpenAi;
        let below = |name: &str| format!("{at}/{key}/{name}");
        match key {
            "type" | "description" | "title" | "required" | "additionalProperties" => Ok(()),
            "$schema" if at == "#" => Ok(()),
            "properties" | "$defs" | "definitions" => {
                if key != "properties" && at != "#" {
                    return Err(misfit(at, "definitions below the whole"));
                }
                let Some(members) = value.as_object() else { return Err(misfit(at, "`properties` is no object")) };
                // Definitions begin at the top; what refers to them adds its own depth.
                let depth = if key == "properties" { depth + 1 } else { 1 };
                members.iter().try_for_each(|(name, schema)| self.schema(schema, &below(name), depth))
            }
            "items" => self.schema(value, &format!("{at}/items"), depth + 1),
            "anyOf" => {
                let Some(choices) = value.as_array().filter(|choices| !choices.is_empty()) else {
                    return Err(misfit(at, "`anyOf` is no list"));
                };
                let numbered = choices.iter().enumerate();
                numbered.into_iter().try_for_each(|(n, choice)| self.schema(choice, &below(&n.to_string()), depth + 1))
            }
            "enum" | "const" => self.fixed(value, at),
            "format" if value.as_str().is_some_and(|name| FORMATS.contains(&name)) => Ok(()),
            "format" if !open_ai && value == "uri" => Ok(()),
            "default" if !open_ai => Ok(()),
            "minItems" if !open_ai && matches!(value.as_u64(), Some(0 | 1)) => Ok(()),
            "minItems" | "maxItems" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
            | "multipleOf"
                if open_ai && value.is_number() =>
            {
                Ok(())
            }
            "pattern" if open_ai && value.is_string() => Ok(()),
            _ => Err(misfit(&format!("{at}/{key}"), "a keyword that is not enforced")),
        }
    }

    /// A reference to a definition of this schema. Anthropic enforces none that leads back to itself.
    fn reference(&mut self, target: &Value, at: &str, depth: usize) -> Result<(), Misfit> {
        let name = target.as_str().and_then(|text| {
            let rest = text.strip_prefix("#/$defs/").or_else(|| text.strip_prefix("#/definitions/"))?;
            (!rest.contains(['/', '~', '%'])).then_some((text, rest))
        });
        let found = name.and_then(|(text, name)| {
            let place = if text.starts_with("#/$defs/") { "$defs" } else { "definitions" };
            Some((text, self.root.get(place)?.get(name)?))
        });
        let Some((text, definition)) = found else { return Err(misfit(at, "a reference that leads nowhere")) };
        if self.subset == Subset::OpenAi {
            return Ok(());
        }
        if self.open.iter().any(|open| open == text) {
            return Err(misfit(at, "a schema that contains itself"));
        }
        let definition = definition.clone();
        self.open.push(text.to_owned());
        let outcome = self.schema(&definition, at, depth + 1);
        self.open.pop();
        outcome
    }

    fn object(&mut self, schema: &Map<String, Value>, at: &str) -> Result<(), Misfit> {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(misfit(at, "`additionalProperties` is not `false`"));
        }
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Err(misfit(at, "an object without `properties`"));
        };
        let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if properties.keys().any(|name| !required.iter().any(|one| one == name)) {
            return Err(misfit(at, "a property that is not required"));
        }
        self.properties += properties.len();
        self.characters += properties.keys().map(String::len).sum::<usize>();
        if self.properties > PROPERTIES || self.characters > CHARACTERS {
            return Err(misfit(at, "too many properties"));
        }
        Ok(())
    }

    fn fixed(&mut self, value: &Value, at: &str) -> Result<(), Misfit> {
        let one = [value.clone()];
        let values = value.as_array().map_or(&one[..], Vec::as_slice);
        if values.is_empty() || values.iter().any(|value| value.is_object() || value.is_array()) {
            return Err(misfit(at, "an enumeration of more than plain values"));
        }
        self.values += values.len();
        self.characters += values.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
        if self.values > VALUES || self.characters > CHARACTERS {
            return Err(misfit(at, "too many values of enumerations"));
        }
        Ok(())
    }
}

/// The types of a schema; `None` where one of them is unknown.
fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    let names = match schema.get("type") {
        None => Vec::new(),
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
    };
    names.iter().all(|name| TYPES.contains(name)).then_some(names)
}

#[cfg(test)]
mod tests;

//! A tool's JSON schema read into [`Type`]s: `$ref` resolved locally, unions and nested objects kept, everything
//! bounded. Odd schemas give `Type::Cut` or `Type::Any`, never an error.

mod read;

use serde_json::Value;

use crate::document::Parameter;
use crate::text::prefix;

/// Larger schemas are not read at all, in bytes.
pub const SCHEMA_BYTES: usize = 512 * 1024;
/// How many parameters search reads of one tool, and how many texts of one `enum`.
const PARAMETERS: usize = 128;
const VALUES: usize = 32;
/// How much of a parameter's name, description or value search reads, in bytes.
const PARAMETER_BYTES: usize = 512;

/// The type of a value as a model needs to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Nothing is said about the value.
    Any,
    /// A name: `string`, `integer`, or a definition that contains itself.
    Name(String),
    /// Fixed values as JSON text; `cut` when there are more.
    Values {
        /// The values.
        values: Vec<String>,
        /// Whether the schema has more.
        cut: bool,
    },
    /// One of several.
    Union(Vec<Type>),
    /// An array of one type.
    Array(Box<Type>),
    /// An object with named fields.
    Object(Fields),
    /// An object with any keys and values of one type.
    Map(Box<Type>),
    /// Something that is too deep, too large or not understood.
    Cut,
}

/// The fields of an object: required ones first, each group in the order of the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// The fields.
    pub fields: Vec<Field>,
    /// Whether the schema has more.
    pub cut: bool,
}

/// One field of an object or parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name, a bounded and printable text.
    pub name: String,
    /// Whether it must be given.
    pub required: bool,
    /// Its type.
    pub ty: Type,
}

/// Reads a schema; `Type::Cut` when it is not one.
pub fn read(raw: &str) -> Type {
    parse(raw).map_or(Type::Cut, |schema| read::Reader::new(&schema).root())
}

/// The parameters of a tool for the index. A schema that cannot be read has none.
pub fn parameters(raw: &str) -> Vec<Parameter> {
    let Some(schema) = parse(raw) else { return Vec::new() };
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let cut = |text: &str| prefix(text, PARAMETER_BYTES).to_owned();
    let parameter = |(name, schema): (&String, &Value)| Parameter {
        name: cut(name),
        description: schema.get("description").and_then(Value::as_str).map(cut).unwrap_or_default(),
        values: match schema.get("enum").and_then(Value::as_array) {
            Some(values) => values.iter().filter_map(Value::as_str).take(VALUES).map(cut).collect(),
            None => Vec::new(),
        },
    };
    properties.iter().take(PARAMETERS).map(parameter).collect()
}

fn parse(raw: &str) -> Option<Value> {
    if raw.len() > SCHEMA_BYTES {
        return None;
    }
    serde_json::from_str(raw).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests;

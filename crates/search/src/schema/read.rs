//! From a JSON schema to a [`Type`], with bounds on depth, width and work.

use serde_json::{Map, Value};

use super::{Field, Fields, Type};
use crate::text::prefix;

/// Deeper parts are cut.
const DEPTH: usize = 5;
/// How many schemas are read in all: references may repeat a definition in exponential number.
const NODES: usize = 400;
/// How many fields an object, how many types a union and how many values an `enum` shows.
const FIELDS: usize = 64;
const TYPES: usize = 6;
const VALUES: usize = 5;
/// How long a value of an `enum` or a name may be, in bytes.
const TEXT_BYTES: usize = 64;

/// Reads one document.
pub(super) struct Reader<'a> {
    root: &'a Value,
    /// The references that are being resolved, to see cycles.
    open: Vec<&'a str>,
    depth: usize,
    nodes: usize,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, open: Vec::new(), depth: 0, nodes: NODES }
    }

    pub(super) fn root(mut self) -> Type {
        // Arguments are an object even where the schema does not say so.
        match self.schema(self.root) {
            Type::Any => Type::Object(Fields::default()),
            Type::Name(name) if name == "object" => Type::Object(Fields::default()),
            ty => ty,
        }
    }

    fn schema(&mut self, schema: &'a Value) -> Type {
        if self.depth >= DEPTH || self.nodes == 0 {
            return Type::Cut;
        }
        self.nodes -= 1;
        self.depth += 1;
        let ty = match schema {
            Value::Object(schema) => self.object_schema(schema),
            Value::Bool(false) => Type::Name("never".into()),
            _ => Type::Any,
        };
        self.depth -= 1;
        ty
    }

    fn object_schema(&mut self, schema: &'a Map<String, Value>) -> Type {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.reference(reference);
        }
        if let Some(value) = schema.get("const") {
            return Type::Values { values: vec![literal(value)], cut: false };
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
            let shown = values.iter().take(VALUES).map(literal).collect();
            return Type::Values { values: shown, cut: values.len() > VALUES };
        }
        if schema.contains_key("properties") {
            return self.fields(schema);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(types) = schema.get(key).and_then(Value::as_array).filter(|types| !types.is_empty()) {
                let read = types.iter().take(TYPES).map(|ty| self.schema(ty)).collect();
                return union(read, types.len() > TYPES);
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array).filter(|parts| !parts.is_empty()) {
            return self.all_of(parts);
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.typed(name, schema),
            Some(Value::Array(names)) => {
                let read = names.iter().filter_map(Value::as_str).take(TYPES).map(|name| self.typed(name, schema));
                union(read.collect(), names.len() > TYPES)
            }
            _ if schema.contains_key("items") || schema.contains_key("prefixItems") => self.typed("array", schema),
            _ if schema.get("additionalProperties").is_some_and(Value::is_object) => self.typed("object", schema),
            _ => Type::Any,
        }
    }

    fn typed(&mut self, name: &str, schema: &'a Map<String, Value>) -> Type {
        match name {
            "array" => match schema.get("items") {
                Some(items @ Value::Object(_)) => Type::Array(Box::new(self.schema(items))),
                _ => Type::Array(Box::new(Type::Any)),
            },
            "object" => match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => Type::Map(Box::new(self.schema(values))),
                _ => Type::Name("object".into()),
            },
            _ => Type::Name(printable(name)),
        }
    }

    fn reference(&mut self, reference: &'a str) -> Type {
        let name = || Type::Name(printable(reference.rsplit('/').next().unwrap_or_default()));
        if self.open.contains(&reference) {
            return match reference {
                "#" => Type::Cut,
                _ => name(),
            };
        }
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) else {
            return Type::Cut;
        };
        self.open.push(reference);
        let ty = self.schema(target);
        self.open.pop();
        ty
    }

    /// The parts' fields together when all are objects, otherwise the first part that says something.
    fn all_of(&mut self, parts: &'a [Value]) -> Type {
        let read: Vec<Type> = parts.iter().take(TYPES).map(|part| self.schema(part)).collect();
        let mut merged = Fields { fields: Vec::new(), cut: parts.len() > TYPES };
        for ty in &read {
            if let Type::Object(fields) = ty {
                merged.cut |= fields.cut;
                for field in &fields.fields {
                    if !merged.fields.iter().any(|known| known.name == field.name) {
                        merged.fields.push(field.clone());
                    }
                }
            }
        }
        if !merged.fields.is_empty() {
            merged.fields.sort_by_key(|field| !field.required);
            return Type::Object(merged);
        }
        read.into_iter().find(|ty| *ty != Type::Any).unwrap_or(Type::Any)
    }

    fn fields(&mut self, schema: &'a Map<String, Value>) -> Type {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Type::Any };
        let required: Vec<&str> = match schema.get("required").and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).take(FIELDS).collect(),
            None => Vec::new(),
        };
        // Draft 3 wrote `required: true` into the property; some servers still do.
        let is_required = |name: &str, property: &Value| {
            required.contains(&name) || property.get("required").and_then(Value::as_bool) == Some(true)
        };
        let (first, second): (Vec<_>, Vec<_>) = properties.iter().partition(|(name, ty)| is_required(name, ty));
        let mut fields = Vec::new();
        for (group, required) in [(first, true), (second, false)] {
            for (name, property) in group.into_iter().take(FIELDS.saturating_sub(fields.len())) {
                fields.push(Field { name: field_name(name), required, ty: self.schema(property) });
            }
        }
        Type::Object(Fields { cut: fields.len() < properties.len(), fields })
    }
}

/// A union without repetitions and nesting; of one type it is the type.
fn union(types: Vec<Type>, cut: bool) -> Type {
    let mut flat: Vec<Type> = Vec::new();
    let inner = types.into_iter().flat_map(|ty| match ty {
        Type::Union(types) => types,
        ty => vec![ty],
    });
    for ty in inner {
        if !flat.contains(&ty) {
            flat.push(ty);
        }
    }
    if cut || flat.is_empty() {
        flat.push(Type::Cut);
    }
    match flat.pop() {
        Some(only) if flat.is_empty() => only,
        last => {
            flat.extend(last);
            Type::Union(flat)
        }
    }
}

/// A value as JSON text; long texts are cut, what is not a scalar is only hinted at.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES => {
            Value::String(format!("{}…", prefix(text, TEXT_BYTES))).to_string()
        }
        Value::Array(_) | Value::Object(_) => "…".into(),
        value => value.to_string(),
    }
}

/// Type names are a server's text: only letters, digits and a few signs are shown.
fn printable(name: &str) -> String {
    let shown: String =
        prefix(name, TEXT_BYTES).chars().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')).collect();
    if shown.is_empty() { "any".into() } else { shown }
}

/// A field's name, as JSON text where it is not an identifier.
fn field_name(name: &str) -> String {
    let plain = !name.is_empty() && name.len() <= TEXT_BYTES;
    if plain && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')) {
        return name.to_owned();
    }
    literal(&Value::String(name.to_owned()))
}

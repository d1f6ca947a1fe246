//! Arguments against a tool's schema, before the server is asked; and structured content against what its tool promises,
//! where a person looks at it.
//!
//! Whether they fit is answered first; only then is it said why not. Anyone who calls keeps what takes long off the
//! workers. A schema that does not compile disables the check for its tool, with one warning, and arguments for which
//! it would take too long are not checked: the server decides then.

mod cost;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use toolcrib_base::ToolId;
use toolcrib_protocol::Raw;

use cost::{Cost, Effort};

/// A schema of more bytes is not compiled.
const SCHEMA_BYTES: usize = 256 * 1024;
/// A schema of up to so many bytes and without patterns is compiled within a millisecond or two.
const SMALL_SCHEMA_BYTES: usize = 16 * 1024;
/// How many faults one answer names.
const FAULTS: usize = 3;
/// How much of the schema an answer shows, in characters.
const EXCERPT: usize = 300;

/// A compiled schema, or nothing where there is none that can be used.
#[derive(Debug)]
pub struct ArgumentCheck(Option<CompiledSchema>);

#[derive(Debug)]
struct CompiledSchema {
    validator: Validator,
    schema: Value,
    cost: Cost,
    /// What is checked, where the whole of it is wrong.
    subject: &'static str,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The arguments fit, or there is no schema to check them with.
    Fits,
    /// What is wrong with them, with the part of the schema that says so.
    Faults(String),
    /// To find out takes too long.
    Unchecked,
}

impl ArgumentCheck {
    /// Compiles a tool's input schema. References to the network are never followed.
    pub fn compile(id: &ToolId, schema: Option<&Raw>) -> Self {
        let Some(schema) = schema else { return Self(None) };
        match CompiledSchema::of(schema, "the arguments") {
            Ok(compiled) => Self(Some(compiled)),
            Err(why) => {
                tracing::warn!(target: "toolcrib::server", server = %id.server, "the schema of `{}` {why}, so arguments are not checked", id.tool);
                Self(None)
            }
        }
    }

    /// Whether this schema is compiled quickly enough for a worker.
    pub fn compiles_at_once(schema: Option<&Raw>) -> bool {
        schema.is_none_or(|schema| schema.bytes().len() <= SMALL_SCHEMA_BYTES && !schema.as_str().contains("\"pattern"))
    }

    /// What can be said at once: nothing where it takes long, or where a fault has to be explained.
    pub fn at_once(&self, arguments: &Raw) -> Option<CheckOutcome> {
        let Some(CompiledSchema { validator, schema, cost, .. }) = &self.0 else { return Some(CheckOutcome::Fits) };
        let value = arguments.to_value();
        match cost.effort(&value, arguments.bytes().len()) {
            Effort::TooMuch => Some(CheckOutcome::Unchecked),
            Effort::Large => None,
            Effort::Small => {
                let fits = validator.is_valid(&value) || validator.is_valid(&without_nulls(value, schema));
                fits.then_some(CheckOutcome::Fits)
            }
        }
    }

    /// Checks arguments, however long it takes.
    pub fn check(&self, arguments: &Raw) -> CheckOutcome {
        let Some(compiled) = &self.0 else { return CheckOutcome::Fits };
        let value = arguments.to_value();
        let effort = compiled.cost.effort(&value, arguments.bytes().len());
        if effort == Effort::TooMuch {
            return CheckOutcome::Unchecked;
        }
        if compiled.validator.is_valid(&value) {
            return CheckOutcome::Fits;
        }
        // Many models write null for what they leave out. The server gets it as it is.
        let value = without_nulls(value, &compiled.schema);
        if compiled.validator.is_valid(&value) {
            CheckOutcome::Fits
        } else {
            CheckOutcome::Faults(compiled.explain(&value, effort))
        }
    }
}

/// Checks structured content against the schema that its tool promises, however long it takes.
pub fn check_structured(schema: &Raw, structured: &Raw) -> CheckOutcome {
    // The schema is at fault, not the content: nothing can be said of it.
    let Ok(compiled) = CompiledSchema::of(schema, "the content") else { return CheckOutcome::Unchecked };
    let value = structured.to_value();
    match compiled.cost.effort(&value, structured.bytes().len()) {
        Effort::TooMuch => CheckOutcome::Unchecked,
        _ if compiled.validator.is_valid(&value) => CheckOutcome::Fits,
        effort => CheckOutcome::Faults(compiled.explain(&value, effort)),
    }
}

impl CompiledSchema {
    /// Compiles a schema; the error reads after what it is the schema of.
    fn of(schema: &Raw, subject: &'static str) -> Result<Self, String> {
        if schema.bytes().len() > SCHEMA_BYTES {
            return Err("is too large".to_owned());
        }
        let value = schema.to_value();
        let unusable = |why: &dyn std::fmt::Display| format!("is not valid ({why})");
        let cost = Cost::of(&value).map_err(|too_much| unusable(&too_much))?;
        let patterns = PatternOptions::regex().size_limit(cost::PATTERN_BYTES);
        let built = jsonschema::options().with_pattern_options(patterns).build(&value);
        let validator = built.map_err(|error| unusable(&error))?;
        Ok(Self { validator, schema: value, cost, subject })
    }

    /// What is wrong with arguments that do not fit. Errors take a thousand times the memory of a plain no, so where
    /// there may be many, only the first is looked for, and none where it would hold those of all alternatives.
    fn explain(&self, value: &Value, effort: Effort) -> String {
        let errors: Vec<_> = match effort {
            Effort::Small => self.validator.iter_errors(value).take(FAULTS).collect(),
            _ if self.cost.has_alternatives => Vec::new(),
            _ => self.validator.validate(value).err().into_iter().collect(),
        };
        if errors.is_empty() {
            let part = relevant(&self.schema, "");
            return format!("- {}: too large to say where\n  schema: {part}", self.subject);
        }
        let mut text = String::new();
        for error in errors {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { self.subject.to_owned() } else { format!("`{place}`") };
            let said: String = said(&error).chars().take(EXCERPT).collect();
            text.push_str(&format!("- {place}: {said}"));
            let part = relevant(&self.schema, error.schema_path().as_str());
            text.push_str(&format!("\n  schema: {part}\n"));
        }
        text.trim_end().to_owned()
    }
}

/// What is wrong in one place, in words that name the argument.
fn said(error: &jsonschema::ValidationError<'_>) -> String {
    use jsonschema::error::{TypeKind, ValidationErrorKind};
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("required field {property} is missing"),
        ValidationErrorKind::Type { kind } => {
            let expected = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or "),
            };
            format!("wrong type: expected {expected}, got {}", error.instance())
        }
        _ => error.to_string(),
    }
}

/// The arguments without those that are null and need not be there.
fn without_nulls(mut value: Value, schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, value| !value.is_null() || is_required(name));
    }
    value
}

/// The part of the schema around the rule that failed: the property's own schema rather than the single keyword.
fn relevant(schema: &Value, path: &str) -> String {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let part = schema.pointer(parent).unwrap_or(schema);
    let text = part.to_string();
    if text.chars().count() <= EXCERPT {
        return text;
    }
    // The names and types of the properties say more than the beginning of a long text.
    let Some(properties) = part.get("properties").and_then(Value::as_object) else {
        return text.chars().take(EXCERPT).chain(['…']).collect();
    };
    let types = properties.iter().map(|(name, property)| {
        let kind = property.get("type").map_or_else(|| "any".to_owned(), |kind| kind.to_string().replace('"', ""));
        format!("{name}: {kind}")
    });
    let required = part.get("required").map(|required| format!("; required: {required}")).unwrap_or_default();
    let text = format!("{{{}}}{required}", types.collect::<Vec<_>>().join(", "));
    text.chars().take(2 * EXCERPT).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, arguments: &Value) -> Option<String> {
        let id = ToolId::parse("s/t").unwrap();
        match ArgumentCheck::compile(&id, Some(&Raw::from_value(schema))).check(&Raw::from_value(arguments)) {
            CheckOutcome::Fits => None,
            CheckOutcome::Faults(faults) => Some(faults),
            CheckOutcome::Unchecked => panic!("it should be checked"),
        }
    }

    /// `levels` alternatives, each between the next and the next.
    fn bomb(levels: usize) -> Value {
        let name = |level: usize| json!({"$ref": format!("#/$defs/n{level}")});
        let mut definitions = serde_json::Map::from_iter([("n0".to_owned(), json!({"type": "string"}))]);
        for level in 1..=levels {
            let twice = json!({"anyOf": [name(level - 1), {"allOf": [name(level - 1)]}]});
            definitions.insert(format!("n{level}"), twice);
        }
        let items = name(levels);
        json!({"type": "object", "properties": {"x": {"type": "array", "items": items}}, "$defs": definitions})
    }

    #[test]
    fn schemas_that_explode_are_answered_by_yes_or_no_or_not_at_all() {
        let id = ToolId::parse("s/t").unwrap();
        let check = |levels| {
            let check = ArgumentCheck::compile(&id, Some(&Raw::from_value(&bomb(levels))));
            let arguments = Raw::from_value(&json!({"x": [1]}));
            (check.at_once(&arguments), check.check(&arguments))
        };
        let (first, then) = check(4);
        assert_eq!(first, None, "what has to be explained is explained elsewhere");
        assert!(matches!(&then, CheckOutcome::Faults(text) if text.contains("`/x/0`")), "{then:?}");
        let (first, then) = check(14);
        assert_eq!(first, None, "it takes long");
        assert!(matches!(&then, CheckOutcome::Faults(text) if text.contains("too large to say where")), "{then:?}");
        assert_eq!(check(18), (Some(CheckOutcome::Unchecked), CheckOutcome::Unchecked));
    }

    #[test]
    fn the_first_fault_of_many_is_named_where_nothing_multiplies() {
        let schema = json!({"properties": {"x": {"items": {"type": "object", "required": ["a"]}}}});
        let text = check(&schema, &json!({"x": vec![json!({}); 10_000]})).unwrap();
        assert!(text.contains("`/x/0`: required field \"a\" is missing") && !text.contains("/x/1"), "{text}");
    }

    #[test]
    fn faults_name_the_place_and_show_the_rule() {
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]});
        assert_eq!(check(&schema, &json!({"n": 1})), None);
        assert_eq!(check(&schema, &json!({"n": 1, "other": null})), None);
        assert!(check(&schema, &json!({"n": null})).is_some());
        let missing = check(&schema, &json!({})).unwrap();
        assert!(missing.contains("required field \"n\" is missing"), "{missing}");
        let wrong = check(&schema, &json!({"n": "x"})).unwrap();
        assert!(wrong.contains("wrong type: expected integer, got \"x\""), "{wrong}");
        assert!(wrong.contains("`/n`") && wrong.contains("\"minimum\":1"), "{wrong}");
    }

    #[test]
    fn structured_content_is_held_to_what_was_promised() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let check =
            |schema: &Value, content: &Value| check_structured(&Raw::from_value(schema), &Raw::from_value(content));
        assert_eq!(check(&schema, &json!({"n": 1, "more": null})), CheckOutcome::Fits);
        for (content, said) in [
            (json!({}), "- the content: required field \"n\" is missing"),
            (json!({"n": null}), "`/n`: wrong type"),
            (json!([]), "- the content: wrong type"),
        ] {
            let found = check(&schema, &content);
            assert!(matches!(&found, CheckOutcome::Faults(text) if text.contains(said)), "{content}: {found:?}");
        }
        assert_eq!(check(&json!({"type": "objekt"}), &json!({})), CheckOutcome::Unchecked);
    }

    #[test]
    fn a_schema_that_does_not_compile_disables_the_check() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"type": "string", "required": true}}}),
            json!({"type": "objekt"}),
            json!({"$ref": "http://127.0.0.1:1/schema.json"}),
            json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
        ] {
            assert_eq!(check(&schema, &json!({"a": 1})), None, "{schema}");
        }
    }

    #[test]
    fn large_schemas_are_shown_short() {
        let properties: serde_json::Map<_, _> =
            (0..50).map(|n| (format!("p{n}"), json!({"type": "string", "description": "x".repeat(100)}))).collect();
        let schema = json!({"type": "object", "properties": properties, "required": ["p1"]});
        let text = check(&schema, &json!({})).unwrap();
        assert!(text.len() < 1_200 && text.contains("p7: string"), "{text}");
    }
}

//! How much work a schema may make: a few hundred bytes of references can stand for more checks than a lifetime has
//! time for, and schemas come from servers that are not trusted. What one check costs is estimated from above, from the
//! schema and the arguments, before it begins: the validator itself cannot be stopped half way.

use std::collections::HashMap;

use jsonschema::PatternOptions;
use serde_json::{Map, Value};

/// How many references and nested schemas may follow each other; the check itself goes as deep.
const DEPTH: usize = 128;
/// How many patterns one schema may have; each may take [`PATTERN_BYTES`] once it is compiled.
const PATTERNS: usize = 64;
/// The largest compiled pattern.
pub(super) const PATTERN_BYTES: usize = 1024 * 1024;
/// How many comparisons of a value with a schema one check may make: some tenths of a second.
const MOST: u64 = 2_000_000;
/// Up to how many a check is done at once, by the worker that serves the call: a millisecond.
const SMALL: u64 = 20_000;
/// A compiled pattern of so many bytes has some hundred states.
const SMALL_PATTERN_BYTES: usize = 16 * 1024;
/// What a byte costs that a pattern is matched with, in comparisons, for small patterns and for others. Matching takes
/// linear time, but where a pattern is made for it, each byte is compared with each state.
const SMALL_PATTERN: u64 = 16;
const LARGE_PATTERN: u64 = 1_024;

/// What one check costs at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cost {
    /// Ways through the schema, references followed, until it ends or comes back to itself.
    ways: u64,
    /// How many of them come back: each is taken once more for every level of the arguments.
    returns: u64,
    /// What each byte of the arguments costs that meets the patterns on these ways.
    patterns: u64,
    /// Whether there are alternatives: then a fault holds the faults of each of them, and so on below.
    pub(super) has_alternatives: bool,
}

/// How a check of certain arguments is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// At once.
    Small,
    /// On its own thread.
    Large,
    /// Not at all.
    TooMuch,
}

/// Why a schema is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    #[error("the schema nests or refers more than {DEPTH} levels deep")]
    Depth,
    #[error("the schema expands to more than {MOST} checks")]
    Ways,
    #[error("the schema has more than {PATTERNS} patterns")]
    Patterns,
    #[error("the schema refers to something outside of itself or by more than one name")]
    Reference,
}

/// The walk over one schema.
struct Walk<'a> {
    root: &'a Value,
    /// Schemas by their anchors; `None` where two have the same.
    anchors: HashMap<&'a str, Option<&'a Value>>,
    /// A part of it has its own address, so that references below mean something else.
    has_parts: bool,
    /// By place in memory: what is known, or that it is being looked at.
    seen: HashMap<usize, Option<Cost>>,
}

// === impl Cost ===

impl Cost {
    /// The cost of a schema, or why it may not be used at all.
    pub(super) fn of(schema: &Value) -> Result<Self, TooMuch> {
        let mut walk = Walk { root: schema, anchors: HashMap::new(), has_parts: false, seen: HashMap::new() };
        walk.survey()?;
        let cost = walk.schema(schema, 0)?;
        if cost.ways > MOST { Err(TooMuch::Ways) } else { Ok(cost) }
    }

    /// How a check of these arguments is done.
    pub(super) fn effort(self, arguments: &Value, bytes: usize) -> Effort {
        let bytes = bytes as u64;
        let patterns = self.patterns.saturating_mul(bytes);
        // The common case: short arguments, and a schema that does not contain itself more than once. A value has a
        // byte.
        if self.returns <= 1 && self.ways.saturating_mul(bytes).saturating_add(patterns) <= SMALL {
            return Effort::Small;
        }
        let (values, depth) = size(arguments);
        let levels = u32::try_from(depth).unwrap_or(u32::MAX);
        let turns = self.returns.max(1).saturating_pow(levels);
        let work = self.ways.saturating_mul(values).saturating_add(patterns).saturating_mul(turns);
        if work <= SMALL {
            Effort::Small
        } else if work <= MOST {
            Effort::Large
        } else {
            Effort::TooMuch
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            ways: self.ways.saturating_add(other.ways),
            returns: self.returns.saturating_add(other.returns),
            patterns: self.patterns.saturating_add(other.patterns),
            has_alternatives: self.has_alternatives || other.has_alternatives,
        }
    }
}

/// What a byte costs that a pattern is matched with.
fn weight(pattern: &str) -> u64 {
    let small = PatternOptions::regex().size_limit(SMALL_PATTERN_BYTES);
    let schema = serde_json::json!({ "pattern": pattern });
    match jsonschema::options().with_pattern_options(small).build(&schema) {
        Ok(_) => SMALL_PATTERN,
        Err(_) => LARGE_PATTERN,
    }
}

/// How many values there are, and how deep they nest. The depth is bounded where arguments are parsed.
fn size(value: &Value) -> (u64, usize) {
    let below = |values: &mut dyn Iterator<Item = &Value>| {
        values.map(size).fold((1, 0), |(count, depth), (more, deep)| (count + more, depth.max(deep)))
    };
    let (count, depth) = match value {
        Value::Array(items) => below(&mut items.iter()),
        Value::Object(members) => below(&mut members.values()),
        _ => return (1, 0),
    };
    (count, depth + 1)
}

// === impl Walk ===

impl<'a> Walk<'a> {
    /// Finds anchors and counts patterns.
    fn survey(&mut self) -> Result<(), TooMuch> {
        let mut patterns = 0;
        let mut open = vec![self.root];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(members) => {
                    for (key, member) in members {
                        match (key.as_str(), member) {
                            ("$anchor" | "$dynamicAnchor", Value::String(name)) => {
                                let entry = self.anchors.entry(name).or_insert(Some(value));
                                if entry.is_some_and(|known| !std::ptr::eq(known, value)) {
                                    *entry = None;
                                }
                            }
                            ("$id" | "id", Value::String(_)) => self.has_parts |= !std::ptr::eq(value, self.root),
                            ("pattern", Value::String(_)) => patterns += 1,
                            ("patternProperties", Value::Object(members)) => patterns += members.len(),
                            _ => {}
                        }
                        open.push(member);
                    }
                }
                _ => {}
            }
        }
        if patterns > PATTERNS { Err(TooMuch::Patterns) } else { Ok(()) }
    }

    fn schema(&mut self, value: &'a Value, depth: usize) -> Result<Cost, TooMuch> {
        if depth > DEPTH {
            return Err(TooMuch::Depth);
        }
        match value {
            Value::Array(items) => self.each(items.iter(), depth),
            Value::Object(members) => {
                let place = std::ptr::from_ref(members) as usize;
                match self.seen.get(&place) {
                    Some(Some(known)) => return Ok(*known),
                    Some(None) => return Ok(Cost { ways: 1, returns: 1, ..Cost::default() }),
                    None => {}
                }
                self.seen.insert(place, None);
                let cost = self.members(members, depth)?;
                self.seen.insert(place, Some(cost));
                Ok(cost)
            }
            _ => Ok(Cost::default()),
        }
    }

    fn members(&mut self, members: &'a Map<String, Value>, depth: usize) -> Result<Cost, TooMuch> {
        let mut cost = Cost { ways: 1, ..Cost::default() };
        for (key, member) in members {
            let below = match (key.as_str(), member) {
                // Each of the values is compared with the one that is checked.
                ("enum" | "const", values) => Cost { ways: size(values).0, ..Cost::default() },
                ("required", Value::Array(names)) => Cost { ways: names.len() as u64, ..Cost::default() },
                ("pattern", Value::String(pattern)) => Cost { patterns: weight(pattern), ..Cost::default() },
                // Data, not schemas.
                ("default" | "examples" | "example" | "required", _) => continue,
                // Only what refers to them makes work.
                ("$defs" | "definitions", _) => continue,
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(text)) => {
                    let target = self.target(text)?;
                    self.schema(target, depth + 1)?
                }
                ("anyOf" | "oneOf", _) => Cost { has_alternatives: true, ..self.schema(member, depth + 1)? },
                ("patternProperties", Value::Object(named)) => {
                    let names = named.keys().map(|pattern| weight(pattern)).fold(0, u64::saturating_add);
                    let names = Cost { patterns: names, ..Cost::default() };
                    names.plus(self.each(named.values(), depth)?)
                }
                // Keys are names of properties here, whatever they are.
                ("properties" | "dependentSchemas" | "dependencies", Value::Object(named)) => {
                    self.each(named.values(), depth)?
                }
                _ => self.schema(member, depth + 1)?,
            };
            cost = cost.plus(below);
        }
        if members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems") {
            // What else the schema says is gone through once more, to see what it has evaluated.
            cost = cost.plus(cost);
        }
        Ok(cost)
    }

    fn each(&mut self, schemas: impl Iterator<Item = &'a Value>, depth: usize) -> Result<Cost, TooMuch> {
        let mut cost = Cost::default();
        for schema in schemas {
            cost = cost.plus(self.schema(schema, depth + 1)?);
        }
        Ok(cost)
    }

    /// What a reference means.
    fn target(&self, text: &str) -> Result<&'a Value, TooMuch> {
        if self.has_parts {
            return Err(TooMuch::Reference);
        }
        let root = self.root;
        let found = match text.strip_prefix('#') {
            Some("") => Some(root),
            Some(pointer) if pointer.starts_with('/') => root.pointer(pointer),
            Some(anchor) => self.anchors.get(anchor).copied().flatten(),
            None => None,
        };
        found.ok_or(TooMuch::Reference)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Definitions that each refer twice to the next.
    fn bomb(levels: usize) -> Value {
        let name = |level: usize| format!("#/$defs/d{level}");
        let mut definitions = Map::new();
        for level in 0..levels {
            let twice = json!({"allOf": [{"$ref": name(level + 1)}, {"$ref": name(level + 1)}]});
            definitions.insert(format!("d{level}"), twice);
        }
        definitions.insert(format!("d{levels}"), json!({"type": "object"}));
        json!({"type": "object", "$ref": name(0), "$defs": definitions})
    }

    #[test]
    fn usual_schemas_are_cheap() {
        let schema = json!({
            "type": "object", "required": ["a"],
            "properties": {"a": {"type": "string", "pattern": "^a"}, "enum": {"enum": [{"$ref": "x"}]}, "$ref": {}},
        });
        let cost = Cost::of(&schema).unwrap();
        assert!(cost.ways < 10 && cost.returns == 0, "{cost:?}");
        assert_eq!(cost.effort(&json!({"a": "ab"}), 10), Effort::Small);
        assert_eq!(cost.effort(&json!({"a": "x".repeat(40_000)}), 40_010), Effort::Large, "a long text, and a pattern");
        assert_eq!(cost.effort(&json!({"a": "x".repeat(4_000_000)}), 4_000_010), Effort::TooMuch);
        let plain = Cost::of(&json!({"properties": {"a": {"type": "string"}}})).unwrap();
        assert_eq!(plain.effort(&json!({"a": "x".repeat(4_000_000)}), 4_000_010), Effort::Small, "it is one value");
        let tree = json!({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let cost = Cost::of(&tree).unwrap();
        assert_eq!(cost.returns, 1);
        assert_eq!(cost.effort(&json!({"children": [{"children": [{}]}]}), 100_000), Effort::Small);
    }

    #[test]
    fn what_the_keywords_compare_is_counted() {
        let values: Vec<usize> = (0..1_000).collect();
        let check = |schema: Value, least: u64| {
            let cost = Cost::of(&schema).unwrap();
            assert!((least..2 * least).contains(&cost.ways), "{cost:?}");
        };
        check(json!({"items": {"enum": values}}), 1_000);
        check(json!({"const": values}), 1_000);
        check(json!({"required": (0..1_000).map(|n| n.to_string()).collect::<Vec<_>>()}), 1_000);
        let all: Vec<Value> = (0..500).map(|n| json!({"const": n})).collect();
        check(json!({"anyOf": all, "unevaluatedProperties": false}), 2_000);
        let weights = [json!({"pattern": "^[a-z]+$"}), json!({"patternProperties": {"^[a-z]{5000}$": {}}})];
        let weights = weights.map(|schema| Cost::of(&schema).unwrap().patterns);
        assert_eq!(weights, [SMALL_PATTERN, LARGE_PATTERN]);
    }

    #[test]
    fn schemas_that_explode_are_not_used() {
        assert!(Cost::of(&bomb(10)).is_ok());
        assert_eq!(Cost::of(&bomb(30)), Err(TooMuch::Ways));
        assert_eq!(Cost::of(&bomb(500)), Err(TooMuch::Depth));
        let patterns: Vec<Value> = (0..65).map(|_| json!({"pattern": "a"})).collect();
        assert_eq!(Cost::of(&json!({"anyOf": patterns})), Err(TooMuch::Patterns));
        for outside in ["http://127.0.0.1:1/x", "x.json", "#no-such", "#/no/such"] {
            assert_eq!(Cost::of(&json!({"$ref": outside})), Err(TooMuch::Reference), "{outside}");
        }
        let two = json!({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}, "$ref": "#x"});
        assert_eq!(Cost::of(&two), Err(TooMuch::Reference));
        let part = json!({"$defs": {"a": {"$id": "x", "$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
        assert_eq!(Cost::of(&part), Err(TooMuch::Reference));
    }

    #[test]
    fn arguments_that_make_a_schema_explode_are_not_checked() {
        // Each level of the arguments is looked at twice as often as the one above.
        let schema = json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
        let cost = Cost::of(&schema).unwrap();
        assert_eq!(cost.returns, 2);
        let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        assert_eq!(cost.effort(&nested(5), 40), Effort::Small);
        assert_eq!(cost.effort(&nested(60), 400), Effort::TooMuch);
        let many = json!({"anyOf": (0..1_000).map(|n| json!({"const": n})).collect::<Vec<_>>()});
        let many = Cost::of(&json!({"items": many})).unwrap();
        assert_eq!(many.effort(&json!(vec![0; 100_000]), 200_000), Effort::TooMuch);
        assert_eq!(many.effort(&json!(vec![0; 100]), 200), Effort::Large);
    }
}

//! Signatures of schemas as servers write them, and as attackers do.

use serde_json::{Value, json};

use super::*;

fn check(schema: &Value, expect: &str) {
    let signature = Signature::read(&schema.to_string(), None);
    assert_eq!(signature.line("f"), expect, "{schema}");
}

fn check_property(schema: &Value, expect: &str) {
    check(&json!({"type": "object", "properties": {"x": schema}, "required": ["x"]}), &format!("f(x: {expect})"));
}

#[test]
fn required_parameters_come_first_in_the_schemas_order() {
    check(
        &json!({"type": "object", "properties": {
            "head": {"type": "integer"}, "path": {"type": "string"},
            "mode": {"enum": ["a", "b"]}, "to": {"type": "string"},
            "items": {"type": "array", "items": {"type": "object",
                "properties": {"qty": {"type": "integer"}, "id": {"type": "string"}}, "required": ["id"]}},
        }, "required": ["to", "path"]}),
        "f(path: string, to: string, head?: integer, mode?: \"a\"|\"b\", items?: {id: string, qty?: integer}[])",
    );
    check(&json!({"properties": {"a": {"type": "string", "required": true}, "b": {}}}), "f(a: string, b?)");
}

#[test]
fn every_shape_has_a_short_form() {
    check_property(&json!({"type": ["string", "null"]}), "string|null");
    check_property(&json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]}), "string|integer");
    check_property(&json!({"type": "array", "items": {"oneOf": [{"type": "string"}, {"const": 1}]}}), "(string|1)[]");
    check_property(&json!({"type": "array", "items": {"enum": ["a", "b"]}}), "(\"a\"|\"b\")[]");
    check_property(&json!({"type": "array"}), "any[]");
    check_property(&json!({"type": "object"}), "object");
    check_property(&json!({"type": "object", "additionalProperties": {"type": "number"}}), "{[key]: number}");
    check_property(&json!({"enum": [1, 2, 3, 4, 5, 6, 7]}), "1|2|3|4|5|…");
    check_property(
        &json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": false}}]}),
        "{a?: string, b?: never}",
    );
    check_property(&json!({"type": "str"}), "str");
    check_property(&json!({"type": "a b\n\u{202e}c"}), "abc");
}

#[test]
fn references_are_resolved_and_cycles_end() {
    let defs = json!({"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}});
    check(
        &json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": defs}),
        "f(n?: {next?: Node})",
    );
    check(&json!({"properties": {"self": {"$ref": "#"}}}), "f(self?: {self?: …})");
    check(
        &json!({"properties": {"x": {"$ref": "https://elsewhere/schema"}, "y": {"$ref": "#/nope"}}}),
        "f(x?: …, y?: …)",
    );
    check(
        &json!({"$ref": "#/definitions/A", "definitions": {"A": {"properties": {"a": {"type": "string"}}}}}),
        "f(a?: string)",
    );
}

#[test]
fn odd_schemas_are_no_failure() {
    for raw in ["", "null", "[]", "7", "{", "true", "\"x\""] {
        assert_eq!(Signature::read(raw, None).line("f"), "f(…)", "{raw}");
    }
    check(&json!({}), "f()");
    check(&json!({"type": "object", "properties": {}, "additionalProperties": false}), "f()");
    check(&json!({"type": "object", "properties": 3, "required": "x"}), "f()");
    check(
        &json!({"type": "object", "properties": {"a b\"\n": {"type": {}}}, "required": [1, null]}),
        "f(\"a b\\\"\\n\"?)",
    );
    let deep = (0..60).fold(json!({}), |inner, _| json!({"properties": {"d": inner}}));
    check(&deep, "f(d?: {d?: {d?: {d?: {d?: …}}}})");
    assert_eq!(Signature::read(&"[".repeat(5000), None).line("f"), "f(…)");
}

#[test]
fn exponential_references_cost_a_bounded_amount() {
    let mut defs = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let fields: serde_json::Map<String, Value> = (0..30).map(|n| (format!("f{n}"), next.clone())).collect();
        defs.insert(format!("d{level}"), json!({"properties": fields}));
    }
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "required": ["a"], "$defs": defs});
    check(&schema, "f(a: {…})");
}

#[test]
fn a_long_signature_gives_up_detail_and_keeps_required_names() {
    let fields: serde_json::Map<String, Value> =
        (0..200).map(|n| (format!("option_{n}"), json!({"type": "string"}))).collect();
    let mut schema = json!({"type": "object", "properties": fields});
    schema["properties"]["must"] = json!({"type": "string"});
    schema["required"] = json!(["must"]);
    check(&schema, "f(must: string, …)");
    let names: Vec<String> = (0..60).map(|n| format!("required_parameter_{n}")).collect();
    let fields: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    check(&json!({"properties": fields, "required": names}), &format!("f({})", names.join(", ")));
}

#[test]
fn the_output_is_shown_when_asked_for() {
    let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}).to_string();
    assert_eq!(Signature::read("{}", Some(&output)).line("f"), "f() -> {n: integer}");
    assert_eq!(Signature::read("{}", Some("?")).line("f"), "f() -> …");
}

#[test]
fn each_step_of_detail_shows_less() {
    let schema = json!({"properties": {
        "a": {"properties": {"b": {"enum": [1, 2, 3]}}}, "c": {"enum": ["x", "y", "z"]}, "o": {"type": "string"},
    }, "required": ["a", "c"]});
    let signature = Signature::read(&schema.to_string(), Some("{\"type\":\"string\"}"));
    let steps: Vec<String> = Detail::STEPS.iter().map(|detail| signature.render(*detail)).collect();
    assert_eq!(
        steps,
        [
            "(a: {b?: 1|2|3}, c: \"x\"|\"y\"|\"z\", o?: string) -> string",
            "(a: {b?: 1|2|3}, c: \"x\"|\"y\"|\"z\", o?)",
            "(a: {b?: 1|2|3}, c: \"x\"|\"y\"|\"z\", …)",
            "(a: {…}, c: \"x\"|\"y\"|…, …)",
            "(a, c, …)",
            "(…2 required)",
        ]
    );
}

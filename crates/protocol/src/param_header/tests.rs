//! Annotations good and bad, and headers that mirror or contradict.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;

fn raw(value: &Tree) -> Raw {
    Raw::from_value(value)
}

fn property(schema: &Tree) -> Tree {
    json!({"type": "object", "properties": {"p": schema}})
}

fn check_invalid(schema: &Tree, property: &str, part: &str) {
    let invalid = ParamHeaders::read(&raw(schema)).expect_err("the tool is invalid");
    assert_eq!(invalid.property, property, "{schema}");
    assert!(invalid.to_string().contains(part), "{schema}: {invalid}");
}

#[test]
fn schemas_without_annotations_have_no_headers() {
    for schema in [
        json!({}),
        json!(true),
        json!([]),
        json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        // Names and data, not annotations.
        json!({"properties": {"x-mcp-header": {"type": "string"}}, "required": ["x-mcp-header"]}),
        json!({"$defs": {"x-mcp-header": {"type": "string"}}}),
        json!({"patternProperties": {"x-mcp-header": {"type": "string"}}}),
        json!({"properties": {"a": {"default": {"x-mcp-header": "A"}, "examples": [{"x-mcp-header": 1}]}}}),
        json!({"items": {"properties": {"x-mcp-header": {"const": {"x-mcp-header": 1}}}}}),
    ] {
        let headers = ParamHeaders::read(&raw(&schema)).unwrap();
        assert!(headers.is_empty(), "{schema}");
    }
}

#[test]
fn annotations_are_found_along_properties() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "options": {"type": "object", "properties": {
            "properties": {"type": "object", "properties": {"limit": {"type": "integer", "x-mcp-header": "Limit"}}}
        }},
        "plain": {"type": "array", "items": {"type": "string"}}
    }});
    let headers = ParamHeaders::read(&raw(&schema)).unwrap();
    let found: Vec<_> = headers.iter().map(|header| (header.name().as_str(), header.path().join("/"))).collect();
    assert_eq!(
        found,
        [("mcp-param-region", "region".to_owned()), ("mcp-param-limit", "options/properties/limit".to_owned())]
    );
    for key in [r"\u0078-mcp-header", r"x-mcp-heade\u0072", r"x\u002Dmcp-header", r"\u00e9"] {
        let escaped = format!(r#"{{"properties":{{"a":{{"type":"string","{key}":"A"}}}}}}"#);
        let escaped = Raw::parse(escaped.into(), Rules::relayed(16)).unwrap();
        assert_eq!(
            ParamHeaders::read(&escaped).unwrap().is_empty(),
            key == r"\u00e9",
            "keys may be written with escapes"
        );
    }
}

#[test]
fn annotations_that_break_a_rule_make_the_tool_invalid() {
    for (annotation, part) in [
        (json!(""), "empty"),
        (json!("My Region"), "characters"),
        (json!("Region:Primary"), "characters"),
        (json!("Région"), "characters"),
        (json!("Region\t1"), "characters"),
        (json!("Region\r\nX: y"), "characters"),
        (json!("a".repeat(NAME + 1)), "too long"),
        (json!(7), "not a text"),
        (json!(null), "not a text"),
    ] {
        check_invalid(&property(&json!({"type": "string", "x-mcp-header": annotation})), "p", part);
    }
    for kind in [json!("object"), json!("array"), json!("null"), json!("number"), json!(["string", "null"]), json!(1)] {
        check_invalid(&property(&json!({"type": kind, "x-mcp-header": "P"})), "p", "needs the type");
    }
    check_invalid(&property(&json!({"x-mcp-header": "P"})), "p", "needs the type");
    check_invalid(&json!({"type": "object", "x-mcp-header": "P"}), "", "root");
    for name in ["Region", "rEGION"] {
        let twice = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": name}}}
        }});
        check_invalid(&twice, "b.c", "another property");
    }
}

#[test]
fn annotations_elsewhere_make_the_tool_invalid() {
    let annotated = json!({"type": "string", "x-mcp-header": "P"});
    for schema in [
        json!({"type": "array", "items": annotated}),
        json!({"prefixItems": [annotated]}),
        json!({"anyOf": [{"type": "null"}, annotated]}),
        json!({"allOf": [{"properties": {"q": annotated}}]}),
        json!({"if": annotated}),
        json!({"not": {"properties": {"q": annotated}}}),
        json!({"additionalProperties": annotated}),
        json!({"patternProperties": {"^x": annotated}}),
        json!({"$defs": {"d": annotated}}),
        json!({"definitions": {"d": {"properties": {"q": annotated}}}}),
        json!({"unknownKeyword": [[annotated]]}),
    ] {
        check_invalid(&schema, "", "something else than `properties`");
        check_invalid(&property(&schema), "p", "something else than `properties`");
    }
}

#[test]
fn what_stands_twice_is_ambiguous() {
    for text in [
        r#"{"properties":{"p":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}"#,
        r#"{"properties":{"p":{"type":"string","type":"object","x-mcp-header":"A"}}}"#,
        r#"{"properties":{"p":{"type":"string","x-mcp-header":"A"},"p":{"type":"string"}}}"#,
        r#"{"properties":{"p":{"type":"string","x-mcp-header":"A"}},"properties":{}}"#,
    ] {
        let whole = Raw::parse(format!(r#"{{"s":{text}}}"#).into(), Rules::relayed(16)).unwrap();
        let invalid = ParamHeaders::read(&whole.get("s").unwrap()).expect_err(text);
        assert!(invalid.reason.contains("ambiguous"), "{text}: {invalid}");
    }
}

#[test]
fn headers_and_depth_are_bounded() {
    let many = |count: usize| {
        let properties =
            (0..count).map(|n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")})));
        raw(&json!({"properties": properties.collect::<serde_json::Map<_, _>>()}))
    };
    assert_eq!(ParamHeaders::read(&many(HEADERS)).unwrap().iter().count(), HEADERS);
    assert_eq!(ParamHeaders::read(&many(HEADERS + 1)).unwrap_err().reason, "is one too many");
    for wrap in [r#"{"properties":{"p":"#, r#"{"items":{"p":"#] {
        let depth = 5_000;
        let deep = format!(r#"{}{{"x-mcp-header":"A"}}{}"#, wrap.repeat(depth), "}}".repeat(depth));
        let deep = Raw::parse(deep.into(), Rules::checked()).unwrap();
        let invalid = ParamHeaders::read(&deep).unwrap_err();
        assert!(invalid.property.chars().count() <= SHOWN);
    }
}

#[test]
fn a_large_schema_is_followed_only_where_it_is_annotated() {
    let large =
        |key: &str| raw(&json!({"description": "d".repeat(SCHEMA), "properties": {"a": {"type": "string", key: "A"}}}));
    assert!(ParamHeaders::read(&large("title")).unwrap().is_empty());
    assert!(ParamHeaders::read(&large(ANNOTATION)).unwrap_err().reason.contains("too large"));
}

fn tool() -> ParamHeaders {
    let headers = ParamHeaders::read(&raw(&json!({"type": "object", "properties": {
        "s": {"type": "string", "x-mcp-header": "Region"},
        "i": {"type": "integer", "x-mcp-header": "Priority"},
        "b": {"type": "boolean", "x-mcp-header": "Verbose"},
        "o": {"type": "object", "properties": {"s": {"type": "string", "x-mcp-header": "Inner"}}}
    }})));
    headers.unwrap()
}

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

#[test]
fn arguments_are_mirrored() {
    for (arguments, expect) in [
        (
            json!({"s": "us-west1", "i": 42, "b": false}),
            &[("region", "us-west1"), ("priority", "42"), ("verbose", "false")][..],
        ),
        (json!({"s": "", "b": true}), &[("region", ""), ("verbose", "true")]),
        (json!({"s": "us west 1"}), &[("region", "us west 1")]),
        (json!({"s": "Hello, 世界"}), &[("region", "=?base64?SGVsbG8sIOS4lueVjA==?=")]),
        (json!({"s": " padded "}), &[("region", "=?base64?IHBhZGRlZCA=?=")]),
        (json!({"s": "line1\nline2"}), &[("region", "=?base64?bGluZTEKbGluZTI=?=")]),
        (json!({"s": "=?base64?literal?="}), &[("region", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")]),
        (json!({"s": null, "i": null, "o": null}), &[]),
        (json!({"o": {"s": "x"}, "other": 1}), &[("inner", "x")]),
        (json!({"o": {"s": ["x"]}, "s": {}}), &[]),
        (json!({"i": -7.0}), &[("priority", "-7")]),
        (json!({"i": "7"}), &[("priority", "7")]),
        (json!({}), &[]),
        (json!([]), &[]),
    ] {
        let got = tool().mirror(&raw(&arguments));
        let got: Vec<_> = got.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        let expect: Vec<_> = expect.iter().map(|(name, value)| (format!("mcp-param-{name}"), *value)).collect();
        let expect: Vec<_> = expect.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(got, expect, "{arguments}");
    }
}

fn check(arguments: &str, pairs: &[(&str, &str)], part: Option<&str>) {
    let arguments = Raw::parse(Bytes::copy_from_slice(arguments.as_bytes()), Rules::relayed(16)).unwrap();
    match (tool().check(&map(pairs), &arguments), part) {
        (Ok(()), None) => {}
        (Err(error), Some(part)) => {
            assert_eq!(error.code, HEADER_MISMATCH);
            assert!(error.message.contains("`Mcp-Param-"), "{}", error.message);
            assert!(error.message.contains(part), "{}", error.message);
        }
        (got, part) => panic!("{arguments:?} {pairs:?}: {got:?}, expected {part:?}"),
    }
}

#[test]
fn headers_must_mirror_the_arguments() {
    check("{}", &[], None);
    check("{}", &[("Other", "1")], None);
    check(r#"{"s":null}"#, &[], None);
    check(r#"{"s":"a"}"#, &[("REGION", "a")], None);
    check(r#"{"s":"a"}"#, &[], Some("`Mcp-Param-Region` is missing"));
    check(r#"{"s":"a"}"#, &[("Region", "b")], Some("must mirror the argument `s`"));
    check(r#"{"s":"a"}"#, &[("Region", "A")], Some("must mirror"));
    check(r#"{"s":"a"}"#, &[("Region", "a"), ("Region", "a")], Some("twice"));
    check(r#"{"s":null}"#, &[("Region", "a")], Some("is given"));
    check("{}", &[("Region", "")], Some("is given"));
    check(r#"{"s":""}"#, &[("Region", "")], None);
    check(r#"{"s":""}"#, &[], Some("missing"));
    check(r#"{"o":{"s":"x"}}"#, &[("Inner", "x")], None);
    check(r#"{"o":{"s":"x"}}"#, &[], Some("`Mcp-Param-Inner` is missing; it must mirror the argument `o.s`"));
    check(r#"{"s":["a"]}"#, &[], None);
    check(r#"{"s":["a"]}"#, &[("Region", "a")], Some("must mirror"));
    check(r#"{"s":"\ud800"}"#, &[], Some("must mirror"));
    check(r#"{"b":true}"#, &[("Verbose", "true")], None);
    check(r#"{"b":true}"#, &[("Verbose", "True")], Some("must mirror"));
}

#[test]
fn encoded_headers_are_decoded_first() {
    check(r#"{"s":"Hello"}"#, &[("Region", "=?base64?SGVsbG8=?=")], None);
    check(r#"{"s":"Hello"}"#, &[("Region", "=?base64?SGVsbG8?=")], Some("base64"));
    check(r#"{"s":"Hello"}"#, &[("Region", "=?base64?SGVs!!!bG8=?=")], Some("base64"));
    check(r#"{"s":"SGVsbG8="}"#, &[("Region", "SGVsbG8=")], None);
    check(r#"{"s":"=?base64?SGVsbG8="}"#, &[("Region", "=?base64?SGVsbG8=")], None);
    check(r#"{"i":42}"#, &[("Priority", "=?base64?NDI=?=")], None);
}

#[test]
fn integers_compare_as_numbers() {
    for (body, given, fits) in [
        ("42", "42", true),
        ("42", "42.0", true),
        ("42.0", "42", true),
        ("42", "4.2e1", true),
        ("42", "43", false),
        ("42", "042", false),
        ("42", "+42", false),
        ("42", "0x2a", false),
        ("42", "", false),
        ("9007199254740993", "9007199254740992", false),
        ("123456789012345678901234567890", "123456789012345678901234567890.0", true),
        ("1e99999999999", "1e99999999999", true),
        ("1e99999999999", "1e99999999998", false),
    ] {
        let part = (!fits).then_some("must mirror");
        check(&format!(r#"{{"i":{body}}}"#), &[("Priority", given)], part);
    }
}

proptest! {
    #[test]
    fn what_is_mirrored_passes_the_check(s in proptest::option::of(".{0,20}"), i: Option<i64>, b: Option<bool>, inner in ".{0,8}") {
        let arguments = raw(&json!({"s": s, "i": i, "b": b, "o": {"s": inner}}));
        let headers: HeaderMap = tool().mirror(&arguments).into_iter().collect();
        let count = 1 + usize::from(s.is_some()) + usize::from(i.is_some()) + usize::from(b.is_some());
        prop_assert_eq!(headers.len(), count);
        prop_assert!(tool().check(&headers, &arguments).is_ok());
        for name in headers.keys() {
            let mut less = headers.clone();
            less.remove(name);
            prop_assert!(tool().check(&less, &arguments).is_err(), "without {}", name);
        }
    }
}

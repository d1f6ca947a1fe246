//! Schemas that fit and schemas that do not.

use super::*;

fn check(schema: &str, open_ai: &str, anthropic: &str) {
    let schema = Json::parse(schema.to_owned()).unwrap();
    for (subset, expect) in [(Subset::OpenAi, open_ai), (Subset::Anthropic, anthropic)] {
        let said = fits(&schema, subset).map_or_else(|misfit| misfit.to_string(), |()| String::new());
        assert_eq!(said, expect, "{subset:?} {schema:?}");
    }
}

fn with(property: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"p":{property}}},"required":["p"],"additionalProperties":false}}"#)
}

#[test]
fn what_both_enforce() {
    check(r#"{"type":"object","properties":{},"additionalProperties":false}"#, "", "");
    let plain = [
        r#"{"type":"string","description":"d"}"#,
        r#"{"type":["string","null"],"enum":["a",null]}"#,
        r#"{"const":1}"#,
        r#"{"type":"array","items":{"type":"integer"}}"#,
        r#"{"anyOf":[{"type":"null"},{"type":"number"}]}"#,
        r#"{"type":"string","format":"date-time"}"#,
    ];
    for property in plain {
        check(&with(property), "", "");
    }
    let nested = with(&with(r#"{"type":"boolean"}"#));
    check(&nested, "", "");
    check(&nested.replacen('{', r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","#, 1), "", "");
}

#[test]
fn what_neither_enforces() {
    let both = |schema: &str, said: &str| check(schema, said, said);
    both("true", "at `#`: the whole is not an object");
    both(r#"{"type":"array","items":{"type":"string"}}"#, "at `#`: the whole is not an object");
    both(r#"{"type":"object","anyOf":[]}"#, "at `#`: the whole has alternatives");
    both(r#"{"type":"object","properties":{}}"#, "at `#`: `additionalProperties` is not `false`");
    both(r#"{"type":"object","additionalProperties":false}"#, "at `#`: an object without `properties`");
    let optional = r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#;
    both(optional, "at `#`: a property that is not required");
    both(&with("{}"), "at `#/properties/p`: no type");
    both(&with(r#"{"type":"text"}"#), "at `#/properties/p`: an unknown type");
    both(&with(r#"{"type":"array"}"#), "at `#/properties/p`: an array without `items`");
    both(&with(r#"{"enum":[{}]}"#), "at `#/properties/p`: an enumeration of more than plain values");
    both(&with(r##"{"$ref":"#/$defs/x"}"##), "at `#/properties/p`: a reference that leads nowhere");
    both(&with(r#"{"$ref":"https://x.example/s"}"#), "at `#/properties/p`: a reference that leads nowhere");
    for keyword in ["oneOf", "allOf", "not", "if", "patternProperties", "minLength", "x-of-somebody"] {
        let property = format!(r#"{{"type":"string","{keyword}":1}}"#);
        both(&with(&property), &format!("at `#/properties/p/{keyword}`: a keyword that is not enforced"));
    }
    let deep = (0..20).fold(r#"{"type":"string"}"#.to_owned(), |inner, _| with(&inner));
    assert!(fits(&Json::parse(deep).unwrap(), Subset::OpenAi).unwrap_err().why.contains("too deep"));
    let values: Vec<u64> = (0..2_000).collect();
    both(&with(&format!(r#"{{"enum":{values:?}}}"#)), "at `#/properties/p`: too many values of enumerations");
}

#[test]
fn where_they_differ() {
    let no = |keyword: &str| format!("at `#/properties/p/{keyword}`: a keyword that is not enforced");
    check(&with(r#"{"type":"string","default":"x"}"#), &no("default"), "");
    check(&with(r#"{"type":"string","pattern":"^a"}"#), "", &no("pattern"));
    check(&with(r#"{"type":"integer","minimum":1}"#), "", &no("minimum"));
    check(&with(r#"{"type":"string","format":"uri"}"#), &no("format"), "");
    check(&with(r#"{"type":"array","items":{"type":"string"},"minItems":1}"#), "", "");
    check(&with(r#"{"type":"array","items":{"type":"string"},"minItems":2}"#), "", &no("minItems"));
    let recursive = r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/node"}},"required":["n"],
             "additionalProperties":false,"$defs":{"node":{"type":"object",
             "properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["next"],
             "additionalProperties":false}}}"##;
    check(recursive, "", "at `#/properties/n/properties/next/anyOf/0`: a schema that contains itself");
}

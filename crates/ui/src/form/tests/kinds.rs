//! Each kind of control, and what is entered in it.

use super::*;

#[test]
fn texts_are_absent_empty_or_null() {
    let schema = r#"{"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}, "required": ["b"]}"#;
    check_entered(schema, &[("v:/b", "x")], r#"{"b":"x"}"#);
    check_entered(schema, &[("v:/b", "x"), ("set:/a", "empty")], r#"{"a":"","b":"x"}"#);
    check_entered(schema, &[("v:/b", "x"), ("set:/a", "null")], r#"{"a":null,"b":"x"}"#);
    check_entered(schema, &[("v:/b", "x"), ("v:/a", " ")], r#"{"a":" ","b":"x"}"#);
    check_wrong(schema, &[], "/b", "is required: enter a text, or choose “empty text”");
    check_entered(schema, &[("set:/b", "empty")], r#"{"b":""}"#);
    let message = "`null` is chosen, but something is entered: clear it, or do not choose `null`";
    check_wrong(schema, &[("v:/b", "x"), ("v:/a", "y"), ("set:/a", "null")], "/a", message);
    for value in [r#"{"b":""}"#, r#"{"a":"","b":""}"#, r#"{"a":null,"b":"null"}"#, r#"{"a":"\r\n\u0000","b":"x\ny"}"#] {
        check_kept(schema, value);
    }
    // A text of several lines where one was expected.
    let short = r#"{"properties": {"a": {"type": "string", "maxLength": 9}}}"#;
    check_kept(short, r#"{"a":"\nx\n\ny\n"}"#);
}

#[test]
fn numbers_keep_their_digits_and_their_bounds_are_exact() {
    let schema = r#"{"properties": {"n": {"type": "integer", "minimum": -5, "maximum": 9007199254740993}}}"#;
    check_entered(schema, &[("v:/n", "9007199254740993")], r#"{"n":9007199254740993}"#);
    check_entered(schema, &[("v:/n", " 7 ")], r#"{"n":7}"#);
    check_wrong(schema, &[("v:/n", "9007199254740994")], "/n", "must be at most 9007199254740993");
    check_wrong(schema, &[("v:/n", "1.5")], "/n", "is no whole number");
    check_wrong(schema, &[("v:/n", "12x")], "/n", "is no whole number");
    check_wrong(schema, &[("v:/n", "-6")], "/n", "must be at least -5");
    let schema = r#"{"properties": {"n": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e400}}}"#;
    check_wrong(schema, &[("v:/n", "0.0")], "/n", "must be above 0");
    for digits in ["1.50", "1e3", "123456789012345678901234567890.000", "1E+2"] {
        check_kept(schema, &format!("{{\"n\":{digits}}}"));
    }
    let schema = r#"{"properties": {"n": {"type": "number", "minimum": 1, "exclusiveMinimum": true}}}"#;
    check_wrong(schema, &[("v:/n", "1")], "/n", "must be above 1");
}

#[test]
fn truth_has_three_states_when_it_is_optional() {
    let schema = r#"{"properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "required": ["b"]}"#;
    check_entered(schema, &[("v:/b", "false")], r#"{"b":false}"#);
    check_entered(schema, &[("v:/b", "true"), ("v:/a", "true")], r#"{"a":true,"b":true}"#);
    check_wrong(schema, &[], "/b", "is required: choose a value");
    check_wrong(
        schema,
        &[("v:/b", "maybe")].map(|(name, _)| (name, "\"maybe\"")),
        "/b",
        "`\"maybe\"` is not among the choices",
    );
    check_kept(r#"{"properties": {"a": {"type": ["boolean", "null"]}}}"#, r#"{"a":null}"#);
}

#[test]
fn choices_are_values_of_any_type() {
    let schema = r#"{"properties": {"e": {"enum": ["a", 1, "1", 1.0, null, {"x": 2}, ""]}}}"#;
    for value in ["\"a\"", "1", "\"1\"", "1.0", "null", "{\"x\":2}", "\"\""] {
        check_kept(schema, &format!("{{\"e\":{value}}}"));
    }
    check_kept(schema, "{}");
    // The labels of constants that stand for an enumeration.
    let schema = r#"{"properties": {"l": {"oneOf": [{"const": 1, "title": "low"}, {"const": 2, "title": "high"}]}}}"#;
    assert!(form(schema).to_string().contains("<option value=\"2\">2 – high</option>"));
    check_kept(schema, r#"{"l":2}"#);
    // A required constant is sent, and not asked for.
    check_entered(r#"{"properties": {"k": {"const": "v"}}, "required": ["k"]}"#, &[], r#"{"k":"v"}"#);
    check_entered(r#"{"properties": {"k": {"const": "v"}}}"#, &[], "{}");
}

#[test]
fn objects_that_are_not_filled_in_are_not_sent() {
    let schema = r#"{"properties": {"o": {"type": ["object", "null"], "properties":
        {"k": {"const": 1}, "s": {"type": "string"}, "t": {"type": "string"}}, "required": ["k", "s"]}}}"#;
    check_entered(schema, &[], "{}");
    check_entered(schema, &[("v:/o/s", "x")], r#"{"o":{"k":1,"s":"x"}}"#);
    check_entered(schema, &[("set:/o", "null")], r#"{"o":null}"#);
    check_wrong(schema, &[("v:/o/t", "x")], "/o/s", "is required: enter a text, or choose “empty text”");
    let schema = r#"{"properties": {"o": {"type": "object", "properties": {"s": {"type": "string"}}}}}"#;
    check_entered(schema, &[("set:/o", "empty")], r#"{"o":{}}"#);
    check_kept(schema, r#"{"o":{}}"#);
    check_kept(schema, r#"{"o":{"s":"","more":[1,null]},"other":"x"}"#);
}

#[test]
fn lists_are_absent_empty_or_null() {
    let schema = r#"{"properties": {"l": {"type": ["array", "null"], "items": {"type": "integer"}, "maxItems": 3}}}"#;
    for value in ["{}", r#"{"l":[]}"#, r#"{"l":null}"#, r#"{"l":[1,2]}"#, r#"{"l":[1,"x"]}"#] {
        check_kept(schema, value);
    }
    let schema =
        r#"{"properties": {"l": {"type": "array", "items": {"type": "string"}, "minItems": 1}}, "required": ["l"]}"#;
    check_entered(schema, &[("v:/l/0", "x")], r#"{"l":["x"]}"#);
    check_wrong(schema, &[], "/l/0", "is required: enter a text, or choose “empty text”");
    let schema = r#"{"properties": {"l": {"type": "array"}}, "required": ["l"]}"#;
    check_entered(schema, &[], r#"{"l":[]}"#);
    let tuple = r#"{"properties": {"l": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}}}"#;
    check_kept(tuple, r#"{"l":["a",1]}"#);
}

#[test]
fn alternatives_are_picked_by_what_fits() {
    let schema = r##"{"properties": {"shape": {"oneOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/box"}]},
        "id": {"type": ["string", "integer", "null"]}},
        "$defs": {"circle": {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
            "required": ["kind", "r"]},
        "box": {"type": "object", "properties": {"kind": {"const": "box"}, "w": {"type": "number"}},
            "required": ["kind", "w"]}}}"##;
    for value in [
        "{}",
        r#"{"shape":{"kind":"circle","r":1.0}}"#,
        r#"{"shape":{"kind":"box","w":1}}"#,
        r#"{"id":7}"#,
        r#"{"id":"7"}"#,
        r#"{"id":null}"#,
        r#"{"id":[7]}"#,
        r#"{"shape":{"kind":"cone","r":1}}"#,
    ] {
        check_kept(schema, value);
    }
    check_entered(schema, &[("v:/shape/~|0/r", "2")], r#"{"shape":{"kind":"circle","r":2}}"#);
    let alternatives = r#"{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}"#;
    check_kept(alternatives, r#"{"b":"x"}"#);
}

#[test]
fn parts_of_all_of_are_one_form() {
    let schema = r##"{"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"name": {"minLength": 3}}}],
        "properties": {"size": {"type": "integer"}},
        "$defs": {"base": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}},
        "required": ["name"]}}}"##;
    check_entered(schema, &[("v:/name", "abc"), ("v:/size", "1")], r#"{"name":"abc","size":1}"#);
    check_wrong(schema, &[("v:/name", "ab")], "/name", "must have at least 3 characters, not 2");
    check_wrong(schema, &[("v:/name", "abcdef")], "/name", "must have at most 5 characters, not 6");
}

#[test]
fn defaults_are_shown_and_not_sent() {
    let schema = r#"{"properties": {"n": {"type": "integer", "default": 18446744073709551617}}}"#;
    assert!(form(schema).to_string().contains("Default if not set: 18446744073709551617."));
    check_entered(schema, &[], "{}");
}

#[test]
fn maps_have_rows_of_keys_and_values() {
    let schema = r#"{"properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}}}"#;
    check_kept(schema, r#"{"env":{"A":"1","":"","__proto__":"x","0":"y","~+0":"z"}}"#);
    // Properties that are called like the steps of rows and alternatives.
    let named = r#"{"properties": {"~+0": {"type": "string"}, "a/~|0": {"type": "string"}}}"#;
    check_kept(named, r#"{"~+0":"a","other":1,"a/~|0":"b","~+1":null}"#);
    let mut form = form(schema);
    assert_eq!(form.read(&sent(&form, &[("add:/env", "1")])), Submission::Edited);
    assert_eq!(form.read(&sent(&form, &[("add:/env", "1")])), Submission::Edited);
    let pairs = sent(&form, &[("key:/env/~+0", "A"), ("v:/env/~+0", "1"), ("key:/env/~+1", "A"), ("v:/env/~+1", "2")]);
    let Submission::Wrong(errors) = form.read(&pairs) else { panic!("a key twice") };
    assert_eq!(errors[0].message, "the key `A` is there twice");
    let pairs = sent(&form, &[("key:/env/~+1", "B")]);
    assert_eq!(form.read(&pairs), Submission::Complete(r#"{"env":{"A":"1","B":"2"}}"#.to_owned()));
}

#[test]
fn the_alternative_is_picked_that_says_just_the_value() {
    let schema = r#"{"anyOf": [
        {"type": "object", "required": ["p"], "properties": {"p": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}}}},
        {"type": "null"},
        {"type": "object"}
    ]}"#;
    for value in ["{}", r#"{"p":{}}"#, r#"{"p":null}"#, "null"] {
        check_kept(schema, value);
    }
}

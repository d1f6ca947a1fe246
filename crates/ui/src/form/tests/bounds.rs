//! Schemas and values that want to be too much: what is made of them stays small, and nothing is lost.

use super::*;

/// Bytes of HTML that a form of a hostile schema may have.
const MAX_HTML: usize = 600 * 1024;

fn check_small(schema: &str) -> String {
    let html = form(schema).to_string();
    assert!(html.len() < MAX_HTML, "{} bytes", html.len());
    Page::parse(&html).check();
    html
}

fn object(properties: impl Iterator<Item = String>) -> String {
    format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", properties.collect::<Vec<_>>().join(","))
}

#[test]
fn an_object_of_2000_properties_is_json_beside_fields() {
    let wide =
        object((0..2_000).map(|n| format!("\"p{n}\":{{\"type\":\"string\",\"description\":\"{}\"}}", "d".repeat(200))));
    let schema = format!("{{\"properties\":{{\"wide\":{wide},\"a\":{{\"type\":\"string\"}}}}}}");
    let html = check_small(&schema);
    assert!(html.contains("JSON, because it has 2000 properties.") && html.contains("name=\"v:/a\""));
    check_kept(&schema, r#"{"wide":{"p7":"x"},"a":"y"}"#);
    // Many objects that are small enough alone.
    let many = object(
        (0..150).map(|n| format!("\"o{n}\":{}", object((0..150).map(|n| format!("\"p{n}\":{{\"type\":\"string\"}}"))))),
    );
    check_small(&many);
    check_kept(&many, r#"{"o149":{"p149":"x"}}"#);
}

#[test]
fn deep_schemas_and_values_are_json_below() {
    let mut schema = r#"{"type":"string"}"#.to_owned();
    let mut value = "\"x\"".to_owned();
    for _ in 0..60 {
        schema = format!("{{\"type\":\"object\",\"properties\":{{\"a\":{schema}}},\"required\":[\"a\"]}}");
        value = format!("{{\"a\":{value}}}");
    }
    assert!(check_small(&schema).contains("JSON, because it is nested too deeply."));
    check_kept(&schema, &value);
    let mut lists = r#"{"type":"string"}"#.to_owned();
    for _ in 0..60 {
        lists = format!("{{\"type\":\"array\",\"items\":{lists}}}");
    }
    check_kept(&lists, &format!("{}\"x\"{}", "[".repeat(60), "]".repeat(60)));
}

#[test]
fn recursion_of_every_kind_ends() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
        r##"{"allOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"anyOf":[{"$ref":"#"},{"type":"string"}]}"##,
        r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"}},"required":["a","b"]}"##,
        r##"{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"object","properties":{"x":{"$ref":"#"}}}]}},"required":["a"]}"##,
        r##"{"type":"array","items":{"$ref":"#"},"minItems":3}"##,
        r##"{"type":"object","additionalProperties":{"$ref":"#"}}"##,
        r##"{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}"##,
    ] {
        check_small(schema);
    }
    // Each level doubles what there is to look at.
    let levels = (1..18).map(|n| {
        format!("\"l{n}\":{{\"allOf\":[{{\"$ref\":\"#/$defs/l{0}\"}},{{\"$ref\":\"#/$defs/l{0}\"}}]}}", n - 1)
    });
    let definitions =
        std::iter::once("\"l0\":{\"type\":\"string\"}".to_owned()).chain(levels).collect::<Vec<_>>().join(",");
    let doubled = format!("{{\"properties\":{{\"a\":{{\"$ref\":\"#/$defs/l17\"}}}},\"$defs\":{{{definitions}}}}}");
    assert!(check_small(&doubled).contains("JSON, because its schema is too large for a form."));
    // And so do alternatives, for a value that fits none of them.
    let picks = (1..30).map(|n| {
        let list = |name: &str| format!("{{\"type\":\"object\",\"properties\":{{\"x\":{{\"$ref\":\"#/$defs/l{}\"}},\"{name}\":{{\"const\":1}}}}}}", n - 1);
        format!("\"l{n}\":{{\"anyOf\":[{},{}]}}", list("a"), list("b"))
    });
    let definitions =
        std::iter::once("\"l0\":{\"type\":\"string\"}".to_owned()).chain(picks).collect::<Vec<_>>().join(",");
    let schema = format!("{{\"properties\":{{\"a\":{{\"$ref\":\"#/$defs/l29\"}}}},\"$defs\":{{{definitions}}}}}");
    let value = format!("{{\"a\":{}7{}}}", "{\"x\":".repeat(29), "}".repeat(29));
    check_small(&schema);
    check_kept(&schema, &value);
}

#[test]
fn long_words_are_clipped_where_they_only_describe() {
    let word = "w".repeat(1 << 18);
    for schema in [
        format!(
            "{{\"properties\":{{\"a\":{{\"type\":\"string\",\"title\":\"{word}\",\"description\":\"{word}\",\"default\":\"{word}\",\"pattern\":\"{word}\",\"format\":\"{word}\"}}}}}}"
        ),
        format!("{{\"properties\":{{\"{word}\":{{\"type\":\"string\"}}}}}}"),
        format!(
            "{{\"properties\":{{\"a\":{{\"enum\":[\"{word}\",1]}},\"b\":{{\"const\":\"{word}\"}},\"c\":{{\"type\":\"{word}\"}}}}}}"
        ),
        format!(
            "{{\"properties\":{{\"a\":{{\"oneOf\":[{{\"title\":\"{word}\",\"type\":\"string\"}},{{\"$ref\":\"#/{word}\"}}]}}}}}}"
        ),
        format!("{{\"properties\":{{\"a\":{{\"type\":\"integer\",\"minimum\":1{}}}}}}}", "0".repeat(1 << 18)),
        object((0..190).map(|n| {
            format!(
                "\"p{n}\":{{\"type\":\"string\",\"description\":\"{}\",\"title\":\"{0}\",\"default\":\"{0}\"}}",
                "\u{202e}".repeat(300)
            )
        })),
    ] {
        check_small(&schema);
    }
    // A value is kept whole.
    check_kept(r#"{"properties":{"a":{"type":"string"}}}"#, &format!("{{\"a\":\"{word}\"}}"));
    check_kept(
        r#"{"properties":{"a":{"type":"array","items":{"type":"string"}}}}"#,
        &format!("{{\"a\":[{}1]}}", "1,".repeat(5_000)),
    );
}

#[test]
fn what_a_browser_would_not_send_is_read_within_bounds() {
    let schema = r##"{"type":"object","properties":{"l":{"type":"array","items":{"$ref":"#"}},"x":{"anyOf":[{"type":"string"},{"$ref":"#"}]}}}"##;
    let mut form = form(schema);
    let mut path = String::new();
    let mut pairs = Vec::new();
    for _ in 0..40 {
        pairs.push((format!("rows:{path}/l"), "99999999999".to_owned()));
        pairs.push((format!("rows:{path}/l"), "200".to_owned()));
        pairs.push((format!("pick:{path}/x"), "18446744073709551615".to_owned()));
        path.push_str("/l/0");
    }
    for name in
        ["add:/nothing", "remove:", "v", ":", "v:x", "key:/~+9", "remove:/l/99", "switch:/l/0/l/199", "add:/l/~+0"]
    {
        let mut pairs = pairs.clone();
        pairs.push((name.to_owned(), "1".to_owned()));
        form.read(&pairs);
        assert!(form.to_string().len() < 4 << 20);
    }
    assert!(form.fill(&format!("\"{}\"", "x".repeat(2 << 20))).is_err());
    assert!(form.fill("{").is_err());
}

#[test]
fn a_form_grows_up_to_its_bound_and_says_so() {
    let row = object((0..100).map(|n| format!("\"p{n}\":{{\"type\":\"string\"}}")));
    let mut form = form(&format!("{{\"properties\":{{\"l\":{{\"type\":\"array\",\"items\":{row}}}}}}}"));
    for _ in 0..20 {
        form.read(&sent(&form, &[("add:/l", "1")]));
    }
    let html = form.to_string();
    assert!(html.contains("the form has no room for more fields"), "{}", html.len());
    let pairs = sent(&form, &[("v:/l/9/p99", "x")]);
    let first: Vec<(String, String)> = pairs.into_iter().filter(|(name, _)| name != "set:/l").collect();
    let Submission::Complete(text) = form.read(&first) else { panic!() };
    assert!(text.ends_with("{\"p99\":\"x\"}]}"), "{}", &text[text.len() - 100..]);
}

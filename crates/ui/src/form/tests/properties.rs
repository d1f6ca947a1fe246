//! Random schemas and values that fit them: from value to form to HTML to value nothing is lost; and no text of others
//! becomes an element.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Names and texts with what could be mistaken for something else.
fn any_text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[a-z]{1,6}",
        1 => Just(String::new()),
        1 => "[\\u{0}-\\u{10ffff}]{0,6}",
        2 => prop::sample::select(vec![
            "null", "true", "1.0", "__proto__", "a/b", "~", "~0", "~+0", "~|1", "add:/a", "v:", "set:/x", "constructor",
            "\"><script>alert(1)</script>", "'onfocus='x", "line\nline", "\n", "\r", "\r\n", " ", "\u{202e}x", "\u{0}",
            "</textarea><b>", "&amp;", "&#13;", "%2F", "\u{200b}", "é漢🙂",
        ])
        .prop_map(str::to_owned),
    ]
    .boxed()
}

fn any_digits() -> BoxedStrategy<String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        "-?[1-9][0-9]{18,30}",
        "-?(0|[1-9][0-9]{0,4})\\.[0-9]{1,4}",
        "[1-9]e[+-]?[0-9]{1,3}",
    ]
    .boxed()
}

/// A schema, and the text of a value that fits it.
fn fitting() -> BoxedStrategy<(Value, String)> {
    let text = |value: String| json!(value).to_string();
    let leaf = prop_oneof![
        any_text().prop_map(move |value| (json!({"type": "string"}), text(value))),
        any_text().prop_map(move |value| (json!({"type": ["string", "null"], "maxLength": 100}), text(value))),
        any_text().prop_map(|value| (json!({"enum": [value, 1, null]}), json!(value).to_string())),
        any_digits().prop_map(|digits| (json!({"type": "number"}), digits)),
        any::<i64>().prop_map(|number| (json!({"type": ["integer", "string"]}), number.to_string())),
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), value.to_string())),
        any_text().prop_map(|value| (json!({"const": value}), json!(value).to_string())),
        Just((json!({"type": ["object", "null"], "properties": {"a": {"type": "string"}}}), "null".to_owned())),
        Just((json!({}), "null".to_owned())),
        Just((json!(true), "{\"a\":[1,{}]}".to_owned())),
        any_text().prop_map(|value| (json!({"not": {"const": 1}}), json!({"x": value}).to_string())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let member = (any_text(), inner.clone(), any::<bool>(), any::<bool>(), any_text());
        let object = prop::collection::vec(member, 0..4).prop_map(object_of);
        let list = (inner.clone(), 0..3_usize).prop_map(|((schema, value), count)| {
            let items = vec![value; count].join(",");
            (json!({"type": "array", "items": schema}), format!("[{items}]"))
        });
        let map = (inner.clone(), prop::collection::btree_set(any_text(), 0..3)).prop_map(|((schema, value), keys)| {
            let entries: Vec<String> = keys.iter().map(|key| format!("{}:{value}", json!(key))).collect();
            (json!({"type": "object", "additionalProperties": schema}), format!("{{{}}}", entries.join(",")))
        });
        let pick = (inner.clone(), inner.clone(), any::<bool>(), any::<bool>()).prop_map(
            |((one, value), (other, _), is_first, is_any)| {
                let both = if is_first { json!([one, other]) } else { json!([other, {"type": "null"}, one]) };
                (if is_any { json!({"anyOf": both}) } else { json!({"oneOf": both}) }, value)
            },
        );
        let reference = inner.prop_map(|(schema, value)| (json!({"allOf": [schema, {"description": "x"}]}), value));
        prop_oneof![3 => object, 1 => list, 1 => map, 1 => pick, 1 => reference]
    })
    .boxed()
}

type Member = (String, (Value, String), bool, bool, String);

fn object_of(members: Vec<Member>) -> (Value, String) {
    let mut properties = serde_json::Map::new();
    let (mut required, mut entries) = (Vec::new(), Vec::new());
    for (name, (mut schema, value), is_required, is_there, text) in members {
        if properties.contains_key(&name) {
            continue;
        }
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), json!(text));
        }
        properties.insert(name.clone(), schema);
        if is_required {
            required.push(name.clone());
        }
        if is_required || is_there {
            entries.push(format!("{}:{value}", json!(name)));
        }
    }
    let schema = json!({"type": "object", "properties": properties, "required": required});
    (schema, format!("{{{}}}", entries.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn schema_form_and_json_lose_nothing((schema, value) in fitting()) {
        check_kept(&schema.to_string(), &value);
        // And through the other view, both ways.
        let mut form = form(&schema.to_string());
        form.fill(&value).unwrap();
        form.read(&sent(&form, &[("switch:", "1")]));
        form.read(&sent(&form, &[("switch:", "1")]));
        let answer = form.read(&sent(&form, &[]));
        let Submission::Complete(text) = &answer else { panic!("{schema}\n{value}\n{answer:?}\n{form}") };
        prop_assert!(Json::parse(text).unwrap().is_same(&Json::parse(&value).unwrap()), "{}\n{}\n{}", schema, value, text);
    }

    #[test]
    fn what_is_shown_again_is_what_was_sent((schema, value) in fitting()) {
        let mut form = form(&schema.to_string());
        form.fill(&value).unwrap();
        let first = sent(&form, &[]);
        form.read(&first);
        prop_assert_eq!(first, sent(&form, &[]));
    }

    #[test]
    fn any_text_stays_text(text in any_text(), title in any_text(), choice in any_text()) {
        let schema = |name: &str, text: &str, title: &str, choice: &str| json!({
            "title": title, "description": text,
            "properties": {
                name: {"type": "string", "description": text, "title": title, "default": text, "pattern": text},
                "e": {"enum": [choice, 1], "description": text},
                "o": {"oneOf": [{"type": "object", "title": title, "properties": {name: {"const": text}}}, {"type": "array", "title": text}]},
                "j": {"$ref": text},
                "r": {"type": format!("?{text}"), "description": title},
            },
            "required": [name],
        }).to_string();
        let outline = |schema: &str| {
            let mut form = form(schema);
            form.refuse(&[FieldError { path: "/e".to_owned(), message: text.clone() }]);
            let page = Page::parse(&form.to_string());
            page.check();
            page.outline()
        };
        let plain = outline(&schema("name-9", "b", "c", "d"));
        // An empty name, title or description has no element; a blank one neither.
        prop_assume!([&text, &title, &choice].iter().all(|text| !text.trim().is_empty()));
        prop_assert_eq!(outline(&schema("name-9", &text, &title, &choice)), plain);
    }
}

//! Every key of every table, taken from the tables themselves: right, of a wrong type, mistyped, in the other spelling,
//! at a place where it does not belong, and left out. The JSON schema for editors must refuse what the reader refuses.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::*;
use crate::wrong::Wrong;
use crate::{document, harness};

thread_local! {
    static VALIDATORS: RefCell<HashMap<&'static str, jsonschema::Validator>> = RefCell::default();
}

fn all() -> Vec<&'static Table> {
    let mut tables: Vec<&'static Table> = vec![&SCENARIO, &SCOOTER];
    tables.extend(harness::TOOLS.iter());
    let mut at = 0;
    while let Some(table) = tables.get(at) {
        for key in table.keys {
            if let Shape::Object(inner) | Shape::Objects(inner) | Shape::ObjectOrTexts(inner) = key.shape
                && !tables.iter().any(|known| std::ptr::eq(*known, inner))
            {
                tables.push(inner);
            }
        }
        at += 1;
    }
    tables
}

fn good(shape: Shape) -> Value {
    match shape {
        Shape::Text => json!("x"),
        Shape::Flag => json!(true),
        Shape::Number(least, _) => json!(least),
        Shape::Whole(least, _) => json!(least),
        Shape::Time => json!("1m30s"),
        Shape::Texts => json!(["a", 1]),
        Shape::Words(words) => json!(words[0]),
        Shape::Any | Shape::Ignored => json!([1]),
        Shape::Map => json!({ "a": [1] }),
        Shape::TextMap => json!({ "a": "b" }),
        Shape::List => json!([{}]),
        Shape::Object(table) => least(table),
        Shape::Objects(table) => json!([least(table)]),
        Shape::ObjectOrTexts(_) => json!("a"),
    }
}

fn bad(shape: Shape) -> Vec<Value> {
    match shape {
        Shape::Text => vec![json!(["x"]), json!({ "x": "y" })],
        Shape::Flag => vec![json!("yes"), json!(1), json!([true])],
        Shape::Number(least, most) => vec![json!("x"), json!(least - 1.0), json!(most + 1.0), json!([1])],
        Shape::Whole(least, most) => {
            vec![json!("x"), json!(f64::from(least) + 0.5), json!(i64::from(least) - 1), json!(most + 1), json!("1")]
        }
        Shape::Time => vec![json!("soon"), json!(5), json!(["1s"])],
        Shape::Texts => vec![json!({ "a": "b" }), json!([["a"]]), json!([{ "a": "b" }])],
        Shape::Words(_) => vec![json!("no-such-word"), json!(["x"])],
        Shape::Any | Shape::Ignored => vec![],
        Shape::Map => vec![json!(["x"]), json!("x")],
        Shape::TextMap => vec![json!(["x"]), json!("x"), json!({ "a": ["x"] })],
        Shape::List => vec![json!({}), json!("x")],
        Shape::Object(_) => vec![json!(["x"]), json!("x")],
        Shape::Objects(_) => vec![json!({}), json!("x"), json!(["x"])],
        Shape::ObjectOrTexts(_) => vec![json!({ "no-such-key": 1 }), json!([["x"]])],
    }
}

/// What must be there and nothing else.
fn least(table: &Table) -> Value {
    let needed = table.keys.iter().filter(|key| key.required);
    Value::Object(needed.map(|key| (key.name.to_owned(), good(key.shape))).collect())
}

fn faults(table: &'static Table, value: &Value) -> Vec<Wrong> {
    let file = std::path::Path::new("f.yaml");
    let node = document::parse(file, &serde_json::to_string_pretty(value).unwrap()).unwrap();
    let found = check(&node, table, file);
    let accepted = VALIDATORS.with(|known| {
        let mut known = known.borrow_mut();
        let compiled = || jsonschema::validator_for(&map_schema(table)).unwrap();
        known.entry(table.name).or_insert_with(compiled).is_valid(value)
    });
    assert_eq!(accepted, found.is_empty(), "reader and schema differ: {value} {found:?}");
    found
}

fn with(table: &Table, key: &str, value: Value) -> Value {
    let mut map = least(table);
    map[key] = value;
    map
}

fn other_spelling(name: &str) -> Option<String> {
    let mut words = name.split('_');
    let first = words.next()?.to_owned();
    let camel = words.fold(first, |camel, word| camel + &word[..1].to_uppercase() + &word[1..]);
    let snake: String =
        name.chars().map(|c| if c.is_uppercase() { format!("_{}", c.to_lowercase()) } else { c.to_string() }).collect();
    [camel, snake].into_iter().find(|other| other != name)
}

#[test]
fn every_key_takes_what_it_should_and_nothing_else() {
    let mut keys = 0;
    for table in all() {
        assert!(faults(table, &least(table)).is_empty());
        for key in table.keys {
            keys += 1;
            assert_eq!(faults(table, &with(table, key.name, good(key.shape))), [], "{}", key.name);
            for value in bad(key.shape) {
                let found = faults(table, &with(table, key.name, value.clone()));
                let [fault] = &found[..] else { panic!("{} {value}: {found:?}", key.name) };
                assert!(fault.path.starts_with(key.name), "{fault}");
                let told = fault.message.starts_with("expected ") || fault.message.contains("not a known key");
                assert!(told && fault.line > 1, "{fault}");
            }
        }
    }
    let names: std::collections::BTreeSet<&str> = all().iter().map(|table| table.name).collect();
    assert_eq!(names.len(), all().len(), "no two tables have one name");
    assert!(keys > 130, "the tables were walked through: {keys}");
}

#[test]
fn every_key_mistyped_or_in_the_other_spelling_is_named() {
    for table in all().into_iter().filter(|table| !table.open) {
        for key in table.keys {
            let mut wrong = vec![format!("{}s", key.name)];
            wrong.extend(other_spelling(key.name));
            for name in wrong.iter().filter(|name| !table.keys.iter().any(|key| key.name == name.as_str())) {
                let found = faults(table, &with(table, name, good(key.shape)));
                let [fault] = &found[..] else { panic!("{name}: {found:?}") };
                assert_eq!((fault.path.as_str(), fault.message.as_str()), (name.as_str(), "is not a known key"));
                let hint = fault.hint.as_deref().unwrap();
                assert!(hint.contains(&format!("`{}`", key.name)) || hint.starts_with("did you mean"), "{fault}");
            }
        }
    }
}

#[test]
fn every_key_of_another_place_is_refused() {
    let tables = all();
    for table in tables.iter().filter(|table| !table.open) {
        let others = tables.iter().flat_map(|other| other.keys);
        for key in others.filter(|other| !table.keys.iter().any(|key| key.name == other.name)) {
            let found = faults(table, &with(table, key.name, good(key.shape)));
            assert!(found.iter().any(|fault| fault.path == key.name), "{}: {found:?}", key.name);
        }
    }
}

#[test]
fn every_key_that_is_needed_is_missed() {
    for table in all() {
        let whole = least(table);
        for key in table.keys.iter().filter(|key| key.required) {
            let mut map: Map<String, Value> = whole.as_object().unwrap().clone();
            map.shift_remove(key.name);
            let found = faults(table, &Value::Object(map.clone()));
            assert!(found.iter().any(|fault| fault.message == format!("lacks the key `{}`", key.name)), "{found:?}");
            // Nothing behind the key is as good as no key. The schema says so by the type.
            map.insert(key.name.to_owned(), Value::Null);
            let file = std::path::Path::new("f.yaml");
            let node = document::parse(file, &Value::Object(map).to_string()).unwrap();
            assert!(!check(&node, table, file).is_empty());
        }
    }
}

#[test]
fn not_more_faults_are_reported_than_someone_reads() {
    let many: Map<String, Value> = (0..200).map(|index| (format!("key-{index}"), json!(1))).collect();
    assert_eq!(faults(&SCENARIO, &Value::Object(many)).len(), 50);
}

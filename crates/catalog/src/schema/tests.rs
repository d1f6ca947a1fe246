//! The schemas say what the readers do.

use std::collections::BTreeSet;

use super::*;
use crate::define;
use crate::problem::DefinitionProblem;

/// What the reader of a kind says to a text, and the text as JSON.
fn read(kind: DefinitionKind, text: &str) -> (Vec<String>, Value) {
    let (_, findings) = define::read_into(Sink::new(Path::new("sample.yaml")), "sample", text, reader(kind));
    let told = |problem: &DefinitionProblem| format!("{problem} {}", problem.hint.as_deref().unwrap_or(""));
    let problems = findings.problems.iter().map(told).collect();
    let sink = Sink::new(Path::new("sample.yaml"));
    let root = yaml::parse_into(text, &sink).unwrap();
    (problems, root.value())
}

#[test]
fn every_key_of_a_reader_is_in_a_sample_and_has_words() {
    // The schema of workflows is written by hand; the tests below hold it to its reader.
    for kind in DefinitionKind::ALL.iter().copied().filter(|kind| kind.row().schema.is_none()) {
        let places = places(kind);
        let is_in_map = |path: &str| matches!(places[parent(path)].shape, Some(Shape::Map));
        for (path, asked) in &places {
            assert!(asked.shape.is_some(), "{kind}: no sample has `{path}`");
        }
        let keys: BTreeSet<&str> = places.keys().map(String::as_str).collect();
        let keys = keys.into_iter().filter(|path| !path.is_empty() && !path.ends_with("[]") && !is_in_map(path));
        let told: BTreeSet<&str> = kind.row().words.iter().map(|(path, _)| *path).collect();
        assert_eq!(told, keys.collect::<BTreeSet<_>>(), "{kind}");
        assert_eq!(told.len(), kind.row().words.len());
    }
}

#[test]
fn what_is_right_fits_its_schema() {
    for kind in DefinitionKind::ALL.iter().copied() {
        let validator = jsonschema::draft202012::new(&schema(kind)).unwrap();
        for text in kind.row().samples {
            let (problems, value) = read(kind, text);
            assert_eq!(problems, [""; 0], "{kind}");
            let faults: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert_eq!(faults, [""; 0], "{kind}");
        }
    }
    let validator = jsonschema::draft202012::new(&schema(DefinitionKind::Entry)).unwrap();
    for available in crate::built_in().values() {
        assert!(validator.is_valid(&available.entry.to_value()), "{}", available.entry.name);
    }
}

/// Each key in turn is misspelt, and each value replaced by one of another kind: both sides refuse the same.
#[test]
fn what_a_reader_refuses_its_schema_refuses() {
    for kind in DefinitionKind::ALL.iter().copied() {
        let validator = jsonschema::draft202012::new(&schema(kind)).unwrap();
        for text in kind.row().samples {
            let (_, value) = read(kind, text);
            let mut tried = 0;
            for (pointer, changed) in changes(&value) {
                let (problems, again) = read(kind, &changed.to_string());
                let fits = validator.is_valid(&again);
                assert_eq!(problems.is_empty(), fits, "{kind} {pointer}: {problems:?}\n{changed}");
                tried += usize::from(!fits);
            }
            assert!(tried > 3, "{kind}");
        }
    }
}

/// A value with one key more, and with a map in place of each value that is none.
fn changes(value: &Value) -> Vec<(String, Value)> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(key, inner)| walk(inner, &format!("{path}/{key}"), found));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, inner)| walk(inner, &format!("{path}/{index}"), found));
            }
            _ => {}
        }
    }
    let mut pointers = Vec::new();
    walk(value, "", &mut pointers);
    let one = |pointer: &String| {
        let mut changed = value.clone();
        match changed.pointer_mut(pointer)? {
            Value::Object(members) => drop(members.insert("zzz".to_owned(), json!({"z": 1}))),
            other => *other = json!({"z": 1}),
        }
        Some((pointer.clone(), changed))
    };
    pointers.iter().filter_map(one).collect()
}

/// A secret at each place of each form, in the place of a value and of a key: no message repeats it.
#[test]
fn no_message_repeats_a_secret() {
    let shaped = ["sk", "marker", "0123456789abcdef"].join("-");
    // Nothing tells that this is one but where it stands.
    let plain = "hunter2marker".to_owned();
    let mut tried = 0;
    for kind in DefinitionKind::ALL.iter().copied() {
        for text in kind.row().samples {
            let (_, value) = read(kind, text);
            for (pointer, changed) in planted(&value, &shaped, true).into_iter().chain(planted(&value, &plain, false)) {
                for message in messages(kind, &changed.to_string()) {
                    assert!(!message.contains("marker"), "{kind} {pointer}: {message}");
                    tried += 1;
                }
            }
        }
        for text in
            ["{}", "- {}", "KEY={}", "? [{}]\n: x", "!{} x", "*{}", "a: [{}", "\"{}", "env: {}", "headers: [{}]"]
        {
            for marker in [&shaped, &plain] {
                for message in messages(kind, &text.replace("{}", marker)) {
                    assert!(!message.contains("marker"), "{kind} {text}: {message}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

/// A value with a secret in each place: everywhere, or only where secrets belong.
fn planted(value: &Value, secret: &str, everywhere: bool) -> Vec<(String, Value)> {
    let header = format!("Authorization: Bearer {secret}");
    let mut plants = vec![json!(secret), json!([secret]), json!(header), json!({ format!("KEY={secret}"): "y" })];
    if everywhere {
        plants.extend([json!({ secret: secret }), json!({ "a": { secret: [secret] } }), json!([[secret], 1])]);
    }
    let is_wanted = |pointer: &str| {
        everywhere
            || ["env", "headers", "auth", "keys", "key", "canary_tokens"]
                .iter()
                .any(|zone| pointer.split('/').any(|key| key == *zone))
    };
    let pointers: Vec<String> = changes(value).into_iter().map(|(pointer, _)| pointer).collect();
    let mut planted = Vec::new();
    for pointer in pointers.into_iter().filter(|pointer| is_wanted(pointer)) {
        for plant in &plants {
            let mut changed = value.clone();
            *changed.pointer_mut(&pointer).unwrap() = plant.clone();
            planted.push((pointer.clone(), changed));
        }
    }
    planted
}

/// Everything that is said of a text.
fn messages(kind: DefinitionKind, text: &str) -> Vec<String> {
    let (_, findings) = define::read_into(Sink::new(Path::new("sample.yaml")), "sample", text, reader(kind));
    let told = findings.problems.iter().chain(&findings.warnings);
    told.map(|problem| format!("{problem} {}", problem.hint.as_deref().unwrap_or(""))).collect()
}

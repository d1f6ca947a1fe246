//! What a service is made of against what its class asks for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::ArgumentDefinition;

/// The arguments with the defaults of those that are not given. All errors are reported at once.
///
/// A class that names no arguments takes whatever it is given.
pub(super) fn complete(
    class: &BTreeMap<String, ArgumentDefinition>,
    given: &Map<String, Value>,
) -> Result<Map<String, Value>, Problem> {
    if class.is_empty() {
        return Ok(given.clone());
    }
    let mut faults = Vec::new();
    for name in given.keys().filter(|name| !class.contains_key(*name)) {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        let known: Vec<String> = class.keys().map(|name| format!("`{name}`")).collect();
        faults.push(format!("unknown argument `{shown}` (known are {})", known.join(", ")));
    }
    let mut complete = given.clone();
    for (name, argument) in class {
        match given.get(name).filter(|value| !value.is_null()) {
            Some(value) if !argument.kind.fits(value) => {
                let kind = kind(value);
                faults.push(format!("invalid type for argument `{name}`: expected {}, got {kind}", argument.kind));
            }
            Some(value) => faults.extend(argument.fault(value).map(|fault| format!("argument `{name}` {fault}"))),
            None => match &argument.default {
                Some(default) => drop(complete.insert(name.clone(), default.clone())),
                None if argument.required => faults.push(format!("missing required argument `{name}`")),
                None => drop(complete.remove(name)),
            },
        }
    }
    if faults.is_empty() { Ok(complete) } else { Err(Problem::new(Kind::InvalidParams, faults.join("; "))) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_catalog::ArgumentKind;

    use super::*;

    fn class() -> BTreeMap<String, ArgumentDefinition> {
        let argument =
            |kind, required, default| ArgumentDefinition { required, default, ..ArgumentDefinition::of(kind) };
        BTreeMap::from([
            ("text".to_owned(), argument(ArgumentKind::String, true, None)),
            ("count".to_owned(), argument(ArgumentKind::Integer, false, Some(json!(10)))),
            ("flag".to_owned(), argument(ArgumentKind::Boolean, false, None)),
        ])
    }

    fn check(given: &Value, expected: Result<Value, &[&str]>) {
        let found = complete(&class(), given.as_object().unwrap());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(Value::from(found), expected),
            (Err(problem), Err(words)) => {
                words.iter().for_each(|word| assert!(problem.message.contains(word), "{given}: {problem}"));
            }
            (found, expected) => panic!("{given}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn arguments_are_completed_or_refused() {
        check(&json!({"text": "a"}), Ok(json!({"text": "a", "count": 10})));
        check(&json!({"text": "a", "count": 2, "flag": true}), Ok(json!({"text": "a", "count": 2, "flag": true})));
        check(&json!({"text": "a", "flag": null}), Ok(json!({"text": "a", "count": 10})));
        check(&json!({}), Err(&["missing required argument `text`"]));
        check(&json!({"text": null}), Err(&["missing required argument `text`"]));
        check(&json!({"text": 1}), Err(&["invalid type for argument `text`: expected string, got number"]));
        check(&json!({"text": "a", "count": "2"}), Err(&["invalid type for argument `count`", "got string"]));
        check(
            &json!({"text": "a", "flog": true}),
            Err(&["unknown argument `flog`", "known are `count`, `flag`, `text`"]),
        );
        check(
            &json!({"count": 1.5, "x": 1}),
            Err(&["unknown argument `x`", "`count`", "missing required argument `text`"]),
        );
    }

    #[test]
    fn a_class_without_arguments_takes_all() {
        let given = json!({"anything": [1]});
        assert_eq!(complete(&BTreeMap::new(), given.as_object().unwrap()).unwrap()["anything"], json!([1]));
    }
}

//! Each kind of expectation with an answer that meets it and one that does not.

use serde_json::json;

use super::*;

fn ok(text: &str) -> Answer {
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    Answer::of_call(CallReply { outcome: Ok(result), status: Some(200) })
}

fn error(text: &str) -> Answer {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    Answer::of_call(CallReply { outcome: Ok(result), status: Some(200) })
}

/// The same expectation on an answer that meets it and on one that does not; `part` is in what is reported of the
/// latter.
fn check(expected: &Expectation, good: &Answer, bad: &Answer, part: &str) {
    assert_eq!(unmet(expected, good), Vec::<String>::new(), "{expected:?}");
    let told = unmet(expected, bad).join("\n");
    assert!(told.contains(part), "{expected:?}: {told:?} lacks {part:?}");
}

fn list(parts: &[&str]) -> Vec<String> {
    parts.iter().map(ToString::to_string).collect()
}

fn paths(value: &Value) -> Expectation {
    let paths = value.as_object().unwrap().iter().map(|(path, value)| (path.clone(), value.clone())).collect();
    Expectation { json_path: paths, ..Expectation::default() }
}

#[test]
fn success_is_expected_unless_an_error_is() {
    check(&Expectation::default(), &ok("x"), &error("x"), "expected the call to succeed, it failed");
    let fails = Expectation { success: Some(false), ..Expectation::default() };
    check(&fails, &error("x"), &ok("x"), "expected the call to fail, it succeeded");
    check(&fails, &Answer::failed("no".to_owned()), &ok("x"), "to fail");
    let named = Expectation { error_contains: list(&["no"]), ..Expectation::default() };
    check(&named, &error("No such"), &ok("no"), "to fail");
}

#[test]
fn texts_are_looked_for_in_whatever_case() {
    let contains = Expectation { contains: list(&["Alpha", "beta"]), ..Expectation::default() };
    check(&contains, &ok("ALPHA beta"), &ok("alpha"), "`contains`: `beta` is not in the answer");
    let lacks = Expectation { not_contains: list(&["Gone"]), ..Expectation::default() };
    check(&lacks, &ok("here"), &ok("it is gone"), "`not_contains`: `Gone` is in the answer");
    let failing = Expectation { success: Some(false), contains: list(&["server not found"]), ..Expectation::default() };
    check(&failing, &error("Server not found: x"), &error("other"), "`contains`");
}

#[test]
fn an_expected_error_without_an_error_is_never_green() {
    let expected =
        Expectation { success: Some(false), error_contains: list(&["not found", "x"]), ..Expectation::default() };
    check(&expected, &error("x not found"), &error("not found"), "`error_contains`: `x` is not in the error");
    // Anyone who says both gets told both: that is a scenario which contradicts itself.
    let odd = Expectation { success: Some(true), error_contains: list(&["x"]), ..Expectation::default() };
    assert!(unmet(&odd, &ok("x")).join("\n").contains("there is no error"));
}

#[test]
fn values_at_paths_are_compared_with_their_types() {
    let good = ok(r#"{"a":{"b":1,"c":[{"d":"e","f":2}]},"g":true,"h":null}"#);
    for (wanted, bad, part) in [
        (json!({"a.b": 1}), r#"{"a":{"b":2}}"#, "`a.b` is 2, expected 1"),
        (json!({"a.b": 1.0}), r#"{"a":{"b":"1"}}"#, "is \"1\", expected 1.0"),
        (json!({"a.c.0.d": "e"}), r#"{"a":{}}"#, "there is nothing at `a.c.0.d`"),
        (json!({"a": {"b": 1}}), r#"{"a":{"x":1}}"#, "`a` is"),
        (json!({"a.c": [{"f": 2}]}), r#"{"a":{"c":[{"f":2},{}]}}"#, "`a.c` is"),
        (json!({"g": true}), r#"{"g":"true"}"#, "`g` is \"true\", expected true"),
        (json!({"h": null}), r#"{"x":1}"#, "there is nothing at `h`"),
    ] {
        check(&paths(&wanted), &good, &ok(bad), part);
    }
    check(&paths(&json!({"x": 1})), &ok(r#"{"x":1}"#), &ok("no JSON"), "there is nothing at `x`");
}

#[test]
fn the_status_is_compared() {
    let expected = Expectation { status_code: Some(200), ..Expectation::default() };
    let refused = Answer { status: Some(401), ..ok("x") };
    check(&expected, &ok("x"), &refused, "`status_code`: expected 200, got 401");
    check(&expected, &ok("x"), &Answer { status: None, ..ok("x") }, "there was none");
}

#[test]
fn lists_and_raw_results_are_looked_at() {
    let listed = Answer::of_list(&[json!({"name": "a"}), json!({"name": "b"})]);
    let other = Answer::of_list(&[json!({"name": "c"})]);
    let contain = Expectation { tools_contain: list(&["a"]), ..Expectation::default() };
    check(&contain, &listed, &other, "`tools_contain`: `a` is not listed");
    check(&contain, &listed, &ok("a"), "gave no list");
    let lacks = Expectation { tools_not_contain: list(&["c"]), ..Expectation::default() };
    check(&lacks, &listed, &other, "`tools_not_contain`: `c` is listed");
    let raw = Expectation { result_contains: list(&["\"type\":\"text\"", "a\"b"]), ..Expectation::default() };
    check(&raw, &ok("a\"b"), &ok("a'b"), "`result_contains`");
    let raw = Expectation { result_not_contains: list(&["secret"]), ..Expectation::default() };
    check(&raw, &ok("x"), &ok("a secret"), "`result_not_contains`");
    let full = Expectation { has_content: Some(true), ..Expectation::default() };
    let empty = Answer::of_call(CallReply { outcome: Ok(json!({ "content": [] })), status: Some(200) });
    check(&full, &ok(""), &empty, "`result.content`: expected not_empty");
    check(&Expectation { has_content: Some(false), ..Expectation::default() }, &empty, &ok("x"), "expected empty");
}

#[test]
fn results_without_text_have_a_text_too() {
    let result = json!({ "content": [], "structuredContent": { "n": 1 } });
    let answer = Answer::of_call(CallReply { outcome: Ok(result), status: Some(200) });
    assert_eq!((answer.text.as_str(), &answer.value), (r#"{"n":1}"#, &json!({ "n": 1 })));
    let picture = json!({ "content": [{ "type": "image", "mimeType": "image/png", "data": "AA==" }] });
    let answer = Answer::of_call(CallReply { outcome: Ok(picture), status: Some(200) });
    assert!(answer.text.contains("image/png"));
}

#[test]
fn what_is_told_of_a_long_answer_says_that_it_is_cut() {
    let long = "é".repeat(SHOWN + 1);
    assert_eq!(shortened(&long), format!("{}…", "é".repeat(SHOWN)));
    for whole in ["", "short", &"é".repeat(SHOWN)] {
        assert_eq!(shortened(whole), whole);
    }
}

//! Buttons: rows, folded parts, alternatives, and JSON instead of fields.

use super::*;

const NODE: &str = r##"{"type": "object", "properties": {"name": {"type": "string"},
    "next": {"$ref": "#"}, "children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["name"]}"##;

#[test]
fn rows_are_added_and_removed_without_losing_the_others() {
    let schema = r#"{"properties": {"l": {"type": "array", "items": {"type": "string"}}}}"#;
    let mut form = form(schema);
    for value in ["a", "b", "c"] {
        assert_eq!(form.read(&sent(&form, &[("add:/l", "1")])), Submission::Edited);
        let last =
            Page::parse(&form.to_string()).pairs().iter().filter(|(name, _)| name.starts_with("v:/l/")).count() - 1;
        let name = format!("v:/l/{last}");
        let html = form.to_string();
        assert!(html.contains(&format!("name=\"{name}\" aria-required=\"true\" autofocus")), "{html}");
        let pairs = sent(&form, &[(&name, value)]);
        assert!(matches!(form.read(&pairs), Submission::Complete(_)));
    }
    assert_eq!(form.read(&sent(&form, &[("remove:/l/1", "1")])), Submission::Edited);
    assert_eq!(form.read(&sent(&form, &[])), Submission::Complete(r#"{"l":["a","c"]}"#.to_owned()));
}

#[test]
fn recursion_opens_one_level_at_a_time() {
    let mut form = form(NODE);
    assert_eq!(Page::parse(&form.to_string()).buttons(), ["add:/next", "add:/children", "switch:"]);
    assert_eq!(form.read(&sent(&form, &[("v:/name", "a"), ("add:/next", "1")])), Submission::Edited);
    assert_eq!(form.read(&sent(&form, &[("v:/next/name", "b"), ("add:/next/next", "1")])), Submission::Edited);
    assert_eq!(form.read(&sent(&form, &[("add:/next/children", "1")])), Submission::Edited);
    let pairs = sent(&form, &[("v:/next/children/0/name", "c")]);
    let expected = r#"{"name":"a","next":{"name":"b","children":[{"name":"c"}]}}"#;
    assert_eq!(form.read(&pairs), Submission::Complete(expected.to_owned()));
    check_kept(NODE, expected);
}

#[test]
fn another_alternative_is_shown_before_it_is_sent() {
    let schema = r#"{"properties": {"x": {"oneOf": [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
        {"type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["c"]},
        {"type": "integer"}]}}}"#;
    let mut form = form(schema);
    let pairs = sent(&form, &[("v:/x/~|0/a", "kept"), ("pick:/x", "1")]);
    assert_eq!(form.read(&pairs), Submission::Edited);
    let pairs = sent(&form, &[("v:/x/~|1/c", "y")]);
    assert_eq!(form.read(&pairs), Submission::Complete(r#"{"x":{"a":"kept","c":"y"}}"#.to_owned()));
    assert_eq!(form.read(&sent(&form, &[("pick:/x", "2"), ("use:/x", "1")])), Submission::Edited);
    assert_eq!(form.read(&sent(&form, &[])), Submission::Complete("{}".to_owned()));
    assert_eq!(form.read(&sent(&form, &[("v:/x/~|2", "5")])), Submission::Complete(r#"{"x":5}"#.to_owned()));
}

#[test]
fn the_whole_turns_into_json_and_back() {
    let mut form = form(NODE);
    let pairs = sent(&form, &[("v:/name", "a"), ("switch:", "1")]);
    assert_eq!(form.read(&pairs), Submission::Edited);
    assert!(form.is_json());
    let Submission::Wrong(errors) = form.read(&sent(&form, &[("v:", "{\n\"name\": }")])) else { panic!() };
    assert_eq!(errors[0].message, "is not JSON: line 2, column 9: expected a value");
    let text = r#"{"name": "b", "next": {"name": "c"}, "size": 1.0}"#;
    assert_eq!(form.read(&sent(&form, &[("v:", text), ("switch:", "1")])), Submission::Edited);
    assert!(!form.is_json());
    let expected = r#"{"name":"b","next":{"name":"c"},"size":1.0}"#;
    assert_eq!(form.read(&sent(&form, &[])), Submission::Complete(expected.to_owned()));
    // What does not parse stays JSON.
    form.switch();
    assert_eq!(form.read(&sent(&form, &[("v:", "{"), ("switch:", "1")])), Submission::Edited);
    assert!(form.is_json() && form.to_string().contains("is not JSON"));
}

#[test]
fn what_does_not_fit_is_json_for_that_part_alone() {
    let schema = r#"{"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}"#;
    let mut form = form(schema);
    form.fill(r#"{"a":"seven","b":"x"}"#).unwrap();
    assert_eq!(Page::parse(&form.to_string()).buttons(), ["switch:/a", "switch:"]);
    check_kept(schema, r#"{"a":"seven","b":"x"}"#);
    assert_eq!(form.read(&sent(&form, &[("v:/a", "7"), ("switch:/a", "1")])), Submission::Edited);
    assert_eq!(form.read(&sent(&form, &[])), Submission::Complete(r#"{"a":7,"b":"x"}"#.to_owned()));
}

#[test]
fn a_form_of_another_schema_is_not_sent_silently() {
    let old = form(r#"{"properties": {"a": {"type": "string"}}}"#);
    let pairs = sent(&old, &[("v:/a", "1")]);
    let mut new = form(r#"{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}"#);
    let Submission::Wrong(errors) = new.read(&pairs) else { panic!() };
    assert!(errors[0].message.starts_with("the schema changed"), "{errors:?}");
    assert_eq!(new.read(&sent(&new, &[])), Submission::Complete(r#"{"a":"1"}"#.to_owned()));
}

#[test]
fn errors_of_others_are_shown_at_their_fields() {
    let mut form = form(NODE);
    form.fill(r#"{"name":"a","children":[{"name":"b"}],"more":{"x":1}}"#).unwrap();
    let error = |path: &str, message: &str| FieldError { path: path.to_owned(), message: message.to_owned() };
    form.refuse(&[
        error("/children/0/name", "is taken"),
        error("/more/x/y", "is odd"),
        error("/nowhere", "is missing"),
    ]);
    let html = form.to_string();
    let page = Page::parse(&html);
    page.check();
    assert_eq!(html.matches("class=\"wrong\"").count(), 3, "{html}");
    let wrong: Vec<&str> = page
        .elements
        .iter()
        .filter(|element| element.get("aria-invalid").is_some())
        .filter_map(|element| element.get("name"))
        .collect();
    assert_eq!(wrong, ["v:/children/0/name", "v:/~+0"]);
}

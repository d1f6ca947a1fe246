//! What mocks answer, and their files.

use serde_json::{Value, json};

use super::*;

const FILE: &str = "
tools:
- name: create
  description: creates
  annotations: {readOnlyHint: false}
  input_schema: {properties: {name: {type: string}, size: {type: integer, default: 3}}}
  responses:
  - condition: {name: bad}
    error: 'no {{ .name }}'
  - condition: {size: '7', name: seven}
    response: seven
    delay: 20ms
  - response: {made: '{{ .name }}', size: '{{ .size }}'}
- name: bare
- name: conditional
  responses:
  - condition: {a: 1}
    response: first
  - condition: {a: 2}
    response: second
";

fn live() -> Live {
    Live::new(Mock::read(Path::new("mock.yaml"), FILE).unwrap())
}

fn call(arguments: &Value) -> MockCall<'static> {
    MockCall { arguments: arguments.as_object().unwrap().clone(), claims: None }
}

fn check(live: &Live, tool: &str, arguments: &Value, expected: &str, is_error: bool) {
    let (_, result) = live.call(tool, &call(arguments)).unwrap();
    assert_eq!(result["content"][0]["text"], expected, "{tool} {arguments}");
    assert_eq!(result["isError"], is_error, "{tool} {arguments}");
}

#[test]
fn answers_follow_conditions_defaults_and_templates() {
    let live = live();
    check(&live, "create", &json!({"name": "x"}), r#"{"made":"x","size":"3"}"#, false);
    check(&live, "create", &json!({"name": "bad"}), "no bad", true);
    check(&live, "create", &json!({"name": "seven", "size": 7}), "seven", false);
    check(&live, "create", &json!({}), "the call has no argument `name`, which the answer needs", true);
    check(&live, "bare", &json!({}), "{}", false);
    check(&live, "conditional", &json!({"a": 2}), "second", false);
    check(&live, "conditional", &json!({"a": 3}), "first", false);
    assert!(live.call("nothing", &call(&json!({}))).is_none());
    let delay = live.call("create", &call(&json!({"name": "seven", "size": "7"}))).unwrap().0;
    assert_eq!(delay, Duration::from_millis(20));
}

#[test]
fn a_mock_survives_its_file() {
    let mock = Mock::read(Path::new("mock.yaml"), FILE).unwrap();
    let again = Mock::read(Path::new("mock.json"), &mock.to_file()).unwrap();
    assert_eq!(format!("{mock:?}"), format!("{again:?}"));
    let wrong = Mock::read(Path::new("m.yaml"), "tools: [{name: a, respones: []}]").unwrap_err();
    assert_eq!(wrong[0].to_string(), "m.yaml:1: `tools[0].respones`: is not a known key (did you mean `responses`?)");
}

#[test]
fn tools_are_listed_and_change() {
    let live = live();
    let changes = live.changes();
    let entry = &live.list()[0];
    assert_eq!(entry["inputSchema"]["type"], "object");
    assert_eq!(entry["annotations"]["readOnlyHint"], false);
    live.replace(Mock { tools: vec![Tool::plain("new".to_owned(), None)] });
    assert!(changes.has_changed().unwrap());
    assert_eq!(live.list().len(), 1);
}

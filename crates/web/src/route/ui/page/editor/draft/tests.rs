//! From the text to the form and back: what is not changed stays byte for byte, and what is changed says just that.

use proptest::prelude::*;
use serde_json::{Map, json};
use toolcrib_ui::form::Submission;

use super::super::KINDS;
use super::*;

const TEXT: &str = "# what it is for\nname: w\nsteps:\n  # reads\n  - id: one # the first\n    tool: a/read\n    args:\n      path: /a # here\n      limit: 3\n  - id: two\n    forEach:\n      items: \"{{ .results.one }}\"\n      as: row\n      steps:\n        - {id: put, tool: a/put, args: {row: [\"{{ .vars.row }}\"]}}\n  - id: three\n    parallel:\n      - {id: x, tool: a/x, retry: {count: 2, delay: 1s}}\n      - {id: y, agent: clerk, task: Do it}\n    condition: {not: {fromStep: one, expect: {success: true}}}\nonFailure:\n  - {id: undo, tool: a/undo, allowFailure: true}\noutput: {all: \"{{ .results.two }}\"}\ntimeout: 5m\n";

fn subject(word: &str, name: Option<&str>) -> Subject {
    let kind = KINDS.iter().find(|kind| kind.word == word).unwrap();
    Subject { kind, name: name.map(str::to_owned) }
}

/// A draft whose form was filled with the text, then said the same once more.
fn through_the_form(subject: &Subject, text: &str) -> Draft {
    let mut draft = Draft::of_text(subject, View::Form, text.to_owned(), "1".to_owned());
    let said = draft.form.as_ref().expect("it has a form").draft().unwrap_or_else(|| "{}".to_owned());
    draft.take_value(subject, &said);
    assert!(draft.is_complete(), "{:?}", draft.placed_faults());
    draft
}

fn check_kept(word: &str, text: &str) {
    let subject = subject(word, Some("w"));
    let draft = through_the_form(&subject, text);
    assert_eq!(draft.text, text);
    assert!(draft.lost_comments().is_empty());
}

#[test]
fn a_text_stays_what_it_is_through_the_form() {
    check_kept("workflow", TEXT);
    // What no form shows is JSON for that part alone; what only the reader refuses is left to it.
    check_kept(
        "workflow",
        "name: w\nsteps:\n  - {id: 1, tool: true, zzz: [1, null]}\n  - null\nargs: text\nlabels: {a: 1}\n",
    );
    // A part that its form cannot show does not make it a step of another kind, which would say more.
    check_kept("workflow", "name: w\nsteps:\n  - id: a\n    tool: a/b\n    args: {}\n    retry: \"\"\n");
    check_kept(
        "workflow",
        "apiVersion: muster.giantswarm.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n  # first\n  steps:\n    - {id: a, tool: t}\n",
    );
    check_kept(
        "server",
        "name: w\n# how\ncommand: 7\nargs: [8080, -v, null]\nenv: {KEY: \"env:KEY\"}\nstart: eager\ntimeouts: {call: 5s}\n",
    );
    check_kept(
        "service-class",
        "name: w\nserviceConfig:\n  lifecycleTools: # both\n    start: {tool: a}\n    stop: {tool: b}\n",
    );
}

#[test]
fn a_change_in_the_form_leaves_the_rest_of_the_text() {
    let subject = subject("workflow", Some("w"));
    let mut draft = Draft::of_text(&subject, View::Form, TEXT.to_owned(), "1".to_owned());
    let said = draft.form.as_ref().unwrap().draft().unwrap();
    draft.take_value(&subject, &said.replace("/a\"", "/b\""));
    assert_eq!(draft.text, TEXT.replace("path: /a", "path: /b"));
    let mut value: Value = serde_json::from_str(&said).unwrap();
    value["steps"].as_array_mut().unwrap().remove(0);
    draft.take_value(&subject, &value.to_string());
    assert!(draft.text.contains("# reads") && !draft.text.contains("# the first"), "{}", draft.text);
    draft.take_value(&subject, &json!({"steps": [1]}).to_string());
    assert_eq!(draft.lost_comments(), ["# reads"]);
}

#[test]
fn digits_that_a_definition_would_lose_are_refused() {
    let subject = subject("workflow", Some("w"));
    let mut draft = Draft::of_text(&subject, View::Form, "name: w\nsteps: []\n".to_owned(), "1".to_owned());
    draft.take_value(&subject, r#"{"steps":[{"id":"a","tool":"t","args":{"n":12345678901234567890123}}]}"#);
    assert!(!draft.is_complete() && draft.placed_faults()[0].message.contains("digits"));
}

#[test]
fn a_fault_stands_at_its_field_and_at_its_line() {
    assert_eq!(pointer("steps[2].args.q"), "/steps/2/args/q");
    assert_eq!(pointer("spec.steps[0].a/b"), "/steps/0/a~1b");
    let subject = subject("workflow", Some("w"));
    let fault =
        EditorFault { line: 6, field: "steps[0].tool".into(), message: "is unknown".into(), ..EditorFault::default() };
    let mut draft = Draft::of_text(&subject, View::Form, TEXT.to_owned(), String::new());
    draft.fault(fault.clone());
    assert!(draft.placed_faults().is_empty(), "the form says it");
    let form = draft.form.as_ref().unwrap().to_string();
    assert!(form.contains("is unknown") && form.contains("steps/0/tool"), "{form}");
    draft.show(&subject, View::Yaml);
    assert_eq!(draft.placed_faults()[0].excerpt[2], (6, "    tool: a/read".to_owned(), true));
    // A text that is no YAML stays text, with its line.
    let broken = Draft::of_text(&subject, View::Form, "name: w\nsteps: {\n".to_owned(), String::new());
    assert!(broken.form.is_none() && broken.is_wrong() && broken.placed_faults()[0].line > 0);
}

#[test]
fn a_new_one_is_named_by_what_it_says() {
    let subject = subject("workflow", None);
    let mut draft = Draft::blank(&subject, View::Form);
    assert_eq!(draft.name(&subject), None);
    let mut form = draft.form.take().unwrap();
    assert!(matches!(form.read(&[]), Submission::Wrong(_)), "it lacks its name");
    draft.take_value(&subject, r#"{"name":"made","steps":[{"id":"a","tool":"t"}]}"#);
    assert_eq!(draft.name(&subject).as_deref(), Some("made"));
    assert_eq!(draft.text, "name: made\nsteps:\n  - id: a\n    tool: t\n");
}

fn any_json() -> BoxedStrategy<Value> {
    let text = prop::sample::select(vec![
        "",
        "x",
        "{{ .input.a }}",
        "true",
        "1.5",
        "a: b # c",
        "line\nline\n",
        " s ",
        "~",
        "é",
    ]);
    let leaf = prop_oneof![
        4 => text.prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let inner = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3).prop_map(|all| all.into_iter().collect()),
        ]
    });
    inner.boxed()
}

fn any_members() -> BoxedStrategy<Map<String, Value>> {
    let key = prop::sample::select(vec![
        "description",
        "condition",
        "store",
        "output",
        "allowFailure",
        "timeout",
        "retry",
        "outputs",
        "zzz",
        "args",
    ]);
    let fitting = prop_oneof![
        Just(("condition", json!({"template": "{{ .input.go }}"}))),
        Just((
            "condition",
            json!({"and": [{"fromStep": "a", "expect": {"jsonPath": {"x": 1}}}, {"not": {"template": "t"}}]})
        )),
        Just(("retry", json!({"count": 2, "delay": "1s", "backoff": 2}))),
        Just(("timeout", json!("5s"))),
        any::<bool>().prop_map(|is| ("store", json!(is))),
        (key, any_json()),
    ];
    prop::collection::vec(fitting, 0..4)
        .prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        .boxed()
}

fn any_step() -> BoxedStrategy<Value> {
    let args = prop::collection::btree_map("[a-z]{1,4}", any_json(), 0..3);
    let call = ("[a-z]{1,5}", args, any_members()).prop_map(|(id, args, more)| {
        let mut step = json!({"id": id, "tool": "a/b", "args": args.into_iter().collect::<Map<_, _>>()});
        step.as_object_mut().unwrap().extend(more);
        step
    });
    let call = call.boxed();
    let within = (call.clone(), call.clone(), any::<u8>()).prop_map(|(one, other, kind)| match kind % 4 {
        0 => one,
        1 => json!({"id": "e", "forEach": {"items": "{{ .input.all }}", "as": "row", "steps": [one, other]}}),
        2 => json!({"id": "p", "parallel": [one, other], "condition": {"or": [{"template": "x"}]}}),
        _ => json!({"id": "g", "agent": "clerk", "input": one["args"], "timeout": "1m"}),
    });
    within.boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn form_and_yaml_lose_nothing(steps in prop::collection::vec(any_step(), 1..4), more in any_members(), out in any_json()) {
        let mut definition = json!({"name": "w", "description": "d", "steps": steps, "output": {"a": out}});
        definition.as_object_mut().unwrap().extend(more);
        let text = "# kept\n".to_owned() + &toolcrib_catalog::to_yaml(&definition);
        let subject = subject("workflow", Some("w"));
        prop_assert_eq!(&through_the_form(&subject, &text).text, &text);
        // And into a text that says something else: it says just what the form said, and its comment stays.
        let said = Draft::of_text(&subject, View::Form, text.clone(), String::new()).form.unwrap().draft().unwrap();
        let mut other = Draft::of_text(&subject, View::Form, TEXT.to_owned(), String::new());
        other.take_value(&subject, &said);
        let which = other.which(&subject);
        prop_assert_eq!(which.value(&other.text), which.value(&text));
    }
}

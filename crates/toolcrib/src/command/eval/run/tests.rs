//! What can be wrong in a file of scenarios, and how entries of a run become its calls.

use serde_json::{Value, json};

use super::attempt::traced;
use super::read::read;
use super::variants;

/// A file whose one scenario expects this.
fn file(expect: &Value) -> Value {
    json!({"scenarios": [{"id": "one", "task": "Do it", "expect": expect}]})
}

#[track_caller]
fn refused(root: &Value, part: &str) {
    let error = read("x.yaml", root).err().unwrap_or_else(|| panic!("accepted: {root}"));
    assert!(error.contains(part), "no `{part}` in `{error}`");
}

#[test]
fn assertions_that_cannot_fail_are_refused() {
    let ends: Vec<&str> = super::expect::ENDS.to_vec();
    for (expect, part) in [
        (json!({}), "nothing is expected"),
        (json!({"calls": []}), "expect.calls: an empty list cannot fail"),
        (json!({"forbidden": []}), "expect.forbidden: an empty list"),
        (json!({"order": [""]}), "expect.order: an empty text"),
        (json!({"end": ends}), "every end is allowed"),
        (json!({"text": {}}), "expect.text: nothing is expected"),
        (json!({"text": {"contains": ""}}), "contains: an empty text"),
        (json!({"text": {"matches": ".*"}}), "`.*` matches every text"),
        (json!({"text": {"matches": "(?s)^.*$"}}), "matches every text"),
        (json!({"text": {"matches": "a?"}}), "matches every text"),
        (json!({"text": {"json": {}}}), "every object has this in it"),
        (json!({"calls": [{"tool": "x", "arguments": {}}]}), "every object has this in it"),
        (json!({"calls": [{"tool": "x", "paths": {}}]}), "expected paths"),
        (json!({"calls": [{"tool": "x", "matches": {"a": ""}}]}), "matches every text"),
        (json!({"state": [{"tool": "x"}]}), "nothing is expected of the call"),
        (json!({"rounds": {"max": 10}}), "a run has at most 10"),
        (json!({"rounds": {"min": 0}}), "nothing is below 0"),
        (json!({"rounds": {}}), "nothing is expected"),
        (json!({"tokens": {"max": 1_000_000_000}}), "cannot fail"),
        (json!({"call_count": {"max": 100_000}}), "cannot fail"),
    ] {
        refused(&file(&expect), part);
    }
    let limited = |expect: Value| json!({"scenarios": [{"id": "one", "task": "t", "limits": {"calls": 3, "tokens": 500, "cost": 0.5}, "expect": expect}]});
    refused(&limited(json!({"call_count": {"max": 3}})), "a run has at most 3");
    refused(&limited(json!({"tokens": {"max": 500}})), "a run has at most 500");
    refused(&limited(json!({"cost": {"max": "0.50"}})), "ends at its limit before");
    assert_eq!(read("x", &limited(json!({"cost": {"max": 0.49}, "call_count": {"max": 2}}))).unwrap().len(), 1);
}

#[test]
fn what_is_mistyped_is_named_with_its_place() {
    for (expect, part) in [
        (json!({"forbiden": ["x"]}), "scenarios[0].expect: unknown key `forbiden`; did you mean `forbidden`?"),
        (json!({"calls": [{"tol": "x"}]}), "expect.calls[0]: unknown key `tol`; did you mean `tool`?"),
        (json!({"calls": [{"error": true}]}), "calls[0]: `tool` is missing"),
        (json!({"end": "finished"}), "no run ends as `finished`; ends are done"),
        (json!({"text": {"matches": "("}}), "`(` is not a regular expression"),
        (json!({"calls": [{"tool": "x", "paths": {"a[b]": 1}}]}), "`a[b]` is not a path"),
        (json!({"rounds": {"min": 4, "max": 3}}), "`min` is above `max`"),
        (json!({"cost": {"max": "much"}}), "expected dollars"),
        (json!({"forbidden": ["*"], "order": ["x"]}), "forbids every call"),
    ] {
        refused(&file(&expect), part);
    }
    refused(&json!({"scenarios": []}), "an empty list");
    refused(&json!({}), "`scenarios` is missing");
    refused(&json!({"scenarios": [{"id": "a", "task": "t"}]}), "nothing is expected; add `expect`");
    refused(&json!({"name": "x", "steps": []}), "a file of steps");
    refused(&json!({"scenarios": [{"id": "a", "task": "t", "tools": "some", "expect": {"end": "done"}}]}), "menu, all");
    let one = json!({"id": "a", "task": "t", "expect": {"end": "done"}});
    refused(&json!({"scenarios": [one, one]}), "two scenarios `a`");
    let scooter = |more: Value| json!({"scenarios": [{"id": "a", "task": "t", "validation": more}]});
    refused(&scooter(json!({"response_must_contain": []})), "an empty list");
    refused(&scooter(json!({"required_tool_patterns": [".*"]})), "matches every text");
    refused(&scooter(json!({"response_must_contains": ["x"]})), "did you mean `response_must_contain`?");
}

#[test]
fn variants_are_what_differs() {
    let names = |text: Option<&str>| variants(text).unwrap().into_iter().map(|one| one.name).collect::<Vec<_>>();
    assert_eq!(names(None), [""]);
    assert_eq!(names(Some("tools=menu,all")), ["tools=menu", "tools=all"]);
    assert_eq!(names(Some("model=a, b")), ["model=a", "model=b"]);
    for wrong in ["tools", "tools=menu", "tools=menu,menu", "tools=menu,some", "model=a,,b", "rounds=1,2"] {
        assert!(variants(Some(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn calls_are_counted_by_rounds_without_summaries() {
    let entries = [
        json!({"event": "asked", "request": 1, "purpose": "turn"}),
        json!({"event": "answered", "request": 1, "calls": [
            {"tool": "call_tool", "arguments": r#"{"name": "a/b", "arguments": {"x": 1}}"#},
            {"tool": "scooter_call", "arguments": r#"{"tool": "c"}"#},
            {"tool": "call_tool", "arguments": "no JSON"}]}),
        json!({"event": "decided", "call": "1.2", "decision": "refused"}),
        json!({"event": "result", "call": "1.1", "is_error": true}),
        json!({"event": "asked", "request": 2, "purpose": "summary"}),
        json!({"event": "answered", "request": 2, "calls": []}),
        json!({"event": "asked", "request": 3, "purpose": "turn"}),
        json!({"event": "answered", "request": 3, "calls": [{"tool": "d", "arguments": "{}"}]}),
    ];
    let trace = traced(&json!({"status": "ended", "end": "done", "cost": "$0.25", "rounds": 2}), &entries);
    let calls: Vec<_> = trace.calls.iter().map(|call| (call.id.as_str(), call.tool.as_str())).collect();
    assert_eq!(calls, [("1.1", "a/b"), ("1.2", "c"), ("1.3", "call_tool"), ("2.1", "d")]);
    assert_eq!(trace.calls[0].arguments, json!({"x": 1}));
    assert!(trace.calls[0].is_error && trace.calls[1].is_refused && !trace.calls[3].is_error);
    assert_eq!((trace.cost.to_string().as_str(), trace.end.as_str()), ("$0.25", "done"));
    let waiting = traced(&json!({"status": "waiting"}), &[]);
    assert_eq!(waiting.end, "waiting");
}

//! The names under which what a run does is recorded.

use serde_json::json;
use toolcrib_agent::{CallResult, InnerTool};

use super::*;

const CALL_ID: CallId = CallId { round: 1, place: 1 };

/// A run that has a tool that reads, one that writes, and the menu.
fn start() -> Start {
    let tool = |name: &str, id: &str, reads: bool| json!({"name": name, "id": id, "schema": {}, "hints": {"read_only": reads}});
    serde_json::from_value(json!({
        "run": "r", "agent": "clerk", "task": "Go.", "models": [{"name": "m", "max_output": 10}],
        "tools": [tool("call_tool", CALL, false), tool("look", "post/look", true), tool("send", "post/send", false)],
    }))
    .unwrap()
}

fn answered(tool: &str, arguments: &str) -> Event {
    let answer = json!({
        "raw": {}, "text": "", "calls": [{"id": "c", "name": tool, "arguments": arguments}], "finish": "stop",
        "context": 1, "spent": {"tokens": 3, "money": 0},
    });
    Event::Answered { number: 1, answer: Box::new(serde_json::from_value(answer).unwrap()) }
}

/// The names of the events of these entries, and what the last one says.
fn recorded(events: Vec<Event>) -> (Vec<&'static str>, RunEvent) {
    let (mut trail, start, state) = (Trail::default(), start(), JournalState::default());
    let entries = events.into_iter().zip(0..).map(|(event, at)| Entry { at: Timestamp(at), event });
    let events: Vec<RunEvent> = entries.filter_map(|entry| trail.take(&start, &entry, &state)).collect();
    (events.iter().map(|event| event.name).collect(), events.last().unwrap().clone())
}

fn held() -> Event {
    Event::Decided { call: CALL_ID, decision: Decision::Held("apr_1".to_owned()) }
}

fn approval(granted: bool) -> Event {
    Event::Approval { approval: "apr_1".to_owned(), granted, note: "by ann".to_owned() }
}

fn result(is_error: bool) -> Event {
    Event::Result { call: CALL_ID, result: CallResult { is_error, ..CallResult::default() } }
}

fn refused(kind: RefusalKind) -> Event {
    let refusal = Refusal { kind, why: "no".to_owned(), nearest: Vec::new() };
    Event::Decided { call: CALL_ID, decision: Decision::Refused(refusal) }
}

#[test]
fn a_governed_write_has_the_names_of_connectors() {
    let left = Event::Intent { call: CALL_ID, attempt: 1 };
    let (names, last) = recorded(vec![answered("send", "{}"), held(), approval(true), left.clone(), result(false)]);
    let write = "connector.write.approval_requested";
    assert_eq!(names, ["model.called", write, "connector.write.approved", "connector.write.executed"]);
    assert_eq!(last.approval.as_deref(), Some("apr_1"));
    assert_eq!((&last.details["tool"], &last.details["connector"]), (&json!("post/send"), &json!("post")));
    assert_eq!(last.duration, Duration::from_millis(1));
    let (names, last) = recorded(vec![answered("send", "{}"), held(), approval(false)]);
    assert_eq!((names[2], last.outcome), ("connector.write.denied", Outcome::Denied));
    let (names, _) = recorded(vec![answered("send", "{}"), held(), approval(true), left, result(true)]);
    assert_eq!(names[3], "connector.write.failed");
    let (names, _) = recorded(vec![answered("send", "{}"), refused(RefusalKind::Denied)]);
    assert_eq!(names[1], "connector.write.blocked");
}

#[test]
fn other_calls_have_the_names_of_tools() {
    let (names, _) = recorded(vec![answered("look", "{}"), held(), approval(true), result(true)]);
    assert_eq!(names, ["model.called", "approval.requested", "approval.granted", "tool.failed"]);
    for (tool, kind) in
        [("look", RefusalKind::Denied), ("send", RefusalKind::Invalid), ("none", RefusalKind::UnknownTool)]
    {
        let (names, last) = recorded(vec![answered(tool, "{}"), refused(kind)]);
        assert_eq!((names[1], last.outcome), ("tool.blocked", Outcome::Denied), "{tool}");
    }
    let why = String::new();
    let (names, _) = recorded(vec![answered("send", "{}"), Event::Unknown { call: CALL_ID, attempt: 1, why }]);
    assert_eq!(names[1], "tool.unknown");
}

#[test]
fn a_call_through_the_menu_is_of_the_tool_that_it_names() {
    let inner = InnerTool { hints: toolcrib_agent::Hints { read_only: true, ..Default::default() }, agent: false };
    let allowed = Event::Decided { call: CALL_ID, decision: Decision::AllowedAs(inner) };
    let arguments = r#"{"name": "post/look", "arguments": {}}"#;
    let (names, last) = recorded(vec![answered("call_tool", arguments), allowed, held()]);
    assert_eq!((names[1], &last.details["tool"]), ("approval.requested", &json!("post/look")));
    let (_, last) = recorded(vec![answered(&"x".repeat(9_000), "{}"), refused(RefusalKind::UnknownTool)]);
    assert_eq!(last.details["tool"].as_str().map(str::len), Some(NAME));
}

#[test]
fn ends_by_a_halt_say_which() {
    let (names, last) = recorded(vec![Event::Ended(End::Cancelled("halt `hlt_1`".to_owned()))]);
    assert_eq!((names[0], last.halt.as_deref()), ("session.halted", Some("hlt_1")));
    let (names, last) = recorded(vec![Event::Ended(End::Cancelled("ann".to_owned()))]);
    assert_eq!((names[0], last.halt, &last.details["by"]), ("run.cancelled", None, &json!("ann")));
}

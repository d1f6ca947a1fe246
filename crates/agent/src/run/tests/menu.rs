//! Calls of a menu have the effects of the tools that they name.

use super::*;

/// Two calls by a menu, decided to be of tools with these effects.
fn by_menu(hints: [Hints; 2]) -> Story {
    let mut start = start();
    start.tools.insert(2, tool("call_tool", Hints::default()));
    let mut story = Story::new(start.sorted());
    let calls = [("call_tool", r#"{"name":"a"}"#), ("call_tool", r#"{"name":"b"}"#)];
    story.answers("", &calls, Finish::Stop);
    story.records();
    for (call, hints) in ["1.1", "1.2"].into_iter().zip(hints) {
        let decision = Decision::AllowedAs(InnerTool { hints, agent: false });
        story.happens(Event::Decided { call: id(call), decision });
    }
    story
}

#[test]
fn a_call_by_a_menu_has_the_effects_of_the_tool_that_it_names() {
    let read = Hints { read_only: true, ..Hints::default() };
    let idempotent = Hints { idempotent: true, ..Hints::default() };
    let ready = by_menu([read, read]).ready();
    assert!(ready.len() == 2 && ready.iter().all(|call| !call.durable), "reads leave together: {ready:?}");
    let ready = by_menu([Hints::default(), read]).ready();
    assert!(ready.len() == 1 && ready[0].durable, "a write leaves alone: {ready:?}");
    for (hints, is_repeated) in [(read, true), (idempotent, true), (Hints::default(), false)] {
        let mut story = by_menu([hints, Hints::default()]);
        let ready = story.ready();
        story.leaves(&ready[0]);
        story.happens(Event::Resumed);
        let again = story.ready();
        assert_eq!((again[0].id == id("1.1"), again[0].attempt), (is_repeated, if is_repeated { 2 } else { 1 }));
    }
}

#[test]
fn sub_agents_by_a_menu_share_what_is_left() {
    let mut start = start();
    start.limits.tokens = Some(10_100);
    start.tools.insert(2, tool("call_tool", Hints::default()));
    let mut story = Story::new(start.sorted());
    story.answers("", &[("call_tool", r#"{"name":"a"}"#), ("call_tool", r#"{"name":"b"}"#)], Finish::Stop);
    story.records();
    let hints = Hints { read_only: true, ..Hints::default() };
    for call in ["1.1", "1.2"] {
        let decision = Decision::AllowedAs(InnerTool { hints, agent: true });
        story.happens(Event::Decided { call: id(call), decision });
    }
    let shares: Vec<_> = story.ready().iter().map(|call| call.allowance.tokens).collect();
    assert_eq!(shares, [Some(5_000), Some(5_000)]);
}

#[test]
fn decisions_are_written_as_they_are_read() {
    let inner = InnerTool { hints: Hints { read_only: true, ..Hints::default() }, agent: false };
    for (decision, text) in [
        (Decision::Allowed, r#""allowed""#),
        (
            Decision::AllowedAs(inner),
            r#"{"allowed_as":{"hints":{"read_only":true,"idempotent":false,"destructive":false},"agent":false}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&decision).unwrap(), text);
        assert_eq!(serde_json::from_str::<Decision>(text).unwrap(), decision);
    }
    let short: Decision = serde_json::from_str(r#"{"allowed_as":{}}"#).unwrap();
    assert_eq!(short, Decision::AllowedAs(InnerTool::default()), "what is not said is a write");
}

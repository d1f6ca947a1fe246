//! What a run does, one rule after another. What must hold in every schedule is the simulator's.

mod menu;
mod messages;
mod quarantine;

use std::sync::Arc;

use serde_json::json;
use serde_json::value::to_raw_value;
use toolcrib_base::Timestamp;

use super::Run;
use crate::action::{Action, Ask, Call};
use crate::answer::{Answer, Failure, FailureKind, Finish, ModelCall, ModelSpec, Price};
use crate::conversation::Part;
use crate::entry::{CallId, CallResult, Decision, End, Entry, Event, InnerTool, OnDenied, OnUnknown, Purpose, Refusal};
use crate::entry::{RefusalKind, Settlement, Start, WaitFor};
use crate::journal::JournalError;
use crate::spending::{Cost, LimitName, RunLimits};
use crate::tool::{Hints, ToolSpec};
use crate::{fork, replay};

/// A run and its journal, with words for what happens.
struct Story {
    run: Run,
    journal: Vec<Entry>,
    now: i64,
}

fn tool(name: &str, hints: Hints) -> ToolSpec {
    let schema: Arc<_> = to_raw_value(&json!({"type": "object"})).unwrap().into();
    ToolSpec {
        name: name.to_owned(),
        id: String::new(),
        deferred: false,
        description: String::new(),
        schema,
        hints,
        agent: name.starts_with("agent_"),
    }
}

fn start() -> Start {
    let model = |name: &str| ModelSpec { name: name.to_owned(), window: None, max_output: 1_000, price: None };
    let read_only = Hints { read_only: true, ..Hints::default() };
    Start {
        runs_as: None,
        run: "run_1".to_owned(),
        agent: "clerk".to_owned(),
        instructions: "You are a clerk.".to_owned(),
        task: "Do the work.".to_owned(),
        models: vec![model("one"), model("two")],
        tools: vec![
            tool("agent_a", read_only),
            tool("agent_b", read_only),
            tool("look", read_only),
            tool("send_mail", Hints::default()),
        ],
        output: None,
        limits: RunLimits::default(),
        on_denied: OnDenied::Tell,
        on_unknown: OnUnknown::Tell,
        reader: Some("read_result".to_owned()),
        profile: String::new(),
        allowed: None,
        parent: None,
        labels: Vec::new(),
        held: None,
        judged: Cost::default(),
    }
}

fn id(text: &str) -> CallId {
    CallId::parse(text).unwrap()
}

fn failure(kind: FailureKind, retry_after_ms: Option<u64>) -> Failure {
    Failure { kind, message: "no".to_owned(), retry_after_ms, spent: None }
}

impl Story {
    fn new(start: Start) -> Self {
        let mut story = Self { run: Run::default(), journal: Vec::new(), now: 0 };
        story.happens(Event::Started(Box::new(start)));
        story
    }

    fn happens(&mut self, event: Event) {
        let entry = Entry { at: Timestamp(self.now), event };
        self.run.apply(&entry).unwrap();
        self.journal.push(entry);
    }

    /// Writes what the run writes by itself.
    fn records(&mut self) -> Vec<Action> {
        loop {
            let actions = self.run.actions();
            let records = actions.iter().filter_map(|action| match action {
                Action::Record(event) => Some(event.clone()),
                _ => None,
            });
            let records: Vec<_> = records.collect();
            if records.is_empty() {
                return actions;
            }
            records.into_iter().for_each(|event| self.happens(event));
        }
    }

    fn ask(&mut self) -> Ask {
        match &self.records()[..] {
            [Action::Ask(ask)] => (**ask).clone(),
            other => panic!("no request, but {other:?}"),
        }
    }

    fn answers(&mut self, text: &str, calls: &[(&str, &str)], finish: Finish) {
        let ask = self.ask();
        self.happens(Event::Asked(ask.request.clone()));
        let call = |(name, arguments): &(&str, &str)| ModelCall {
            id: "id".to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        };
        let answer = Answer {
            raw: to_raw_value(text).unwrap().into(),
            text: text.to_owned(),
            calls: calls.iter().map(call).collect(),
            finish,
            context: ask.conversation.bytes() / 3 + 50,
            spent: Cost { tokens: 100, money: 10 },
        };
        self.happens(Event::Answered { number: ask.request.number, answer: Box::new(answer) });
    }

    fn fails(&mut self, failure: Failure) {
        let ask = self.ask();
        self.happens(Event::Asked(ask.request.clone()));
        self.happens(Event::AskFailed { number: ask.request.number, failure });
    }

    /// Decides all calls, makes those that may leave, as often as there are any; each gives this result.
    fn calls_give(&mut self, text: &str) {
        loop {
            match &self.records()[..] {
                [Action::Decide(calls)] => {
                    for call in calls.clone() {
                        self.happens(Event::Decided { call: call.id, decision: Decision::Allowed });
                    }
                }
                [Action::Call(calls)] => {
                    for call in calls.clone() {
                        self.leaves(&call);
                        self.gives(call.id, text);
                    }
                }
                _ => return,
            }
        }
    }

    fn leaves(&mut self, call: &Call) {
        self.happens(Event::Intent { call: call.id, attempt: call.attempt });
    }

    fn gives(&mut self, call: CallId, text: &str) {
        let result = CallResult { text: text.to_owned(), ..CallResult::default() };
        self.happens(Event::Result { call, result });
    }

    /// The calls that may leave.
    fn ready(&mut self) -> Vec<Call> {
        match &self.records()[..] {
            [Action::Call(calls)] => calls.clone(),
            other => panic!("no calls, but {other:?}"),
        }
    }

    fn shown(&self) -> Vec<String> {
        match self
            .run
            .conversation()
            .parts()
            .iter()
            .rev()
            .find(|part| matches!(&***part, Part::Results(_)))
            .map(|p| &**p)
        {
            Some(Part::Results(results)) => results.iter().map(|result| result.text.clone()).collect(),
            _ => Vec::new(),
        }
    }

    fn last_words(&self) -> &str {
        match self.run.conversation().parts().last().map(|part| &**part) {
            Some(Part::User(text)) => text,
            _ => "",
        }
    }

    fn end(&mut self) -> End {
        match &self.records()[..] {
            [Action::End(end)] => end.clone(),
            other => panic!("no end, but {other:?}"),
        }
    }
}

#[test]
fn reads_leave_together_and_writes_alone_in_order() {
    let mut story = Story::new(start());
    let calls = [
        ("look", r#"{"n":1}"#),
        ("look", r#"{"n":2}"#),
        ("send_mail", "{}"),
        ("look", r#"{"n":3}"#),
        ("send_mail", ""),
    ];
    story.answers("", &calls, Finish::Stop);
    let [Action::Decide(undecided)] = &story.records()[..] else { panic!("nothing to decide") };
    assert_eq!(
        undecided.iter().map(|call| call.id.to_string()).collect::<Vec<_>>(),
        ["1.1", "1.2", "1.3", "1.4", "1.5"]
    );
    for call in undecided.clone() {
        story.happens(Event::Decided { call: call.id, decision: Decision::Allowed });
    }
    for together in [&["1.1", "1.2"][..], &["1.3"], &["1.4"], &["1.5"]] {
        let ready = story.ready();
        assert_eq!(ready.iter().map(|call| call.id.to_string()).collect::<Vec<_>>(), together);
        assert_eq!(ready[0].durable, ready[0].tool == "send_mail");
        ready.iter().for_each(|call| story.leaves(call));
        assert!(story.run.actions().is_empty());
        ready.iter().for_each(|call| story.gives(call.id, call.arguments.as_ref()));
    }
    assert_eq!(story.shown(), [r#"{"n":1}"#, r#"{"n":2}"#, "{}", r#"{"n":3}"#, "{}"]);
}

#[test]
fn calls_that_cannot_be_made_are_answered_with_why_and_the_nearest_names() {
    let mut start = start();
    start.limits.calls_per_turn = 3;
    let mut story = Story::new(start);
    story.answers("", &[("send_mial", "{}"), ("look", "{\"n\":"), ("look", "[]"), ("look", "{}")], Finish::Stop);
    story.records();
    let shown = story.shown();
    assert_eq!(shown[0], "unknown tool: there is no `send_mial`. Nearest names: send_mail");
    assert!(shown[1].starts_with("invalid arguments: they are not a JSON object (EOF while parsing"), "{}", shown[1]);
    assert!(shown[2].starts_with("invalid arguments: they are not a JSON object (another kind of JSON)"));
    assert!(shown[3].starts_with("not called: one answer may have at most 3 calls"), "{}", shown[3]);
    assert_eq!(story.run.calls_made(), 0);
}

#[test]
fn a_thousand_calls_in_an_answer_are_answered_one_by_one() {
    let mut story = Story::new(start());
    story.answers("", &vec![("look", "{}"); 1_000], Finish::Stop);
    story.calls_give("x");
    assert_eq!(story.shown().len(), 1_000);
    assert_eq!(story.run.calls_made(), 32);
}

#[test]
fn a_denial_is_told_or_ends_the_run_before_any_call() {
    for (on_denied, ends) in [(OnDenied::Tell, false), (OnDenied::End, true)] {
        let mut story = Story::new(Start { on_denied, ..start() });
        story.answers("", &[("look", "{}"), ("send_mail", "{}")], Finish::Stop);
        story.happens(Event::Decided { call: id("1.1"), decision: Decision::Allowed });
        let refusal = Refusal { kind: RefusalKind::Denied, why: "mail is not allowed".to_owned(), nearest: Vec::new() };
        story.happens(Event::Decided { call: id("1.2"), decision: Decision::Refused(refusal) });
        if ends {
            assert_eq!(story.end(), End::Denied("send_mail".to_owned()));
            assert_eq!(story.run.calls_made(), 0);
        } else {
            story.calls_give("seen");
            assert_eq!(story.shown(), ["seen", "denied: mail is not allowed"]);
        }
    }
}

#[test]
fn the_third_same_result_is_told_and_the_fifth_ends() {
    let mut story = Story::new(start());
    for round in 1..=5 {
        // The same arguments in other words.
        let arguments = if round % 2 == 0 { r#"{"a": 1, "b": 2}"# } else { r#"{"b":2.0,"a":1}"# };
        story.answers("", &[("look", arguments)], Finish::Stop);
        story.calls_give("nothing new");
        let is_told = story.shown()[0].contains("the same result");
        assert_eq!(is_told, round == 3 || round == 4, "round {round}: {:?}", story.shown());
    }
    assert_eq!(story.end(), End::Stuck("look".to_owned()));
}

#[test]
fn another_result_in_between_begins_the_count_again() {
    let mut story = Story::new(start());
    for round in 1..=8 {
        story.answers("", &[("look", "{}")], Finish::Stop);
        story.calls_give(if round == 4 { "news" } else { "nothing new" });
    }
    assert!(story.run.end().is_none());
}

/// A write is under way when the process dies.
fn crashed(on_unknown: OnUnknown) -> Story {
    let mut story = Story::new(Start { on_unknown, ..start() });
    story.answers("", &[("send_mail", r#"{"to":"a"}"#), ("look", "{}")], Finish::Stop);
    story.records();
    for call in ["1.1", "1.2"] {
        story.happens(Event::Decided { call: id(call), decision: Decision::Allowed });
    }
    let ready = story.ready();
    story.leaves(&ready[0]);
    story.happens(Event::Resumed);
    story
}

#[test]
fn a_write_that_was_under_way_in_a_crash_is_refused_until_a_person_settles_it() {
    let mut story = crashed(OnUnknown::Tell);
    story.calls_give("seen");
    assert!(story.shown()[0].starts_with("it is not known whether call 1.1 happened"), "{:?}", story.shown());
    story.answers("", &[("send_mail", r#"{ "to": "a" }"#), ("send_mail", r#"{"to":"b"}"#)], Finish::Stop);
    story.calls_give("sent");
    assert!(story.shown()[0].starts_with("not called: it is not known whether the same call 1.1 happened"));
    assert_eq!(story.shown()[1], "sent");
    let settlement = Settlement::DidNot;
    story.happens(Event::Settled { call: id("1.1"), settlement, by: "local".to_owned() });
    assert_eq!(story.last_words(), "call 1.1 was settled: it did not happen. It may be called again.");
    story.answers("", &[("send_mail", r#"{"to":"a"}"#)], Finish::Stop);
    story.calls_give("sent");
    assert_eq!(story.shown(), ["sent"]);
}

#[test]
fn an_unknown_end_waits_for_a_person_or_ends_the_run() {
    let mut story = crashed(OnUnknown::End);
    assert_eq!(story.end(), End::Unknown(id("1.1")));
    let happened = CallResult { text: "sent at noon".to_owned(), ..CallResult::default() };
    for (settlement, shown) in [
        (Settlement::Happened(happened), "sent at noon"),
        (Settlement::DidNot, "this call did not happen; it may be called again"),
        (Settlement::Repeat, "done"),
    ] {
        let mut story = crashed(OnUnknown::Ask);
        let waits = vec![WaitFor::Settlement(id("1.1"))];
        assert!(matches!(&story.records()[..], [Action::Wait(on)] if *on == waits));
        story.happens(Event::Settled { call: id("1.1"), settlement, by: "local".to_owned() });
        story.calls_give("done");
        assert_eq!(story.shown()[0], shown);
    }
}

#[test]
fn a_read_that_was_under_way_in_a_crash_is_made_again_three_times_at_most() {
    let mut story = Story::new(start());
    story.answers("", &[("look", "{}")], Finish::Stop);
    story.records();
    story.happens(Event::Decided { call: id("1.1"), decision: Decision::Allowed });
    for attempt in 1..=3 {
        let ready = story.ready();
        assert_eq!(ready[0].attempt, attempt);
        story.leaves(&ready[0]);
        story.happens(Event::Resumed);
    }
    assert_eq!(story.shown(), ["no result after 3 attempts: the process that called is gone"]);
    assert_eq!(story.run.calls_made(), 1);
}

#[test]
fn each_held_call_is_approved_by_itself_and_the_clock_stands_still() {
    let mut story = Story::new(start());
    story.answers("", &[("send_mail", r#"{"to":"a"}"#), ("look", "{}"), ("send_mail", r#"{"to":"b"}"#)], Finish::Stop);
    story.records();
    story.happens(Event::Decided { call: id("1.1"), decision: Decision::Held("apr_1".to_owned()) });
    story.happens(Event::Decided { call: id("1.2"), decision: Decision::Allowed });
    story.happens(Event::Decided { call: id("1.3"), decision: Decision::Held("apr_2".to_owned()) });
    let both = vec![WaitFor::Approval("apr_1".to_owned()), WaitFor::Approval("apr_2".to_owned())];
    assert!(matches!(&story.records()[..], [Action::Wait(on)] if *on == both));
    story.now += 86_400_000;
    let answer = |approval: &str, granted| Event::Approval {
        approval: approval.to_owned(),
        granted,
        note: "too expensive".to_owned(),
    };
    story.happens(answer("apr_2", false));
    assert!(matches!(&story.records()[..], [Action::Wait(on)] if *on == both[..1]));
    story.happens(answer("apr_1", true));
    let ready = story.ready();
    assert_eq!((ready.len(), ready[0].approval.as_deref()), (1, Some("apr_1")));
    story.calls_give("done");
    assert_eq!(story.shown(), ["done", "done", "not approved: too expensive"]);
    assert_eq!(story.run.active_ms(), 0);
    story.happens(answer("apr_1", true));
    assert_eq!(story.run.irregular(), (1, 0));
}

#[test]
fn a_model_is_asked_again_then_another_one_and_never_after_400_or_401() {
    let mut story = Story::new(start());
    story.fails(failure(FailureKind::Busy, Some(3_000)));
    assert_eq!(story.ask().not_before, Some(Timestamp(3_000)));
    story.fails(failure(FailureKind::Server, None));
    assert_eq!(story.ask().not_before, Some(Timestamp(1_000)));
    (0..3).for_each(|_| story.fails(failure(FailureKind::Cut, None)));
    assert_eq!((story.ask().request.model, story.ask().not_before), (1, None));
    assert_eq!(story.run.irregular(), (0, 3));
    (0..5).for_each(|_| story.fails(failure(FailureKind::Network, None)));
    assert_eq!(story.end(), End::Failed(failure(FailureKind::Network, None)));
    let mut story = Story::new(start());
    story.fails(failure(FailureKind::Unusable, None));
    assert_eq!((story.ask().request.model, story.ask().not_before), (1, None));
    for kind in [FailureKind::Invalid, FailureKind::Unauthorized] {
        let mut story = Story::new(start());
        story.fails(failure(kind, None));
        assert_eq!(story.end(), End::Failed(failure(kind, None)));
    }
}

#[test]
fn refusal_filter_and_length_end_by_name_and_their_calls_are_not_made() {
    for (finish, end) in [
        (Finish::Refusal, End::Refused("No.".to_owned())),
        (Finish::Filter, End::Filtered),
        (Finish::Length, End::Length),
    ] {
        let mut story = Story::new(start());
        story.answers("No.", &[("send_mail", "{}")], finish);
        assert_eq!(story.end(), end);
        assert_eq!(story.run.calls_made(), 0);
    }
}

#[test]
fn an_output_that_does_not_fit_is_repaired_twice() {
    let output = Some(to_raw_value(&json!({"type": "object"})).unwrap().into());
    let mut story = Story::new(Start { output, ..start() });
    for repair in 0..3 {
        story.answers("text", &[], Finish::Stop);
        assert!(matches!(&story.records()[..], [Action::CheckOutput(text)] if text == "text"));
        story.happens(Event::Checked { problem: Some("it is no JSON".to_owned()) });
        assert_eq!(story.last_words().contains("it is no JSON"), repair < 2);
    }
    assert_eq!(story.end(), End::Output("it is no JSON".to_owned()));
}

#[test]
fn a_limit_of_money_without_a_price_does_not_start() {
    let mut start = start();
    start.limits.money = Some(1_000_000);
    let error = start.check().unwrap_err().to_string();
    assert_eq!(error, "a limit of money needs the price of each model, and `one` has none");
    let entry = Entry { at: Timestamp(0), event: Event::Started(Box::new(start)) };
    assert!(matches!(Run::fold(&[entry]), Err(JournalError::Misplaced { entry: 1, .. })));
}

#[test]
fn what_a_request_may_cost_is_reserved_and_its_answer_is_made_shorter() {
    let mut start = start();
    start.limits.tokens = Some(1_000);
    start.limits.money = Some(1_000_000);
    start.models.iter_mut().for_each(|model| model.price = Some(Price { input: 1, output: 2 }));
    let mut story = Story::new(start);
    let request = story.ask().request;
    assert!(request.max_output < 1_000 && request.reserved.tokens == 1_000, "{request:?}");
    story.happens(Event::Asked(request.clone()));
    assert_eq!(story.run.spent(), request.reserved);
    story.happens(Event::AskFailed { number: 1, failure: failure(FailureKind::Cut, None) });
    assert_eq!(story.run.spent(), request.reserved);
    assert_eq!(story.end(), End::Limit(LimitName::Tokens));
}

#[test]
fn sub_agents_share_what_is_left_and_spend_their_parents() {
    let mut start = start();
    start.limits.tokens = Some(10_100);
    let mut story = Story::new(start);
    story.answers("", &[("agent_a", "{}"), ("agent_b", "{}"), ("look", "{}")], Finish::Stop);
    story.records();
    for call in ["1.1", "1.2", "1.3"] {
        story.happens(Event::Decided { call: id(call), decision: Decision::Allowed });
    }
    let ready = story.ready();
    assert!(ready.iter().all(|call| call.allowance.tokens == Some(5_000)), "{ready:?}");
    ready.iter().for_each(|call| story.leaves(call));
    let spent = Cost { tokens: 4_000, money: 7 };
    let result = CallResult { text: "found".to_owned(), spent, ..CallResult::default() };
    story.happens(Event::Result { call: id("1.1"), result });
    assert_eq!(story.run.spent(), Cost { tokens: 4_100, money: 17 });
}

#[test]
fn a_run_at_its_limit_goes_on_with_its_open_calls() {
    let mut start = start();
    start.limits.calls = 1;
    let mut more = start.limits.clone();
    let mut story = Story::new(start);
    story.answers("", &[("look", r#"{"n":1}"#), ("look", r#"{"n":2}"#)], Finish::Stop);
    story.calls_give("x");
    assert_eq!(story.end(), End::Limit(LimitName::Calls));
    assert_eq!(story.run.calls_made(), 0);
    more.calls = 2;
    story.happens(Event::Raised(more));
    story.calls_give("x");
    assert_eq!(story.shown(), ["x", "x"]);
}

#[test]
fn time_in_which_no_process_has_the_run_is_not_counted() {
    let mut story = Story::new(start());
    story.now += 1_000;
    story.answers("", &[("look", "{}")], Finish::Stop);
    story.now += 86_400_000;
    story.happens(Event::Resumed);
    assert_eq!(story.run.active_ms(), 1_000);
    story.now += 599_000;
    story.calls_give("x");
    assert_eq!(story.end(), End::Limit(LimitName::Time));
}

#[test]
fn a_long_result_is_shown_by_its_beginning_and_how_to_read_more() {
    let mut story = Story::new(start());
    story.answers("", &[("look", "{}")], Finish::Stop);
    story.calls_give(&"ä".repeat(50_000));
    let shown = &story.shown()[0];
    assert!(shown.len() < 2_300, "{}", shown.len());
    let more =
        "[the first 2048 of 100000 bytes; read more with `read_result` and {\"result\": \"1.1\", \"offset\": 2048}]";
    assert!(shown.ends_with(more), "{shown}");
}

#[test]
fn near_the_window_handles_come_first_and_then_a_summary_without_tools() {
    let mut start = start();
    start.limits.rounds = 100;
    start.models.iter_mut().for_each(|model| model.window = Some(8_000));
    start.models.iter_mut().for_each(|model| model.max_output = 500);
    let mut story = Story::new(start);
    let mut purposes = Vec::new();
    for round in 0..60 {
        let ask = story.ask();
        purposes.push((ask.conversation.epoch(), ask.request.purpose));
        if ask.request.purpose == Purpose::Summary {
            assert!(ask.tools.is_empty() && ask.conversation.parts().len() == 1);
            story.answers("Round after round.", &[], Finish::Stop);
            assert!(story.run.conversation().bytes() < 300);
            assert!(matches!(&*story.run.conversation().parts()[0], Part::User(text) if text.contains("Round after")));
            break;
        }
        assert!(!ask.tools.is_empty());
        let text = "An answer of the model that is kept as it is. ".repeat(20);
        story.answers(&text, &[("look", &format!("{{\"n\": {round}}}"))], Finish::Stop);
        story.calls_give(&format!("{round} {}", "x".repeat(2_000)));
    }
    let first_handles = purposes.iter().position(|(epoch, _)| *epoch > 0);
    let summary = purposes.iter().position(|(_, purpose)| *purpose == Purpose::Summary);
    assert!(first_handles.is_some() && first_handles < summary, "{purposes:?}");
}

#[test]
fn a_request_that_is_too_long_is_summarized_where_the_window_is_not_known() {
    let mut story = Story::new(start());
    for round in 1..=2 {
        story.answers("A long answer.", &[("look", &format!("{{\"n\": {round}}}"))], Finish::Stop);
        story.calls_give(&format!("result {round}"));
    }
    story.fails(failure(FailureKind::Window, None));
    assert_eq!(story.ask().request.purpose, Purpose::Summary);
    story.answers("Two results.", &[], Finish::Stop);
    assert_eq!(story.ask().request.purpose, Purpose::Turn);
    story.fails(failure(FailureKind::Window, None));
    assert_eq!(story.end(), End::Window);
}

#[test]
fn a_fork_keeps_results_and_another_model_goes_on() {
    let mut story = Story::new(start());
    for round in 1..=2 {
        story.answers("", &[("look", &format!("{{\"n\": {round}}}"))], Finish::Stop);
        story.calls_give(&format!("result {round}"));
    }
    let forked = fork(&story.journal, "run_2", 1, Some("two"), Timestamp(9)).unwrap();
    let run = Run::fold(&forked).unwrap();
    let [Action::Ask(ask)] = &run.actions()[..] else { panic!("the fork does not ask") };
    assert_eq!((run.id(), run.spent(), ask.request.model), ("run_2", Cost::default(), 1));
    assert_eq!(ask.conversation.parts().len(), 3);
    let error = |round, model| fork(&story.journal, "run_2", round, model, Timestamp(9)).unwrap_err().to_string();
    assert_eq!(error(3, None), "round 3 is not complete: choose one from 1 to 2");
    assert_eq!(error(0, None), "round 0 is not complete: choose one from 1 to 2");
    assert_eq!(error(1, Some("six")), "the run has no model `six`");
}

#[test]
fn entries_that_do_not_fit_are_refused() {
    let refused = |story: &Story, event| story.run.admit(&event).unwrap_err().to_string();
    let mut story = Story::new(start());
    story.answers("", &[("look", "{}")], Finish::Stop);
    let result = CallResult::default();
    let never_left = refused(&story, Event::Result { call: id("1.1"), result: result.clone() });
    assert_eq!(never_left, "entry 4 of the journal does not fit: call 1.1 has a result and never left");
    let no_call = refused(&story, Event::Result { call: id("2.1"), result });
    assert_eq!(no_call, "entry 4 of the journal does not fit: there is no call 2.1");
    let intent = refused(&story, Event::Intent { call: id("1.1"), attempt: 1 });
    assert_eq!(intent, "entry 4 of the journal does not fit: call 1.1 leaves without being allowed");
    let empty = Run::default().admit(&Event::Resumed).unwrap_err().to_string();
    assert_eq!(empty, "entry 1 of the journal does not fit: the journal does not begin with `started`");
}

#[test]
fn a_long_result_that_a_person_gives_is_shown_by_its_beginning() {
    let mut story = crashed(OnUnknown::Tell);
    story.calls_give("seen");
    let result = CallResult { text: "x".repeat(100_000), ..CallResult::default() };
    let settlement = Settlement::Happened(result);
    story.happens(Event::Settled { call: id("1.1"), settlement, by: "local".to_owned() });
    let words = story.last_words();
    assert!(words.len() < 3_000 && words.contains("of 100000 bytes; read more with `read_result`"), "{}", words.len());
}

//! Runs that were interrupted: what is done is not done again.

use serde_json::json;
use toolcrib_base::Timestamp;
use toolcrib_store::RunStepRecord;

use super::{Bench, error};

fn past(place: u32, step: &str, tool: &str, status: &str, result: Option<&str>) -> RunStepRecord {
    RunStepRecord {
        place,
        step: step.to_owned(),
        tool: tool.to_owned(),
        status: status.to_owned(),
        input: None,
        result: result.map(str::to_owned),
        error: (status == "failed").then(|| "was bad".to_owned()),
        extra: None,
        stored_as: None,
        started_at: Timestamp(1),
        completed_at: None,
    }
}

const TEXT: &str = "steps:\n- {id: a, tool: echo, args: {n: 1}, store: true}\n- {id: b, tool: echo, args: {n: \"{{ .results.a.n }}\"}, store: true}\n- {id: c, tool: echo, args: {n: \"{{ .results.b.n }}\"}, store: true}\n";

#[tokio::test]
async fn done_steps_are_not_done_again() {
    let bench = Bench::new();
    let done = vec![
        past(0, "a", "echo", "completed", Some("{\"n\":41}")),
        past(1, "b", "echo", "completed", Some("{\"n\":42}")),
    ];
    let finished = bench.go_on(TEXT, json!({}), done).await;
    assert_eq!(finished.error, None);
    assert_eq!(*bench.fakes.calls.lock().unwrap(), [("echo".to_owned(), json!({"n": 42}))]);
    assert_eq!(finished.document["steps"][0]["result"], json!({"n": 41}));
    assert_eq!(bench.written().1.len(), 3);
}

#[tokio::test]
async fn a_step_that_was_under_way_is_repeated_only_where_that_is_said_to_do_no_harm() {
    let under_way =
        || vec![past(0, "a", "echo", "completed", Some("{\"n\":1}")), past(1, "b", "echo", "inprogress", None)];
    let bench = Bench::new();
    let finished = bench.go_on(TEXT, json!({}), under_way()).await;
    assert!(error(&finished).contains("step `b` failed: it was running when the gateway stopped"), "{finished:?}");
    assert!(bench.fakes.called().is_empty());
    assert_eq!(bench.written().0.status, "failed");

    let mut bench = Bench::new();
    bench.fakes.repeatable.insert("echo");
    let finished = bench.go_on(TEXT, json!({}), under_way()).await;
    assert_eq!((finished.error, bench.fakes.called().len()), (None, 2));

    let bench = Bench::new();
    let said = TEXT.replace("id: b, tool: echo", "id: b, idempotent: true, tool: echo");
    assert_eq!(bench.go_on(&said, json!({}), under_way()).await.error, None);

    // What the definition says counts more than what the tool says.
    let mut bench = Bench::new();
    bench.fakes.repeatable.insert("echo");
    let said = TEXT.replace("id: b, tool: echo", "id: b, idempotent: false, tool: echo");
    assert!(bench.go_on(&said, json!({}), under_way()).await.error.is_some());
}

#[tokio::test]
async fn a_step_that_only_waited_for_its_yes_never_left() {
    let waiting = || {
        let step = RunStepRecord { input: Some(r#"{"n":1}"#.to_owned()), ..past(1, "b", "echo", "inprogress", None) };
        vec![past(0, "a", "echo", "completed", Some("{\"n\":1}")), step]
    };
    // What came of it while no one listened, or a while later, is its result; it is not called by the run.
    let bench = Bench::new();
    *bench.fakes.past.lock().unwrap() = Some(Some("{\"n\":7}"));
    let finished = bench.go_on(TEXT, json!({}), waiting()).await;
    assert_eq!(finished.error, None);
    assert_eq!(*bench.fakes.calls.lock().unwrap(), [("echo".to_owned(), json!({"n": 7}))], "only the next step");
    let asked = bench.fakes.interrupted.lock().unwrap().clone();
    assert_eq!(asked, [("echo".to_owned(), json!({"n": 1}), Timestamp(1))]);

    // One whose time was over without a yes is decided again, with what it was to be called with.
    let bench = Bench::new();
    *bench.fakes.past.lock().unwrap() = Some(None);
    assert_eq!(bench.go_on(TEXT, json!({}), waiting()).await.error, None);
    let called = bench.fakes.calls.lock().unwrap().clone();
    assert_eq!(called, [("echo".to_owned(), json!({"n": 1})), ("echo".to_owned(), json!({"n": 1}))]);

    // Of several attempts, the last may have left after the one whose time was over.
    let bench = Bench::new();
    *bench.fakes.past.lock().unwrap() = Some(None);
    let again = TEXT.replace("id: b, tool: echo", "id: b, retry: {count: 1}, tool: echo");
    let finished = bench.go_on(&again, json!({}), waiting()).await;
    assert!(error(&finished).contains("it was running when the gateway stopped"), "{finished:?}");
    assert!(bench.fakes.called().is_empty());

    // Without its arguments nothing is known of it.
    let bench = Bench::new();
    *bench.fakes.past.lock().unwrap() = Some(None);
    let mut cut = waiting();
    cut[1].input = None;
    assert!(bench.go_on(TEXT, json!({}), cut).await.error.is_some() && bench.fakes.called().is_empty());
}

#[tokio::test]
async fn failures_skips_and_rounds_are_taken_over() {
    let text = "steps:\n- {id: a, tool: fail, allow_failure: true}\n- {id: s, tool: fail, condition: {template: \"true\"}}\n- id: l\n  condition: {tool: fail, expect: {success: true}}\n  forEach: {items: [1, 2], steps: [{id: x, tool: echo, args: {n: \"{{ .vars.item }}\"}}]}\n- {id: z, tool: echo, args: {e: \"{{ .results.a.error }}\", x: \"{{ .results.x_0.n }}\"}, store: true}\n";
    let done = vec![
        past(0, "a", "fail", "failed", None),
        past(1, "s", "fail", "skipped", None),
        past(2, "x_0", "echo", "completed", Some("{\"n\":9}")),
    ];
    let bench = Bench::new();
    let finished = bench.go_on(text, json!({}), done).await;
    assert_eq!(finished.error, None);
    assert_eq!(bench.fakes.called(), ["echo", "echo"], "the second round and the last step");
    assert_eq!(finished.document["steps"][4]["result"], json!({"e": "was bad", "x": 9}));
}

#[tokio::test]
async fn a_resumed_run_has_the_same_now_and_the_structured_content_of_its_steps() {
    let text = "steps:\n- {id: a, tool: text, args: {text: words, data: {n: 5}}}\n- {id: b, tool: echo, args: {n: \"{{ .results.a.n }}\", t: \"{{ now | date \\\"2006-01-02 15:04:05.000\\\" }}\"}}\n";
    let first = Bench::new();
    assert_eq!(first.run(text, json!({})).await.error, None);
    let called = first.fakes.calls.lock().unwrap().last().unwrap().clone();
    assert_eq!(called.1, json!({"n": 5, "t": "1970-01-01 00:00:00.001"}));
    let (_, mut steps) = first.written();
    steps.truncate(1);
    let second = Bench::new();
    assert_eq!(second.go_on(text, json!({}), steps).await.error, None);
    assert_eq!(*second.fakes.calls.lock().unwrap(), [called]);
}

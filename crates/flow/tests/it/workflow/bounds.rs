//! Time, tries, cancelling, and what is too much.

use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::sync::watch;
use toolcrib_flow::workflow::{Book, Engine, KEPT_BYTES};
use toolcrib_testkit::eventually_holds;

use super::{Bench, error, program, record};

#[tokio::test(start_paused = true)]
async fn a_step_ends_at_its_time_limit() {
    let bench = Bench::new();
    let finished = bench.run("steps:\n- {id: a, tool: slow, timeout: 50ms}\n", json!({})).await;
    assert!(error(&finished).contains("took longer than the step's timeout of 50ms"), "{finished:?}");
    let finished = bench.run("steps:\n- {id: a, tool: slow, timeout: 1h}\n- {id: b, tool: echo}\ntimeout: 2s\nonFailure: [{id: c, tool: echo}]\n", json!({})).await;
    assert!(error(&finished).contains("took longer than 2s"), "{finished:?}");
    assert_eq!(finished.document["steps"][0]["status"], "failed");
    assert_eq!(bench.fakes.called().last().unwrap(), "echo", "what cleans up has run");
}

#[tokio::test(start_paused = true)]
async fn a_step_is_tried_again_after_growing_waits() {
    let bench = Bench::new();
    bench.fakes.flaky.store(3, Ordering::SeqCst);
    let begun = tokio::time::Instant::now();
    let finished = bench
        .run("steps:\n- {id: a, tool: flaky, retry: {count: 3, delay: 1s, backoff: 2}, store: true}\n", json!({}))
        .await;
    assert_eq!(finished.document["steps"][0]["result"], json!({"ok": true}));
    assert_eq!(bench.fakes.called().len(), 4);
    assert_eq!(begun.elapsed().as_secs(), 1 + 2 + 4);

    let bench = Bench::new();
    bench.fakes.flaky.store(9, Ordering::SeqCst);
    let finished = bench.run("steps:\n- {id: a, tool: flaky, retry: {count: 2, delay: 10ms}}\n", json!({})).await;
    assert!(error(&finished).contains("not yet"), "{finished:?}");
    assert_eq!(bench.fakes.called().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_cancelled() {
    let bench = Bench::new();
    let (cancel, cancelled) = watch::channel(None);
    let input = json!({});
    let program = program("steps:\n- {id: a, tool: slow}\nonFailure: [{id: c, tool: echo}]\n");
    let book = Book::new(Some(bench.store.runs()), record(&input));
    let run = Engine::new(&program, &book, &input, &bench.fakes, cancelled).run();
    let stop = async {
        eventually_holds("the call of the slow tool", || !bench.fakes.called().is_empty()).await;
        cancel.send_replace(Some("`bob`".to_owned()));
    };
    let (finished, ()) = tokio::join!(run, stop);
    assert_eq!(error(&finished), "cancelled by `bob`");
    assert_eq!(bench.fakes.called(), ["slow"], "whoever cancels wants nothing more to run");
    let (run, steps) = bench.written();
    assert_eq!((run.status.as_str(), steps[0].status.as_str()), ("failed", "failed"));
}

#[tokio::test]
async fn what_is_too_long_to_keep_is_cut_and_says_so() {
    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: text, args: {text: \"{{ repeat 400000 .input.x }}\"}}\n- {id: b, tool: echo, args: {n: \"{{ len .results.a }}\"}}\n";
    let finished = bench.run(text, json!({"x": "ü"})).await;
    assert_eq!(finished.document["n"], "400000", "the run itself has all of it");
    let (run, steps) = bench.written();
    assert!(run.truncated);
    assert!(steps[0].result.as_ref().unwrap().len() < KEPT_BYTES + 200);
    assert!(serde_json::from_str::<serde_json::Value>(steps[0].result.as_ref().unwrap()).is_ok());
}

#[tokio::test]
async fn templates_that_explode_fail_the_step() {
    for (template, part) in [
        ("{{ range until 9999 }}{{ range until 9999 }}x{{ end }}{{ end }}", "exceeds the limit of steps"),
        ("{{ repeat 90000000 .input.x }}", "more than"),
    ] {
        let bench = Bench::new();
        let text = format!("steps:\n- {{id: a, tool: echo, args: {{t: \"{template}\"}}}}\n");
        let finished = bench.run(&text, json!({"x": "y"})).await;
        assert!(
            error(&finished).contains("failed to render arguments") && error(&finished).contains(part),
            "{finished:?}"
        );
    }
}

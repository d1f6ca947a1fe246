//! Loops and branches.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Bench, error};

#[tokio::test]
async fn for_each_runs_its_steps_for_every_item() {
    let bench = Bench::new();
    let text = "steps:\n- id: all\n  forEach:\n    items: \"{{ .input.items }}\"\n    as: thing\n    steps:\n    - {id: say, tool: echo, args: {v: \"{{ .vars.thing }}\", i: \"{{ .vars.thing_index }}\"}, store: true, condition: {template: \"{{ eq .vars.thing \\\"keep\\\" }}\"}}\n- {id: after, tool: echo, args: {first: \"{{ .results.say_0.v }}\", all: \"{{ .results.all }}\"}, store: true}\n";
    let finished = bench.run(text, json!({"items": ["keep", "drop", "keep"]})).await;
    let steps = finished.document["steps"].clone();
    let shown = |at: usize| (steps[at]["id"].clone(), steps[at]["status"].clone());
    assert_eq!(shown(0), (json!("say_0"), json!("completed")));
    assert_eq!(shown(1), (json!("say_1"), json!("skipped")));
    assert_eq!(steps[1]["condition_evaluation"], false);
    assert_eq!(shown(2), (json!("say_2"), json!("completed")));
    assert_eq!(steps[2]["result"], json!({"v": "keep", "i": 2}));
    assert_eq!(steps[3]["result"]["first"], "keep");
    assert_eq!(steps[3]["result"]["all"], json!([{"v": "keep", "i": 0}, null, {"v": "keep", "i": 2}]));
}

#[tokio::test]
async fn steps_of_a_round_see_each_other() {
    let bench = Bench::new();
    let text = "steps:\n- id: all\n  for_each:\n    items: [1, 2]\n    steps:\n    - {id: a, tool: echo, args: {n: \"{{ .vars.item }}\"}}\n    - {id: b, tool: echo, args: {n: \"{{ .results.a.n }}\"}, store: true}\n";
    let steps = bench.run(text, json!({})).await.document["steps"].clone();
    assert_eq!((&steps[1]["result"]["n"], &steps[3]["result"]["n"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn a_loop_that_fails() {
    let looped = |allow: bool| {
        format!(
            "steps:\n- id: all\n  allow_failure: {allow}\n  forEach: {{items: [1, 2], steps: [{{id: x, tool: fail, args: {{text: mock error}}}}]}}\n- {{id: after, tool: echo}}\n"
        )
    };
    let bench = Bench::new();
    let finished = bench.run(&looped(false), json!({})).await;
    assert!(error(&finished).contains("mock error"), "{finished:?}");
    assert_eq!(bench.fakes.called(), ["fail"], "the loop ends with its first failure");
    let bench = Bench::new();
    let finished = bench.run(&looped(true), json!({})).await;
    assert_eq!(finished.document["status"], "completed");
    assert_eq!(bench.fakes.called(), ["fail", "echo"]);
}

#[tokio::test]
async fn items_must_be_a_list_and_not_too_long() {
    let text = "steps:\n- id: all\n  forEach: {items: \"{{ .input.items }}\", steps: [{id: x, tool: echo}]}\n";
    for items in [json!("text"), json!({"a": 1}), json!(3), Value::Null] {
        let finished = Bench::new().run(text, json!({"items": items})).await;
        assert!(error(&finished).contains("expected a list"), "{finished:?}");
    }
    let bench = Bench::new();
    let finished = bench.run(text, json!({"items": (0..10_001).collect::<Vec<_>>()})).await;
    assert!(error(&finished).contains("at most 10000 items, got 10001"), "{finished:?}");
    assert!(bench.fakes.called().is_empty());
    let finished = bench.run(text, json!({"items": []})).await;
    assert_eq!(finished.document["status"], "completed");
}

#[tokio::test]
async fn ten_thousand_items_are_run_and_written_down() {
    let bench = Bench::new();
    let text = "steps:\n- id: all\n  forEach: {items: \"{{ .input.items }}\", steps: [{id: x, tool: echo, idempotent: true, args: {n: \"{{ .vars.item }}\"}}]}\n";
    let finished = bench.run(text, json!({"items": (0..10_000).collect::<Vec<_>>()})).await;
    assert_eq!(finished.error, None);
    assert_eq!(finished.document["steps"].as_array().unwrap().len(), 10_000);
    assert_eq!(bench.fakes.calls.lock().unwrap()[9_999].1, json!({"n": 9_999}));
    assert_eq!(bench.written().1.len(), 10_000);
}

#[tokio::test]
async fn branches_run_at_once_and_do_not_see_each_other() {
    let mut bench = Bench::new();
    // What may be repeated is not written down first, so that both are called in the same turn.
    bench.fakes.repeatable.insert("echo");
    let text = "steps:\n- {id: before, tool: echo, args: {n: 1}}\n- id: both\n  parallel:\n  - {id: a, tool: echo, args: {n: \"{{ .results.before.n }}\"}, store: true}\n  - {id: b, tool: echo, args: {n: 2}}\n- {id: after, tool: echo, args: {a: \"{{ .results.a.n }}\", b: \"{{ .results.both.b.n }}\"}, store: true}\n";
    let finished = bench.run(text, json!({})).await;
    assert_eq!(finished.document["steps"][3]["result"], json!({"a": 1, "b": 2}));
    assert_eq!(bench.fakes.most_at_once.load(Ordering::SeqCst), 2);

    let sibling =
        "steps:\n- id: both\n  parallel: [{id: a, tool: echo}, {id: b, tool: echo, args: {n: \"{{ .context.a }}\"}}]\n";
    let finished = Bench::new().run(sibling, json!({})).await;
    assert!(error(&finished).contains("no `a` in `.context`"), "{finished:?}");
}

#[tokio::test]
async fn a_branch_that_fails_lets_the_others_end() {
    let bench = Bench::new();
    let text = "steps:\n- id: both\n  parallel: [{id: a, tool: fail, args: {text: first}}, {id: b, tool: echo}]\n- {id: after, tool: echo}\n";
    let finished = bench.run(text, json!({})).await;
    assert!(error(&finished).contains("step `a` failed: first"), "{finished:?}");
    assert_eq!(finished.document["steps"][1]["status"], "completed");
    assert_eq!(bench.fakes.called().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_loop_and_branches_end_at_the_time_limit_of_the_whole() {
    let bench = Bench::new();
    let text = "steps:\n- id: all\n  timeout: 90m\n  allowFailure: true\n  forEach: {items: [1, 2, 3], steps: [{id: x, tool: slow}]}\n- {id: both, timeout: 10m, parallel: [{id: a, tool: slow}, {id: b, tool: echo}]}\nonFailure: [{id: u, tool: echo, args: {seen: \"{{ .vars.item | default \\\"nothing\\\" }}\"}}]\n";
    let finished = bench.run(text, json!({})).await;
    assert!(
        error(&finished).contains("step `both` failed: took longer than the step's timeout of 10m"),
        "{finished:?}"
    );
    let steps = finished.document["steps"].as_array().unwrap();
    let shown: Vec<_> = steps.iter().map(|it| (it["id"].as_str().unwrap(), it["status"].as_str().unwrap())).collect();
    let expected = [("x_0", "completed"), ("x_1", "failed"), ("a", "failed"), ("b", "completed"), ("u", "completed")];
    assert_eq!(shown, expected);
    assert!(steps[1]["error"].as_str().unwrap().contains("timeout of 90m"), "{finished:?}");
    assert_eq!(bench.fakes.calls.lock().unwrap().last().unwrap().1, json!({"seen": "nothing"}));
}

#[tokio::test]
async fn a_loop_and_branches_make_values_and_show_results_as_a_whole() {
    let bench = Bench::new();
    let text = "steps:\n- id: all\n  store: true\n  outputs: {count: \"{{ len .results.all }}\"}\n  forEach: {items: [7, 8], steps: [{id: x, tool: echo, args: {n: \"{{ .vars.item }}\"}}]}\n- {id: both, outputs: {a: \"{{ .results.both.a.n }}\"}, parallel: [{id: a, tool: echo, args: {n: 1}}]}\n- {id: z, tool: echo, args: {count: \"{{ .vars.count }}\", a: \"{{ .vars.a }}\"}, store: true}\n";
    let steps = bench.run(text, json!({})).await.document["steps"].clone();
    assert_eq!((&steps[0]["result"], &steps[1]["result"]), (&json!({"n": 7}), &json!({"n": 8})));
    assert_eq!((&steps[2]["result"], &steps[3]["result"]), (&Value::Null, &json!({"count": "2", "a": 1})));
}

#[tokio::test]
async fn a_step_of_a_loop_makes_values_of_its_own_result() {
    let bench = Bench::new();
    let text = "steps:\n- id: all\n  forEach:\n    items: [3, 4]\n    steps:\n    - {id: x, tool: echo, args: {n: \"{{ .vars.item }}\", before: \"{{ .vars.last | default 0 }}\"}, outputs: {last: \"{{ .results.x.n }}\"}, store: true}\n";
    let steps = bench.run(text, json!({})).await.document["steps"].clone();
    assert_eq!((&steps[0]["result"]["before"], &steps[1]["result"]["before"]), (&json!("0"), &json!("3")));
}

#[tokio::test]
async fn many_rounds_look_at_all_items_and_results() {
    let text = "steps:\n- id: all\n  forEach: {items: \"{{ .input.items }}\", steps: [{id: x, tool: echo, args: {n: \"{{ len .input.items }} {{ len .results }} {{ (.input.items | last).at }}\"}, outputs: {n: \"{{ .results.x.n }}\"}}]}\n- {id: z, tool: echo, args: {n: \"{{ .vars.n }}\"}, store: true}\n";
    let items: Vec<Value> = (0..2_000).map(|at| json!({"at": at, "name": format!("item-{at}")})).collect();
    let mut bench = Bench::new();
    bench.fakes.repeatable.insert("echo");
    let finished = bench.run(text, json!({"items": items})).await;
    // Each round leaves one result, and the last one under the step's own name.
    assert_eq!(finished.document["steps"][2_000]["result"]["n"], "2000 2000 1999", "{:?}", finished.error);
}

//! Steps one after the other: what templates see, what is answered, what is written down, what a failure does.

use serde_json::{Value, json};
use toolcrib_base::PrincipalId;
use toolcrib_store::RunQuery;

use super::{Bench, error};

#[tokio::test]
async fn steps_see_the_input_and_earlier_results() {
    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: echo, args: {n: \"{{ .input.n }}\", list: [\"{{ .input.name }}!\"]}, store: true}\n- {id: b, tool: echo, args: {n: \"{{ .results.a.n }}\", old: \"{{ .context.a.list }}\"}}\n";
    let finished = bench.run(text, json!({"n": 3, "name": "ada"})).await;
    assert_eq!(finished.error, None);
    let document = finished.document;
    assert_eq!(document["status"], "completed");
    assert_eq!((&document["workflow"], &document["execution_id"]), (&json!("w"), &json!("run-1")));
    assert_eq!(document["steps"][0]["result"], json!({"n": 3, "list": ["ada!"]}));
    // Not stored, so it is not among the steps; being the last, its members are at the top.
    assert_eq!(document["steps"][1].get("result"), None);
    assert_eq!((&document["n"], &document["old"]), (&json!(3), &json!(["ada!"])));
    assert_eq!(document["template_vars"], json!([]));
    assert_eq!(
        bench.fakes.reasons(),
        ["ExecutionStarted", "StepStarted", "StepCompleted", "StepStarted", "StepCompleted", "ExecutionCompleted"]
    );
}

#[tokio::test]
async fn a_run_is_written_down_with_its_steps() {
    let bench = Bench::new();
    let text =
        "steps:\n- {id: a, tool: echo, args: {x: 1}, store: true}\n- {id: b, tool: fail, args: {text: broken}}\n";
    bench.run(text, json!({"k": "v"})).await;
    let (run, steps) = bench.written();
    assert_eq!((run.status.as_str(), run.step_count, run.truncated), ("failed", 2, false));
    assert!(run.error.as_deref().unwrap().contains("broken"));
    assert_eq!(serde_json::from_str::<Value>(&run.input).unwrap(), json!({"k": "v"}));
    assert!(run.completed_at.is_some() && run.result.is_some());
    let shown: Vec<_> =
        steps.iter().map(|it| (it.step.as_str(), it.status.as_str(), it.stored_as.as_deref())).collect();
    assert_eq!(shown, [("a", "completed", Some("a")), ("b", "failed", None)]);
    assert_eq!(steps[0].result.as_deref(), Some("{\"x\":1}"));
    assert_eq!(steps[1].error.as_deref(), Some("broken"));
    assert!(steps.iter().all(|step| step.completed_at.is_some()));
    let query = RunQuery {
        status: Some("failed".to_owned()),
        principal: Some(PrincipalId::new("ada")),
        limit: 5,
        ..RunQuery::default()
    };
    assert_eq!(bench.store.runs().list(&query).unwrap().1, 1);
}

#[tokio::test]
async fn a_failed_step_ends_the_run_unless_it_may_fail() {
    let bench = Bench::new();
    let finished = bench
        .run(
            "steps:\n- {id: a, tool: fail, args: {text: Step 2 intentional failure}}\n- {id: b, tool: echo}\n",
            json!({}),
        )
        .await;
    assert!(error(&finished).contains("step `a` failed: Step 2 intentional failure"), "{finished:?}");
    assert_eq!(finished.document["status"], "failed");
    assert_eq!(finished.document["steps"].as_array().unwrap().len(), 1);
    assert_eq!(bench.fakes.called(), ["fail"]);
    assert!(bench.fakes.reasons().ends_with(&["StepFailed", "ExecutionFailed"]));

    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: fail, allow_failure: true}\n- {id: b, tool: echo, args: {said: \"{{ .results.a.error }}\", ok: \"{{ .results.a.success }}\"}, store: true}\n";
    let finished = bench.run(text, json!({})).await;
    assert_eq!(finished.document["status"], "completed");
    assert_eq!(
        (&finished.document["steps"][0]["status"], &finished.document["steps"][0]["allow_failure"]),
        (&json!("failed"), &json!(true))
    );
    assert_eq!(finished.document["steps"][1]["result"], json!({"said": "no luck", "ok": false}));

    // A tool that cannot be called at all: its server went away in the middle.
    let bench = Bench::new();
    let finished = bench.run("steps:\n- {id: a, tool: echo}\n- {id: b, tool: gone}\n", json!({})).await;
    assert!(error(&finished).contains("tool not found: gone"), "{finished:?}");
}

#[tokio::test]
async fn what_is_missing_in_a_template_is_named() {
    let bench = Bench::new();
    let finished = bench
        .run("steps:\n- {id: bad, tool: echo, args: {text: \"{{ .context.non_existent_value }}\"}}\n", json!({}))
        .await;
    for part in ["failed to render arguments", "non_existent_value", "bad"] {
        assert!(error(&finished).contains(part), "{finished:?}");
    }
    assert!(bench.fakes.called().is_empty());
}

#[tokio::test]
async fn on_failure_cleans_up_and_changes_nothing() {
    let bench = Bench::new();
    let text = "steps:\n- {id: make, tool: echo, args: {id: 7}}\n- {id: use, tool: fail}\nonFailure:\n- {id: no, tool: fail}\n- {id: drop, tool: echo, args: {id: \"{{ .results.make.id }}\", why: \"{{ .vars.failed_step }}\"}}\n";
    let finished = bench.run(text, json!({})).await;
    assert!(error(&finished).contains("step `use` failed"), "{finished:?}");
    let calls = bench.fakes.calls.lock().unwrap().clone();
    assert_eq!(calls.last().unwrap(), &("echo".to_owned(), json!({"id": 7, "why": "use"})));
    assert_eq!(finished.document["steps"][3]["id"], "drop");
    assert_eq!(bench.written().0.status, "failed");
}

#[tokio::test]
async fn output_is_what_a_run_answers() {
    let text = "steps:\n- {id: a, tool: echo, args: {n: 5}}\noutput:\n  n: \"{{ .results.a.n }}\"\n  text: \"n={{ .results.a.n }}\"\n  fixed: [1]\n";
    let bench = Bench::new();
    let finished = bench.run(text, json!({})).await;
    assert_eq!(finished.document, json!({"execution_id": "run-1", "n": 5, "text": "n=5", "fixed": [1]}));

    let bench = Bench::new();
    let finished =
        bench.run("steps:\n- {id: a, tool: echo}\noutput: {n: \"{{ .results.a.nothing }}\"}\n", json!({})).await;
    assert!(error(&finished).contains("output template"), "{finished:?}");
    assert!(finished.document["output_error"].as_str().unwrap().contains("nothing"));
    assert_eq!(bench.written().0.status, "failed");
}

#[tokio::test]
async fn answers_are_json_where_they_are_and_text_where_not() {
    let text = "steps:\n- {id: a, tool: text, args: {text: just words}, store: true}\n- {id: b, tool: text, args: {text: \"[1,2]\"}, store: true}\n- {id: c, tool: echo, args: {said: \"{{ .results.a }}\", second: \"{{ index .results.b 1 }}\"}, store: true}\n";
    let bench = Bench::new();
    let steps = bench.run(text, json!({})).await.document["steps"].clone();
    assert_eq!(steps[0]["result"], "just words");
    assert_eq!(steps[1]["result"], json!([1, 2]));
    assert_eq!(steps[2]["result"], json!({"said": "just words", "second": "2"}));
}

#[tokio::test]
async fn outputs_of_a_step_are_variables_of_later_ones() {
    let text = "steps:\n- {id: a, tool: echo, args: {n: 5}, outputs: {size: \"{{ .results.a.n }}\", kind: fixed}}\n- {id: b, tool: echo, args: {n: \"{{ .vars.size }}\", k: \"{{ .vars.kind }}\"}, store: true}\n";
    let finished = Bench::new().run(text, json!({})).await;
    assert_eq!(finished.document["steps"][1]["result"], json!({"n": 5, "k": "fixed"}));
}

//! When steps run.

use serde_json::{Value, json};

use super::{Bench, error};

/// Whether a step with this condition runs after a step `a` that answers `{n: 3, s: up}` and one that has failed.
async fn holds(condition: &str) -> (bool, Value) {
    let text = format!(
        "steps:\n- {{id: a, tool: echo, args: {{n: 3, s: up, deep: [{{x: \"7\"}}], z: null}}}}\n- {{id: bad, tool: fail, allow_failure: true}}\n- {{id: b, tool: echo, condition: {condition}}}\n"
    );
    let finished = Bench::new().run(&text, json!({"want": "up", "yes": true})).await;
    assert_eq!(finished.error, None, "{condition}");
    let step = finished.document["steps"][2].clone();
    let ran = step["status"] == "completed";
    assert!(ran || step["status"] == "skipped", "{step}");
    assert_eq!(step["condition_evaluation"], ran, "{condition}");
    (ran, step)
}

#[tokio::test]
async fn conditions_hold_or_not() {
    for (condition, expected) in [
        ("{template: \"{{ .input.yes }}\"}", true),
        ("{template: \"{{ eq .results.a.n 4 }}\"}", false),
        ("{template: \"{{ if .input.yes }} true {{ end }}\"}", true),
        ("{template: \"yes\"}", false),
        ("{template: true}", true),
        ("{fromStep: a, expect: {success: true}}", true),
        ("{from_step: a, expect: {success: false}}", false),
        ("{fromStep: bad, expect: {success: false}}", true),
        ("{fromStep: bad, expect: {success: true}}", false),
        ("{fromStep: a, expect: {json_path: {s: \"{{ .input.want }}\"}}}", true),
        ("{fromStep: a, expect: {jsonPath: {n: \"3\", deep.0.x: 7}}}", true),
        ("{fromStep: a, expect: {jsonPath: {n: 3.0}}}", true),
        ("{fromStep: a, expect: {jsonPath: {n: 3.5}}}", false),
        ("{fromStep: a, expect: {jsonPath: {z: \"<nil>\"}}}", true),
        ("{fromStep: a, expect: {jsonPath: {z: down}}}", false),
        ("{fromStep: a, expect: {jsonPath: {s: \"<nil>\"}}}", false),
        ("{fromStep: a, expect: {jsonPath: {n: 3, s: down}}}", false),
        ("{fromStep: a, expect: {jsonPath: {nothing.here: 1}}}", false),
        ("{fromStep: a, expectNot: {jsonPath: {s: up}}}", false),
        ("{fromStep: a, expectNot: {jsonPath: {s: down}}}", true),
        ("{fromStep: a, expectNot: {jsonPath: {s: down, n: 3}}}", false),
        ("{fromStep: a, expectNot: {jsonPath: {nothing: 1}}}", true),
        ("{fromStep: a, expectNot: {success: true}}", false),
        ("{fromStep: a, expect: {success: true}, expect_not: {json_path: {s: up}}}", false),
        ("{fromStep: bad, expect: {success: true}, expect_not: {json_path: {s: up}}}", false),
        ("{tool: echo, args: {v: \"{{ .input.want }}\"}, expect: {jsonPath: {v: up}}}", true),
        ("{tool: fail, expect: {success: true}}", false),
        ("{tool: gone, expect: {success: false}}", true),
        ("{and: [{template: \"true\"}, {fromStep: a, expect: {success: true}}]}", true),
        ("{and: [{template: \"true\"}, {template: \"false\"}]}", false),
        ("{or: [{template: \"false\"}, {template: \"true\"}]}", true),
        ("{or: [{template: \"false\"}, {template: \"no\"}]}", false),
        ("{not: {template: \"false\"}}", true),
        ("{not: {and: [{template: \"true\"}, {not: {template: \"false\"}}]}}", false),
    ] {
        assert_eq!(holds(condition).await.0, expected, "{condition}");
    }
}

#[tokio::test]
async fn what_was_looked_at_is_shown() {
    let (_, step) = holds("{tool: echo, args: {name: x, args: {echo: 1}}, expect: {success: true}}").await;
    assert_eq!((&step["condition_tool"], &step["condition_result"]["args"]["echo"]), (&json!("echo"), &json!(1)));
    let (_, step) = holds("{fromStep: a, expect: {success: true}}").await;
    assert_eq!(step["condition_result"]["s"], "up");
}

#[tokio::test]
async fn a_loop_that_is_skipped_shows_what_was_looked_at() {
    let text = "steps:\n- {id: l, forEach: {items: [1], steps: [{id: s, tool: fail}]}, condition: {tool: echo, args: {n: 1}, expect: {jsonPath: {n: 2}}}}\n";
    let finished = Bench::new().run(text, json!({})).await;
    let step = &finished.document["steps"][0];
    assert_eq!((&step["status"], &step["condition_evaluation"]), (&json!("skipped"), &json!(false)));
    assert_eq!((&step["condition_tool"], &step["condition_result"]["n"]), (&json!("echo"), &json!(1)));
}

#[tokio::test]
async fn and_ends_at_the_first_that_does_not_hold() {
    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: echo, condition: {and: [{template: \"false\"}, {tool: fail, expect: {success: true}}]}}\n";
    bench.run(text, json!({})).await;
    assert!(bench.fakes.called().is_empty());
    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: echo, condition: {or: [{template: \"true\"}, {tool: fail, expect: {success: true}}]}}\n";
    bench.run(text, json!({})).await;
    assert_eq!(bench.fakes.called(), ["echo"]);
}

#[tokio::test]
async fn conditions_that_cannot_be_looked_at_fail_the_step() {
    let bench = Bench::new();
    let finished = bench
        .run("steps:\n- {id: nobody, tool: echo, condition: {template: \"false\"}}\n- {id: a, tool: echo, condition: {fromStep: nobody, expect: {success: true}}}\n", json!({}))
        .await;
    assert!(error(&finished).contains("`nobody`, which has no result"), "{finished:?}");
    let finished =
        bench.run("steps:\n- {id: a, tool: echo, condition: {template: \"{{ .input.gone }}\"}}\n", json!({})).await;
    assert!(
        error(&finished).contains("failed to render the condition") && error(&finished).contains("gone"),
        "{finished:?}"
    );
}

#[tokio::test]
async fn a_skipped_step_has_no_result_and_the_run_goes_on() {
    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: fail, condition: {template: \"false\"}}\n- {id: b, tool: echo, args: {x: 1}}\n";
    let finished = bench.run(text, json!({})).await;
    assert_eq!((&finished.document["status"], &finished.document["x"]), (&json!("completed"), &json!(1)));
    assert!(bench.fakes.reasons().contains(&"StepSkipped"));
}

//! Steps one after the other: what templates see, what is answered, what is written down, what a failure does.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::PrincipalId;
use toolcrib_catalog::WorkflowDefinition;
use toolcrib_flow::workflow::Program;
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
    assert_eq!(document["template_vars"], json!(["input.name", "input.n"]));
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
        owner: Some((PrincipalId::new("ada"), run.profile.clone())),
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

/// The first step answers a text with structured content; what the second was called with.
async fn passed_on(language: &str, text: &str, data: &Value, template: &str) -> Value {
    let bench = Bench::new();
    let steps = json!([
        {"id": "a", "tool": "text", "args": {"text": text, "data": data}},
        {"id": "b", "tool": "echo", "args": {"got": template}},
    ]);
    let finished = bench.run(&format!("templates: {language}\nsteps: {steps}\n"), json!({})).await;
    assert_eq!(finished.error, None, "{template}");
    bench.fakes.calls.lock().unwrap().last().unwrap().1["got"].clone()
}

#[tokio::test]
async fn steps_read_structured_content_where_the_text_does_not_have_it() {
    let data = json!({"value": 2.5, "unit": "km", "parts": [{"n": 7}], "shared": "data"});
    let object = r#"{"shared": "text", "own": 1}"#;
    for (text, template, expected) in [
        // A text that is no JSON: it is the result, and members below it are those of the structured content.
        ("2.5 km", "{{.results.a.value}}", json!(2.5)),
        ("2.5 km", "{{ .results.a.parts[0].n }}", json!(7)),
        ("2.5 km", "{{ .results.a }}", json!("2.5 km")),
        ("2.5 km", "it is {{ .results.a }}, {{ .results.a.unit }}", json!("it is 2.5 km, km")),
        ("2.5 km", "{{ .results.a | upper }}", json!("2.5 KM")),
        ("2.5 km", "{{ index .results.a \"unit\" }}", json!("km")),
        ("2.5 km", "{{ with .results.a }}{{ .unit }}{{ end }}", json!("km")),
        ("2.5 km", "{{ range .results.a.parts }}{{ .n }}{{ end }}", json!("7")),
        // A text that is JSON comes first; what it lacks is looked for in the structured content.
        (object, "{{ .results.a.shared }}", json!("text")),
        (object, "{{ .results.a.own }}", json!(1)),
        (object, "{{ .results.a.value }}", json!(2.5)),
        (object, "{{ .results.a }}", json!({"shared": "text", "own": 1})),
        (object, "{{ index .results.a \"unit\" }}", json!("km")),
        (object, "{{ range $k, $v := .results.a }}{{ $k }} {{ end }}", json!("own shared ")),
        ("[1, 2]", "{{ index .results.a 1 }} {{ .results.a.unit }}", json!("2 km")),
        // Without a text there is only the structured content.
        ("", "{{ .results.a }}", data.clone()),
        ("", "{{ .results.a.unit }}", json!("km")),
    ] {
        assert_eq!(passed_on("go", text, &data, template).await, expected, "{template} of `{text}`");
    }
    for (template, expected) in [("{{ results.a.unit | upper }}", "KM"), ("{{ results.a | upper }}", "2.5 KM")] {
        assert_eq!(passed_on("jinja", "2.5 km", &data, template).await, expected, "{template}");
    }
}

#[tokio::test]
async fn conditions_loops_branches_and_outputs_see_structured_content() {
    let text = r#"steps:
- {id: a, tool: text, args: {text: words, data: {ok: "yes", n: 1}}, outputs: {kept: "{{ .results.a.n }}"}}
- {id: b, tool: echo, args: {n: "{{ .vars.kept }}"}, condition: {fromStep: a, expect: {jsonPath: {ok: "yes"}}}}
- {id: c, tool: echo, condition: {tool: text, args: {text: words, data: {ok: "no"}}, expectNot: {jsonPath: {ok: "no"}}}}
- id: l
  forEach: {items: [3, 4], steps: [{id: x, tool: text, args: {text: words, data: {n: "{{ .vars.item }}"}}}]}
- id: p
  parallel: [{id: y, tool: text, args: {text: words, data: {n: 5}}}]
- {id: z, tool: echo, args: {all: ["{{ .results.l[1].n }}", "{{ .results.p.y.n }}", "{{ .results.x_0.n }}"]}}
"#;
    let bench = Bench::new();
    let finished = bench.run(text, json!({})).await;
    assert_eq!(finished.error, None);
    let steps = finished.document["steps"].as_array().unwrap();
    let status = |id: &str| steps.iter().find(|step| step["id"] == id).unwrap()["status"].clone();
    assert_eq!((status("b"), status("c")), (json!("completed"), json!("skipped")));
    let calls = bench.fakes.calls.lock().unwrap();
    let echoed: Vec<&Value> = calls.iter().filter(|(tool, _)| tool == "echo").map(|(_, it)| it).collect();
    assert_eq!(echoed, [&json!({"n": 1}), &json!({"all": [4, 5, 3]})]);
}

#[tokio::test]
async fn the_key_templates_decides_the_language() {
    let step = "steps:\n- {id: a, tool: echo, args: {said: \"{{ input.two | upper }}\"}}\n";
    let bench = Bench::new();
    let finished = bench.run(&format!("templates: jinja\n{step}"), json!({"two": "b"})).await;
    assert_eq!(finished.error, None);
    let definition = Arc::new(WorkflowDefinition::of_text("w", &format!("name: w\n{step}")).unwrap());
    let problems = Program::compile(&definition).unwrap_err();
    assert_eq!(problems[0].field, "steps[0].args.said");
    assert!(problems[0].message.contains("say `templates: jinja`"), "{}", problems[0]);
}

#[tokio::test]
async fn a_run_names_the_arguments_that_its_templates_mentioned() {
    let text = r#"steps:
- {id: a, tool: echo, args: {two: "{{ .input.two }} and {{ .input.one }}", again: "{{.input.two}}", glued: "{{.input.g}}-{{.input.h}}"}}
- {id: s, tool: echo, args: {never: "{{ .input.never }}"}, condition: {template: "{{ eq .input.flag \"x\" }}"}}
- id: l
  forEach: {items: "{{ .input.list }}", steps: [{id: x, tool: echo, args: {deep: [{k: "{{ default \"d\" .input.deep.er }}"}]}}]}
- {id: z, tool: echo, args: {plain: ".input.plain"}}
"#;
    let input = json!({"one": 1, "two": 2, "g": 1, "h": 2, "flag": "y", "list": [1, 2], "deep": {}});
    let finished = Bench::new().run(text, input.clone()).await;
    assert_eq!(finished.error, None);
    let expected = json!(["input.two", "input.g", "input.one", "input.flag", "input.list", "input.deep.er"]);
    assert_eq!(finished.document["template_vars"], expected);
    // A run that fails tells what it has mentioned until then, and `now` is the moment at which it began.
    let bench = Bench::new();
    let text = "steps:\n- {id: a, tool: echo, args: {t: \"{{ now }}\", n: \"{{ .input.one }}\"}}\n- {id: b, tool: echo, args: {n: \"{{ .input.gone }}\"}}\n";
    let finished = bench.run(text, input).await;
    assert!(error(&finished).contains("gone"), "{finished:?}");
    assert_eq!(finished.document["template_vars"], json!(["input.one", "input.gone"]));
    assert_eq!(bench.fakes.calls.lock().unwrap()[0].1["t"], "1970-01-01T00:00:00.001Z");
}

//! Workflows as people and other gateways write them.

use std::path::Path;

use serde_json::json;

use super::*;

fn read(text: &str) -> Result<WorkflowDefinition, Vec<String>> {
    let file = Path::new("workflows/w.yaml");
    define::read(file, "w", text).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn bad(text: &str, parts: &[&str]) {
    let problems = read(text).expect_err(text).join("\n").to_lowercase();
    for part in parts {
        assert!(problems.contains(part), "{text}: {problems} lacks {part}");
    }
}

#[test]
fn the_plain_form_is_read() {
    let text = "name: w\nargs:\n  app: {type: string, required: true}\nsteps:\n- id: a-1\n  tool: x_kube_list\n  args: {ns: \"{{ .input.app }}\", deep: [1]}\n  store: true\n- id: all\n  forEach:\n    items: \"{{ .results.a-1.items }}\"\n    as: pod\n    steps:\n    - {id: one, tool: stop}\n- id: p\n  parallel: [{id: x, tool: a}, {id: y, tool: b}]\nonFailure:\n- {id: undo, tool: undo}\noutput: {n: 1}\ntimeout: 2m\n";
    let workflow = read(text).unwrap();
    assert_eq!(workflow.tools(), ["x_kube_list", "stop", "a", "b", "undo"]);
    assert!(workflow.args["app"].required && !workflow.takes_any);
    assert!(workflow.steps[0].store && workflow.steps[0].at.line == 5 && workflow.steps[0].field == "steps[0]");
    let Action::Tool { args, .. } = &workflow.steps[0].action else { panic!("a tool") };
    assert_eq!(Value::from(args.clone()), json!({"ns": "{{ .input.app }}", "deep": [1]}));
    let Action::ForEach { name, steps, .. } = &workflow.steps[1].action else { panic!("a loop") };
    assert_eq!((name.as_str(), steps.len()), ("pod", 1));
    assert_eq!(workflow.output, Some(json!({"n": 1})));
    assert_eq!(workflow.spec.keys().next().map(String::as_str), Some("name"));
    assert!(read("name: w\nsteps: [{id: a, tool: b}]\n").unwrap().takes_any);
}

#[test]
fn both_spellings_and_the_form_of_kubernetes_say_the_same() {
    let camel = "name: w\nargs: {}\nsteps:\n- id: a\n  tool: t\n  allowFailure: true\n- id: b\n  tool: t\n  condition: {fromStep: a, expect: {success: false}, expectNot: {jsonPath: {a.b: 1}}}\nonFailure: [{id: c, tool: t}]\n";
    let snake = camel
        .replace("allowFailure", "allow_failure")
        .replace("fromStep", "from_step")
        .replace("expectNot", "expect_not")
        .replace("jsonPath", "json_path")
        .replace("onFailure", "on_failure");
    let object = format!(
        "apiVersion: muster.giantswarm.io/v1alpha1\nkind: Workflow\nmetadata: {{name: w, labels: {{team: web}}}}\nspec:\n  {}status: {{valid: true}}\n",
        camel.replace("name: w\n", "").replace('\n', "\n  ").trim_end_matches(' ')
    );
    let plain = |workflow: WorkflowDefinition| {
        (workflow.args, workflow.on_failure.len(), workflow.steps[1].condition.clone(), workflow.steps[0].allow_failure)
    };
    let expected = plain(read(camel).unwrap());
    assert!(expected.2.is_some() && expected.3);
    assert_eq!(plain(read(&snake).unwrap()), expected);
    let object = read(&object).unwrap();
    assert_eq!(object.labels["team"], "web");
    assert_eq!(plain(object), expected);
}

#[test]
fn arguments_in_older_words() {
    let workflow = read("name: w\nargs: {m: {type: string}}\nrequired: [m]\nsteps: [{id: a, tool: t}]\n").unwrap();
    assert!(workflow.args["m"].required);
    let text = "name: w\ninput_schema:\n  type: object\n  args: {m: {type: string}, n: {type: string, default: d}}\n  required: [m]\nsteps: [{id: a, tool: t}]\n";
    let workflow = read(text).unwrap();
    assert!(workflow.args["m"].required && workflow.args["n"].default == Some(json!("d")));
}

#[test]
fn bounds_of_arguments() {
    let arg = |body: &str| format!("name: w\nargs: {{n: {{{body}}}}}\nsteps: [{{id: a, tool: t}}]\n");
    let n = read(&arg("type: integer, minimum: 1, maximum: 5, enum: [2, 4]")).unwrap().args["n"].clone();
    assert!(n.fault(&json!(3)).unwrap().contains("enum"));
    assert_eq!(n.fault(&json!(2)), None);
    assert_eq!(n.schema(), json!({"type": "integer", "enum": [2, 4], "minimum": 1, "maximum": 5}));
    let text = read(&arg("type: string, pattern: \"^a\"")).unwrap().args["n"].clone();
    assert!(text.fault(&json!("ba")).unwrap().contains("pattern"));
    bad(&arg("type: integer, default: 9, maximum: 5"), &["maximum 5"]);
    bad(&arg("type: integer, default: x"), &["of the type `integer`"]);
    bad(&arg("type: string, pattern: \"(\""), &["regular expression"]);
    bad(&arg("type: int"), &["`integer`"]);
    let text = read(&arg("type: string, minLength: 2, max_length: 3")).unwrap().args["n"].clone();
    assert!(text.fault(&json!("ä")).unwrap().contains("minLength of 2"));
    assert!(text.fault(&json!("äöüß")).unwrap().contains("maxLength of 3"));
    assert_eq!(text.fault(&json!("äöü")), None);
    assert_eq!(text.schema(), json!({"type": "string", "minLength": 2, "maxLength": 3}));
    bad(&arg("required: true"), &["type"]);
}

#[test]
fn arguments_that_no_value_could_fit_are_refused() {
    let arg = |body: &str| format!("name: w\nargs: {{n: {{{body}}}}}\nsteps: [{{id: a, tool: t}}]\n");
    bad(&arg("type: number, minimum: 5, maximum: 4.5"), &["args.n.maximum", "minimum 5", "maximum 4.5"]);
    bad(&arg("type: integer, min: 1.2, max: 1.8"), &["no integer"]);
    bad(&arg("type: string, minLength: 5, maxLength: 4"), &["args.n.maxlength", "at least 5", "at most 4"]);
    bad(&arg("type: string, minLength: -1"), &["args.n.minlength", "whole number"]);
    for (kind, rule) in [
        ("string", "minimum: 1"),
        ("boolean", "maximum: 1"),
        ("integer", "minLength: 1"),
        ("array", "maxLength: 1"),
        ("number", "pattern: a"),
        ("object", "pattern: a"),
    ] {
        let key = rule.split(':').next().unwrap().to_lowercase();
        bad(&arg(&format!("type: {kind}, {rule}")), &[&format!("args.n.{key}"), &format!("the type `{kind}`")]);
    }
    bad(&arg("type: string, enum: []"), &["args.n.enum", "enum of nothing"]);
    bad(&arg("type: string, enum: a"), &["args.n.enum", "list"]);
    bad(&arg("type: integer, enum: [1, two, 3.5]"), &["args.n.enum[1]", "args.n.enum[2]", "of the type `integer`"]);
    bad(&arg("type: integer, enum: [1, 9], maximum: 5"), &["args.n.enum[1]", "maximum 5"]);
    bad(&arg("type: string, enum: [ab, b], pattern: ^a"), &["args.n.enum[1]", "pattern"]);
    bad(&arg("type: string, enum: [a], default: b"), &["args.n.default", "enum `a`"]);
    bad(&arg("type: string, maxLength: 2, default: abc"), &["args.n.default", "maxlength of 2"]);
    for name in ["_debug", "_detach"] {
        let text = format!("name: w\nargs: {{{name}: {{type: boolean}}}}\nsteps: [{{id: a, tool: t}}]\n");
        bad(&text, &[&format!("args.{name}"), "reserved"]);
        bad(&format!("name: w\nrequired: [{name}]\nsteps: [{{id: a, tool: t}}]\n"), &["reserved"]);
    }
    assert!(read("name: w\nargs: {_mine: {type: string}}\nsteps: [{id: a, tool: t}]\n").is_ok());
}

#[test]
fn a_name_that_clients_refuse_is_reported_and_taken() {
    let text = "name: w\nargs: {\"a b\": {type: string}}\nsteps: [{id: a, tool: t}]\n";
    let (workflow, findings) = define::read_all::<WorkflowDefinition>(Path::new("workflows/w.yaml"), "w", text);
    assert!(workflow.is_some());
    assert!(findings.warnings.iter().any(|it| it.field == "args.a b" && it.message.contains("refuse")), "{findings:?}");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let one = |step: &str| format!("name: w\nargs: {{}}\nsteps:\n- {step}\n");
    bad("name: w\nargs: {}\n", &["steps"]);
    bad("name: w\nsteps: []\n", &["workflow must have at least one step"]);
    bad(&one("{id: \"\", tool: t}"), &["w.yaml:4", "steps[0].id"]);
    bad(&one("{id: \"a b\", tool: t}"), &["step id"]);
    bad(&one("{tool: t}"), &["id is required"]);
    bad(&one("{id: a}"), &["one of tool, foreach, or parallel is required"]);
    bad(&one("{id: a, tool: t, parallel: [{id: b, tool: t}]}"), &["mutually exclusive"]);
    bad(&one("{id: a, tool: t}\n- {id: a, tool: t}"), &["duplicate step id `a`"]);
    bad(&one("{id: a, parallel: [{id: b, tool: t}, {id: b, tool: t}]}"), &["duplicate sub-step id `b`"]);
    bad(&one("{id: a, parallel: []}"), &["at least one sub-step"]);
    bad(&one("{id: a, parallel: [{id: b, tool: t}], retry: {count: 1}}"), &["steps[0].retry", "steps within"]);
    bad(&one("{id: a, forEach: {items: [], steps: [{id: b, tool: t}]}, idempotent: true}"), &["steps[0].idempotent"]);
    bad(&one("{id: a, forEach: {steps: [{id: b, tool: t}]}}"), &["items is required"]);
    bad(&one("{id: a, forEach: {items: [1], steps: []}}"), &["at least one sub-step"]);
    bad(&one("{id: a, forEach: {items: [1], steps: [{id: b}]}}"), &["tool is required"]);
    bad(&one("{id: a, forEach: {items: [1], steps: [{id: b, forEach: {items: [1]}}]}}"), &["tool is required"]);
    bad(
        &one("{id: a, tool: t, condition: {template: x, tool: t}}"),
        &["template is mutually exclusive with tool/fromstep"],
    );
    bad(&one("{id: a, tool: t, condition: {tool: t, fromStep: b, expect: {success: true}}}"), &["mutually exclusive"]);
    bad(&one("{id: a, tool: t, condition: {tool: t}}"), &["expect or expectnot is required"]);
    bad(&one("{id: a, tool: t, condition: {}}"), &["one of template, tool or fromstep is required"]);
    bad(&one("{id: a, tool: t, condition: {and: []}}"), &["at least one condition"]);
    bad(&one("{id: a, tool: t, allowfailure: true}"), &["expected a known key"]);
    bad(&one("{id: a, tool: t, timeout: 30}"), &["duration"]);
    bad(&one("{id: a, tool: t, retry: {count: 1000}}"), &["0 to 100"]);
    bad(&one("{id: a, tool: t, retry: {delay: 301s}}"), &["steps[0].retry.delay", "at most 5m, got `301s`"]);
    bad("name: w\nsteps: [{id: a, tool: t}]\noutput: text\n", &["expected a map"]);
    bad("name: v\nsteps: [{id: a, tool: t}]\n", &["expected the file's stem `w`"]);
    bad("name: ../w\nsteps: [{id: a, tool: t}]\n", &["expected a name"]);
    bad("apiVersion: x/v1\nkind: Service\nmetadata: {name: w}\nspec: {steps: [{id: a, tool: t}]}\n", &["`workflow`"]);
    let deep = format!("{}{{template: x}}{}", "{not: ".repeat(12), "}".repeat(12));
    bad(&one(&format!("{{id: a, tool: t, condition: {deep}}}")), &["at most 8 conditions"]);
    let many: String = (0..501).map(|at| format!("- {{id: s{at}, tool: t}}\n")).collect();
    bad(&format!("name: w\nsteps:\n{many}"), &["at most 500 steps, got 501"]);
}

#[test]
fn a_step_gives_a_task_to_an_agent() {
    let text = "name: w\nsteps:\n- {id: a, agent: guide, task: \"Where is {{ .input.x }}?\", timeout: 5m}\n- id: p\n  parallel: [{id: x, agent: guide, input: {city: Bern}}, {id: y, tool: t}]\nonFailure: [{id: u, agent: guide, task: Undo.}]\n";
    let workflow = read(text).unwrap();
    assert_eq!(workflow.tools(), ["agent/guide", "t"]);
    assert_eq!(workflow.steps[0].agent(), Some("guide"));
    let Action::Tool { args, .. } = &workflow.steps[0].action else { panic!("a call") };
    assert_eq!(Value::from(args.clone()), json!({"task": "Where is {{ .input.x }}?"}));
    let Action::Parallel(branches) = &workflow.steps[1].action else { panic!("branches") };
    let Action::Tool { args, .. } = &branches[0].action else { panic!("a call") };
    assert_eq!((Value::from(args.clone()), branches[1].agent()), (json!({"city": "Bern"}), None));
}

#[test]
fn what_is_wrong_with_the_task_of_an_agent_is_said() {
    let step = |body: &str| format!("name: w\nsteps: [{{id: a, {body}}}]\n");
    bad(&step("agent: guide"), &["steps[0].task", "task is required"]);
    bad(&step("agent: guide, task: x, input: {a: 1}"), &["steps[0].task", "stands beside `input`"]);
    bad(&step("agent: guide, task: {a: 1}"), &["steps[0].task", "a task in words"]);
    bad(&step("agent: guide, input: words"), &["steps[0].input", "a map"]);
    bad(&step("agent: guide, task: x, args: {a: 1}"), &["steps[0].args", "goes with `tool`"]);
    bad(&step("agent: guide, tool: t, task: x"), &["tool, agent, foreach and parallel are mutually exclusive"]);
    bad(&step("agent: 'no name', task: x"), &["steps[0].agent", "expected a name"]);
    bad(&step("tool: t, task: x"), &["steps[0].task", "goes with `agent`"]);
    bad(&step("agnet: guide, task: x"), &["one of tool, foreach, or parallel is required"]);
    bad(
        &step("parallel: [{id: b, tool: t, agent: guide, task: x}]"),
        &["steps[0].parallel[0].agent", "tool and agent are mutually exclusive"],
    );
}

//! `toolcrib test` on scenarios that are written here: each runs a real gateway.

use std::path::Path;

use serde_json::Value;

use crate::toolcrib::{CommandOutput, run};

/// A mock server over each transport.
const MOCKS: &str = "
pre_configuration:
  mcp_servers:
  - name: pipe
    config: {tools: [{name: echo, input_schema: {properties: {n: {type: integer, default: 7}}}, responses: [{condition: {text: bad}, error: 'no {{ .text }}'}, {response: {said: '{{ .text }}', n: '{{ .n }}'}}]}]}
  - name: web
    config: {type: streamable-http, tools: [{name: echo, responses: [{response: {said: '{{ .text }}'}}]}]}
  - name: old
    config: {type: sse, toolPrefix: older, tools: [{name: echo, responses: [{response: {said: '{{ .text }}'}, delay: 20ms}]}]}
";

struct Suite(tempfile::TempDir);

impl Suite {
    fn new(scenarios: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        for (name, text) in scenarios {
            let text = format!("name: {name}\n{text}");
            std::fs::write(folder.path().join("deep").join(format!("{name}.yaml")), text).unwrap();
        }
        Self(folder)
    }

    async fn run(&self, arguments: &[&str]) -> (CommandOutput, Value) {
        let report = self.0.path().join("report.json");
        let deep = self.0.path().join("deep");
        let mut all = vec!["test", "--config", path(&deep), "--report", path(&report)];
        all.extend(arguments);
        let ran = run(self.0.path(), &all, &[("PATH", "/usr/bin:/bin")]).await;
        let report = std::fs::read_to_string(report).map(|text| serde_json::from_str(&text).unwrap());
        (ran, report.unwrap_or_default())
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn scenario<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["scenarios"].as_array().unwrap();
    all.iter().find(|scenario| scenario["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {report:#}"))
}

#[tokio::test]
async fn scenarios_run_with_mock_servers_of_every_transport() {
    let good = format!(
        "{MOCKS}steps:
- {{id: a, tool: x_pipe_echo, args: {{text: hello}}, expected: {{success: true, json_path: {{said: hello, n: '7'}}}}}}
- {{id: b, tool: x_web_echo, args: {{text: 'again {{{{ a.said }}}}'}}, expected: {{contains: [again hello]}}}}
- {{id: c, tool: x_older_echo, args: {{text: '{{{{ b.said }}}}'}}, expected: {{status_code: 200, contains: [again hello]}}}}
- {{id: d, tool: x_pipe_echo, args: {{text: bad}}, expected: {{success: false, error_contains: [no bad]}}}}
- {{id: e, tool: test_call_meta_tool, args: {{tool: list_tools}}, expected: {{contains: [x_pipe_echo], not_contains: [x_none]}}}}
"
    );
    let bad = format!(
        "{MOCKS}steps:
- {{id: a, tool: x_pipe_echo, args: {{text: hello}}, expected: {{contains: [nothing of the kind]}}}}
- {{id: b, tool: x_pipe_echo, args: {{text: unreached}}}}
"
    );
    let later = "skip: later\nsteps: [{tool: test_switch_user, args: {name: a}}]\n";
    let suite = Suite::new(&[("good", &good), ("bad", &bad), ("later", later), ("typo", "steps: [{tol: x}]\n")]);
    let (ran, report) = suite.run(&["--parallel", "4"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "1 passed, 1 failed, 1 skipped, 1 errors\n"), "{}", ran.stderr);
    assert_eq!(scenario(&report, "good")["steps"].as_array().unwrap().len(), 5);
    let failed = scenario(&report, "bad");
    assert!(failed["reason"].as_str().unwrap().starts_with("step `a` (x_pipe_echo, line "), "{failed:#}");
    assert_eq!(failed["steps"].as_array().unwrap().len(), 1, "nothing runs after a failure");
    assert!(scenario(&report, "later")["reason"].as_str().unwrap().contains("`skip`: later"));
    let typo = scenario(&report, "typo")["reason"].as_str().unwrap();
    assert!(typo.contains("typo.yaml:2: `steps[0].tol`: is not a known key (did you mean `tool`?)"), "{typo}");
}

fn results(report: &Value) -> Vec<(&str, &str)> {
    let all = report["scenarios"].as_array().unwrap().iter();
    all.map(|scenario| (scenario["name"].as_str().unwrap(), scenario["result"].as_str().unwrap())).collect()
}

fn ids(scenario: &Value) -> Vec<&str> {
    scenario["steps"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect()
}

const ONE: &str = "
pre_configuration:
  mcp_servers:
  - name: m
    config: {tools: [{name: t, responses: [{response: {id: '{{ .id }}'}}]}, {name: slow, responses: [{response: late, delay: 1h}]}]}
";

#[tokio::test]
async fn cleanup_runs_in_reverse_after_all_steps_and_its_failures_are_warnings() {
    let text = format!(
        "{ONE}steps:
- {{id: a, tool: x_m_t, args: {{id: '1'}}, cleanup: [{{id: a1, tool: x_m_t, args: {{id: '{{{{ a.id }}}}'}}}}, {{id: a2, tool: x_m_none}}]}}
- {{id: b, tool: x_m_t, args: {{id: '2'}}, cleanup: [{{id: b1, tool: x_m_t, args: {{id: '{{{{ a.id }}}}'}}, expected: {{contains: [other]}}}}]}}
- {{id: c, tool: x_m_t, args: {{id: '3'}}, expected: {{contains: [unmet]}}, continue_on_failure: true}}
- {{id: d, tool: x_m_t, args: {{id: '4'}}}}
cleanup:
- {{id: z, tool: x_m_none, continue_on_failure: true}}
"
    );
    let strict =
        format!("{ONE}steps: [{{id: a, tool: x_m_t, args: {{id: '1'}}}}]\ncleanup: [{{id: z, tool: x_m_none}}]\n");
    let warned = format!(
        "{ONE}steps: [{{id: a, tool: x_m_t, args: {{id: '1'}}, cleanup: [{{tool: x_m_none}}]}}]\ncleanup: [{{id: z, tool: x_m_none, continue_on_failure: true}}]\n"
    );
    let suite = Suite::new(&[("cleanup", &text), ("strict", &strict), ("warned", &warned)]);
    let (_, report) = suite.run(&["--parallel", "3"]).await;
    assert_eq!(results(&report), [("cleanup", "failed"), ("strict", "failed"), ("warned", "passed")], "{report:#}");
    let cleanup = scenario(&report, "cleanup");
    assert_eq!(ids(cleanup), ["a", "b", "c", "d", "z", "b1", "a1", "a2"]);
    let warnings: Vec<&str> =
        cleanup["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let named: Vec<&str> = warnings.iter().map(|warning| &warning[..12]).collect();
    assert_eq!(named, ["cleanup `z` ", "cleanup `b1`", "cleanup `a2`"], "{warnings:?}");
    assert!(scenario(&report, "strict")["reason"].as_str().unwrap().starts_with("step `z`"));
    assert_eq!(scenario(&report, "warned")["warnings"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn retries_and_deadlines_are_kept() {
    let retried = format!(
        "{ONE}steps: [{{id: a, tool: x_m_none, retry: {{count: 2, delay: 10ms, backoff_multiplier: 2}}, expected: {{success: true}}}}]\n"
    );
    let waited =
        format!("{ONE}steps: [{{id: a, tool: x_m_none, expected: {{success: true, wait_for_state: 200ms}}}}]\n");
    let step = format!("{ONE}steps: [{{id: a, tool: x_m_slow, timeout: 200ms}}, {{id: b, tool: x_m_t}}]\n");
    let whole = format!(
        "timeout: 300ms\n{ONE}steps:\n- {{id: a, tool: x_m_slow, continue_on_failure: true}}\n- {{id: b, tool: x_m_t}}\ncleanup: [{{id: z, tool: x_m_t, args: {{id: '1'}}}}]\n"
    );
    let suite = Suite::new(&[("retried", &retried), ("step", &step), ("waited", &waited), ("whole", &whole)]);
    // Nothing waits for the slow tool: the run would not end in time.
    let (_, report) = suite.run(&["--parallel", "4"]).await;
    assert!(results(&report).iter().all(|(_, result)| *result == "failed"), "{report:#}");
    assert_eq!(scenario(&report, "retried")["steps"][0]["tries"], 3);
    let reason = |name| scenario(&report, name)["reason"].as_str().unwrap().to_owned();
    assert!(reason("waited").contains("`wait_for_state`: not so after 200ms"), "{}", reason("waited"));
    assert!(reason("step").contains("no answer within"), "{}", reason("step"));
    assert_eq!(ids(scenario(&report, "step")), ["a"]);
    assert!(reason("whole").starts_with("the scenario took longer than 300ms"), "{}", reason("whole"));
    assert_eq!(ids(scenario(&report, "whole")), ["a", "z"], "cleanup has time of its own");
}

#[tokio::test]
async fn what_runs_is_chosen_and_a_failure_can_end_the_run() {
    let good = format!("category: c\nconcept: k\ntags: [x]\n{ONE}steps: [{{id: a, tool: x_m_t, args: {{id: '1'}}}}]\n");
    let bad = "tags: [y]\nsteps: [{id: a, tool: x_none}]\n";
    let suite = Suite::new(&[("a-bad", bad), ("b-good", &good), ("c-good", &good)]);
    let (ran, report) = suite.run(&["--fail-fast"]).await;
    assert_eq!(results(&report), [("a-bad", "failed"), ("b-good", "skipped"), ("c-good", "skipped")]);
    assert!(scenario(&report, "b-good")["reason"].as_str().unwrap().contains("--fail-fast"));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "0 passed, 1 failed, 2 skipped, 0 errors\n"));
    for (arguments, expected) in [
        (vec!["--scenario", "b-*"], vec![("b-good", "passed")]),
        (vec!["--name", "c-good", "--category", "c", "--concept", "k"], vec![("c-good", "passed")]),
        (vec!["--tag", "y"], vec![("a-bad", "failed")]),
    ] {
        assert_eq!(results(&suite.run(&arguments).await.1), expected, "{arguments:?}");
    }
    suite.run(&["--tag", "none"]).await.0.fails(1, &["no scenario", "matches the filters"]);
}

#[tokio::test]
async fn expected_failures_need_reasons_and_must_fail() {
    let good = format!("{ONE}steps: [{{id: a, tool: x_m_t, args: {{id: '1'}}}}]\n");
    let suite = Suite::new(&[("bad", "steps: [{id: a, tool: x_none}]\n"), ("good", &good)]);
    let list = suite.0.path().join("expected.yaml");
    let file = path(&list);
    std::fs::write(file, "- {name: bad, reason: pins a fault}\n").unwrap();
    let (ran, report) = suite.run(&["--expected-failures", file]).await;
    assert_eq!((ran.code, results(&report)), (0, vec![("bad", "skipped"), ("good", "passed")]), "{}", ran.stderr);
    std::fs::write(file, "- {name: bad, reason: r}\n- {name: good, reason: r}\n").unwrap();
    let (ran, report) = suite.run(&["--expected-failures", file]).await;
    assert_eq!((ran.code, results(&report)), (1, vec![("bad", "skipped"), ("good", "failed")]));
    std::fs::write(file, "- {name: gone, reason: r}\n").unwrap();
    suite.run(&["--expected-failures", file]).await.0.fails(1, &["unknown scenario `gone`", "remove it from the list"]);
}

#[tokio::test]
async fn wrong_use_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["test"], &[]).await;
    assert!(ran.code != 0 && ran.stderr.contains("--config PATH"), "{}", ran.stderr);
    let ran = run(home.path(), &["test", "--config", path(home.path())], &[]).await;
    ran.fails(1, &["there is no `.yaml` file in it"]);
    let ran = run(home.path(), &["test", "--config", "/no/such/folder"], &[]).await;
    ran.fails(1, &["/no/such/folder"]);
    let ran = run(home.path(), &["test", "--config", path(home.path()), "--report", "x.txt"], &[]).await;
    assert!(ran.code != 0 && ran.stderr.contains("`.json` or `.xml`"), "{}", ran.stderr);
    // Told before anything runs, and not after it.
    let suite = Suite::new(&[("a", "steps: [{id: a, tool: x_none}]\n")]);
    let deep = suite.0.path().join("deep");
    for (report, part) in [("/no/such/folder/r.json", "there is no folder"), ("taken.xml", "it is a folder")] {
        let report = suite.0.path().join(report);
        std::fs::create_dir_all(suite.0.path().join("taken.xml")).unwrap();
        let ran = run(suite.0.path(), &["test", "--config", path(&deep), "--report", path(&report)], &[]).await;
        assert!(ran.code != 0 && ran.stderr.contains(part) && ran.stdout.is_empty(), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn calls_are_checked_against_the_gateway_s_schemas_and_schemas_are_printed() {
    let good = "steps: [{id: a, tool: core_service_status, args: {name: x}}, {id: b, tool: core_list_tools}, {id: c, tool: core_describe_tool, args: {name: x}}]\n";
    let bad = "steps: [{id: a, tool: core_service_status, args: {nam: x}}, {id: b, tool: core_service_statuz}]\n";
    let suite = Suite::new(&[("bad", bad), ("good", good), ("typo", "steps: [{tol: x}]\n")]);
    let (ran, report) = suite.run(&["--validate-scenarios"]).await;
    assert_eq!(results(&report), [("typo", "error"), ("bad", "failed"), ("good", "passed")], "{}", ran.stderr);
    let reason = scenario(&report, "bad")["reason"].as_str().unwrap();
    assert!(reason.contains("step `a`") && reason.contains("did you mean `core_service_status`?"), "{reason}");
    let file = suite.0.path().join("schema.json");
    let ran = run(suite.0.path(), &["test", "--generate-schema", "--schema-output", path(&file)], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(schema["tools"]["core_service_status"]["properties"]["name"].is_object());
    assert!(schema["scenario"]["$defs"]["step"].is_object());
    assert_eq!(schema["harness"]["test_restart_gateway"]["properties"]["how"]["enum"][1], "kill");
}

#[tokio::test]
async fn the_runner_is_an_mcp_server_too() {
    let good = format!("tags: [x]\n{ONE}steps: [{{id: a, tool: x_m_t, args: {{id: '1'}}}}]\n");
    let suite = Suite::new(&[("good", &good), ("bad", "steps: [{id: a, tool: x_none}]\n")]);
    let call = |id: u64, tool: &str, arguments: &Value| {
        let params = serde_json::json!({ "name": tool, "arguments": arguments });
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let ask = async |lines: Vec<String>| {
        let deep = suite.0.path().join("deep");
        let arguments = ["test", "--config", path(&deep), "--mcp-server"];
        let mut server = crate::toolcrib::Talk::start(suite.0.path(), &arguments);
        let mut answers = Vec::new();
        for line in lines {
            answers.push(server.ask(&line).await["result"].clone());
        }
        answers
    };
    let none = serde_json::json!({});
    let answers = ask(vec![
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.to_owned(),
        call(3, "test_get_results", &none),
        call(4, "test_list_scenarios", &serde_json::json!({ "tag": "x" })),
        call(5, "test_run_scenarios", &serde_json::json!({ "parallel": 2 })),
        call(6, "test_get_results", &none),
        call(7, "test_validate_scenario", &serde_json::json!({ "yaml": "name: n\nsteps: [{tol: x}]" })),
        call(8, "test_run_scenarios", &serde_json::json!({ "scenario": "none" })),
        call(9, "test_run_scenarios", &serde_json::json!({ "parallel": 0 })),
    ])
    .await;
    assert_eq!(answers[0]["serverInfo"]["name"], "toolcrib-test");
    assert_eq!(answers[1]["tools"].as_array().unwrap().len(), 4);
    assert_eq!(answers[2]["isError"], true);
    assert_eq!(answers[3]["structuredContent"]["total"], 1);
    assert_eq!(answers[4]["structuredContent"]["summary"], "1 passed, 1 failed, 0 skipped, 0 errors");
    assert_eq!(answers[5]["structuredContent"], answers[4]["structuredContent"]);
    assert_eq!(answers[6]["structuredContent"]["valid"], false);
    for wrong in &answers[7..] {
        assert_eq!(wrong["isError"], true, "{wrong}");
    }
}

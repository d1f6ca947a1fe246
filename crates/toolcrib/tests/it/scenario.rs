//! `toolcrib test` on scenarios that are written here: each runs a real gateway.

use std::path::Path;

use serde_json::Value;

use crate::toolcrib::{Ran, run};

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

    async fn run(&self, arguments: &[&str]) -> (Ran, Value) {
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
    let identity = "steps: [{tool: core_auth_login, args: {server: a}}]\n";
    let suite = Suite::new(&[("good", &good), ("bad", &bad), ("identity", identity), ("typo", "steps: [{tol: x}]\n")]);
    let (ran, report) = suite.run(&["--parallel", "4"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "1 passed, 1 failed, 1 skipped, 1 errors\n"), "{}", ran.stderr);
    assert_eq!(scenario(&report, "good")["steps"].as_array().unwrap().len(), 5);
    let failed = scenario(&report, "bad");
    assert!(failed["reason"].as_str().unwrap().starts_with("step `a` (x_pipe_echo, line "), "{failed:#}");
    assert_eq!(failed["steps"].as_array().unwrap().len(), 1, "nothing runs after a failure");
    assert!(scenario(&report, "identity")["reason"].as_str().unwrap().contains("`core_auth_login`"));
    let typo = scenario(&report, "typo")["reason"].as_str().unwrap();
    assert!(typo.contains("typo.yaml:2: `steps[0].tol`: is not a known key (did you mean `tool`?)"), "{typo}");
}

//! The fake server itself: what it serves, and that each misbehaviour is the one its flag names.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` values read better without a `&`")]

#[cfg(feature = "fixture")]
mod differential;
mod provider;
#[cfg(feature = "fixture")]
mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

struct Fake {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Fake {
    fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fake-server"))
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, next_id: 0 }
    }

    fn initialized(flags: &[&str]) -> Self {
        let mut fake = Self::start(flags);
        fake.request("initialize", json!({"protocolVersion": "2025-06-18"}));
        fake
    }

    fn send(&mut self, message: &Value) {
        self.stdin.write_all((message.to_string() + "\n").as_bytes()).unwrap();
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).unwrap();
        line
    }

    fn message(&mut self) -> Value {
        serde_json::from_slice(&self.line()).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    /// The next message, which must be the answer.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.message();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn text(&mut self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments)["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn names(&mut self) -> Vec<Value> {
        let list = self.request("tools/list", json!({}));
        list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
    }

    /// Closes stdin and waits: the exit code and stderr.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin);
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

#[test]
fn every_legacy_revision_is_spoken() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let mut fake = Fake::start(&["--instructions", "Be kind."]);
        assert_eq!(fake.request("server/discover", json!({}))["error"]["code"], -32_601);
        assert_eq!(fake.request("tools/list", json!({}))["error"]["code"], -32_600, "before `initialize`");
        let answer = fake.request("initialize", json!({"protocolVersion": asked}));
        assert_eq!(answer["result"]["protocolVersion"], answered);
        assert_eq!(answer["result"]["instructions"], "Be kind.");
        assert_eq!(fake.request("ping", json!({}))["result"], json!({}));
        assert_eq!(fake.end(), (Some(0), String::new()));
    }
    let mut fake = Fake::start(&["--revision", "1999-12-31"]);
    let answer = fake.request("initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(answer["result"]["protocolVersion"], "1999-12-31");
}

#[test]
fn the_modern_revision_needs_no_opening() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut fake = Fake::start(&["--modern", "--asks"]);
    let answer = fake.request("server/discover", json!({"_meta": meta}));
    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
    let list = fake.request("tools/list", json!({"_meta": meta}));
    assert_eq!((&list["result"]["resultType"], &list["result"]["ttlMs"]), (&json!("complete"), &json!(0)));
    assert_eq!(list["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fake-server");
    let old = fake.request("tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}}));
    assert_eq!((&old["error"]["code"], &old["error"]["data"]["supported"][0]), (&json!(-32_022), &json!("2026-07-28")));
    let asked = fake.request("tools/call", json!({"name": "ask", "_meta": meta}));
    assert_eq!(asked["result"]["resultType"], "input_required");
    let state = &asked["result"]["requestState"];
    let retry = json!({"name": "ask", "_meta": meta, "requestState": state, "inputResponses": {"question": {"ok": 1}}});
    assert_eq!(fake.request("tools/call", retry)["result"]["content"][0]["text"], "{\"ok\":1}");
    let legacy = fake.request("initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(legacy["result"]["protocolVersion"], "2025-06-18");
}

#[test]
fn the_tools_do_what_they_say() {
    let mut fake = Fake::initialized(&[]);
    assert_eq!(fake.text("echo", json!({"text": "ü"})), "ü");
    assert_eq!(fake.text("add", json!({"a": 2, "b": 40})), "42");
    assert_eq!(fake.text("big", json!({"bytes": 98_000})).len(), 98_000);
    assert_eq!(fake.text("counter", json!({})), "1");
    assert_eq!(fake.text("counter", json!({})), "2");
    assert_eq!(fake.text("pid", json!({})), fake.child.id().to_string());
    assert_eq!(fake.call("mixed", json!({}))["result"]["content"].as_array().unwrap().len(), 7);
    assert_eq!(fake.call("fail", json!({}))["result"]["isError"], true);
    assert_eq!(fake.call("rpc_error", json!({"code": -5, "message": "no"}))["error"]["code"], -5);
    assert_eq!(fake.call("nonsense", json!({}))["error"]["code"], -32_602);
    let raw = r#"{"content":[],  "x": 1.50, "big": 123456789012345678901234567890}"#;
    let id = fake.ask("tools/call", json!({"name": "raw", "arguments": {"result": raw}}));
    assert_eq!(fake.line(), format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{raw}}}\n").as_bytes());
}

#[test]
fn slow_calls_run_side_by_side_and_can_be_cancelled() {
    let mut fake = Fake::initialized(&[]);
    let never = fake.ask("tools/call", json!({"name": "slow", "arguments": {"ms": 500_000}}));
    let soon = fake.ask("tools/call", json!({"name": "slow", "arguments": {"ms": 1}}));
    assert_eq!(fake.message()["id"], soon, "the later call answers first");
    fake.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": never}}));
    assert_eq!(fake.text("cancelled", json!({})), format!("[{never}]"));
    let params = json!({"name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": "t"}});
    let id = fake.ask("tools/call", params);
    for step in 1..=3 {
        let note = fake.message();
        assert_eq!((&note["params"]["progress"], &note["params"]["progressToken"]), (&json!(step), &json!("t")));
    }
    assert_eq!(fake.message()["id"], id);
}

#[test]
fn lists_come_in_pages_and_change() {
    let mut fake = Fake::initialized(&["--tools", "25", "--page", "10", "--list-changed-after", "1"]);
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    for size in [10, 10, 5] {
        let page = fake.request("tools/list", json!({"cursor": cursor}));
        assert_eq!(page["result"]["tools"].as_array().unwrap().len(), size);
        names.extend(page["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()));
        cursor = page["result"]["nextCursor"].clone();
    }
    assert_eq!(cursor, Value::Null);
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 25);
    assert_eq!(fake.request("tools/list", json!({"cursor": "x"}))["error"]["code"], -32_602);
    assert_eq!(fake.text("list_invoice_0", json!({})), "list_invoice_0 {}");
    assert_eq!(fake.message()["method"], "notifications/tools/list_changed");

    let mut fake = Fake::initialized(&["--list-changed-after", "1"]);
    assert!(!fake.names().contains(&json!("late")));
    fake.text("echo", json!({}));
    assert_eq!(fake.message()["method"], "notifications/tools/list_changed");
    assert!(fake.names().contains(&json!("late")));

    let mut fake = Fake::initialized(&["--duplicate-tools", "--bad-tool"]);
    let names = fake.names();
    assert_eq!(names.iter().filter(|name| **name == "echo").count(), 2);
    assert!(names.contains(&json!(7)) && names.contains(&Value::Null) && names.contains(&json!("bad_schema")));
}

#[test]
fn resources_and_prompts_are_served() {
    let mut fake = Fake::initialized(&[]);
    assert_eq!(fake.request("resources/list", json!({}))["result"]["resources"][0]["uri"], "fake://text");
    let templates = fake.request("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "fake://item/{id}");
    let item = fake.request("resources/read", json!({"uri": "fake://item/7"}));
    assert_eq!(item["result"]["contents"][0]["text"], "item 7");
    assert_eq!(fake.request("resources/read", json!({"uri": "no://x"}))["error"]["code"], -32_002);
    assert_eq!(fake.request("prompts/list", json!({}))["result"]["prompts"][1]["name"], "greet");
    let prompt = fake.request("prompts/get", json!({"name": "greet", "arguments": {"who": "Ada"}}));
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Greet Ada.");
    assert_eq!(fake.request("prompts/get", json!({"name": "greet"}))["error"]["code"], -32_602);
}

#[test]
fn a_legacy_server_asks_by_a_request_of_its_own() {
    let mut fake = Fake::initialized(&["--asks"]);
    for (kind, method) in
        [("sampling", "sampling/createMessage"), ("elicitation", "elicitation/create"), ("roots", "roots/list")]
    {
        let id = fake.ask("tools/call", json!({"name": "ask", "arguments": {"kind": kind}}));
        let question = fake.message();
        assert_eq!(question["method"], method);
        fake.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"kind": kind}}));
        let answer = fake.message();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["content"][0]["text"], format!("{{\"kind\":\"{kind}\"}}"));
    }
}

#[test]
fn misbehaviours_are_what_their_flags_name() {
    let (code, stderr) = Fake::start(&["--exit-at-start"]).end();
    assert_eq!((code, stderr.contains("cannot start")), (Some(3), true));

    let fake = Fake::initialized(&["--exit-after", "1", "--flood-stderr", "5000"]);
    let (code, stderr) = fake.end();
    assert_eq!((code, stderr.len()), (Some(4), 5_000));

    let mut fake = Fake::initialized(&["--wrong-id", "--long-line", "1000"]);
    fake.ask("tools/call", json!({"name": "echo"}));
    assert_eq!(fake.line().len(), 1_001);
    assert_eq!(fake.message()["id"], 999_999);

    let mut fake = Fake::initialized(&["--never-answer", "tools/call"]);
    fake.ask("tools/call", json!({"name": "echo"}));
    assert_eq!(fake.request("ping", json!({}))["result"], json!({}), "the call stays unanswered");

    let mut fake = Fake::start(&["--garbage"]);
    fake.ask("ping", json!({}));
    let lines: Vec<_> = (0..8).map(|_| fake.line()).collect();
    assert_eq!(lines[0], b"INFO starting up {\n");
    assert_eq!(serde_json::from_slice::<Value>(&lines[7]).unwrap()["result"], json!({}));
}

#[test]
fn wrong_flags_are_refused_and_help_names_all() {
    let run = |flag| Command::new(env!("CARGO_BIN_EXE_fake-server")).arg(flag).output().unwrap();
    assert_eq!(run("--nonsense").status.code(), Some(2));
    let help = run("--help");
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("--fork-grandchildren"));
}

#[test]
fn other_crates_find_the_fake_server() {
    let found = toolcrib_testkit::fake_server();
    assert_eq!(
        found.canonicalize().unwrap(),
        std::path::Path::new(env!("CARGO_BIN_EXE_fake-server")).canonicalize().unwrap()
    );
}

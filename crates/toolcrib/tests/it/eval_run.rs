//! `toolcrib eval run`: scenarios at a gateway with an example server and scripted models.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib_testkit::eventually;
use toolcrib_testkit::launch::{GatewayProgram, write};

use crate::toolcrib::{CommandOutput, run, toolcrib};

/// Writes a note and says so.
const WRITER: &str = r#"
name: writer
wire: script
prices: {input: 1, output: 2}
script:
  turns:
    - calls:
        - {name: notes_list_notes}
    - calls:
        - {name: notes_add_note, arguments: {title: Shopping, text: Milk and bread, tags: [home]}}
    - say: 'Written down as “Shopping”.'
"#;

/// The same through the menu, without a price; and a call of a tool that there is not.
const MENU: &str = r#"
name: menus
wire: script
script:
  turns:
    - calls:
        - {name: call_tool, arguments: {name: notes/add_note, arguments: {title: Menu, text: By the menu}}}
        - {name: notes_burn, arguments: {}}
    - say: '{"written": {"title": "Menu", "count": 1}}'
"#;

struct Gateway {
    home: tempfile::TempDir,
    program: GatewayProgram,
}

impl Gateway {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["servers", "models"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        let notes = format!("name: notes\ncommand: {}\nargs: [example, notes]\n", env!("CARGO_BIN_EXE_toolcrib"));
        write(home.path(), "servers/notes.yaml", &notes);
        write(home.path(), "models/writer.yaml", WRITER);
        write(home.path(), "models/menus.yaml", MENU);
        let program = toolcrib(home.path(), &["serve"]).with_path().serve().await;
        let shown =
            async { while !run(home.path(), &["list", "tools"], &[]).await.stdout.contains("notes_list_notes") {} };
        eventually("the tools of the server are shown", shown).await;
        Self { home, program }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    async fn eval(&self, scenarios: &Value, more: &[&str]) -> CommandOutput {
        let file = self.path().join("eval.yaml");
        std::fs::write(&file, scenarios.to_string()).unwrap();
        let mut arguments = vec!["eval", "run", file.to_str().unwrap()];
        arguments.extend(more);
        run(self.path(), &arguments, &[]).await
    }

    async fn report(&self, scenarios: &Value, more: &[&str]) -> Value {
        let ran = self.eval(scenarios, &[more, &["--format", "json"]].concat()).await;
        let report: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr));
        assert_eq!(ran.code == 0, report["passed"] == true, "{report}");
        report
    }
}

fn scenario(id: &str, expect: &Value) -> Value {
    json!({"id": id, "task": "Write down what to buy", "model": "writer", "tools": "all", "expect": expect})
}

/// An assertion that holds for the writer, and one of the same kind that does not, with what is said of it.
type Case = (&'static str, Value, Value, &'static str);

fn on_calls() -> Vec<Case> {
    let add = "notes_add_note";
    vec![
        ("end", json!({"end": "done"}), json!({"end": ["stuck", "failed"]}), "it ended as `done`"),
        (
            "tool",
            json!({"calls": [{"tool": "notes/add_*"}]}),
            json!({"calls": [{"tool": "notes_delete_note"}]}),
            "no call of",
        ),
        (
            "part",
            json!({"calls": [{"tool": add, "arguments": {"tags": ["home"]}}]}),
            json!({"calls": [{"tool": add, "arguments": {"title": "Work"}}]}),
            "is not in",
        ),
        (
            "path",
            json!({"calls": [{"tool": add, "paths": {"$.tags[0]": "home"}}]}),
            json!({"calls": [{"tool": add, "paths": {"tags[1]": "home"}}]}),
            "`tags[1]` is not in",
        ),
        (
            "regex",
            json!({"calls": [{"tool": add, "matches": {"text": "(?i)milk"}}]}),
            json!({"calls": [{"tool": add, "matches": {"text": "^bread"}}]}),
            "does not match `^bread`",
        ),
        (
            "error",
            json!({"calls": [{"tool": add, "error": false}]}),
            json!({"calls": [{"tool": add, "error": true}]}),
            "did not fail",
        ),
        (
            "times",
            json!({"calls": [{"tool": add, "times": 1}]}),
            json!({"calls": [{"tool": add, "times": 2}]}),
            "1 calls of",
        ),
        ("any_of", json!({"any_of": ["notes_burn", add]}), json!({"any_of": ["notes_burn"]}), "no call of any of"),
        (
            "order",
            json!({"order": ["notes_list_notes", add]}),
            json!({"order": [add, "notes_list_notes"]}),
            "in the order",
        ),
        ("forbidden", json!({"forbidden": ["notes_delete_*"]}), json!({"forbidden": ["notes/add_note"]}), "forbids"),
    ]
}

fn on_the_rest() -> Vec<Case> {
    let state = |more: Value| {
        let mut state = json!({"tool": "notes/list_notes"});
        state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"state": [state]})
    };
    vec![
        (
            "contains",
            json!({"text": {"contains": "Shopping"}}),
            json!({"text": {"contains": ["Shopping", "Tax"]}}),
            "does not contain `Tax`",
        ),
        (
            "not_contains",
            json!({"text": {"not_contains": ["sorry"]}}),
            json!({"text": {"not_contains": ["Written"]}}),
            "contains `Written`",
        ),
        (
            "matches",
            json!({"text": {"matches": "^Written .*\\.$"}}),
            json!({"text": {"matches": "^[a-z]+$"}}),
            "does not match",
        ),
        (
            "not_matches",
            json!({"text": {"not_matches": "[0-9]"}}),
            json!({"text": {"not_matches": "[A-Z]"}}),
            "matches `[A-Z]`",
        ),
        (
            "equals",
            json!({"text": {"equals": "Written down as “Shopping”."}}),
            json!({"text": {"equals": "Done"}}),
            "not `Done`",
        ),
        (
            "state",
            state(json!({"contains": "Shopping"})),
            state(json!({"contains": "Taxes"})),
            "afterwards `notes/list_notes` does not",
        ),
        (
            "state error",
            json!({"state": [{"tool": "notes/get_note", "arguments": {"id": 999}, "error": true}]}),
            state(json!({"error": true})),
            "did not fail",
        ),
        ("rounds", json!({"rounds": {"min": 3, "max": 3}}), json!({"rounds": {"max": 2}}), "3 rounds, more than 2"),
        ("call_count", json!({"call_count": {"max": 2}}), json!({"call_count": {"min": 3}}), "2 calls, fewer than 3"),
        ("tokens", json!({"tokens": {"min": 1, "max": 99_000_000}}), json!({"tokens": {"max": 1}}), "more than 1"),
        ("cost", json!({"cost": {"max": "5"}}), json!({"cost": {"max": "0.000000000001"}}), "it cost $0."),
    ]
}

#[tokio::test]
async fn each_assertion_passes_once_and_fails_once() {
    let gateway = Gateway::start().await;
    let cases = [on_calls(), on_the_rest()].concat();
    let scenarios: Vec<Value> = cases
        .iter()
        .flat_map(|(name, good, bad, _)| [scenario(name, good), scenario(&format!("not {name}"), bad)])
        .collect();
    let report = gateway.report(&json!({"scenarios": scenarios}), &[]).await;
    for ((name, _, _, why), rows) in cases.iter().zip(report["scenarios"].as_array().unwrap().chunks(2)) {
        assert_eq!(rows[0]["result"], "passed", "{name}: {}", rows[0]);
        assert_eq!(rows[1]["result"], "failed", "{name}: {}", rows[1]);
        let problems = rows[1]["runs"][0]["problems"].as_array().unwrap();
        assert!(problems.len() == 1 && problems[0].as_str().unwrap().contains(why), "{name}: {problems:?}");
    }
    gateway.program.stop().await;
}

#[tokio::test]
async fn menus_are_looked_through_and_refused_calls_are_not_made() {
    let gateway = Gateway::start().await;
    let task = |id: &str, expect: Value| json!({"id": id, "task": "Write", "model": "menus", "tools": "menu", "expect": expect});
    let scenarios = json!({"scenarios": [
        task("behind", json!({"calls": [{"tool": "notes_add_note", "arguments": {"title": "Menu"}}],
            "text": {"json": {"written": {"title": "Menu"}}, "paths": {"$.written.count": 1.0}, "fields": {"written.title": "^M"}}})),
        task("tried", json!({"forbidden": ["notes_burn"]})),
        task("made", json!({"calls": [{"tool": "notes_burn"}]})),
        task("json", json!({"text": {"json": {"written": {"title": "Other"}}}})),
        task("free", json!({"cost": {"max": "1"}})),
        {"id": "scooter", "task": "Write", "model": "menus", "tools": "menu", "validation": {
            "required_tool_patterns": ["add_.ote"], "expected_tool_patterns": ["burn", "add"],
            "response_must_contain": ["WRITTEN"], "response_must_not_contain": ["sorry"]}},
        {"id": "not scooter", "task": "Write", "model": "menus", "tools": "menu", "validation": {
            "required_tool_patterns": ["search"], "expected_tool_patterns": ["burn"],
            "response_must_contain": ["written", "sorry"], "response_must_not_contain": ["menu"]}},
        {"id": "no such", "task": "Write", "model": "nothing", "expect": {"end": "done"}},
    ]});
    let report = gateway.report(&scenarios, &[]).await;
    let rows = report["scenarios"].as_array().unwrap();
    let problems = |at: usize| rows[at]["runs"][0]["problems"].to_string();
    assert_eq!(rows[0]["result"], "passed", "{}", rows[0]);
    assert!(problems(1).contains("`notes_burn` forbids"), "{}", problems(1));
    assert!(problems(2).contains("no call of `notes_burn`"), "{}", problems(2));
    assert!(problems(3).contains("is not in"), "{}", problems(3));
    assert!(problems(4).contains("has no price"), "{}", problems(4));
    assert_eq!(rows[5]["result"], "passed", "{}", rows[5]);
    assert_eq!(rows[6]["runs"][0]["problems"].as_array().unwrap().len(), 4, "{}", rows[6]);
    assert!(problems(7).contains("did not start") && problems(7).contains("nothing"), "{}", problems(7));
    gateway.program.stop().await;
}

#[tokio::test]
async fn runs_are_repeated_compared_and_held_against_a_baseline() {
    let gateway = Gateway::start().await;
    let written = json!({"scenarios": [scenario("write", &json!({"calls": [{"tool": "notes_add_note"}]}))]});
    let first = gateway.eval(&written, &["--repeat", "2", "--format", "json"]).await;
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let mut report: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!((&report["scenarios"][0]["share"], &report["variants"][0]["runs"]), (&json!("2/2"), &json!(2)));
    assert!(report["variants"][0]["cost_per_task"].as_str().unwrap().starts_with("$0.0"), "{report}");
    // The menu does not show the tool that the script calls.
    let compared = gateway.eval(&written, &["--compare", "tools=all,menu"]).await;
    assert_eq!(compared.code, 1, "{}", compared.stdout);
    for part in
        ["tools=all: 1 of 1 scenarios passed", "tools=menu: 0 of 1 scenarios passed", "write tools=menu: no call"]
    {
        assert!(compared.stdout.contains(part), "no `{part}` in {}", compared.stdout);
    }
    let markdown = gateway.eval(&written, &["--format", "markdown"]).await;
    assert!(markdown.stdout.contains("| write |  | passed | 1/1 | 3 | 2 |"), "{}", markdown.stdout);
    let baseline = gateway.path().join("baseline.json");
    let baseline = baseline.to_str().unwrap();
    let keep = |report: &Value| std::fs::write(baseline, report.to_string()).unwrap();
    keep(&report);
    gateway.report(&written, &["--baseline", baseline, "--tolerance", "50"]).await;
    report["scenarios"][0]["tokens"] = 1.into();
    report["scenarios"][0]["cost"] = "$0.000001".into();
    keep(&report);
    let worse = gateway.report(&written, &["--baseline", baseline]).await;
    let regressions = worse["scenarios"][0]["regressions"].to_string();
    assert!(regressions.contains("1 in the baseline") && regressions.contains("$0.000001 in"), "{regressions}");
    report["scenarios"][0]["scenario"] = "another".into();
    keep(&report);
    gateway.eval(&written, &["--baseline", baseline]).await.fails(1, &["has none of these scenarios"]);
    keep(&json!({"passed": true}));
    gateway.eval(&written, &["--baseline", baseline]).await.fails(1, &["no report of `toolcrib eval run`"]);
    let bad = json!({"scenarios": [scenario("a<b", &json!({"text": {"contains": "<&\"none\">"}})), scenario("ok", &json!({"end": "done"}))]});
    let xml = gateway.eval(&bad, &["--format", "junit"]).await;
    assert_eq!(xml.code, 1);
    for part in ["tests=\"2\" failures=\"1\"", "name=\"a&lt;b\"", "&lt;&amp;&quot;none&quot;&gt;", "</testsuites>"] {
        assert!(xml.stdout.contains(part), "no `{part}` in {}", xml.stdout);
    }
    gateway.eval(&written, &["--compare", "tools=all"]).await.fails(1, &["compares one with nothing"]);
    gateway.eval(&written, &["--compare", "speed=1,2"]).await.fails(1, &["`speed` cannot be compared"]);
    gateway.eval(&written, &["--only", "writ"]).await.fails(1, &["no scenario `writ`", "there are write"]);
    let never = json!({"scenarios": [scenario("x", &json!({"rounds": {"max": 1_000_000}}))]});
    gateway.eval(&never, &[]).await.fails(1, &["scenarios[0].expect.rounds.max", "at most 10", "evaluations.md"]);
    gateway.program.stop().await;
}

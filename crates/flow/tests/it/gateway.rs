//! Workflows in a real gateway with fake servers: tools like any other, written and listed by operations, recorded.

mod agent_activity;
mod agent_canaries;
mod agent_sentinel;
mod approvals;
mod asking;
mod canaries;
mod dying;
mod grants;
mod tasks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use toolcrib_base::PrincipalId;
use toolcrib_base::task::Scope;
use toolcrib_call::{HaltCause, HaltSubject, Source};
use toolcrib_catalog::ModelDefinition;
use toolcrib_flow::agent::{Agents, ModelResponse, SendError, SendRequest};
use toolcrib_flow::service::Services;
use toolcrib_flow::workflow::Workflows;
use toolcrib_model::Wire;
use toolcrib_store::{HaltRecord, RunQuery, RunRecord, RunStepRecord, Store};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server, strings, text_of};
use toolcrib_testkit::{eventually_finds, eventually_holds};

/// No model is reached but those of scripts.
#[derive(Debug)]
struct NoModels;

#[async_trait::async_trait]
impl SendRequest for NoModels {
    async fn send(&self, _: &Arc<ModelDefinition>, _: Wire, _: Bytes) -> Result<ModelResponse, SendError> {
        Err(SendError::Network("these tests have no network".to_owned()))
    }

    async fn look(&self, _: &Arc<ModelDefinition>, _: &'static str) -> Option<Bytes> {
        None
    }
}

pub(crate) struct Mill {
    pub(crate) house: TestGateway,
    workflows: Arc<Workflows>,
    scope: Scope,
}

impl Mill {
    async fn open(files: &[File]) -> Self {
        Self::over(files, Setup::default()).await
    }

    async fn over(files: &[File], ground: Setup) -> Self {
        let scope = Scope::new();
        let workflows = Workflows::new(ground.store.runs(), &scope);
        let sources = Arc::new([Arc::clone(&workflows) as Arc<dyn Source>]);
        let house = TestGateway::open(files, Setup { sources, ..ground });
        workflows.enter(&house.gateway);
        house.settle().await;
        Self { house, workflows, scope }
    }

    /// With the sources of this crate, all of them.
    pub(crate) async fn whole(files: &[File]) -> Self {
        Self::asking(files, Arc::new(NoModels)).await
    }

    /// The same with models that are reached in this way.
    pub(crate) async fn asking(files: &[File], models: Arc<dyn SendRequest>) -> Self {
        let (scope, ground) = (Scope::new(), Setup::default());
        let workflows = Workflows::new(ground.store.runs(), &scope);
        // Nothing here is kept in files by services.
        let services = Services::new(Path::new(""), ground.store.services(), Arc::clone(&ground.clock), &scope);
        let agents = Agents::new(ground.store.agent_runs(), models, Arc::clone(&ground.clock), &scope);
        let sources = [
            Arc::clone(&workflows) as Arc<dyn Source>,
            Arc::clone(&services) as Arc<dyn Source>,
            Arc::clone(&agents) as Arc<dyn Source>,
        ];
        let house = TestGateway::open(files, Setup { sources: Arc::new(sources), ..ground });
        workflows.enter(&house.gateway);
        services.enter(&house.gateway);
        agents.enter(&house.gateway);
        house.settle().await;
        Self { house, workflows, scope }
    }

    pub(crate) fn admin(&self) -> Client {
        self.house.modern("default").admin()
    }

    fn store(&self) -> &Store {
        self.house.gateway.store()
    }

    async fn until_ended(&self, id: &str) -> RunRecord {
        eventually_finds("the end of the run", async || {
            let run = self.store().runs().get(id).unwrap();
            run.clone().filter(|run| run.status != "inprogress").ok_or(run)
        })
        .await
    }
}

fn workflow(name: &str, text: &str) -> File {
    (format!("workflows/{name}.yaml"), format!("name: {name}\n{text}"))
}

/// The answer of an operation or a workflow, which is JSON text.
pub(crate) async fn asked(client: &Client, tool: &str, arguments: &Value) -> Value {
    let result = client.call(tool, arguments).await;
    assert_ne!(result["isError"], true, "{tool}: {result}");
    serde_json::from_str(&text_of(&result)).unwrap_or_else(|_| panic!("{tool}: {result}"))
}

pub(crate) async fn failed(client: &Client, tool: &str, arguments: &Value, parts: &[&str]) {
    let result = client.ask("tools/call", &json!({"name": tool, "arguments": arguments})).await;
    let text = match result {
        Ok(result) => {
            assert_eq!(result["isError"], true, "{tool}: {result}");
            text_of(&result)
        }
        Err(error) => error.message,
    };
    for part in parts {
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "{tool}: {text} lacks {part}");
    }
}

const ECHO: &str = "args: {message: {type: string, required: true}}\nsteps: [{id: echo, tool: fake/echo, args: {text: \"{{ .input.message }}\"}, store: true}]\n";

#[tokio::test]
async fn a_workflow_is_a_tool_by_every_door() {
    let files = [
        server("fake", &[]),
        workflow("say", &format!("description: Says a message twice as loud\nlabels: {{team: web}}\n{ECHO}")),
        workflow(
            "nested",
            "args: {message: {type: string}}\nsteps: [{id: inner, tool: workflow_say, args: {message: \"{{ .input.message }}\"}, store: true}]\n",
        ),
        profile("muster", "dialect: muster\n"),
        profile("direct", "exposure: direct\n"),
    ];
    let mill = Mill::open(&files).await;
    for client in mill.house.both("default") {
        assert_eq!(client.found(&json!({"query": "say a message twice as loud"})).await[0], "workflow/say");
        let ran = asked(&client, "workflow_say", &json!({"message": "hi"})).await;
        assert_eq!(
            (&ran["status"], &ran["workflow"], &ran["steps"][0]["result"]),
            (&json!("completed"), &json!("say"), &json!("hi"))
        );
        let nested = asked(&client, "workflow/nested", &json!({"message": "deep"})).await;
        assert_eq!(nested["workflow"], "nested");
        assert_eq!(nested["steps"][0]["result"]["workflow"], "say");
        assert_eq!(nested["steps"][0]["result"]["steps"][0]["result"], "deep");
        assert!(nested["execution_id"] != nested["steps"][0]["result"]["execution_id"]);
    }
    let listed = mill.house.modern("direct").ask("tools/list", &json!({})).await.unwrap();
    let tools = listed["tools"].as_array().unwrap().clone();
    let say = tools.iter().find(|tool| tool["name"] == "workflow_say").unwrap();
    assert_eq!(say["inputSchema"]["required"], json!(["message"]));
    assert_eq!(say["annotations"]["readOnlyHint"], true, "its only tool reads");
    assert_eq!(say["_meta"]["muster.giantswarm.io/labels"]["team"], "web");
    let muster = mill.house.modern("muster");
    let called = muster.call("call_tool", &json!({"name": "workflow_say", "arguments": {"message": "m"}})).await;
    assert!(text_of(&called).contains("completed"), "{called}");
}

#[tokio::test]
async fn every_step_is_decided_and_recorded_under_the_run() {
    let mill = Mill::open(&[server("fake", &[]), workflow("say", ECHO)]).await;
    let ran = asked(&mill.house.modern("default"), "workflow_say", &json!({"message": "hi"})).await;
    let audited = mill.house.audited().await;
    let seen: Vec<_> =
        audited.iter().map(|it| (it.door.to_string(), it.target.to_string(), it.request_id.clone())).collect();
    assert_eq!((seen[0].0.as_str(), seen[0].1.as_str()), ("errand", "fake/echo"));
    assert!(seen[0].2.contains(ran["execution_id"].as_str().unwrap()), "{seen:?}");
    assert_eq!((seen[1].0.as_str(), seen[1].1.as_str()), ("mcp", "workflow/say"));
}

#[tokio::test]
async fn workflows_are_written_listed_and_removed_by_operations() {
    let mill = Mill::open(&[server("fake", &[])]).await;
    let admin = mill.admin();
    let steps = json!([{"id": "a", "tool": "x_fake_echo", "args": {"text": "{{ .input.m }}"}, "allow_failure": true}]);
    let created = asked(
        &admin,
        "core_workflow_create",
        &json!({"name": "made.Up_1", "args": {"m": {"type": "string", "default": "d"}}, "steps": steps}),
    )
    .await;
    assert!(created["message"].as_str().unwrap().contains("success"), "{created}");
    assert!(mill.house.read("workflows/made.Up_1.yaml").unwrap().contains("x_fake_echo"));
    assert_eq!(asked(&admin, "workflow_made.Up_1", &json!({})).await["input"], json!({"m": "d"}));
    assert_eq!(asked(&admin, "core_workflow_available", &json!({"name": "made.Up_1"})).await["available"], true);
    let listed = asked(&admin, "core_workflow_list", &json!({})).await;
    assert_eq!(strings(&listed["workflows"], "name"), ["made.Up_1"]);
    assert_eq!(listed["workflows"][0]["available"], true);
    let got = asked(&admin, "core_workflow_get", &json!({"name": "made.Up_1"})).await;
    assert_eq!(got["workflow"]["steps"], steps);
    assert!(got["yaml"].as_str().unwrap().starts_with("name: made.Up_1\n"), "{got}");
    failed(&admin, "core_workflow_create", &json!({"name": "made.Up_1", "steps": steps}), &["already exists"]).await;
    let other = json!([{"id": "updated", "tool": "core_workflow_list"}]);
    asked(&admin, "core_workflow_update", &json!({"name": "made.Up_1", "args": {}, "steps": other})).await;
    assert!(text_of(&admin.call("core_workflow_get", &json!({"name": "made.Up_1"})).await).contains("updated"));
    asked(&admin, "core_workflow_validate", &json!({"name": "x", "steps": other})).await;
    asked(&admin, "core_workflow_delete", &json!({"name": "made.Up_1"})).await;
    failed(&admin, "core_workflow_get", &json!({"name": "made.Up_1"}), &["not found"]).await;
    failed(&admin, "workflow_made.Up_1", &json!({}), &["workflow_made.Up_1"]).await;
    assert_eq!(mill.house.read("workflows/made.Up_1.yaml"), None);
}

#[tokio::test]
async fn the_text_of_a_file_is_checked_by_its_lines_and_written_as_it_is() {
    let mill = Mill::open(&[server("fake", &[])]).await;
    let admin = mill.admin();
    let text = "# why\nname: w\nsteps:\n  - id: a\n    tool: core_workflow_list\n";
    let wrong = text.replace("list\n", "list\n    timeout: soon\n    args: {x: \"{{ uper .a }}\"}\n");
    let said = asked(&admin, "core_workflow_validate", &json!({"name": "w", "yaml": wrong})).await;
    let first = &said["problems"][0];
    assert_eq!(
        (&said["valid"], &first["line"], &first["field"]),
        (&json!(false), &json!(6), &json!("steps[0].timeout"))
    );
    let unread = asked(&admin, "core_workflow_validate", &json!({"name": "w", "yaml": "name: {"})).await;
    assert!(unread["problems"][0]["line"].is_number(), "{unread}");
    let template = wrong.replace("    timeout: soon\n", "");
    let said = asked(&admin, "core_workflow_validate", &json!({"name": "w", "yaml": template})).await;
    assert_eq!(said["problems"][0]["field"], "steps[0].args.x", "{said}");
    assert_eq!(asked(&admin, "core_workflow_validate", &json!({"name": "w", "yaml": text})).await["valid"], true);
    failed(&admin, "core_workflow_create", &json!({"name": "w", "yaml": wrong}), &["steps[0].timeout"]).await;
    asked(&admin, "core_workflow_create", &json!({"name": "w", "yaml": text})).await;
    let got = asked(&admin, "core_workflow_get", &json!({"name": "w"})).await;
    assert_eq!(got["yaml"], text);
    let both = json!({"name": "w", "yaml": text, "steps": []});
    failed(&admin, "core_workflow_update", &both, &["`yaml` and `steps` are mutually exclusive"]).await;
    let new = json!({"name": "w", "yaml": text.replace("why", "because"), "revision": got["revision"]});
    asked(&admin, "core_workflow_update", &new).await;
    assert_eq!(asked(&admin, "core_workflow_get", &json!({"name": "w"})).await["yaml"], new["yaml"]);
    failed(&admin, "core_workflow_update", &new, &["has changed"]).await;
}

#[tokio::test]
async fn wrong_definitions_and_names_are_told() {
    let mill = Mill::open(&[server("fake", &[]), workflow("say", ECHO)]).await;
    let admin = mill.admin();
    let step = |more: Value| {
        let mut step = json!({"id": "a", "tool": "t"});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": "w", "steps": [step]})
    };
    for (arguments, parts) in [
        (json!({"steps": []}), &["name argument is required"][..]),
        (json!({"name": "w", "args": {}}), &["steps", "required"]),
        (json!({"name": "w", "steps": []}), &["workflow must have at least one step"]),
        (json!({"name": "w", "steps": "x"}), &["steps", "array"]),
        (step(json!({"id": ""})), &["validation failed", "steps"]),
        (
            json!({"name": "w", "steps": [{"id": "a", "tool": "t"}, {"id": "a", "tool": "t"}]}),
            &["duplicate", "step id"],
        ),
        (json!({"name": "w", "steps": [{"id": "a"}]}), &["one of tool, forEach, or parallel is required"]),
        (step(json!({"args": {"x": "{{ uper .a }}"}})), &["steps[0].args.x", "no function `uper`"]),
        (step(json!({"condition": {"tool": "t", "expect": {"jsonPath": {"a..b": 1}}}})), &["JSON path"]),
        (step(json!({"what": 1})), &["steps[0].what", "known key"]),
        (json!({"name": "../w", "steps": [{"id": "a", "tool": "t"}]}), &["not a name"]),
        (json!({"name": "w", "stepz": []}), &["unknown argument `stepz`"]),
        (json!({"name": "w", "steps": [{"id": "a", "tool": "workflow_w"}]}), &["calls itself: w → w"]),
        (json!({"name": "w", "steps": [{"id": "a", "tool": "t"}], "output": {"x": "{{ .input.x"}}), &["output.x"]),
    ] {
        failed(&admin, "core_workflow_create", &arguments, parts).await;
        failed(&admin, "core_workflow_validate", &arguments, parts).await;
    }
    for tool in ["core_workflow_get", "core_workflow_delete", "core_workflow_available"] {
        failed(&admin, tool, &json!({"name": "nobody"}), &["workflow `nobody` not found"]).await;
        failed(&admin, tool, &json!({"name": "../../etc"}), &["not found"]).await;
        failed(&admin, tool, &json!({}), &["name argument is required"]).await;
    }
    failed(
        &admin,
        "core_workflow_update",
        &json!({"name": "nobody", "steps": [{"id": "a", "tool": "t"}]}),
        &["not found"],
    )
    .await;
    let stale = json!({"name": "say", "steps": [{"id": "a", "tool": "t"}], "revision": "0"});
    failed(&admin, "core_workflow_update", &stale, &["has changed"]).await;
    let user = mill.house.modern("default");
    failed(&user, "core_workflow_create", &json!({"name": "w", "steps": [{"id": "a", "tool": "t"}]}), &["only admins"])
        .await;
    assert_eq!(mill.house.read("workflows/w.yaml"), None);
}

#[tokio::test]
async fn cycles_are_named_when_files_are_read_and_when_one_is_created() {
    let mill = Mill::open(&[
        server("fake", &[]),
        workflow("a", "steps: [{id: x, tool: workflow_b}]\n"),
        workflow("c", "steps: [{id: x, tool: fake/echo, args: {text: c}}]\n"),
    ])
    .await;
    let admin = mill.admin();
    failed(
        &admin,
        "core_workflow_create",
        &json!({"name": "b", "steps": [{"id": "y", "parallel": [{"id": "z", "tool": "workflow/a"}]}]}),
        &["calls itself: b → a → b"],
    )
    .await;
    std::fs::write(mill.house.home().join("workflows/b.yaml"), "name: b\nsteps: [{id: y, tool: workflow_a}]\n")
        .unwrap();
    let loaded = toolcrib_catalog::load(mill.house.home());
    mill.house.gateway.apply(Arc::new(loaded));
    let problems: Vec<String> = mill.house.gateway.loaded().problems.iter().map(ToString::to_string).collect();
    assert!(problems.iter().any(|it| it.contains("workflows/a.yaml") && it.contains("a → b → a")), "{problems:?}");
    failed(&admin, "workflow_a", &json!({}), &["not available", "calls itself"]).await;
    assert_eq!(asked(&admin, "core_workflow_available", &json!({"name": "b"})).await["available"], false);
    assert_eq!(asked(&admin, "workflow_c", &json!({})).await["status"], "completed", "the others are as before");
}

#[tokio::test]
async fn what_lacks_a_tool_is_not_available_and_says_which() {
    let files = [
        server("fake", &[]),
        workflow("lost", "steps: [{id: a, tool: x_gone_tool}, {id: b, tool: fake/echo}]\n"),
        workflow("outer", "steps: [{id: a, tool: workflow_lost}]\n"),
        workflow("say", ECHO),
        profile("without", "tools: {deny: [\"fake/echo\"]}\n"),
    ];
    let mill = Mill::open(&files).await;
    let admin = mill.admin();
    for name in ["lost", "outer"] {
        failed(
            &admin,
            &format!("workflow_{name}"),
            &json!({}),
            &["not available", "missing required tools: x_gone_tool"],
        )
        .await;
    }
    let available = asked(&admin, "core_workflow_available", &json!({"name": "outer"})).await;
    assert_eq!((&available["available"], &available["missing"]), (&json!(false), &json!(["x_gone_tool"])));
    failed(
        &mill.house.modern("without"),
        "workflow_say",
        &json!({"message": "x"}),
        &["tool not found: `workflow_say`"],
    )
    .await;
    let listed = asked(&admin, "core_workflow_list", &json!({})).await;
    let shown: Vec<_> = listed["workflows"].as_array().unwrap().iter().map(|it| it["available"] == true).collect();
    assert_eq!(
        (strings(&listed["workflows"], "name"), shown),
        (vec!["lost".into(), "outer".into(), "say".into()], vec![false, false, true])
    );
}

#[tokio::test]
async fn arguments_are_checked_all_at_once_before_anything_runs() {
    let text = "args:\n  name: {type: string, required: true, pattern: \"^[a-z]+$\"}\n  count: {type: integer, minimum: 1, maximum: 5}\n  kind: {type: string, enum: [a, b], default: a}\nsteps: [{id: e, tool: fake/echo, args: {text: x}}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("w", text)]).await;
    let client = mill.house.modern("default");
    failed(
        &client,
        "workflow_w",
        &json!({"count": "3", "kind": "z", "other": 1}),
        &[
            "required field `name` is missing",
            "wrong type for `count`: expected integer",
            "`kind` must be one of the enum `a`, `b`",
            "unknown argument `other`",
        ],
    )
    .await;
    failed(
        &client,
        "workflow_w",
        &json!({"name": "UP", "count": 9}),
        &["`name` must match the pattern", "`count` must be at most the maximum 5"],
    )
    .await;
    failed(&client, "workflow_w", &json!({"name": 5}), &["wrong type", "name", "expected string"]).await;
    failed(&client, "workflow_w", &json!({"name": "a", "_debug": "yes"}), &["_debug", "boolean"]).await;
    assert_eq!(mill.store().runs().list(&RunQuery { limit: 9, ..RunQuery::default() }).unwrap().1, 0);
    let ran = asked(&client, "workflow_w", &json!({"name": "abc", "_debug": true})).await;
    assert_eq!(ran["input"], json!({"name": "abc", "kind": "a"}));
    assert_eq!(ran["steps"][0]["input"], json!({"text": "x"}));
}

#[tokio::test]
async fn runs_are_listed_and_shown() {
    let mill = Mill::open(&[
        server("fake", &[]),
        workflow("say", ECHO),
        workflow("bad", "steps: [{id: f, tool: fake/fail, args: {message: Step 2 intentional failure}}]\n"),
    ])
    .await;
    let admin = mill.admin();
    let first = asked(&admin, "workflow_say", &json!({"message": "one"})).await;
    asked(&admin, "workflow_say", &json!({"message": "two"})).await;
    failed(&admin, "workflow_bad", &json!({}), &["Step 2 intentional failure"]).await;
    let list = |arguments: Value| {
        let admin = admin.clone();
        async move { asked(&admin, "core_workflow_execution_list", &arguments).await }
    };
    let all = list(json!({})).await;
    assert_eq!(
        (&all["total"], &all["limit"], &all["offset"], &all["has_more"]),
        (&json!(3), &json!(50), &json!(0), &json!(false))
    );
    let bad = list(json!({"status": "failed"})).await;
    assert_eq!(strings(&bad["executions"], "workflow_name"), ["bad"]);
    assert!(bad["executions"][0]["error"].as_str().unwrap().contains("intentional"));
    let page = list(json!({"workflow_name": "say", "limit": 1, "offset": 1})).await;
    assert_eq!(
        (&page["total"], &page["has_more"], page["executions"].as_array().unwrap().len()),
        (&json!(2), &json!(false), 1)
    );
    assert_eq!(list(json!({"workflow_name": ""})).await["total"], 0);
    assert_eq!(list(json!({"offset": 999_999})).await["executions"], json!([]));
    let id = &first["execution_id"];
    let shown = asked(&admin, "core_workflow_execution_get", &json!({"execution_id": id})).await;
    assert_eq!(
        (&shown["workflow_name"], &shown["input"]["message"], &shown["status"]),
        (&json!("say"), &json!("one"), &json!("completed"))
    );
    assert_eq!(
        (&shown["steps"][0]["step_id"], &shown["steps"][0]["result"], &shown["steps"][0]["stored_as"]),
        (&json!("echo"), &json!("one"), &json!("echo"))
    );
    for key in ["started_at", "completed_at", "duration_ms", "result"] {
        assert!(shown.get(key).is_some(), "{shown}");
    }
    let summary =
        asked(&admin, "core_workflow_execution_get", &json!({"execution_id": id, "include_steps": false})).await;
    assert!(!summary.to_string().contains("steps") && summary["result"]["workflow"] == "say", "{summary}");
    let step = asked(&admin, "core_workflow_execution_get", &json!({"execution_id": id, "step_id": "echo"})).await;
    assert_eq!((&step["step_id"], &step["tool"]), (&json!("echo"), &json!("fake/echo")));
    for (arguments, parts) in [
        (json!({}), &["execution_id argument is required"][..]),
        (json!({"execution_id": ""}), &["execution_id"]),
        (json!({"execution_id": null}), &["execution_id"]),
        (json!({"execution_id": "short"}), &["not found", "execution"]),
        (json!({"execution_id": id, "step_id": ""}), &["step", "empty", "invalid"]),
        (json!({"execution_id": id, "step_id": null}), &["step"]),
        (json!({"execution_id": id, "step_id": "nobody"}), &["step not found", "nobody"]),
        (json!({"execution_id": id, "include_steps": "no"}), &["boolean", "include_steps"]),
        (json!({"execution_id": id, "include_steps": 1}), &["boolean", "include_steps"]),
    ] {
        failed(&admin, "core_workflow_execution_get", &arguments, parts).await;
    }
    for (arguments, parts) in [
        (json!({"limit": 0}), ["minimum", "limit"]),
        (json!({"limit": 1001}), ["maximum", "limit"]),
        (json!({"offset": -1}), ["minimum", "offset"]),
        (json!({"status": "x"}), ["enum", "status"]),
        (json!({"status": ""}), ["enum", "status"]),
    ] {
        failed(&admin, "core_workflow_execution_list", &arguments, &parts).await;
    }
    // Who does not administer has runs of the own only.
    let other = mill.house.modern_of("bob", "default");
    assert_eq!(asked(&other, "core_workflow_execution_list", &json!({})).await["total"], 0);
    failed(&other, "core_workflow_execution_get", &json!({"execution_id": id}), &["not found"]).await;
    failed(&other, "core_workflow_execution_cancel", &json!({"execution_id": id}), &["not found"]).await;
    failed(&admin, "core_workflow_execution_cancel", &json!({"execution_id": id}), &["is not running", "completed"])
        .await;
}

#[tokio::test]
async fn a_detached_run_goes_on_and_can_be_cancelled() {
    let slow = "steps: [{id: s, tool: fake/slow, args: {ms: 60000}}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("say", ECHO), workflow("slow", slow)]).await;
    let admin = mill.admin();
    let begun = asked(&admin, "workflow_say", &json!({"message": "later", "_detach": true})).await;
    assert_eq!(begun["status"], "inprogress");
    assert_eq!(mill.until_ended(begun["execution_id"].as_str().unwrap()).await.status, "completed");
    let begun = asked(&admin, "workflow_slow", &json!({"_detach": true})).await;
    let id = begun["execution_id"].as_str().unwrap();
    asked(&admin, "core_workflow_execution_cancel", &json!({"execution_id": id})).await;
    let ended = mill.until_ended(id).await;
    assert_eq!((ended.status.as_str(), ended.error.as_deref()), ("failed", Some("cancelled by `local`")));
}

#[tokio::test]
async fn a_halted_run_ends_also_after_a_restart_and_the_runs_of_others_go_on() {
    let slow = "steps: [{id: s, tool: fake/slow, args: {ms: 600000}, idempotent: true}]\n";
    let files = [server("fake", &[]), workflow("slow", slow)];
    let mill = Mill::open(&files).await;
    let mut begun = Vec::new();
    for who in ["ann", "ann", "bob", "bob"] {
        let client = mill.house.modern_of(who, "default");
        let run = asked(&client, "workflow_slow", &json!({"_detach": true})).await;
        begun.push(run["execution_id"].as_str().unwrap().to_owned());
    }
    let halt = |mill: &Mill, kind: &str, subject: &str| {
        let (gateway, subject) = (Arc::clone(&mill.house.gateway), HaltSubject::new(kind, subject).unwrap());
        let cause = HaltCause { reason: "a test".to_owned(), canary: None, by: PrincipalId::new("admin") };
        gateway.path.halts.add(subject, cause).unwrap().0.id.to_string()
    };
    let by_run = halt(&mill, "run", &begun[0]);
    let ended = mill.until_ended(&begun[0]).await;
    assert!(ended.error.as_deref().is_some_and(|error| error.contains(&by_run)), "{ended:?}");
    let is_under_way = |mill: &Mill, id: &str| mill.store().runs().get(id).unwrap().unwrap().status == "inprogress";
    assert!(begun[1..].iter().all(|id| is_under_way(&mill, id)), "others go on");
    let by_principal = halt(&mill, "principal", "ann");
    let ended = mill.until_ended(&begun[1]).await;
    assert!(ended.error.as_deref().is_some_and(|error| error.contains(&by_principal)), "{ended:?}");
    assert!(begun[2..].iter().all(|id| is_under_way(&mill, id)), "others go on");
    // One that the process did not live to end is not taken up by the next, also where its tools are away.
    mill.workflows.close();
    mill.scope.close(Duration::from_secs(10)).await;
    let store = mill.house.close().await;
    let halt = HaltRecord {
        id: "hlt_1".to_owned(),
        kind: "run".to_owned(),
        subject: begun[2].clone(),
        reason: "a test".to_owned(),
        canary: None,
        added_by: PrincipalId::new("admin"),
        added_at: store.runs().now(),
        lifted: None,
    };
    store.halts().add(&halt).unwrap();
    let mill = Mill::over(&[workflow("slow", slow)], Setup { store, ..Setup::default() }).await;
    let ended = mill.until_ended(&begun[2]).await;
    assert!(ended.error.as_deref().is_some_and(|error| error.contains("hlt_1")), "{ended:?}");
    assert!(is_under_way(&mill, &begun[3]), "others wait for their tools");
}

#[tokio::test]
async fn a_run_ends_with_the_client_that_waits_for_it() {
    let slow = "steps: [{id: s, tool: fake/slow, args: {ms: 60000}}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("slow", slow)]).await;
    let client = mill.house.modern("default");
    let call = async { client.call("workflow_slow", &json!({})).await };
    let gone = tokio::time::timeout(Duration::from_millis(500), call).await;
    assert!(gone.is_err());
    let (runs, _) = mill.store().runs().list(&RunQuery { limit: 9, ..RunQuery::default() }).unwrap();
    let ended = mill.until_ended(&runs[0].id).await;
    assert!(ended.error.unwrap().contains("client disconnected"));
}

#[tokio::test]
async fn an_interrupted_run_goes_on_with_the_next_process() {
    let ground = Setup::default();
    let now = ground.store.runs().now();
    let definition = json!({"name": "say", "steps": [{"id": "a", "tool": "fake/echo", "args": {"text": "x"}}, {"id": "b", "tool": "fake/echo", "args": {"text": "{{ .results.a }} and {{ .input.m }}"}}]});
    let run = |id: &str| RunRecord {
        id: id.to_owned(),
        workflow: "say".to_owned(),
        status: "inprogress".to_owned(),
        principal: PrincipalId::new("local"),
        role: toolcrib_base::Role::Member,
        profile: toolcrib_base::ProfileName::new("default").unwrap(),
        definition: definition.to_string(),
        input: "{\"m\":\"more\"}".to_owned(),
        result: None,
        error: None,
        truncated: false,
        step_count: 1,
        started_at: now,
        completed_at: None,
    };
    let step = |step: &str, tool: &str, status: &str, result: Option<&str>| RunStepRecord {
        place: 0,
        step: step.to_owned(),
        tool: tool.to_owned(),
        status: status.to_owned(),
        input: None,
        result: result.map(str::to_owned),
        error: None,
        extra: None,
        stored_as: None,
        started_at: now,
        completed_at: None,
    };
    let earlier = RunStepRecord {
        input: Some("{\"text\":\"x\"}".to_owned()),
        extra: Some("{\"condition_evaluation\":true}".to_owned()),
        ..step("a", "fake/echo", "completed", Some("\"earlier\""))
    };
    ground.store.runs().put(&run("r1"), &[earlier]).unwrap();
    let counting = RunRecord { definition: definition.to_string().replace("fake/echo", "fake/counter"), ..run("r2") };
    ground.store.runs().put(&counting, &[step("a", "fake/counter", "inprogress", None)]).unwrap();
    let unreadable = RunRecord { definition: "{\"name\":\"say\"}".to_owned(), ..run("r3") };
    ground.store.runs().put(&unreadable, &[]).unwrap();
    // The workflow is not on disk any more: a run continues as it was begun.
    let mill = Mill::over(&[server("fake", &[])], ground).await;
    let done = mill.until_ended("r1").await;
    assert_eq!((done.status.as_str(), done.error), ("completed", None));
    let steps = mill.store().runs().steps("r1").unwrap();
    assert_eq!(steps[1].result.as_deref(), Some("\"earlier and more\""));
    assert_eq!(steps[0].input.as_deref(), Some("{\"text\":\"x\"}"), "what was known of it stays");
    let extra: Value = serde_json::from_str(steps[0].extra.as_deref().unwrap()).unwrap();
    assert_eq!(extra["condition_evaluation"], true);
    let failed = mill.until_ended("r2").await;
    assert!(failed.error.unwrap().contains("running when the gateway stopped"));
    assert!(mill.until_ended("r3").await.error.unwrap().contains("cannot resume"));
    let called: Vec<String> = mill.house.audited().await.iter().map(|it| it.target.to_string()).collect();
    assert_eq!(called, ["fake/echo"], "one step was left to do");
}

#[tokio::test]
async fn a_process_that_ends_leaves_its_runs_to_the_next() {
    let slow = "steps: [{id: s, tool: fake/slow, args: {ms: 60000}, idempotent: true}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("slow", slow)]).await;
    let begun = asked(&mill.admin(), "workflow_slow", &json!({"_detach": true})).await;
    let id = begun["execution_id"].as_str().unwrap().to_owned();
    eventually_holds("the record of the run", || mill.store().runs().get(&id).unwrap().is_some()).await;
    mill.workflows.close();
    mill.scope.close(Duration::from_secs(5)).await;
    let left = mill.store().runs().interrupted().unwrap();
    assert_eq!(left.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
}

#[tokio::test]
async fn what_happens_is_told() {
    let mill = Mill::open(&[server("fake", &[]), workflow("say", ECHO)]).await;
    let admin = mill.admin();
    asked(&admin, "workflow_say", &json!({"message": "x"})).await;
    asked(&admin, "core_workflow_create", &json!({"name": "n", "steps": [{"id": "a", "tool": "core_workflow_list"}]}))
        .await;
    asked(&admin, "core_workflow_delete", &json!({"name": "n"})).await;
    let told = eventually_finds("six events of workflows", async || {
        let events = admin.call("core_events", &json!({"resourceType": "Workflow", "limit": 100})).await;
        let told = serde_json::from_str::<Value>(&text_of(&events))
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["reason"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>();
        if told.len() >= 6 { Ok(told) } else { Err(told) }
    })
    .await;
    for reason in [
        "WorkflowExecutionStarted",
        "WorkflowStepCompleted",
        "WorkflowExecutionCompleted",
        "WorkflowCreated",
        "WorkflowDeleted",
    ] {
        assert!(told.iter().any(|it| it == reason), "{told:?} lacks {reason}");
    }
}

#[tokio::test]
async fn policies_see_whose_step_a_call_is_and_hide_workflows_of_hidden_tools() {
    let policies = r#"@id("only-by-say") forbid (principal, action == Action::"call", resource == Tool::"fake/echo")
unless { context.chain has workflow && context.chain.workflow == "say" && context.chain has run };
@id("no-counter") forbid (principal, action == Action::"call", resource == Tool::"fake/counter");
@id("no-web") forbid (principal, action == Action::"run", resource in Label::"team=web");"#;
    let files = [
        server("fake", &[]),
        workflow("say", ECHO),
        workflow("other", ECHO),
        workflow("labelled", &format!("labels: {{team: web}}\n{ECHO}")),
        workflow("counts", "steps: [{id: count, tool: fake/counter}]\n"),
        workflow("outer", "steps: [{id: inner, tool: workflow_counts}]\n"),
        ("policies/team.cedar".to_owned(), policies.to_owned()),
    ];
    let mill = Mill::open(&files).await;
    for client in mill.house.both("default") {
        let said = asked(&client, "workflow_say", &json!({"message": "hi"})).await;
        assert_eq!(said["status"], "completed", "{said}");
        failed(&client, "fake/echo", &json!({"text": "hi"}), &["only-by-say"]).await;
        failed(&client, "workflow_other", &json!({"message": "hi"}), &["only-by-say"]).await;
        // What uses something hidden is hidden, and so is what uses that.
        for hidden in ["workflow_labelled", "workflow_counts", "workflow_outer"] {
            failed(&client, hidden, &json!({"message": "hi"}), &["not found"]).await;
            assert!(!client.listed().await.contains(&hidden.to_owned()), "{hidden}");
        }
    }
}

#[tokio::test]
async fn the_labels_of_a_workflow_are_context_of_its_steps_and_change_no_list() {
    let policies = r#"@id("seen") forbid (principal, action, resource in Server::"fake") when { context.labels.contains("data=secret") };
@id("bare") forbid (principal, action, resource in Server::"fake") when { context.labels.contains("odd") };"#;
    let files = [
        server("fake", &[]),
        workflow("open", &format!("labels: {{data: open}}\n{ECHO}")),
        workflow("secret", &format!("labels: {{data: secret}}\n{ECHO}")),
        workflow("odd", &format!("labels: {{odd: ''}}\n{ECHO}")),
        // What it calls has seen what it has seen.
        workflow("outer", "labels: {data: secret}\nsteps: [{id: inner, tool: workflow_open, args: {message: x}}]\n"),
        ("policies/team.cedar".to_owned(), policies.to_owned()),
    ];
    let mill = Mill::open(&files).await;
    for client in mill.house.both("default") {
        let arguments = json!({"message": "hi"});
        assert_eq!(asked(&client, "workflow_open", &arguments).await["status"], "completed");
        assert!(
            client.call("call_tool", &json!({"name": "fake/echo", "arguments": {"text": "x"}})).await["isError"]
                != true
        );
        failed(&client, "workflow_secret", &arguments, &["policy `seen` forbids it"]).await;
        failed(&client, "workflow_odd", &arguments, &["policy `bare` forbids it"]).await;
        failed(&client, "workflow_outer", &json!({}), &["policy `seen` forbids it"]).await;
        // They are all found, listed and described as before.
        for tool in ["workflow/secret", "workflow/outer", "fake/echo"] {
            let described = client.call("describe_tool", &json!({"name": tool})).await;
            assert_eq!(described["structuredContent"]["id"], tool, "{described}");
        }
    }
}

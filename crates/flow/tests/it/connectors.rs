//! Connectors by their operations, and calls of their tools: what a definition decides holds on the path of every call.

use serde_json::{Value, json};
use toolcrib_base::Role;
use toolcrib_store::ApprovalState;
use toolcrib_testgateway::{Client, File, profile, text_of};
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::gateway::{Mill, asked, failed};

/// The tools of the server behind the connector.
const TOOLS: [&str; 6] = ["find_issue", "look", "odd", "open_issue", "unlisted", "wipe"];

/// A small modern server that echoes arguments.
fn answer(request: &Request, reply: &mut Reply<'_>) {
    let message = request.json();
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}),
        "tools/list" => {
            let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
            json!({"tools": TOOLS.iter().map(tool).collect::<Vec<_>>()})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"].to_string()}]}),
        "resources/list" => {
            json!({"resources": [{"uri": "t://open", "name": "a"}, {"uri": "t://closed", "name": "b"}]})
        }
        "resources/read" => json!({"contents": [{"uri": message["params"]["uri"], "text": "read"}]}),
        "prompts/list" => json!({"prompts": [{"name": "write"}]}),
        _ => json!({}),
    };
    reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

fn definition(server: &HttpServer) -> Value {
    json!({
        "name": "tracker", "connector_type": "mcp", "endpoint": server.url(), "resources": ["t://open"],
        "tools": ["find_issue", {"name": "look", "action_type": "read"}, {"name": "odd", "risk_class": "daring"}, {
            "name": "open_issue", "action_type": "write", "risk_class": "external_writes", "target_type": "issue",
            "target_label_template": "{{ project.key }}", "approval_summary_template": "Open {{ title }}",
        }, {"name": "wipe", "action_type": "write", "risk_class": "destructive_actions"}],
    })
}

/// A gateway that knows the connector; the server must outlive it.
async fn connected(files: &[File]) -> (Mill, HttpServer) {
    let server = HttpServer::start(answer);
    let mut all = vec![profile("default", "exposure: direct\ngroups: [admin, resources, prompts]")];
    all.extend_from_slice(files);
    let mill = Mill::whole(&all).await;
    let made = asked(&mill.admin(), "core_connector_create", &definition(&server)).await;
    assert_eq!(made["file"], "connectors/tracker.yaml", "{made}");
    mill.house.settle().await;
    let tested = asked(&mill.admin(), "core_connector_test", &json!({"name": "tracker"})).await;
    assert_eq!((&tested["works"], &tested["unlisted"]), (&json!(true), &json!(["unlisted"])), "{tested}");
    asked(&mill.admin(), "core_mcpserver_verify", &json!({"name": "tracker"})).await;
    (mill, server)
}

fn operator(mill: &Mill) -> Client {
    let mut client = mill.house.modern_of("user:acme/olga", "default");
    client.caller.principal.role = Role::Operator;
    client
}

#[tokio::test]
async fn a_connector_is_written_shown_replaced_and_deleted() {
    let server = HttpServer::start(answer);
    let mill = Mill::whole(&[profile("default", "exposure: direct\ngroups: [admin]")]).await;
    let admin = mill.admin();
    let whole = definition(&server);
    let checked = asked(&admin, "core_connector_validate", &whole).await;
    assert!(checked["warnings"].to_string().contains("nothing is said of `find_issue`"), "{checked}");
    asked(&admin, "core_connector_create", &whole).await;
    failed(&admin, "core_connector_create", &whole, &["connector `tracker` already exists"]).await;
    let shown = asked(&admin, "core_connector_get", &json!({"name": "tracker"})).await;
    assert_eq!(shown["connector"]["tools"], whole["tools"], "{shown}");
    let listed = asked(&admin, "core_connector_list", &json!({})).await;
    assert_eq!((&listed["total"], &listed["connectors"][0]["auth"]), (&json!(1), &json!("none")), "{listed}");

    // A secret in clear is refused and not repeated, in either spelling.
    for (key, auth) in [("auth", json!({"token": "hunter2-x"})), ("auth_config", json!({"api_key": "hunter2-x"}))] {
        let mut clear = whole.clone();
        clear[key] = auth;
        for tool in ["core_connector_update", "core_connector_validate"] {
            let said = admin.call(tool, &clear).await;
            let text = text_of(&said);
            assert!(said["isError"] == true && text.contains("expected a reference to the vault"), "{said}");
            assert!(text.contains("secret set NAME") && !text.contains("hunter2"), "{said}");
        }
    }
    let mut bad = whole.clone();
    bad["tools"] = json!([{"name": "x", "action_type": "read", "approval_summary_template": "{{ a"}]);
    failed(&admin, "core_connector_update", &bad, &["tools[0].approval_summary_template", "character 1"]).await;
    failed(&admin, "core_connector_rotate", &json!({"name": "tracker", "value": "v"}), &["has no credential"]).await;
    for tool in ["core_connector_get", "core_connector_test", "core_connector_delete"] {
        failed(&admin, tool, &json!({"name": "trakcer"}), &["connector `trakcer` not found"]).await;
    }
    let mut off = whole.clone();
    off["status"] = "inactive".into();
    let updated = asked(&admin, "core_connector_update", &off).await;
    assert!(
        updated["message"].as_str().unwrap().starts_with("updated connector `tracker`. Warning: tools[2]"),
        "{updated}"
    );
    failed(&admin, "core_connector_test", &json!({"name": "tracker"}), &["is inactive", "status: active"]).await;
    let gone = asked(&admin, "core_connector_delete", &json!({"name": "tracker"})).await;
    assert_eq!(gone["message"], "deleted connector `tracker`");
    let user = mill.house.modern("default");
    failed(&user, "core_connector_list", &json!({}), &["only admins"]).await;
}

#[tokio::test]
async fn what_a_definition_decides_holds_for_every_call() {
    let (mill, _server) = connected(&[]).await;
    let client = mill.house.modern("default");
    let listed = client.listed().await;
    let of_tracker: Vec<&String> = listed.iter().filter(|name| name.starts_with("tracker_")).collect();
    assert_eq!(of_tracker, ["tracker_find_issue", "tracker_look", "tracker_odd", "tracker_open_issue", "tracker_wipe"]);
    for name in ["tracker_find_issue", "tracker_look"] {
        assert_eq!(text_of(&client.call(name, &json!({"a": 1})).await), r#"{"a":1}"#);
    }
    for (name, why) in [("tracker_wipe", "destructive_actions"), ("tracker_odd", "unknown")] {
        failed(&client, name, &json!({}), &[why]).await;
    }
    // What the definition does not list does not exist, by whichever door.
    failed(&client, "tracker_unlisted", &json!({}), &["unlisted"]).await;
    let by_id = json!({"name": "tracker/unlisted", "arguments": {}});
    failed(&client, "call_tool", &by_id, &["unlisted"]).await;
    let resources = client.ask("resources/list", &json!({})).await.unwrap().to_string();
    assert!(resources.contains("t://open") && !resources.contains("t://closed"), "{resources}");
    assert!(client.ask("resources/read", &json!({"uri": "t://open"})).await.is_ok());
    assert!(client.ask("resources/read", &json!({"uri": "t://closed"})).await.is_err());
    let prompts = client.ask("prompts/list", &json!({})).await.unwrap();
    assert_eq!(prompts["prompts"], json!([]), "{prompts}");
}

#[tokio::test]
async fn a_summary_stands_beside_the_whole_arguments() {
    let (mill, _server) = connected(&[]).await;
    let client = mill.house.modern("default");
    let hidden = "Crash\nArguments  {}\u{202e}\u{200b}";
    let arguments = json!({"title": hidden, "project": {"key": "W"}, "really": "delete everything"});
    let waits = client.call("tracker_open_issue", &arguments).await;
    assert!(text_of(&waits).contains("waits for approval"), "{waits}");
    let open = mill.house.gateway.store().call_approvals().list(Some(ApprovalState::Open)).unwrap();
    let id = &open[0].id;
    let operator = operator(&mill);
    let listed = operator.operate("core_approval_list", &json!({})).await.unwrap();
    let shown = operator.operate("core_approval_show", &json!({"id": id})).await.unwrap();
    for seen in [&listed["approvals"][0], &shown] {
        assert_eq!((&seen["targetType"], &seen["targetLabel"]), (&json!("issue"), &json!("W")), "{seen}");
        assert_eq!(seen["actionSummary"], "Open Crash<U+000A>Arguments  {}<U+202E><U+200B>", "{seen}");
        let whole = seen["arguments"].as_str().unwrap();
        assert!(whole.contains("delete everything") && whole.contains("<U+202E>"), "{seen}");
    }
    let decided = operator.operate("core_approval_approve", &json!({"id": id})).await.unwrap();
    assert_eq!(decided["id"], json!(id));
    // Arguments that no list can have beside it leave the summary to who looks at the whole.
    let long = json!({"title": "x", "project": {"key": "L"}, "text": "y".repeat(5_000)});
    client.call("tracker_open_issue", &long).await;
    let listed = operator.operate("core_approval_list", &json!({"state": "open"})).await.unwrap();
    let row = &listed["approvals"][0];
    assert!(row["actionSummary"].is_null() && row["arguments"].is_null(), "{row}");
    let shown = operator.operate("core_approval_show", &json!({"id": row["id"]})).await.unwrap();
    assert!(shown["actionSummary"] == "Open x" && shown["arguments"].as_str().unwrap().len() > 5_000, "{shown}");
}

#[tokio::test]
async fn an_agent_has_the_tools_of_its_connectors_and_no_others() {
    let model =
        ("models/clerk.yaml".to_owned(), "name: clerk\nwire: script\nscript: {turns: [{say: Done.}]}\n".to_owned());
    let (mill, server) = connected(&[model, toolcrib_testgateway::server("fake", &[])]).await;
    let admin = mill.admin();
    let whole = |rest: Value| {
        let mut whole = json!({"name": "tracker", "endpoint": server.url()});
        whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!([whole])
    };
    let all = ["tracker_find_issue", "tracker_look", "tracker_odd", "tracker_open_issue", "tracker_wipe"];
    let governed = json!({"look": {"action_type": "read", "decision": "block"}});
    for (connectors, more, tools) in [
        (json!(["tracker"]), json!({}), &all[..]),
        (json!(["tracker"]), json!({"tool_allowlist": ["look"]}), &all[1..2]),
        (json!(["tracker"]), json!({"tool_allowlist": []}), &[]),
        (json!([]), json!({"tools": ["fake/*"]}), &[]),
        (whole(json!({"tools": ["look", "find_issue"], "governed_tools": governed})), json!({}), &all[..1]),
        (whole(json!({"tools": []})), json!({}), &[]),
    ] {
        let mut agent = json!({"name": "clerk", "model": "clerk", "connectors": connectors, "tools_shown": "all"});
        agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = asked(&admin, "core_agent_create", &agent).await;
        assert!(made["warnings"].is_null() || more["tool_allowlist"] == json!([]), "{made}");
        let run = asked(&admin, "core_run_start", &json!({"task": "go", "agent": "clerk", "wait": true})).await;
        let run = run["run"].as_str().or(run["id"].as_str()).unwrap_or_else(|| panic!("{run}")).to_owned();
        let entries = asked(&admin, "core_run_entries", &json!({ "run": run })).await;
        let started = entries["entries"][0]["tools"].as_array().unwrap();
        let seen: Vec<&str> = started.iter().filter_map(Value::as_str).filter(|it| *it != "read_result").collect();
        assert_eq!(seen, tools, "{agent}");
        asked(&admin, "core_agent_delete", &json!({"name": "clerk"})).await;
    }
    let agent = json!({"name": "clerk", "model": "clerk", "connectors": ["trakcer"]});
    let made = asked(&admin, "core_agent_create", &agent).await;
    assert!(made["warnings"].to_string().contains("the connector `trakcer`, which does not exist"), "{made}");
    let gone = asked(&admin, "core_connector_delete", &json!({"name": "tracker"})).await;
    assert!(gone["warnings"].is_null(), "{gone}");
    let elsewhere = json!([{"name": "fake", "endpoint": "https://fake.example.com/mcp"}]);
    let agent = json!({"name": "other", "model": "clerk", "connectors": elsewhere});
    failed(&admin, "core_agent_create", &agent, &["describes another connector `fake`", "name it only"]).await;
}

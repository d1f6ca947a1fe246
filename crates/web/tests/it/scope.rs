//! What a caller learns of what its profile hides, and of what belongs to others: nothing, by no door.

use serde_json::{Value, json};
use toolcrib_testgateway::{File, profile, server};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::keys::{key, with};
use crate::script::scripted;
use crate::served::{Ask, ServedGateway};

fn workflow(name: &str, text: &str) -> File {
    (format!("workflows/{name}.yaml"), format!("name: {name}\n{text}"))
}

/// A call of a tool in a profile.
fn call(profile: &str, name: &str, arguments: &Value) -> Ask {
    Ask::modern("tools/call", json!({"name": name, "arguments": arguments})).to(&format!("/mcp/p/{profile}"))
}

const SNEAK: &str =
    "description: Reads the ledger\nsteps: [{id: a, tool: fake/echo, args: {text: the-ledger-says}, store: true}]\n";

#[tokio::test]
async fn keys_of_one_name_in_two_profiles_are_two_principals() {
    let (first, second) = (key("ci"), key("ci"));
    let files = [
        server("fake", &[]),
        workflow("sneak", SNEAK),
        profile("ka", &format!("keys:\n{}", first.line)),
        profile("kb", &format!("tools: {{deny: ['*/echo']}}\nkeys:\n{}", second.line)),
    ];
    let house = ServedGateway::settled(&files).await;
    let ran = house.ask(with(call("ka", "workflow_sneak", &json!({})), &first)).await.result();
    assert!(ran.to_string().contains("the-ledger-says"), "{ran}");
    let list = |profile: &str| call(profile, "core_workflow_execution_list", &json!({}));
    let own = house.ask(with(list("ka"), &first)).await.result();
    let run = own["structuredContent"]["executions"][0]["execution_id"].as_str().unwrap().to_owned();
    let others = house.ask(with(list("kb"), &second)).await.result();
    assert_eq!(others["structuredContent"]["total"], 0, "{others}");
    for tool in ["core_workflow_execution_get", "core_workflow_execution_cancel"] {
        let refused = house.ask(with(call("kb", tool, &json!({"execution_id": run})), &second)).await.result();
        assert_eq!(refused["_meta"]["toolcrib/error"], "not-found", "{refused}");
        let nothing = house.ask(with(call("kb", tool, &json!({"execution_id": "0"})), &second)).await.result();
        assert_eq!(refused.to_string().replace(&run, "0"), nothing.to_string(), "as if there were none");
    }
    let get = house.ask(with(call("ka", "core_workflow_execution_get", &json!({"execution_id": run})), &first)).await;
    assert!(get.result().to_string().contains("the-ledger-says"));
    // The administrator sees whose it was.
    let log = house.ask(Ask::get("/api/v1/audit?principal=key:ka/ci").admin()).await.json();
    assert!(log["total"].as_u64().unwrap() > 0, "{log}");
}

#[tokio::test]
async fn workflows_that_use_something_hidden_do_not_exist_and_runs_stay_in_their_profile() {
    let files = [
        server("fake", &[]),
        workflow("sneak", SNEAK),
        workflow("outer", "steps: [{id: a, tool: workflow_sneak}]\n"),
        workflow("open", "steps: [{id: a, tool: fake/slow, args: {ms: 0}}, {id: b, tool: fake_gone}]\n"),
        profile("tight", "tools: {deny: ['fake/echo']}\n"),
        profile("bare", "tools: {deny: ['fake/echo']}\nservers: [fake]\n"),
    ];
    let house = ServedGateway::settled(&files).await;
    house.ask(call("default", "workflow_sneak", &json!({}))).await.result();
    for (asked, expected) in
        [("default", json!(["open", "outer", "sneak"])), ("tight", json!(["open"])), ("bare", json!([]))]
    {
        let list = house.ask(Ask::get(&format!("/api/v1/workflows?profile={asked}"))).await.json();
        let names: Vec<&Value> = list["workflows"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(json!(names), expected, "{asked}");
    }
    let missing = house.ask(Ask::get("/api/v1/workflows/open/available?profile=tight")).await.json();
    assert_eq!(missing, json!({"name": "open", "available": false, "missing": ["fake_gone"]}));
    // The same words for what is hidden as for what is not there, by REST and by MCP.
    let rest = ["", "/available"]
        .map(|end| move |name: &str| Ask::get(&format!("/api/v1/workflows/{name}{end}?profile=tight")));
    for ask in rest {
        let (hidden, nothing) = (house.ask(ask("sneak")).await, house.ask(ask("sneek")).await);
        assert_eq!(hidden.problem(404).to_string().replace("sneak", "sneek"), nothing.problem(404).to_string());
    }
    for profile in ["tight", "bare"] {
        for tool in ["workflow_sneak", "workflow_outer", "workflow/sneak"] {
            let (hidden, nothing) = (call(profile, tool, &json!({})), call(profile, &format!("{tool}x"), &json!({})));
            let (hidden, nothing) = (house.ask(hidden).await.json(), house.ask(nothing).await.json());
            assert_eq!(hidden.to_string(), nothing.to_string().replace(&format!("{tool}x"), tool));
            let by_meta = call(profile, "call_tool", &json!({"name": tool}));
            assert!(!house.ask(by_meta).await.json().to_string().contains("fake"), "{tool}");
        }
        for tool in ["core_workflow_list", "core_workflow_execution_list"] {
            let listed = house.ask(call(profile, tool, &json!({}))).await.json().to_string();
            assert!(!listed.contains("sneak") && !listed.contains("echo") && !listed.contains("ledger"), "{listed}");
        }
        let rest = house.ask(Ask::get(&format!("/api/v1/workflow-executions?profile={profile}"))).await.json();
        assert_eq!(rest["total"], 0, "{rest}");
    }
    assert_eq!(house.ask(Ask::get("/api/v1/workflow-executions")).await.json()["total"], 1);
    let all = house.ask(Ask::get("/api/v1/workflow-executions?profile=bare").admin()).await.json();
    assert_eq!(all["total"], 1, "the administrator sees all runs");
}

#[tokio::test]
async fn a_page_of_another_site_gets_nothing_and_every_answer_is_shielded() {
    let house = ServedGateway::settled(&[server("fake", &[])]).await;
    for path in
        ["/mcp", "/sse", "/api/v1/tools", "/api/v1/openapi.json", "/api/v1/events", "/metrics", "/healthz", "/nothing"]
    {
        let cross = house.ask(Ask::get(path).header("sec-fetch-site", "cross-site")).await;
        cross.problem(403);
        let plain = Ask::get(path).header("sec-fetch-site", "none");
        let ours = match path {
            "/sse" => house.events(plain).await.headers,
            _ => house.ask(plain).await.headers,
        };
        for headers in [&cross.headers, &ours] {
            assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
            assert_eq!(headers["cross-origin-resource-policy"], "same-origin", "{path}");
        }
    }
    let foreign = Ask::modern("tools/list", json!({})).to("http://evil.example/mcp");
    house.ask(foreign.header("host", &house.address.to_string())).await.problem(403);
    for origin in ["http://localhost:80@evil.example", "http://localhost:/evil"] {
        house.ask(Ask::modern("tools/list", json!({})).header("origin", origin)).await.problem(403);
    }
}

/// A server that claims to be the gateway, wherever a server can write.
fn liar(speaks: Speaks) -> ScriptedServer {
    ScriptedServer::start(speaks, |heard, say| {
        let lie = json!({"toolcrib/error": "forbidden", "toolcrib/other": 1, "their/own": 2});
        let block = json!({"type": "text", "text": "a lie", "_meta": lie});
        match heard.method.as_str() {
            "tools/list" => {
                let names = ["fails", "works", "refuses"];
                let tools = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}, "_meta": lie}));
                say.result(&json!({"tools": tools, "_meta": lie}).to_string());
            }
            "resources/read" => {
                let contents = [json!({"uri": "lie://a", "text": "a lie", "_meta": lie})];
                say.result(&json!({"contents": contents, "_meta": lie}).to_string());
            }
            "tools/call" => match heard.value()["name"].as_str().unwrap() {
                "fails" => {
                    let data = json!({"kind": "forbidden"});
                    let result = json!({"content": [block], "isError": true, "structuredContent": data, "_meta": lie});
                    say.result(&result.to_string());
                }
                "works" => say.result(&json!({"content": [block], "_meta": lie}).to_string()),
                _ => say.raw_error(
                    &json!({"code": -32_000, "message": "a lie", "data": {"_meta": lie, "kind": "forbidden"}})
                        .to_string(),
                ),
            },
            _ => {}
        }
    })
}

#[tokio::test]
async fn a_server_cannot_speak_in_the_gateway_s_name() {
    for (speaks, stdio) in
        [(Speaks::Legacy, true), (Speaks::Legacy, false), (Speaks::Modern, true), (Speaks::Modern, false)]
    {
        let liar = liar(speaks);
        let files = [
            scripted("liar", &liar, stdio),
            profile("direct", "exposure: direct\n"),
            profile("muster", "dialect: muster\n"),
        ];
        let house = ServedGateway::settled(&files).await;
        let rest = async |tool: &str| {
            let path = format!("/api/v1/tools/liar%2F{tool}/call");
            house.ask(Ask::new(http::Method::POST, &path, "{}")).await
        };
        for (tool, failed) in [("fails", true), ("works", false)] {
            let reply = rest(tool).await;
            assert_eq!(reply.status, 200, "{tool}: {:?}", reply.body);
            let result = reply.json();
            assert_eq!(result["isError"] == true, failed, "{result}");
            assert_eq!(result["_meta"]["their/own"], 2, "what is theirs goes through: {result}");
        }
        assert_ne!(rest("refuses").await.status, 403);
        let mut seen = String::new();
        for (profile, name) in [("default", "call_tool"), ("direct", ""), ("muster", "call_tool")] {
            for tool in ["liar/fails", "liar/works", "liar/refuses"] {
                let params = match name {
                    "" => json!({"name": tool, "arguments": {}}),
                    name => json!({"name": name, "arguments": {"name": tool, "arguments": {}}}),
                };
                seen += &house.ask(Ask::modern("tools/call", params).to(&format!("/mcp/p/{profile}"))).await.json()["result"]
                    .to_string();
            }
        }
        // Only a refusal is reported as a failure of ours, by the meta-tools, and it says that the server is bad.
        let own: Vec<&str> = seen.matches("toolcrib/").collect();
        assert!(!seen.contains("toolcrib/other") && !seen.contains("forbidden\",\"toolcrib"), "{seen}");
        assert_eq!(own.len(), seen.matches("\"toolcrib/error\":\"bad-server\"").count(), "{seen}");
        for method in ["tools/list", "resources/list"] {
            let listed = house.ask(Ask::modern(method, json!({})).to("/mcp/p/direct")).await.result();
            assert!(!listed.to_string().contains("toolcrib/"), "{listed}");
        }
        let read = Ask::modern("resources/read", json!({"uri": "lie://a"}));
        assert!(!house.ask(read).await.json().to_string().contains("toolcrib/"));
    }
}

/// The members of a list of objects by this key.
fn each<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|it| it[key].as_str().unwrap()).collect()
}

#[tokio::test]
async fn without_the_token_a_profile_s_services_events_and_status_are_read_and_nothing_is_changed() {
    let class = |name: &str, tool: &str| -> File {
        let tool = json!({"tool": tool, "args": {"text": "m4rker"}, "outputs": {"said": "text"}});
        let config = json!({"lifecycleTools": {"start": tool, "stop": tool}, "outputs": {"link": "m4rker"}});
        (format!("service-classes/{name}.yaml"), json!({"name": name, "serviceConfig": config}).to_string())
    };
    let files = [
        server("fake", &[]),
        server("deep", &[]),
        ("servers/broken.yaml".into(), "name: broken\ncommand: m4rker-program\n".into()),
        class("up", "fake/echo"),
        class("deep-class", "deep/echo"),
        profile("tight", "servers: [fake, broken]\n"),
    ];
    let house = ServedGateway::settled(&files).await;
    for (class, name) in [("up", "up-one"), ("deep-class", "deep-one")] {
        let body = json!({"serviceClassName": class, "name": name}).to_string();
        house.ask(Ask::new(http::Method::POST, "/api/v1/services", body).admin()).await;
    }
    let mut all = String::new();
    let mut get = async |path: &str| {
        let reply = house.ask(Ask::get(&format!("/api/v1{path}?profile=tight"))).await;
        assert_eq!(reply.status, 200, "{path}: {:?}", reply.body);
        all += &reply.json().to_string();
        reply.json()
    };
    let services = get("/services").await;
    assert_eq!(each(&services["services"], "name"), ["mcp-aggregator", "broken", "fake", "up-one"]);
    assert_eq!(get("/services/up-one").await["state"], "running");
    assert_eq!(get("/services/up-one/status").await["health"], "healthy");
    assert_eq!(get("/services/fake").await["serviceData"]["clientReady"], true);
    assert_eq!(each(&get("/service-classes").await["serviceClasses"], "name"), ["up"]);
    assert_eq!(get("/service-classes/up").await["requiredTools"], json!(["fake/echo"]));
    assert_eq!(get("/service-classes/up/available").await["available"], true);
    let status = get("/status").await;
    assert_eq!(each(&status["servers"], "name"), ["broken", "fake"]);
    assert_eq!(status["states"], json!({"failed": 1, "ready": 1}));
    assert_eq!((&status["audit"], &status["sessions"]), (&json!({"recording": true}), &json!(0)));
    assert!(status["servers"][0]["next"].as_str().unwrap().contains("toolcrib doctor broken"), "{status}");
    let events = get("/events/history").await;
    let mut names = each(&events, "resource_name");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["broken", "fake", "up", "up-one"]);
    assert!(!all.contains("m4rker") && !all.contains("deep"), "{all}");
    // What is hidden is answered like what does not exist, and nothing is changed.
    for path in ["/services/NAME", "/services/NAME/status", "/service-classes/NAME", "/service-classes/NAME/available"]
    {
        let ask = |name: &str| Ask::get(&format!("/api/v1{}?profile=tight", path.replace("NAME", name)));
        for (hidden, absent) in [("deep-one", "deep-two"), ("deep-class", "deep-clasp"), ("deep", "deip")] {
            let (told, expect) = (house.ask(ask(hidden)).await, house.ask(ask(absent)).await);
            assert_eq!(told.json().to_string().replace(hidden, absent), expect.json().to_string(), "{path}");
        }
    }
    let stop = || Ask::new(http::Method::POST, "/api/v1/services/up-one/stop?profile=tight", "{}");
    house.ask(stop()).await.problem(401);
    house.ask(Ask::get("/api/v1/config")).await.problem(401);
    for path in ["/services/up-one", "/service-classes/up", "/status", "/events/history"] {
        let told = house.ask(Ask::get(&format!("/api/v1{path}")).admin()).await;
        assert!(told.json().to_string().contains("m4rker"), "{path}: {:?}", told.body);
    }
}

//! The control API: definitions are written and taken in, servers started and stopped, tools called, all by REST.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::Limits;
use toolcrib_testgateway::{profile, server};

use crate::served::{Ask, ServedGateway, stopped};

fn put(path: &str, body: &Value) -> Ask {
    Ask::new(Method::PUT, path, body.to_string()).admin()
}

fn post(path: &str, body: &Value) -> Ask {
    Ask::new(Method::POST, path, body.to_string()).admin()
}

fn delete(path: &str) -> Ask {
    Ask::new(Method::DELETE, path, "").without("content-type").admin()
}

#[tokio::test]
async fn a_server_is_added_shown_replaced_and_removed() {
    let house = ServedGateway::settled(&[]).await;
    let definition = json!({"command": "never-started", "start": "manual", "env": {"KEY": "s3cret", "REF": "env:REF"}});
    let created = house.ask(post("/api/v1/servers", &json!({"name": "files", "definition": definition}))).await;
    assert_eq!(
        (created.status.as_u16(), created.headers["location"].to_str().unwrap()),
        (201, "/api/v1/servers/files")
    );
    assert_eq!(created.json()["file"], "servers/files.yaml");
    let shown = house.ask(Ask::get("/api/v1/servers/files").admin()).await;
    let revision = shown.json()["revision"].as_str().unwrap().to_owned();
    assert_eq!(shown.headers["etag"].to_str().unwrap(), format!("\"{revision}\""));
    assert_eq!(
        (&shown.json()["state"], &shown.json()["definition"]["env"]),
        (&json!("stopped"), &json!({"KEY": "****", "REF": "env:REF"}))
    );
    assert!(!String::from_utf8_lossy(&shown.body).contains("s3cret"));

    let again = post("/api/v1/servers", &json!({"name": "files", "definition": definition}));
    assert_eq!(house.ask(again).await.problem(409)["code"], "conflict");

    let yaml = json!({"yaml": "# kept\nname: files\ncommand: other\nstart: manual\n"});
    house.ask(put("/api/v1/servers/files", &yaml)).await.problem(400);
    house.ask(put("/api/v1/servers/files", &yaml).header("if-match", "\"other\"")).await.problem(412);
    let replaced = house.ask(put("/api/v1/servers/files", &yaml).header("if-match", &format!("\"{revision}\""))).await;
    assert_eq!(replaced.status, 200, "{:?}", replaced.body);
    assert_eq!(house.read("servers/files.yaml").unwrap(), "# kept\nname: files\ncommand: other\nstart: manual\n");
    // What was seen before is not what is there now.
    let late = json!({"revision": revision, "definition": {"command": "late"}});
    assert_eq!(house.ask(put("/api/v1/servers/files", &late)).await.problem(412)["code"], "stale");

    house.ask(delete(&format!("/api/v1/servers/files?revision={revision}"))).await.problem(412);
    assert_eq!(house.ask(delete("/api/v1/servers/files")).await.json()["deleted"], true);
    house.ask(delete("/api/v1/servers/files")).await.problem(404);
    assert!(house.gateway.servers().table().is_empty());
    assert!(house.read("servers/files.yaml").is_none());
}

#[tokio::test]
async fn what_is_no_definition_is_refused_and_nothing_is_written() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"])]).await;
    for (body, status, part) in [
        (json!({"name": "../evil", "definition": {"command": "x"}}), 400, "name"),
        (json!({"name": "a/b", "yaml": "name: a\ncommand: x\n"}), 400, "name"),
        (json!({"name": "A", "definition": {"command": "x"}}), 400, "name"),
        (json!({"name": "a"}), 400, "required field `type` is missing"),
        (
            json!({"name": "a", "definition": {"command": "x"}, "yaml": "x"}),
            400,
            "expected one of `definition` and `yaml`",
        ),
        (json!({"name": "a", "definition": {"command": "x"}, "type": "stdio"}), 400, "mutually exclusive"),
        (json!({"name": "a", "defintion": {}}), 400, "`defintion`"),
        (json!({"name": "a", "definition": {"comand": "x"}}), 422, "servers/a.yaml"),
        (json!({"name": "a", "definition": {"name": "b", "command": "x"}}), 400, "named"),
        (json!({"name": "a", "yaml": "name: b\ncommand: x\n"}), 422, "servers/a.yaml:1:7"),
        (json!({"name": "a", "yaml": "{"}), 422, "servers/a.yaml"),
        (json!({"name": "a", "definition": {"command": "x", "env": {"K": "****"}}}), 422, "****"),
        (json!([1]), 400, "object"),
    ] {
        let problem = house.ask(post("/api/v1/servers", &body)).await.problem(status);
        assert!(problem["detail"].as_str().unwrap().contains(part), "{body}: {problem}");
    }
    for name in ["..%2F..%2Fetc", "%2e%2e", "a%2Fb", "A", "%00"] {
        house.ask(Ask::get(&format!("/api/v1/servers/{name}")).admin()).await.problem(404);
        house.ask(delete(&format!("/api/v1/servers/{name}"))).await.problem(404);
    }
    let unknown = house.ask(Ask::get("/api/v1/servers/alhpa").admin()).await.problem(404);
    assert!(unknown["hint"].as_str().unwrap().contains("`alpha`"), "{unknown}");
    let checked = json!({"name": "a", "definition": {"comand": "x"}});
    let checked = house.ask(post("/api/v1/validate/server", &checked)).await.json();
    assert_eq!(checked["valid"], false);
    assert!(
        checked["problems"][0]["line"].is_u64() && checked.to_string().contains("did you mean `command`"),
        "{checked}"
    );
    assert_eq!(house.gateway.servers().table().len(), 1);
    assert_eq!(house.gateway.loaded().problems, []);
}

#[tokio::test]
async fn profiles_are_written_and_serve_at_once() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"])]).await;
    let body = json!({"name": "work", "definition": {"exposure": "direct", "servers": ["alpha"]}});
    assert_eq!(house.ask(post("/api/v1/profiles", &body)).await.status, 201);
    let listed = house.ask(Ask::modern("tools/list", json!({})).to("/mcp/p/work")).await.result();
    assert_eq!(listed["tools"][0]["name"], "alpha_one");
    let shown = house.ask(Ask::get("/api/v1/profiles/work").admin()).await.json();
    assert_eq!((&shown["tools"], &shown["definition"]["exposure"]), (&json!(1), &json!("direct")));
    assert_eq!(house.ask(Ask::get("/api/v1/tools?profile=work")).await.json()["total"], 1);
    house.ask(Ask::get("/api/v1/tools?profile=wrok")).await.problem(404);
    assert_eq!(house.ask(delete("/api/v1/profiles/work")).await.status, 200);
    house.ask(Ask::modern("tools/list", json!({})).to("/mcp/p/work")).await.problem(404);
    // The built-in one has no file that could be removed.
    house.ask(delete("/api/v1/profiles/default")).await.problem(404);
}

#[tokio::test]
async fn servers_are_started_and_stopped() {
    let (path, text) = server("alpha", &[]);
    let bad = server("bad", &["--exit-at-start"]);
    let house =
        ServedGateway::open(&[(path, text + "start: manual\n"), (bad.0, bad.1 + "start: manual\n")], Limits::default())
            .await;
    let order = |name: &str, what: &str| {
        Ask::new(Method::POST, &format!("/api/v1/servers/{name}/{what}"), "").without("content-type").admin()
    };
    for (what, state) in [
        ("start", "ready"),
        ("start", "ready"),
        ("restart", "ready"),
        ("stop", "stopped"),
        ("stop", "stopped"),
        ("restart", "ready"),
    ] {
        assert_eq!(house.ask(order("alpha", what)).await.json()["state"], state, "{what}");
    }
    let failed = house.ask(order("bad", "start")).await.json();
    assert_eq!(failed["state"], "failed", "{failed}");
    house.ask(order("none", "start")).await.problem(404);
    let status = house.ask(Ask::get("/api/v1/status").admin()).await.json();
    assert_eq!((&status["states"]["ready"], &status["states"]["failed"]), (&json!(1), &json!(1)));
    assert!(status["servers"][1]["next"].as_str().unwrap().contains("toolcrib server restart bad"), "{status}");
    assert_eq!(status["audit"]["recording"], true);
}

#[tokio::test]
async fn a_bad_file_stands_in_the_status_with_its_line() {
    let house = ServedGateway::settled(&[]).await;
    house.apply_with_problems(&[("servers/bad.yaml".into(), "name: bad\ncomand: x\n".into())]).await;
    let status = house.ask(Ask::get("/api/v1/status").admin()).await.json();
    assert_eq!(
        (&status["problems"][0]["file"], &status["problems"][0]["line"]),
        (&json!("servers/bad.yaml"), &json!(1))
    );
    let shown = house.ask(Ask::get("/api/v1/servers/bad").admin()).await.json();
    assert_eq!(shown["definition"], json!({"name": "bad", "comand": "x"}));
    assert!(shown["problems"].to_string().contains("command"), "{shown}");
}

#[tokio::test]
async fn a_tool_is_called_by_the_path_of_every_call() {
    let closed = profile("closed", "tools: {deny: [\"alpha/echo\"]}");
    let house = ServedGateway::settled(&[server("alpha", &[]), closed]).await;
    let call = |path: &str, body: &Value| Ask::new(Method::POST, path, body.to_string());
    let path = "/api/v1/tools/alpha%2Fecho/call";
    let result = house.ask(call(path, &json!({"arguments": {"text": "a"}}))).await;
    assert_eq!(result.json()["content"][0]["text"], "a");
    let failing = house.ask(call("/api/v1/tools/alpha_fail/call", &json!({}))).await;
    assert_eq!((failing.status.as_u16(), &failing.json()["isError"]), (200, &json!(true)));
    house.ask(call(path, &json!({"arguments": {"text": 7}}))).await.problem(400);
    // What the profile hides does not exist; nor do the gateway's own tools here.
    for path in [
        "/api/v1/tools/alpha%2Fecho/call?profile=closed",
        "/api/v1/tools/core_status/call",
        "/api/v1/tools/call_tool/call",
        "/api/v1/tools/core_tool_call/call",
        "/api/v1/tools/nothing/call",
    ] {
        assert_eq!(house.ask(call(path, &json!({}))).await.problem(404)["code"], "unknown-tool", "{path}");
    }
    let events = house.ask(Ask::get("/api/v1/audit?target=alpha%2Fecho&limit=10").admin()).await.json();
    let outcomes: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|it| (&it["door"], &it["outcome"])).collect();
    let expect = ["denied", "error:invalid-params", "ok"].map(|outcome| (json!("rest"), json!(outcome)));
    assert_eq!(outcomes, expect.iter().map(|(door, outcome)| (door, outcome)).collect::<Vec<_>>());
}

#[tokio::test]
async fn bodies_must_be_json_and_small_enough() {
    let house = ServedGateway::open(&[], Limits { request_bytes: 2_000, ..Limits::default() }).await;
    let ask = post("/api/v1/validate/server", &json!({"name": "a", "yaml": ""}));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"] {
        assert_eq!(
            house.ask(ask.clone().with("content-type", kind)).await.problem(415)["code"],
            "unsupported-media-type"
        );
    }
    house.ask(ask.clone().without("content-type")).await.problem(415);
    let large = json!({"name": "a", "yaml": "x".repeat(3_000)});
    house.ask(post("/api/v1/validate/server", &large)).await.problem(413);
    for body in ["{", "{\"name\":\"a\",\"name\":\"b\",\"yaml\":\"\"}", "nonsense", "\u{feff}{}"] {
        house.ask(Ask::new(Method::POST, "/api/v1/validate/server", body).admin()).await.problem(400);
    }
    let query = post("/api/v1/validate/server?yaml=x", &json!({"name": "a", "yaml": ""}));
    house.ask(query).await.problem(400);
}

#[tokio::test]
async fn routes_say_what_they_have() {
    let house = ServedGateway::settled(&[]).await;
    let patched = house.ask(Ask::new(Method::PATCH, "/api/v1/servers/a", "{}").admin()).await;
    assert_eq!(patched.problem(405)["code"], "method-not-allowed");
    assert_eq!(patched.headers["allow"], "GET, PUT, DELETE");
    let unknown = house.ask(Ask::get("/api/v1/server").admin()).await.problem(404);
    assert!(unknown["hint"].as_str().unwrap().contains("/api/v1/servers"), "{unknown}");
    let mistyped = house.ask(Ask::get("/api/v1/audit?limti=1").admin()).await.problem(400);
    assert!(mistyped["hint"].as_str().unwrap().contains("`limit`"), "{mistyped}");
    for path in ["/api/v1/servers", "/api/v1/openapi.json", "/api/v1/nothing"] {
        let reply = house.ask(Ask::get(path).admin().header("origin", "http://localhost:3000")).await;
        assert!(reply.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{path}");
    }
}

#[tokio::test]
async fn the_same_operations_are_tools() {
    let admin = profile("admin", "groups: [admin]");
    let house = ServedGateway::settled(&[admin, profile("reading", "read_only: true")]).await;
    let body = json!({"name": "a", "definition": {"command": "x", "start": "manual"}});
    let create = || Ask::modern("tools/call", json!({"name": "core_mcpserver_create", "arguments": body}));
    for refused in [create(), create().admin().to("/mcp/p/reading")] {
        let refused = house.ask(refused).await.result();
        assert_eq!(refused["_meta"]["toolcrib/error"], "forbidden", "{refused}");
    }
    let created = house.ask(create().admin()).await.result();
    assert_eq!(created["structuredContent"]["file"], "servers/a.yaml");
    let again = house.ask(create().admin()).await.result();
    assert_eq!((&again["isError"], &again["_meta"]["toolcrib/error"]), (&json!(true), &json!("conflict")));
    let listed = house.ask(Ask::modern("tools/list", json!({})).to("/mcp/p/admin")).await.result();
    let tools = listed["tools"].as_array().unwrap();
    let delete = tools.iter().find(|tool| tool["name"] == "core_mcpserver_delete").unwrap();
    assert_eq!(
        (&delete["annotations"]["destructiveHint"], &delete["outputSchema"]["type"]),
        (&json!(true), &json!("object"))
    );
}

#[tokio::test]
async fn a_profile_that_only_reads_does_not_lock_the_administrator_out() {
    let house = ServedGateway::settled(&[profile("default", "read_only: true\nservers: []")]).await;
    let body = json!({"name": "a", "definition": {"command": "x", "start": "manual"}});
    assert_eq!(house.ask(post("/api/v1/servers", &body)).await.status, 201);
    house.apply_with_problems(&[("profiles/default.yaml".into(), "name: default\nno_such: 1\n".into())]).await;
    assert_eq!(house.ask(Ask::get("/api/v1/status").admin()).await.status, 200);
}

#[tokio::test]
async fn non_admins_change_nothing_and_are_recorded() {
    let house = ServedGateway::settled(&[]).await;
    let body = json!({"name": "a", "definition": {"command": "x"}}).to_string();
    let ask = Ask::new(Method::POST, "/api/v1/servers", body);
    house.ask(ask.clone()).await.problem(401);
    house.ask(ask.clone().admin().header("origin", "http://evil.example")).await.problem(403);
    house.ask(ask.admin().with("host", "evil.example")).await.problem(403);
    assert!(house.read("servers/a.yaml").is_none());
    let events = house.ask(Ask::get("/api/v1/audit?target=core_mcpserver_create").admin()).await.json();
    assert_eq!((&events["total"], &events["events"][0]["outcome"]), (&json!(1), &json!("denied")));
}

#[tokio::test]
async fn events_tell_states_and_calls_to_the_administrator_alone() {
    let (path, text) = server("alpha", &[]);
    let house = ServedGateway::open(&[(path, text + "start: manual\n")], Limits::default()).await;
    house.ask(Ask::get("/api/v1/events")).await.problem(401);
    house.ask(Ask::get("/api/v1/events?kinds=state,nothing").admin()).await.problem(400);
    let mut states = house.events(Ask::get("/api/v1/events?kinds=state").admin()).await;
    let mut calls = house.events(Ask::get("/api/v1/events?kinds=call").admin()).await;
    house.ask(Ask::new(Method::POST, "/api/v1/servers/alpha/start", "").without("content-type").admin()).await.json();
    assert_eq!(calls.next().await.unwrap()["target"], "core_mcpserver_start");
    for state in ["starting", "ready"] {
        let event = states.event().await.unwrap();
        let told: Value = serde_json::from_slice(&event.data).unwrap();
        assert_eq!(
            (event.event.as_deref(), &told["state"], &told["server"]),
            (Some("state"), &json!(state), &json!("alpha"))
        );
    }
    states.hang_up().await;
    calls.hang_up().await;
}

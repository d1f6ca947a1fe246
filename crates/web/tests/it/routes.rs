//! The other routes: health, metrics, REST, profiles; and methods that a route does not have.

use http::Method;
use serde_json::json;
use toolcrib_base::Limits;
use toolcrib_testgateway::{profile, server};
use toolcrib_testkit::eventually;

use crate::served::{Ask, ServedGateway, stopped};

#[tokio::test]
async fn methods_that_a_route_does_not_have_are_405() {
    let house = ServedGateway::settled(&[]).await;
    for method in [Method::PUT, Method::PATCH, Method::OPTIONS, Method::HEAD] {
        let reply = house.ask(Ask::new(method.clone(), "/mcp", "")).await;
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.headers["allow"], "POST, GET, DELETE");
    }
    // Without a session there is nothing to hear and nothing to end.
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(house.ask(Ask::new(method.clone(), "/mcp", "")).await.status, 405, "{method}");
        let modern = Ask::new(method, "/mcp", "").header("mcp-protocol-version", "2026-07-28");
        assert_eq!(house.ask(modern).await.status, 405);
    }
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/tools", "/api/v1/openapi.json", "/api/v1/events"] {
        let reply = house.ask(Ask::new(Method::POST, path, "{}")).await;
        assert_eq!(reply.status, 405, "{path}");
        assert_eq!(reply.headers["allow"], "GET", "{path}");
    }
}

#[tokio::test]
async fn nothing_is_served_elsewhere() {
    let house = ServedGateway::settled(&[]).await;
    for path in [
        "/",
        "/mcpx",
        "/mcp/x",
        "/mcp/p",
        "/mcp/p/",
        "/mcp/p/A",
        "/mcp/p/..",
        "/mcp/p/a/b",
        "/api/v1",
        "/api/v1/",
        "/api/v2/tools",
    ] {
        house.ask(Ask::get(path)).await.problem(404);
        house.ask(Ask::modern("tools/list", json!({})).to(path)).await.problem(404);
    }
}

#[tokio::test]
async fn each_profile_has_its_url_and_an_unknown_one_is_404() {
    let files = [stopped("alpha", &["one"]), profile("work", "exposure: direct"), profile("default", "exposure: meta")];
    let house = ServedGateway::settled(&files).await;
    let list = || Ask::modern("tools/list", json!({}));
    for (path, first) in [
        ("/mcp", "find_tools"),
        ("/mcp/", "find_tools"),
        ("/mcp/p/default", "find_tools"),
        ("/mcp/p/work", "alpha_one"),
        ("/mcp/p/work/", "alpha_one"),
    ] {
        assert_eq!(house.ask(list().to(path)).await.result()["tools"][0]["name"], first, "{path}");
    }
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    for ask in [list(), Ask::post(initialize.to_string()), Ask::get("")] {
        let problem = house.ask(ask.to("/mcp/p/wrok")).await.problem(404);
        assert!(problem["detail"].as_str().unwrap().contains("`wrok`"), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("work"), "{problem}");
    }
}

#[tokio::test]
async fn health_is_always_ok_and_ready_waits_for_the_first_listings() {
    let files = [
        server("alpha", &[]),
        ("servers/bad.yaml".to_owned(), {
            let (_, text) = server("bad", &["--never-answer"]);
            format!("{text}timeouts: {{connect: 10m}}\n")
        }),
    ];
    let house = ServedGateway::open(&files, Limits::default()).await;
    let health = house.ask(Ask::get("/healthz")).await;
    assert_eq!((health.status.as_u16(), &health.body[..]), (200, &b"ok\n"[..]));
    let ready = house.ask(Ask::get("/readyz").admin()).await;
    assert_eq!(ready.status, 503);
    let ready = ready.json();
    assert_eq!((&ready["ready"], &ready["servers"]["bad"]["listed"]), (&json!(false), &json!(false)));
    assert_eq!(ready["audit"]["recording"], true);
}

#[tokio::test]
async fn once_ready_the_tools_are_there() {
    let house =
        ServedGateway::open(&[server("alpha", &[]), server("bad", &["--exit-at-start"])], Limits::default()).await;
    let ready = async { while house.ask(Ask::get("/readyz")).await.status != 200 {} };
    eventually("ready", ready).await;
    let echo = json!({"name": "alpha_echo", "arguments": {"text": "a"}});
    let result = house.ask(Ask::modern("tools/call", echo)).await.result();
    assert_eq!(result["content"][0]["text"], "a");
    let ready = house.ask(Ask::get("/readyz").admin()).await.json();
    assert_eq!(ready["servers"]["bad"]["listed"], true, "that one is away does not make the others wait");
}

#[tokio::test]
async fn metrics_count_calls_servers_and_sessions() {
    let house = ServedGateway::settled(&[server("alpha", &[])]).await;
    house.session().await;
    for name in ["alpha_pid", "alpha_pid", "alpha_fail", "alpha_echo"] {
        house.ask(Ask::modern("tools/call", json!({"name": name, "arguments": {}}))).await.result();
    }
    let totals = String::from_utf8(house.ask(Ask::get("/metrics")).await.body.to_vec()).unwrap();
    assert!(totals.contains(r#"toolcrib_tool_calls_total{outcome="ok"} 2"#), "{totals}");
    assert!(totals.contains("toolcrib_servers_ready 1") && !totals.contains("alpha"), "{totals}");
    let reply = house.ask(Ask::get("/metrics").admin()).await;
    assert!(reply.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    for line in [
        r#"toolcrib_tool_calls_total{server="alpha",tool="pid",outcome="ok"} 2"#,
        r#"toolcrib_tool_calls_total{server="alpha",tool="fail",outcome="tool_error"} 1"#,
        r#"toolcrib_tool_calls_total{server="alpha",tool="echo",outcome="error"} 1"#,
        r#"toolcrib_tool_call_duration_seconds_count{server="alpha",tool="pid"} 2"#,
        "toolcrib_sessions 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn operations_are_reached_by_rest() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one", "two"]), stopped("beta", &["one"])]).await;
    let tools = house.ask(Ask::get("/api/v1/tools?server=alpha")).await;
    assert_eq!((tools.status.as_u16(), tools.json()["total"].clone()), (200, json!(2)));
    let some = house.ask(Ask::get("/api/v1/tools?pattern=*%2Fone")).await.json();
    assert_eq!(some["total"], 2);
    let servers = house.ask(Ask::get("/api/v1/servers").admin()).await.json();
    assert_eq!((&servers["total"], &servers["mcpServers"][0]["state"]), (&json!(2), &json!("stopped")));
    let profiles = house.ask(Ask::get("/api/v1/profiles").admin()).await.json();
    assert_eq!(profiles["profiles"][0]["url"], "/mcp");
    let audit = house.ask(Ask::get("/api/v1/audit?limit=2&outcome=ok").admin()).await.json();
    assert_eq!(audit["total"], 2);
    assert_eq!(audit["events"][0]["door"], "rest");
    let verified = house.ask(Ask::get("/api/v1/audit/verify").admin()).await.json();
    assert_eq!(verified["intact"], true);
}

#[tokio::test]
async fn wrong_rest_requests_are_problems_that_say_why() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"])]).await;
    for (path, status, part) in [
        ("/api/v1/nothing", 404, "route"),
        ("/api/v1/tools?no_such=1", 400, "no_such"),
        ("/api/v1/tools?pattern=%5B", 400, "glob"),
        ("/api/v1/tools?server=%zz", 400, "percent"),
        ("/api/v1/tools?server=a&server=b", 400, "twice"),
        ("/api/v1/audit?limit=x", 400, "limit"),
        ("/api/v1/audit?limit=0", 400, "limit"),
        ("/api/v1/audit?limit=5000", 400, "limit"),
        ("/api/v1/audit?since=yesterday", 400, "since"),
    ] {
        let problem = house.ask(Ask::get(path).admin()).await.problem(status);
        assert!(problem["detail"].as_str().unwrap().contains(part), "{path}: {problem}");
    }
}

#[tokio::test]
async fn rest_works_when_the_default_profile_is_closed() {
    let files = [stopped("alpha", &["one"]), profile("default", "servers: []\nread_only: true")];
    let house = ServedGateway::settled(&files).await;
    assert_eq!(house.ask(Ask::get("/api/v1/servers").admin()).await.json()["total"], 1);
    assert_eq!(house.ask(Ask::get("/api/v1/tools")).await.json()["total"], 0);
}

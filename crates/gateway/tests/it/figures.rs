//! Figures of calls, and lists that are filtered and cut into pages.

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile, server, stopped};

#[tokio::test]
async fn figures_count_calls_by_server_tool_profile_and_client() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", "groups: [admin]")]).await;
    let client = house.legacy("default").admin();
    for _ in 0..2 {
        client.call("alpha_echo", &json!({ "text": "a" })).await;
    }
    client.call("alpha_fail", &json!({})).await;
    let figures = async |arguments: Value| client.call("core_figures", &arguments).await["structuredContent"].clone();
    let all = figures(json!({})).await;
    assert_eq!((&all["totals"]["calls"], &all["totals"]["errors"]), (&json!(3), &json!(1)), "{all}");
    assert_eq!((&all["rows"][0]["name"], &all["rows"][0]["calls"]), (&json!("alpha"), &json!(3)));
    assert_eq!((all["points"].as_array().unwrap().len(), &all["points"][23]["calls"]), (24, &json!(3)), "{all}");
    assert!(all["totals"]["p50_us"].is_u64(), "{all}");
    let tools = figures(json!({ "by": "tool", "range": "1h" })).await;
    let names: Vec<&Value> = tools["rows"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["alpha/echo", "alpha/fail"], "operations are no calls of tools");
    let one = figures(json!({ "by": "tool", "name": "alpha/fail" })).await;
    assert_eq!((&one["totals"]["calls"], one["rows"].as_array().unwrap().len()), (&json!(1), 1));
    let before = figures(json!({ "until": "2020-01-01T00:00:00Z" })).await;
    assert_eq!((&before["totals"]["calls"], &before["until"]), (&json!(0), &json!("2020-01-01T00:00:00.000Z")));
    let wrong = client.call("core_figures", &json!({ "until": "soon" })).await;
    assert!(wrong.to_string().contains("2026-11-20T12:00:00Z"), "{wrong}");
}

#[tokio::test]
async fn lists_of_tools_and_servers_are_filtered_and_come_in_pages() {
    let files = [
        stopped("alpha", &["read_file", "write_file"], ""),
        stopped("beta", &["read_mail", "send"], "title: Mail of the team\n"),
        profile("default", "groups: [admin]"),
    ];
    let house = TestGateway::settled(&files).await;
    let client = house.legacy("default").admin();
    let list = async |tool: &str, arguments: Value| client.call(tool, &arguments).await["structuredContent"].clone();
    let ids = |answer: &Value| {
        answer["tools"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let found = list("core_tool_list", json!({ "query": "READ", "limit": 10 })).await;
    assert_eq!((ids(&found), &found["total"]), (vec!["alpha/read_file".into(), "beta/read_mail".into()], &json!(2)));
    assert_eq!(found["servers"], json!(["alpha", "beta"]), "what can be chosen is of all tools");
    let by_id = list("core_tool_list", json!({ "query": "beta/read", "limit": 10 })).await;
    assert_eq!(ids(&by_id), ["beta/read_mail"]);
    let second = list("core_tool_list", json!({ "limit": 1, "offset": 1 })).await;
    assert_eq!((ids(&second), &second["total"]), (vec!["alpha/write_file".into()], &json!(4)));
    let whole = list("core_tool_list", json!({})).await;
    assert_eq!((ids(&whole).len(), &whole["servers"]), (4, &Value::Null), "as before");
    let servers = list("core_mcpserver_list", json!({ "query": "team mail", "limit": 5 })).await;
    assert_eq!((&servers["mcpServers"][0]["name"], &servers["total"]), (&json!("beta"), &json!(1)), "{servers}");
    let later = list("core_mcpserver_list", json!({ "limit": 1, "offset": 1 })).await;
    assert_eq!((&later["mcpServers"][0]["name"], &later["total"]), (&json!("beta"), &json!(2)));
    let none = list("core_mcpserver_list", json!({ "state": "failed", "limit": 1 })).await;
    assert_eq!((&none["mcpServers"], &none["total"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn a_gateway_without_logs_says_so() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], ""), profile("default", "groups: [admin]")]).await;
    let client = house.legacy("default").admin();
    let answer = client.call("core_mcpserver_logs", &json!({ "name": "alpha" })).await.to_string();
    assert!(answer.contains("keeps no logs of servers") && answer.contains("state/logs"), "{answer}");
    let unknown = client.call("core_mcpserver_logs", &json!({ "name": "alhpa" })).await.to_string();
    assert!(unknown.contains("alpha"), "the nearest one is named: {unknown}");
}

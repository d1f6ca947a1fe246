//! A server of ten thousand tools: lists come in pages, and whatever else is asked answers with what was asked for.

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile, server_with};

const TOOLS: usize = 10_000;
/// More than any one answer needs, and far less than all tools.
const ANSWER_BYTES: usize = 64 * 1024;

#[tokio::test]
async fn ten_thousand_tools_are_listed_found_described_explained_and_called() {
    let direct = profile("default", "exposure: direct\nchanged_tools: hold");
    let none = profile("none", "tools: {deny: [\"large/*\"]}");
    // Deadlines that a loaded machine keeps too.
    let slow = "timeouts: {connect: 10m, list: 10m, call: 10m}\n";
    let large = server_with("large", &["--tools", &TOOLS.to_string()], slow);
    let house = TestGateway::settled(&[large, direct, none]).await;
    let status = house.server("large").inventory();
    assert_eq!((status.tools.len(), status.warnings.len()), (TOOLS, 0));
    let last = status.tools.last().unwrap().key.clone();
    // Until somebody has verified it nothing of it is approved, and the profile holds it.
    assert!(house.modern("default").listed().await.iter().all(|name| !name.starts_with("large")));
    let verified = house.modern("default").admin().call("core_mcpserver_verify", &json!({ "name": "large" })).await;
    assert_eq!(verified["structuredContent"]["tools"], TOOLS, "{}", verified["structuredContent"]["summary"]);
    for client in house.both("default") {
        let (mut names, mut cursor) = (std::collections::BTreeSet::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = client.ask("tools/list", &params).await.unwrap();
            let tools = page["tools"].as_array().unwrap();
            assert!(tools.len() <= 1_000, "{}", tools.len());
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(names.iter().filter(|name| name.starts_with("large_")).count(), TOOLS);
        for (name, arguments) in [
            ("find_tools", json!({ "query": last })),
            ("find_tools", json!({ "query": "tool", "limit": 100 })),
            ("describe_tool", json!({ "name": format!("large/{last}") })),
            ("filter_tools", json!({ "pattern": "large_*", "include_schema": true })),
        ] {
            let answer = client.call(name, &arguments).await;
            assert_ne!(answer["isError"], true, "{name}: {answer}");
            let bytes = answer.to_string().len();
            assert!(bytes < ANSWER_BYTES, "{name} {arguments} answers {bytes} bytes");
        }
        let admin = client.clone().admin();
        for profile in ["default", "none"] {
            let tool = json!({ "tool": format!("large/{last}"), "profile": profile });
            let explained = admin.call("core_tool_explain", &tool).await;
            assert_eq!(explained["structuredContent"]["visible"], profile == "default", "{explained}");
            let wrong = json!({ "tool": format!("large/{last}x"), "profile": profile });
            let nearest = admin.call("core_tool_explain", &wrong).await;
            assert!(nearest.to_string().len() < ANSWER_BYTES);
        }
        let doctor = admin.call("core_mcpserver_doctor", &json!({ "name": "large" })).await;
        assert_eq!(doctor["structuredContent"]["well"], 1, "{doctor}");
    }
    assert!(house.modern("none").listed().await.iter().all(|name| !name.starts_with("large")));
}

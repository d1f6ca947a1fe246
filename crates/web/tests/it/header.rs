//! The headers of modern requests must agree with the body, and the body must declare itself.

use serde_json::{Value, json};

use crate::served::{Ask, ServedGateway, stopped};

async fn house() -> ServedGateway {
    ServedGateway::settled(&[stopped("alpha", &["one", "ä"])]).await
}

fn call(name: &str) -> Ask {
    Ask::modern("tools/call", json!({"name": name, "arguments": {}}))
}

#[tokio::test]
async fn headers_that_are_missing_doubled_or_different_are_refused() {
    let house = house().await;
    let list = || Ask::modern("tools/list", json!({}));
    for (what, ask) in [
        ("no version", list().without("mcp-protocol-version")),
        ("another version", list().with("mcp-protocol-version", "2025-11-25")),
        ("two versions", list().header("mcp-protocol-version", "2026-07-28")),
        ("no method", list().without("mcp-method")),
        ("another method", list().with("mcp-method", "tools/call")),
        ("the method in capitals", list().with("mcp-method", "TOOLS/LIST")),
        ("two methods", list().header("mcp-method", "tools/list")),
        ("no name", call("find_tools").without("mcp-name")),
        ("another name", call("find_tools").with("mcp-name", "call_tool")),
        ("two names", call("find_tools").header("mcp-name", "find_tools")),
        ("bad base64", call("find_tools").with("mcp-name", "=?base64?!?=")),
        ("another name in base64", call("find_tools").with("mcp-name", "=?base64?eA==?=")),
        ("no uri", Ask::modern("resources/read", json!({"uri": "a:b"})).without("mcp-name")),
        ("no prompt", Ask::modern("prompts/get", json!({"name": "p"})).with("mcp-name", "q")),
        ("two sessions", list().header("mcp-session-id", "a").header("mcp-session-id", "b")),
    ] {
        let answer = house.ask(ask).await.error(400, -32_020);
        assert_eq!(answer["id"], 1, "{what}");
    }
    assert_eq!(house.gateway.sessions.count(), 0);
}

#[tokio::test]
async fn headers_that_agree_are_accepted_in_every_form() {
    let house = house().await;
    house.ask(call("find_tools")).await.result();
    house.ask(call("find_tools").with("mcp-name", "=?base64?ZmluZF90b29scw==?=")).await.result();
    house.ask(call("find_tools").with("mcp-name", "  find_tools ")).await.result();
    // A name outside of ASCII can only be sent so.
    let odd = house.ask(call("alpha/ä").with("mcp-name", "=?base64?YWxwaGEvw6Q=?=")).await.result();
    assert!(odd["content"][0]["text"].as_str().unwrap().contains("`alpha` is stopped"), "{odd}");
    // Header names are not case-sensitive, unknown ones are no one's business.
    let list = Ask::modern("tools/list", json!({})).without("mcp-method").header("MCP-METHOD", "tools/list");
    house.ask(list.header("mcp-param-x", "1").header("x-other", "1")).await.result();
}

fn declaring(meta: &Value) -> Ask {
    let params = json!({"_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": "i", "method": "tools/list", "params": params});
    Ask::post(body.to_string()).header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list")
}

#[tokio::test]
async fn a_modern_request_that_declares_too_little_is_refused() {
    let house = house().await;
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for meta in [
        json!(null),
        json!({}),
        json!([]),
        json!({version: "2026-07-28"}),
        json!({capabilities: {}}),
        json!({version: "2026-07-28", capabilities: []}),
        json!({version: 7, capabilities: {}}),
    ] {
        let answer = house.ask(declaring(&meta)).await.error(400, -32_602);
        assert_eq!(answer["id"], "i");
        assert!(answer["error"]["message"].as_str().unwrap().contains("_meta"), "{meta}: {answer}");
    }
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}).to_string();
    house.ask(Ask::post(discover)).await.error(400, -32_602);
    house.ask(declaring(&json!({version: "2026-07-28", capabilities: {}}))).await.result();
}

#[tokio::test]
async fn an_unsupported_revision_is_answered_with_the_supported_ones() {
    let house = house().await;
    for date in ["2027-01-01", "2026-07-29", "2025-11-25", "2099", "x"] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": date, "io.modelcontextprotocol/clientCapabilities": {},
        });
        let ask = declaring(&meta).with("mcp-protocol-version", date);
        let answer = house.ask(ask).await.error(400, -32_022);
        let data = &answer["error"]["data"];
        assert_eq!(data["requested"], date);
        assert!(data["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{data}");
    }
}

#[tokio::test]
async fn a_session_s_requests_are_taken_whatever_their_version_header_says() {
    let house = house().await;
    let session = house.session().await;
    for version in ["2025-11-25", "2024-11-05", "2099-01-01", "2026-07-28", "nonsense"] {
        let ask = Ask::legacy(&session, "tools/list", &json!({})).header("mcp-protocol-version", version);
        assert!(house.ask(ask).await.result()["resultType"].is_null(), "{version}");
    }
    // One that declares itself is modern, and its session is of no interest.
    let modern = Ask::modern("tools/list", json!({})).header("mcp-session-id", "no-such");
    assert_eq!(house.ask(modern).await.result()["resultType"], "complete");
}

#[tokio::test]
async fn a_request_of_neither_kind_is_told_what_is_supported() {
    let house = house().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for ask in [Ask::post(body.clone()), Ask::post(body).header("mcp-protocol-version", "2025-06-18")] {
        let answer = house.ask(ask).await.error(400, -32_600);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("2026-07-28") && message.contains("2025-03-26"), "{message}");
        assert_eq!(answer["id"], 1, "every error carries the id of its request");
    }
}

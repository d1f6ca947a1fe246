//! Input that is wrong before any tool is looked for.

use serde_json::{Value, json};
use toolcrib_base::Limits;

use crate::served::{Ask, ServedGateway, stopped};

async fn house() -> ServedGateway {
    ServedGateway::settled(&[stopped("alpha", &["one"])]).await
}

#[tokio::test]
async fn what_is_not_json_or_not_a_message_is_answered_with_400_and_its_code() {
    let house = house().await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}1{}}}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    for (body, code, id) in [
        ("", -32_700, Value::Null),
        ("{", -32_700, Value::Null),
        ("nonsense", -32_700, Value::Null),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x", -32_700, Value::Null),
        ("{'a':1}", -32_700, Value::Null),
        ("\u{feff}{}", -32_700, Value::Null),
        ("7", -32_600, Value::Null),
        ("null", -32_600, Value::Null),
        ("{}", -32_600, Value::Null),
        (r#"{"id":1,"method":"ping"}"#, -32_600, json!(1)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32_600, json!(1)),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32_600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, -32_600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, -32_600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32_600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"a"}"#, -32_600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"x":1,"\u0078":2}}}"#, -32_600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, -32_600, json!(1)),
        (deep.as_str(), -32_600, Value::Null),
    ] {
        let reply = house.ask(Ask::post(body.to_owned())).await;
        let answer = reply.error(400, code);
        assert_eq!(answer["id"], id, "{body}");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
    }
    let bytes = house.ask(Ask::post(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"[..])).await;
    bytes.error(400, -32_700);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_the_limit_can_be_configured() {
    let body = |bytes: usize| {
        let text = "x".repeat(bytes);
        let arguments = json!({"name": "alpha/one", "arguments": {"text": text}});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments}).to_string()
    };
    let mebi = 1024 * 1024;
    let house = house().await;
    let session = house.session().await;
    let ask = |bytes| Ask::post(body(bytes)).header("mcp-session-id", &session);
    let refused = house.ask(ask(5 * mebi)).await.problem(413);
    assert!(refused["hint"].as_str().unwrap().contains("request_bytes"), "{refused}");
    assert_eq!(house.ask(ask(3 * mebi)).await.result()["isError"], true, "the server behind is stopped");

    let limits = Limits { request_bytes: 6 * mebi, ..Limits::default() };
    let wide = ServedGateway::open(&[stopped("alpha", &["one"])], limits).await;
    let session = wide.session().await;
    let ask = Ask::post(body(5 * mebi)).header("mcp-session-id", &session);
    assert_eq!(wide.ask(ask).await.result()["isError"], true);

    let limits = Limits { request_bytes: 1_000, ..Limits::default() };
    let narrow = ServedGateway::open(&[stopped("alpha", &["one"])], limits).await;
    narrow.ask(Ask::post(body(1_000))).await.problem(413);
    // Without a length the bytes are counted as they come.
    narrow.ask(Ask::post(body(1_000)).header("transfer-encoding", "chunked")).await.problem(413);
}

#[tokio::test]
async fn depth_can_be_configured_and_what_fits_passes() {
    let nested = |depth: usize| {
        let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","x":{text}}}}}"#
        )
    };
    let house = house().await;
    house.ask(Ask::post(nested(60))).await.result();
    house.ask(Ask::post(nested(100))).await.error(400, -32_600);
    let deep = ServedGateway::open(&[], Limits { depth: 200, ..Limits::default() }).await;
    deep.ask(Ask::post(nested(100))).await.result();
}

#[tokio::test]
async fn an_unknown_method_is_404_for_a_modern_client_and_200_for_a_legacy_one() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session().await;
    for method in ["no/such", "notifications/x", "initialized", ""] {
        let modern = house.ask(Ask::modern(method, json!({}))).await.error(404, -32_601);
        assert_eq!(modern["id"], 1);
        house.ask(Ask::legacy(&session, method, &json!({}))).await.error(200, -32_601);
    }
    for removed in ["ping", "logging/setLevel", "resources/subscribe"] {
        house.ask(Ask::modern(removed, json!({}))).await.error(404, -32_601);
    }
    house.ask(Ask::legacy(&session, "server/discover", &json!({}))).await.error(400, -32_602);
}

#[tokio::test]
async fn media_types_are_checked() {
    let house = house().await;
    let ask = Ask::modern("tools/list", json!({}));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp"] {
        assert_eq!(house.ask(ask.clone().with("content-type", kind)).await.status, 415, "{kind}");
    }
    assert_eq!(house.ask(ask.clone().without("content-type")).await.status, 415);
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        house.ask(ask.clone().with("content-type", kind)).await.result();
    }
    for kind in ["text/html", "image/png"] {
        assert_eq!(house.ask(ask.clone().with("accept", kind)).await.status, 406, "{kind}");
    }
    for kind in ["*/*", "application/json", "text/event-stream", "application/*"] {
        house.ask(ask.clone().with("accept", kind)).await.result();
    }
    house.ask(ask.without("accept")).await.result();
}

#[tokio::test]
async fn a_panic_in_one_request_ends_only_that_request() {
    let house = house().await;
    let session = house.session().await;
    let call = |session: &str| Ask::legacy(session, "tools/call", &json!({"name": "find_tools", "arguments": {}}));
    let stream = house.events(Ask::get("/mcp").header("mcp-session-id", &session)).await;
    house.fuse.light();
    assert!(house.try_ask(call(&session)).await.is_err(), "the panic was not provoked");
    assert_eq!(house.ask(call(&session)).await.result()["structuredContent"]["total"], 1);
    house.ask(Ask::modern("tools/list", json!({}))).await.result();
    stream.hang_up().await;
}

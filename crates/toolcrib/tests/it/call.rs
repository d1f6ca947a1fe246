//! `call` against a gateway of the tests: what goes out, what is printed.

use serde_json::{Value, json};

use crate::serving::{GatewayFixture, fake_server};
use crate::stub::{Answer, Stub};
use crate::toolcrib::{run, run_with_stdin, toolcrib};

/// A gateway whose every tool gives this result.
async fn gateway(result: Value) -> Stub {
    Stub::start(move |message| Answer::result(message, &result)).await
}

#[tokio::test]
async fn arguments_go_out_as_they_were_written() {
    let stub = gateway(json!({ "content": [{ "type": "text", "text": "done" }] })).await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let json = r#"{"big":123456789012345678,"deep":{"a":[null]}}"#;
    let flags = ["call", "files/read", "path=/tmp", "lines=3", "--json", json, "-q", "--", "--all"];
    run(home.path(), &flags, &[]).await.prints("done\n");
    run_with_stdin(home.path(), &["call", "x", "--json", "-"], &[], r#"{"from":"stdin"}"#).await.prints("done\n");
    // What a tool wants is asked only where a value could be meant in two ways.
    let asked = stub.asked("tools/call");
    assert_eq!(asked.iter().filter(|(_, message)| message["params"]["name"] == "core_tool_get").count(), 1);
    let asked: Vec<_> = asked.into_iter().filter(|(_, message)| message["params"]["name"] == "call_tool").collect();
    assert_eq!(asked.len(), 2);
    let given =
        json!({ "big": 123_456_789_012_345_678_i64, "deep": { "a": [null] }, "path": "/tmp", "lines": 3, "all": true });
    assert_eq!(asked[0].1["params"]["arguments"], json!({ "name": "files/read", "arguments": given }));
    assert_eq!(asked[1].1["params"]["arguments"]["arguments"], json!({ "from": "stdin" }));
    let (headers, _) = &asked[0];
    assert_eq!(headers["mcp-session-id"], "s-1");
    assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
    run(home.path(), &["call", "x", "nonsense"], &[]).await.fails(1, &["`nonsense` is not an argument", "hint: "]);
    assert_eq!(stub.asked("tools/call").len(), 3);
    stub.stop().await;
}

#[tokio::test]
async fn every_block_is_told_of() {
    let blocks = json!([
        { "type": "text", "text": "one\n\u{1b}[2Jtwo\r\n" },
        { "type": "image", "mimeType": "image/\u{1b}png", "data": "AAEC" },
        { "type": "text", "text": "{\"a\":1.50}" },
    ]);
    let result = json!({ "content": blocks, "structuredContent": { "x": "\u{1b}" } });
    let stub = gateway(result).await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let expected = "one\n\\u{1b}[2Jtwo\n\n[image image/\\u{1b}png, 3 bytes]\n{\n  \"a\": 1.50\n}\n";
    run(home.path(), &["call", "x"], &[]).await.prints(expected);
    run(home.path(), &["call", "x", "-o", "json"], &[]).await.prints("{\n  \"x\": \"\\u001b\"\n}\n");
    run(home.path(), &["call", "x", "-o", "yaml"], &[]).await.prints("x: \"\\U0000001B\"\n");
    stub.stop().await;
}

#[tokio::test]
async fn a_tools_error_goes_to_stderr() {
    let result = json!({ "content": [{ "type": "text", "text": "no such file:\n\u{1b}[31m/x" }], "isError": true });
    let stub = gateway(result).await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    for format in ["table", "json"] {
        let ran = run(home.path(), &["call", "files/read", "-o", format], &[]).await;
        ran.fails(1, &["error: no such file:\n\\u{1b}[31m/x\n"]);
    }
    stub.stop().await;
}

#[tokio::test]
async fn an_answer_may_come_as_a_stream() {
    let stub = Stub::start(|message| {
        let result = json!({ "content": [{ "type": "text", "text": "late" }] });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info" } });
        Answer(200, "text/event-stream", format!("data: {told}\n\ndata: {answer}\n\n"))
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    run(home.path(), &["call", "x"], &[]).await.prints("late\n");
    stub.stop().await;
}

#[tokio::test]
async fn ctrl_c_takes_the_call_back() {
    let stub = Stub::start(|_| Answer::never()).await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let mut call = toolcrib(home.path(), &["call", "slow"]).start();
    stub.hears("tools/call").await;
    call.signal(rustix::process::Signal::INT);
    assert_eq!(call.end().await.code(), Some(130));
    let (_, call) = &stub.asked("tools/call")[0];
    let (_, cancelled) = &stub.asked("notifications/cancelled")[0];
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    stub.stop().await;
}

#[tokio::test]
async fn a_tool_that_asks_is_answered_from_the_command_line() {
    let definition = format!("name: try\ncommand: {}\nargs: [--asks]\nstart: eager\n", fake_server().display());
    let serving = GatewayFixture::start(&[("try", &definition)]).await;
    let call = ["call", "try/ask", "kind=elicitation"];
    let ran = run(serving.home(), &[&call[..], &["--answer", "name=Ann"]].concat(), &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("accept") && ran.stdout.contains("Ann"), "{}", ran.stdout);
    let ran = run(serving.home(), &[&call[..], &["--answer", "other=Ann"]].concat(), &[]).await;
    ran.fails(1, &["the tool requires `name`, which was not given", "--answer name="]);
    let ran = run(serving.home(), &[&call[..], &["--answer", "name"]].concat(), &[]).await;
    ran.fails(1, &["`--answer name` is not of the form FIELD=VALUE"]);
    let ran = run(serving.home(), &call, &[]).await;
    assert!(!ran.stdout.contains("accept"), "no one was there to answer: {}", ran.stdout);
    serving.stop().await;
}

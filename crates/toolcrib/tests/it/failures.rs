//! What a person reads when the gateway is away, refuses, or is something else.

use std::path::Path;

use serde_json::json;

use crate::stub::{Answer, Stub};
use crate::toolcrib::{CommandOutput, run, toolcrib};

async fn list(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let arguments: Vec<&str> = ["list", "tools"].iter().chain(arguments).copied().collect();
    run(home, &arguments, variables).await
}

#[tokio::test]
async fn an_absent_gateway_is_named_with_where_it_was_sought() {
    let home = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let ran = list(home.path(), &[], &[("TOOLCRIB_LISTEN", &address)]).await;
    let line = format!(
        "error: cannot reach the gateway at `http://{address}/mcp` (from `listen`, variable `TOOLCRIB_LISTEN`): "
    );
    ran.fails(1, &[&line, "\nhint: start it with `toolcrib serve`"]);
    let ran = list(home.path(), &["--endpoint", &format!("http://{address}")], &[]).await;
    ran.fails(1, &["(from `--endpoint`)", "\nhint: check the URL"]);
    let ran = list(Path::new(""), &["--endpoint", &format!("http://{address}")], &[]).await;
    ran.fails(1, &["(from `--endpoint`)"]);
    let ran = list(Path::new(""), &[], &[]).await;
    ran.fails(1, &["error: no home folder", "hint: set one with `--home DIR`"]);
    let ran = list(home.path(), &["--endpoint", "nonsense"], &[]).await;
    ran.fails(1, &["`nonsense` from `--endpoint` is not an endpoint", "hint: an endpoint looks like"]);
}

#[tokio::test]
async fn refusals_have_their_exit_codes() {
    for (status, body, with_token, code, parts) in [
        (401, "", false, 2, &["requires a token\n", "hint: pass the gateway's token with `--token-file FILE`"][..]),
        (401, r#"{"detail":"expired \u001b[2J"}"#, true, 3, &["rejected the token: expired \\u{1b}[2J\n"]),
        (403, r#"{"title":"this host is not allowed"}"#, false, 3, &["denied the request: this host is not allowed"]),
        (404, "", false, 1, &["no MCP endpoint at"]),
        (500, "<html>", false, 1, &["answered HTTP status 500\n"]),
        (200, "not json", false, 1, &["does not speak MCP"]),
        (200, r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01"}}"#, false, 1, &["unknown revision"]),
    ] {
        let stub = Stub::start_raw(move |_| Answer::status(status, body)).await;
        let home = tempfile::tempdir().unwrap();
        let token: &[(&str, &str)] = if with_token { &[("TOOLCRIB_TOKEN", "t")] } else { &[] };
        list(home.path(), &["--endpoint", &stub.url], token).await.fails(code, parts);
        stub.stop().await;
    }
}

#[tokio::test]
async fn errors_of_the_gateway_keep_their_kind() {
    for (code, kind, exit, parts) in [
        (-32_602, "unknown-tool", 2, &["error: no tool `x\\u{1b}[2J`\n", "hint: pass the gateway's token"][..]),
        (-31_001, "forbidden", 2, &["error: no tool", "hint: pass the gateway's token"]),
        (-31_003, "server-unavailable", 1, &["error: no tool"]),
        (-1, "of-the-future", 1, &["error: no tool"]),
    ] {
        let error = json!({ "code": code, "message": "no tool `x\u{1b}[2J`", "data": { "kind": kind } });
        let stub =
            Stub::start(move |message| Answer::json(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })))
                .await;
        let home = tempfile::tempdir().unwrap();
        list(home.path(), &["--endpoint", &stub.url], &[]).await.fails(exit, parts);
        stub.stop().await;
    }
}

#[tokio::test]
async fn the_token_goes_only_to_its_gateway() {
    let own = Stub::start(|message| Answer::result(message, &json!({ "structuredContent": { "tools": [] } }))).await;
    let other = Stub::start(|message| Answer::result(message, &json!({ "structuredContent": { "tools": [] } }))).await;
    let home = tempfile::tempdir().unwrap();
    own.settle(home.path());
    list(home.path(), &[], &[]).await.prints("No tools found\n");
    list(home.path(), &["--endpoint", &other.url], &[]).await.prints("No tools found\n");
    assert_eq!(own.asked("tools/call")[0].0["authorization"], "Bearer own-token");
    assert!(other.asked("tools/call")[0].0.get("authorization").is_none());
    let file = home.path().join("given");
    std::fs::write(&file, "given-token").unwrap();
    let flags = ["--endpoint", &other.url, "--token-file", file.to_str().unwrap(), "--profile", "work"];
    list(home.path(), &flags, &[]).await.prints("No tools found\n");
    // A list of tools also asks for the servers that need a login.
    assert_eq!(other.asked("tools/call")[2].0["authorization"], "Bearer given-token");
    let flags = ["--token-file", "/nowhere/at/all"];
    list(home.path(), &flags, &[]).await.fails(2, &["cannot read a token from `/nowhere/at/all`"]);
    own.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn an_answer_without_structure_is_told() {
    let stub = Stub::start(|message| Answer::result(message, &json!({ "content": [] }))).await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    list(home.path(), &[], &[])
        .await
        .fails(1, &["the response of `core_tool_list` has no structured content", "hint: "]);
    stub.stop().await;
}

#[tokio::test]
async fn a_silent_gateway_is_not_waited_for_longer_than_asked() {
    // The connection is accepted by the system and never read.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let home = tempfile::tempdir().unwrap();
    list(home.path(), &["--endpoint", &url, "--timeout", "50ms"], &[])
        .await
        .fails(1, &["did not answer within 0.05 s"]);
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let text = "x".repeat(1 << 20);
    let stub =
        Stub::start(move |message| Answer::result(message, &json!({ "content": [{ "type": "text", "text": text }] })))
            .await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let mut call = toolcrib(home.path(), &["call", "x"]).start();
    call.close_output();
    let output = call.finish().await;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    stub.stop().await;
}

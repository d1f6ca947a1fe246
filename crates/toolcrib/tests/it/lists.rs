//! `list`, `find`, `describe` and `audit` against a gateway of the tests.

use serde_json::{Value, json};

use crate::stub::{Answer, Stub, structured};
use crate::toolcrib::run;

/// A gateway that answers the operations with fixed contents.
async fn gateway() -> Stub {
    Stub::start(|message| {
        let params = &message["params"];
        let result = match (message["method"].as_str(), params["name"].as_str()) {
            (Some("tools/call"), Some("core_tool_list")) => structured(&tools()),
            (Some("tools/call"), Some("core_mcpserver_list")) => structured(&servers()),
            (Some("tools/call"), Some("core_profile_list")) => structured(&json!({ "profiles": [], "total": 0 })),
            (Some("tools/call"), Some("find_tools")) => structured(&hits()),
            (Some("tools/call"), Some("describe_tool")) => structured(&description()),
            (Some("tools/call"), Some("core_audit_list")) => structured(&events()),
            (Some("resources/list"), _) if params["cursor"] == "2" => {
                json!({ "resources": [{ "uri": "b:2", "name": "two" }] })
            }
            (Some("resources/list"), _) => json!({ "resources": [{ "uri": "a:1", "name": "one" }], "nextCursor": "2" }),
            (Some("prompts/list"), _) => {
                let arguments = json!([{ "name": "city", "required": true }, { "name": "unit" }]);
                json!({ "prompts": [{ "name": "weather", "arguments": arguments }] })
            }
            _ => panic!("unexpected: {message}"),
        };
        Answer::result(message, &result)
    })
    .await
}

fn tools() -> Value {
    json!({ "tools": [
        { "id": "files/read", "name": "files_read", "server": "files", "description": "Read a\nfile.", "state": "ready" },
        { "id": "evil/x", "name": "evil_x", "server": "evil", "description": "\u{1b}]0;owned\u{7}\u{9b}2J", "state": "ready" },
    ], "total": 2 })
}

fn servers() -> Value {
    json!({ "mcpServers": [
        { "name": "files", "title": "Files", "transport": "stdio", "state": "ready", "since": 0, "tools": 3,
          "resources": 1, "prompts": 0, "restarts": 2, "warnings": [] },
        { "name": "away", "transport": "http", "state": "failed", "since": "2026-01-01T00:00:00Z", "tools": 0,
          "lastError": "connection refused" },
    ], "total": 2 })
}

fn hits() -> Value {
    json!({ "total": 9, "truncated": true, "tools": [
        { "id": "files/read", "name": "files_read", "server": "files", "signature": "files_read(path: string)",
          "summary": "Read a file.", "score": 2.71, "state": "ready", "also": ["other/read"] },
    ] })
}

fn description() -> Value {
    let schema = json!({ "type": "object", "required": ["path"], "properties": {
        "path": { "type": "string", "description": "Where it\nlies." },
        "mode": { "enum": ["text", "bytes"], "default": "text" },
        "range": { "type": "object", "properties": { "from": { "type": ["integer", "null"] } } },
        "tags": { "type": "array", "items": { "type": "string" } },
    } });
    json!({ "id": "files/read", "name": "files_read", "server": "files", "description": "Read a file.\nAll of it.",
            "inputSchema": schema, "annotations": { "readOnlyHint": true }, "active": false, "state": "ready" })
}

fn events() -> Value {
    json!({ "events": [{ "seq": 7, "at": 0, "principal": "local", "profile": "default", "door": "mcp",
        "method": "tools/call", "target": "files/read", "decision": "permit", "outcome": "ok",
        "duration_us": 1500, "request_id": "r1" }], "total": 1, "truncated": true })
}

async fn prints(stub: &Stub, arguments: &[&str], expected: &str) {
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    run(home.path(), arguments, &[]).await.prints(expected);
}

#[tokio::test]
async fn tables_for_people() {
    let stub = gateway().await;
    prints(
        &stub,
        &["list", "tools"],
        "NAME         SERVER   STATE   DESCRIPTION\n\
         evil_x       evil     ready   \\u{1b}]0;owned\\u{7}\\u{9b}2J\n\
         files_read   files    ready   Read a file.\n",
    )
    .await;
    prints(
        &stub,
        &["list", "tool", "files/*", "--no-headers", "-o", "wide", "--server", "files"],
        "files_read   files   ready   files/read   -   Read a file.\n",
    )
    .await;
    assert_eq!(stub.asked("tools/call")[2].1["params"]["arguments"], json!({ "server": "files" }));
    prints(
        &stub,
        &["list", "mcpservers"],
        "NAME    STATE    TRANSPORT   TOOLS   SINCE                      LAST ERROR\n\
         away    failed   http        0       2026-01-01T00:00:00Z       connection refused\n\
         files   ready    stdio       3       1970-01-01T00:00:00.000Z   -\n",
    )
    .await;
    prints(&stub, &["list", "profile"], "No profiles found\n").await;
    prints(&stub, &["list", "prompts"], "NAME      ARGUMENTS     DESCRIPTION\nweather   city, unit?   -\n").await;
    prints(
        &stub,
        &["list", "resources"],
        "URI   NAME   TYPE   DESCRIPTION\na:1   one    -      -\nb:2   two    -      -\n",
    )
    .await;
    stub.stop().await;
}

#[tokio::test]
async fn answers_for_programs() {
    let stub = gateway().await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let ran = run(home.path(), &["list", "tools", "-o", "json"], &[]).await;
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), tools());
    assert!(!ran.stdout.contains(['\u{1b}', '\u{7}', '\u{9b}']));
    prints(&stub, &["list", "profiles", "-o", "yaml"], "profiles: []\ntotal: 0\n").await;
    let resources = json!({ "resources": [{ "uri": "b:2", "name": "two" }], "total": 1 });
    prints(
        &stub,
        &["list", "resources", "two", "-o", "json"],
        &(serde_json::to_string_pretty(&resources).unwrap() + "\n"),
    )
    .await;
    let ran = run(home.path(), &["find", "x", "-o", "json"], &[]).await;
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), hits());
    let ran = run(home.path(), &["describe", "x", "-o", "json"], &[]).await;
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), description());
    stub.stop().await;
}

#[tokio::test]
async fn names_that_fit_nothing_are_errors() {
    let stub = gateway().await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let ran = run(home.path(), &["list", "servers", "nowhere"], &[]).await;
    ran.fails(1, &["error: no server `nowhere`\n", "hint: see all with `toolcrib list servers`"]);
    let ran = run(home.path(), &["list", "servers", "files", "nowhere", "--no-headers"], &[]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (1, 1));
    prints(&stub, &["list", "servers", "nowhere*"], "No servers found\n").await;
    run(home.path(), &["list", "servers", "--server", "x"], &[]).await.fails(1, &["`--server` does not apply"]);
    stub.stop().await;
}

#[tokio::test]
async fn find_shows_the_best_and_how_many_more() {
    let stub = gateway().await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let words = ["find", "read", "a file", "--limit", "1", "--detail", "signatures", "--server", "files"];
    let ran = run(home.path(), &words, &[]).await;
    assert_eq!(ran.stdout, "NAME         SERVER   SUMMARY\nfiles_read   files    Read a file.\n");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "1 of 9 tools; more with `--limit N`\n"));
    let wanted = json!({ "query": "read a file", "limit": 1, "server": "files", "detail": "signatures" });
    assert_eq!(stub.asked("tools/call")[0].1["params"]["arguments"], wanted);
    prints(
        &stub,
        &["find", "x", "-q", "-o", "wide", "--no-headers"],
        "files_read   files   ready   2.71   other/read   files_read(path: string)   Read a file.\n",
    )
    .await;
    stub.stop().await;
}

#[tokio::test]
async fn describe_shows_the_parameters() {
    let stub = gateway().await;
    prints(
        &stub,
        &["describe", "files/read"],
        "\
Name:      files_read
Id:        files/read
Server:    files
State:     ready
Hints:     readOnlyHint=true

Description:
  Read a file.
  All of it.

Parameters:
NAME         TYPE               REQUIRED   DEFAULT   DESCRIPTION
path         string             yes        -         Where it lies.
mode         \"text\" | \"bytes\"   no         \"text\"    -
range        object             no         -         -
range.from   integer|null       no         -         -
tags         array of string    no         -         -
",
    )
    .await;
    stub.stop().await;
}

#[tokio::test]
async fn the_audit_log_is_listed() {
    let stub = gateway().await;
    let home = tempfile::tempdir().unwrap();
    stub.settle(home.path());
    let flags = ["audit", "list", "--target", "files/*", "--outcome", "ok", "--since", "2026-01-01", "--limit", "1"];
    let ran = run(home.path(), &flags, &[]).await;
    assert_eq!(
        ran.stdout,
        "SEQ   AT                         PRINCIPAL   TARGET       DECISION   OUTCOME   DURATION\n\
         7     1970-01-01T00:00:00.000Z   local       files/read   permit     ok        1.5 ms\n"
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "1 audit events; there may be more: use `--limit N`\n"));
    let wanted = json!({ "limit": 1, "target": "files/*", "outcome": "ok", "since": "2026-01-01" });
    assert_eq!(stub.asked("tools/call")[0].1["params"]["arguments"], wanted);
    stub.stop().await;
}

#[tokio::test]
async fn a_broken_audit_log_is_a_failure() {
    for (content, code, stdout, stderr) in [
        (json!({ "intact": true, "events": 12 }), 0, "intact: 12 audit events\n", ""),
        (json!({ "intact": true, "events": 12, "signed": 0 }), 0, "intact: 12 audit events, not signed yet\n", ""),
        (
            json!({ "intact": true, "events": 12, "signed": 9 }),
            0,
            "intact: 12 audit events, signed up to 9\n",
            "who may write to the database can also sign with a key of their own: use `--key KEY`\n",
        ),
        (
            json!({ "intact": false, "events": 12, "broken": { "seq": 5, "fault": "not_the_signed" } }),
            1,
            "",
            "error: the audit log is broken at event `5`: the rows are not those that the checkpoint was signed for \
             (`not_the_signed`)\nhint: what comes before that event is intact\n",
        ),
        (
            json!({ "intact": false, "events": 12, "broken": { "seq": 9, "fault": "key_not_seen" } }),
            1,
            "",
            "error: the audit log is broken at event `9`: no checkpoint is signed with this key (`key_not_seen`)\n\
             hint: compare the key with the one that you noted: `toolcrib audit key -o json` lists those of this log\n",
        ),
        (
            json!({ "intact": false, "events": 12, "broken": { "seq": 0, "fault": "bad_checkpoint" } }),
            1,
            "",
            "error: the audit log is broken: a checkpoint was changed, added or removed (`bad_checkpoint`)\n\
             hint: the list of checkpoints was changed: nothing speaks for the events\n",
        ),
        // Of a gateway that knows more faults than we do.
        (
            json!({ "intact": false, "events": 12, "broken": { "seq": 5, "fault": "odd" } }),
            1,
            "",
            "error: the audit log is broken at event `5`: odd\nhint: what comes before that event is intact\n",
        ),
    ] {
        let stub = Stub::start(move |message| Answer::result(message, &structured(&content))).await;
        let home = tempfile::tempdir().unwrap();
        stub.settle(home.path());
        let ran = run(home.path(), &["audit", "verify"], &[]).await;
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (code, stdout, stderr));
        stub.stop().await;
    }
}

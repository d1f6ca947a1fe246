//! The vault from outside: `toolcrib secret`, and servers that get what is in it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::toolcrib::{CommandOutput, Talk, run, run_with_stdin};

const VALUE: &str = "s3cret-välue";

async fn set(home: &Path, arguments: &[&str], value: &str) -> CommandOutput {
    run_with_stdin(home, &[&["secret", "set"], arguments].concat(), &[], value).await
}

#[tokio::test]
async fn secrets_are_set_listed_and_removed_and_never_shown() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    run(home, &["secret", "list"], &[]).await.prints("No secrets found\n");
    set(home, &["github"], &format!("{VALUE}\n"))
        .await
        .prints("set `github`; definitions refer to it as `vault:github`\n");
    set(home, &["mail", "--server", "mail", "--server", "files", "--profile", "work"], VALUE)
        .await
        .prints("set `mail`; definitions refer to it as `vault:mail`\n");
    let ran = run(home, &["secret", "set", "github", "--from-env", "TOKEN"], &[("TOKEN", VALUE)]).await;
    ran.prints("replaced `github`; definitions refer to it as `vault:github`\n");
    let table = run(home, &["secret", "list"], &[]).await;
    let lines: Vec<Vec<&str>> = table.stdout.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(lines[0], ["NAME", "SERVERS", "PROFILES", "SET"]);
    assert_eq!(lines[1][..3], ["github", "all", "all"]);
    assert_eq!(lines[2][0], "mail");
    assert!(table.stdout.contains("files") && table.stdout.contains("work"), "{}", table.stdout);
    let listed = run(home, &["secret", "list", "--json"], &[]).await;
    let json: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(json["secrets"][1]["servers"], json!(["files", "mail"]));
    assert_eq!(json["secrets"][1]["profiles"], json!(["work"]));
    assert!(!listed.stdout.contains(VALUE) && !table.stdout.contains(VALUE));
    run(home, &["secret", "rm", "mail"], &[]).await.prints("removed `mail`\n");
    let file = std::fs::read_to_string(home.join("state/vault")).unwrap();
    assert!(file.contains("github") && !file.contains("mail") && !file.contains(VALUE), "{file}");
}

#[tokio::test]
async fn wrong_use_is_told_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    set(home, &["github"], VALUE).await.prints("set `github`; definitions refer to it as `vault:github`\n");
    let before = std::fs::read(home.join("state/vault")).unwrap();
    run(home, &["secret", "rm", "githup"], &[]).await.fails(1, &["no secret `githup`", "hint: did you mean `github`?"]);
    set(home, &["github"], "\n").await.fails(1, &["value of `github` is empty"]);
    set(home, &["github"], "a\0b").await.fails(1, &["value of `github` contains a NUL character"]);
    set(home, &["github"], &"x".repeat(70_000)).await.fails(1, &["value of `github` is too long"]);
    set(home, &["github", VALUE], "").await.fails(64, &["unexpected argument"]);
    set(home, &["two words"], VALUE).await.fails(64, &["without spaces"]);
    set(home, &["github", "--server", "../x"], VALUE).await.fails(64, &["is not a name"]);
    let gone = run(home, &["secret", "set", "github", "--from-env", "GONE"], &[]).await;
    gone.fails(1, &["`GONE` is not set"]);
    let key = home.join("state/vault.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    run(home, &["secret", "list"], &[]).await.fails(1, &["cannot trust the key file", "chmod 600"]);
    std::fs::write(&key, "0".repeat(64)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    set(home, &["github"], VALUE).await.fails(1, &["was written with key", "hint: nothing was changed"]);
    std::fs::remove_file(&key).unwrap();
    set(home, &["github"], VALUE).await.fails(1, &["cannot find the key", "hint: nothing was changed"]);
    assert_eq!(std::fs::read(home.join("state/vault")).unwrap(), before);
}

/// Writes the definition of a fake server with these variables.
fn define(home: &Path, name: &str, env: &Value) {
    let folder = home.join("servers");
    std::fs::create_dir_all(&folder).unwrap();
    let program = toolcrib_testkit::fake_server();
    let text = json!({ "name": name, "command": program, "start": "eager", "env": env }).to_string();
    std::fs::write(folder.join(format!("{name}.json")), text).unwrap();
}

/// Calls tools over `toolcrib stdio` and gives the texts of the answers.
async fn called(home: &Path, calls: &[(&str, Value)], variables: &[(&str, &str)]) -> (Vec<String>, CommandOutput) {
    let mut lines = vec![
        json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    for (id, (name, arguments)) in calls.iter().enumerate() {
        let params = json!({"name": name, "arguments": arguments});
        lines.push(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let ran = run_with_stdin(home, &["stdio"], variables, &lines).await;
    let said: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |id: usize| {
        let answer = said.iter().find(|message| message["id"] == id).unwrap();
        answer["result"]["content"][0]["text"].as_str().map_or_else(|| answer["error"].to_string(), str::to_owned)
    };
    ((0..calls.len()).map(text).collect(), ran)
}

#[tokio::test]
async fn a_secret_reaches_the_server_that_may_have_it_and_nothing_else_does() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    set(home, &["github", "--server", "good"], VALUE)
        .await
        .prints("set `github`; definitions refer to it as `vault:github`\n");
    set(home, &["private", "--profile", "work"], VALUE)
        .await
        .prints("set `private`; definitions refer to it as `vault:private`\n");
    define(home, "good", &json!({ "API_KEY": "vault:github" }));
    for (name, reference) in
        [("bad", "vault:github"), ("typo", "vault:githup"), ("narrow", "vault:private"), ("ring", "keyring:x")]
    {
        define(home, name, &json!({ "API_KEY": reference }));
    }
    let env = |name: &str| json!({ "name": name });
    let calls = [
        ("good_env", env("API_KEY")),
        ("good_env", env("AWS_SECRET_ACCESS_KEY")),
        ("good_env", env("TOOLCRIB_HOME")),
        ("list_servers", json!({})),
    ];
    let variables = [("AWS_SECRET_ACCESS_KEY", "aws"), ("TOOLCRIB_LOG", "debug")];
    let (texts, ran) = called(home, &calls, &variables).await;
    assert_eq!(texts[0], VALUE);
    assert!(!texts[1].contains("aws") && !texts[2].contains(home.to_str().unwrap()), "{texts:?}");
    assert!(!ran.stderr.contains(VALUE), "{}", ran.stderr);
    let ran = run(home, &["stdio"], &[("TOOLCRIB_LOG", "info")]).await;
    for part in [
        "its `servers` are `good`, but this is server `bad`",
        "did you mean `github`?",
        "its `profiles` are `work`, but this is for every profile",
        "cannot use `keyring:x`: cannot reach a keyring",
    ] {
        assert!(ran.stderr.contains(part), "no `{part}` in:\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains(VALUE), "{}", ran.stderr);
}

#[tokio::test]
async fn what_a_program_prints_of_its_secret_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    set(home, &["key"], VALUE).await.prints("set `key`; definitions refer to it as `vault:key`\n");
    std::fs::create_dir_all(home.join("servers")).unwrap();
    let script = "echo \"bad key $API_KEY\" >&2; exit 3";
    let chatty = json!({ "name": "chatty", "command": "/bin/sh", "args": ["-c", script], "start": "eager", "env": { "API_KEY": "vault:key" } });
    std::fs::write(home.join("servers/chatty.json"), chatty.to_string()).unwrap();
    let ran = run(home, &["stdio"], &[("TOOLCRIB_LOG", "debug")]).await;
    let log = std::fs::read_to_string(home.join("state/logs/chatty.log")).unwrap();
    for text in [&ran.stderr, &log] {
        assert!(text.contains("bad key ****") && !text.contains(VALUE), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_an_address_comes_from_its_reference() {
    let server = HttpServer::start(|_: &Request, reply: &mut Reply<'_>| reply.full(404, &[], ""));
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("key"), "k1&x\n").unwrap();
    std::fs::create_dir(home.path().join("servers")).unwrap();
    let url = format!("{}?api_key=${{file:key}}&debug=1", server.url());
    let text = format!("name: maps\ntransport: http\nurl: \"{url}\"\n");
    std::fs::write(home.path().join("servers/maps.yaml"), text).unwrap();
    let mut talk = Talk::start(home.path(), &["stdio"]);
    talk.ask(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#).await;
    // It is listed in the background; every round trip gives it time.
    let asked = tokio::time::timeout(std::time::Duration::from_secs(120), async {
        loop {
            if let Some(request) = server.requests().into_iter().next() {
                return request.target;
            }
            talk.ask(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
        }
    });
    let target = asked.await.expect("nobody asked the server");
    assert!(target.ends_with("?api_key=k1%26x&debug=1"), "{target}");
}

//! Connectors from outside: written, given their secrets, called, tested and rotated; and no secret is anywhere but in the
//! vault and at its server, not even where that one repeats it.

use std::fmt::Write as _;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::eventually;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::launch::write;

use crate::toolcrib::{CommandOutput, run, run_with_stdin, toolcrib};

const FIRST: &str = "zq7-first-s3cret-Kx91vTbM";
const SECOND: &str = "wj4-second-s3cret-Pd28nLrY";
/// `ann:` and the secrets in base64, as `basic` sends them.
const FIRST_BASIC: &str = "YW5uOnpxNy1maXJzdC1zM2NyZXQtS3g5MXZUYk0=";

/// A server that lets in who has the header, and repeats it in all that it says.
fn answer(request: &Request, reply: &mut Reply<'_>) {
    let credential = ["authorization", "x-api-key", "x-team-key"].iter().find_map(|name| request.header(name));
    let credential = credential.unwrap_or_default();
    let is_known = [FIRST, SECOND, FIRST_BASIC].iter().any(|known| credential.contains(known));
    let message = request.json();
    if !is_known {
        return reply.full(403, &["content-type: text/plain"], format!("`{credential}` may not"));
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [
            {"name": "whoami", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
            {"name": "extra", "inputSchema": {"type": "object"}},
        ]}),
        "tools/call" => json!({"content": [{"type": "text", "text": format!("you sent {credential}.")}]}),
        _ => json!({}),
    };
    reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

fn definition(name: &str, url: &str, auth: &str) -> String {
    format!("name: {name}\nendpoint: {url}\nauth: {auth}\ntools: [{{name: whoami, action_type: read}}]\n")
}

/// What commands have printed, and what ended as it should.
#[derive(Default)]
struct Transcript(String);

impl Transcript {
    fn keep(&mut self, ran: &CommandOutput) {
        let _ = write!(self.0, "{}{}", ran.stdout, ran.stderr);
    }

    async fn ask(&mut self, home: &Path, arguments: &[&str]) -> CommandOutput {
        let ran = run(home, arguments, &[]).await;
        self.keep(&ran);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    }
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.push((path.display().to_string(), bytes));
        }
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_credential_reaches_its_server_and_nothing_else() {
    let server = HttpServer::start(answer);
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    write(home, "profiles/default.yaml", "name: default\nexposure: direct\n");
    let script = "turns: [{calls: [{name: bearer_whoami, arguments: {}}]}, {say: Done.}]";
    write(home, "models/m.yaml", &format!("name: m\nwire: script\nscript: {{{script}}}\n"));
    write(home, "agents/clerk.yaml", "name: clerk\nmodel: m\nconnectors: [bearer]\n");
    let kinds = [
        ("key", "{api_key: 'vault:first'}"),
        ("header-key", "{type: api_key, api_key: 'vault:first', header: X-API-Key}"),
        ("bearer", "{type: bearer, token: 'vault:first'}"),
        ("basic", "{type: basic, username: ann, password: 'vault:first'}"),
        ("header", "{type: header, header: X-Team-Key, value: 'vault:first'}"),
    ];
    let mut gateway = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"]).env("TOOLCRIB_LOG", "debug").start();
    gateway.logs("ready servers=0").await;
    let mut printed = Transcript::default();
    for (name, auth) in kinds {
        let file = write(home, "new.yaml", &definition(name, &server.url(), auth));
        printed.ask(home, &["create", "connector", "-f", file.to_str().unwrap()]).await;
    }
    // One value for all of them, as they share its entry.
    let before = run(home, &["connector", "test", "bearer"], &[]).await;
    assert!(before.code != 0 && before.stdout.contains("toolcrib connector rotate bearer"), "{before:?}");
    printed.keep(&before);
    let set = run_with_stdin(home, &["connector", "rotate", "bearer"], &[], &format!("{FIRST}\n")).await;
    assert_eq!(set.code, 0, "{set:?}");
    assert!(set.stdout.starts_with("set the secret of connector `bearer` in the vault"), "{set:?}");
    printed.keep(&set);
    // It is the first one's alone until its person says otherwise.
    let entry = ["secret", "set", "first", "--from-env", "VALUE"];
    printed.keep(&run(home, &entry, &[("VALUE", FIRST)]).await);
    for (name, _) in kinds {
        let tested = async { while run(home, &["connector", "test", name, "-o", "json"], &[]).await.code != 0 {} };
        eventually(&format!("`{name}` to be let in"), tested).await;
        let tested = printed.ask(home, &["connector", "test", name]).await;
        assert!(tested.stdout.contains("not in its definition: extra"), "{tested:?}");
        let called = printed.ask(home, &["call", &format!("{name}/whoami")]).await;
        assert!(called.stdout.contains("you sent"), "{called:?}");
    }
    printed.ask(home, &["run", "--agent", "clerk", "who am I?"]).await;
    let runs = printed.ask(home, &["run", "list", "-o", "json"]).await;
    let runs: Value = serde_json::from_str(&runs.stdout).unwrap();
    let id = runs["runs"][0]["run"].as_str().or(runs["runs"][0]["id"].as_str()).unwrap().to_owned();
    let export = printed.ask(home, &["run", "export", &id]).await;
    assert!(export.stdout.contains("you sent"), "the run called the tool: {export:?}");
    for words in [
        &["list", "connectors", "-o", "wide"][..],
        &["get", "connector", "bearer"],
        &["get", "server", "bearer"],
        &["list", "servers", "-o", "wide"],
        &["api", "/api/v1/connectors"],
        &["audit", "list", "-o", "json"],
        &["doctor"],
        &["logs", "bearer"],
    ] {
        let ran = run(home, words, &[]).await;
        printed.keep(&ran);
    }

    let rotated = run_with_stdin(home, &["connector", "rotate", "bearer"], &[], SECOND).await;
    assert!(rotated.stdout.contains("replaced the secret of connector `bearer`"), "{rotated:?}");
    assert!(rotated.stdout.contains("also the secret of: basic, header, header-key, key"), "{rotated:?}");
    printed.keep(&rotated);
    let sent = |secret: &str| {
        let wanted = format!("Bearer {secret}");
        server.requests().iter().any(|request| request.header("authorization") == Some(wanted.as_str()))
    };
    assert!(sent(FIRST));
    let called = async {
        while !sent(SECOND) {
            printed.keep(&run(home, &["call", "bearer/whoami"], &[]).await);
        }
    };
    eventually("the new secret at its server", called).await;

    gateway.signal(Signal::TERM);
    let ended = gateway.finish().await;
    printed.keep(&ended);
    let mut found = vec![("what was printed".to_owned(), printed.0.into_bytes())];
    files(home, &mut found);
    for (place, bytes) in &found {
        for secret in [FIRST, SECOND, FIRST_BASIC] {
            assert!(!holds(bytes, secret), "a secret is in {place}");
        }
    }
}

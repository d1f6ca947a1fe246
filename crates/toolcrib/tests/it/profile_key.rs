//! `toolcrib profile key`: keys are made, changed over and revoked in the profile's file.

use std::path::Path;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use toolcrib_testkit::eventually;
use toolcrib_testkit::launch::{GatewayProgram, write};
use toolcrib_transport::http::client::{HttpClient, Response};

use crate::toolcrib::{CommandOutput, run, toolcrib};

async fn key(home: &Path, arguments: &[&str]) -> CommandOutput {
    run(home, &[&["profile", "key"], arguments].concat(), &[]).await
}

/// The profile's file.
fn text(home: &Path, name: &str) -> String {
    std::fs::read_to_string(home.join(format!("profiles/{name}.yaml"))).unwrap()
}

#[tokio::test]
async fn keys_are_made_changed_over_and_revoked() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let begin = "# ours\nname: team   # all of us\nread_only: true\n";
    std::fs::create_dir(home.join("profiles")).unwrap();
    std::fs::write(home.join("profiles/team.yaml"), begin).unwrap();

    let first = key(home, &["add", "team", "ci"]).await;
    assert_eq!((first.code, first.stderr.as_str()), (0, ""));
    let secret = first.stdout.trim_end();
    assert!(secret.starts_with("tcb_") && secret.len() == 68, "{secret}");
    let file = text(home, "team");
    assert!(
        file.starts_with(begin)
            && file.contains("name: ci\n")
            && file.contains("sha256:")
            && !file.contains(&secret[4..])
    );

    key(home, &["add", "team", "ci"]).await.fails(1, &["key `ci` already exists", "rotate"]);
    let second = key(home, &["rotate", "team", "ci"]).await;
    assert_ne!(second.stdout, first.stdout);
    assert_eq!(text(home, "team").matches("name: ci").count(), 2, "both are valid for a while");
    key(home, &["rotate", "team", "ci"]).await.fails(1, &["2 keys `ci`", "--old"]);
    key(home, &["revoke", "team", "ci", "--old"]).await.prints("1 key(s) `ci` revoked\n");
    let now = text(home, "team");
    let first_hash = file.lines().find(|line| line.contains("sha256:")).unwrap();
    assert!(!now.contains(first_hash), "the first one is gone: {now}");
    key(home, &["revoke", "team", "ci"]).await.prints("1 key(s) `ci` revoked\n");
    assert_eq!(text(home, "team"), format!("{begin}keys: []\n"), "it stays shut");
    key(home, &["revoke", "team", "ci"]).await.fails(1, &["profile `team` has no key `ci`"]);
}

#[tokio::test]
async fn what_cannot_be_done_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    key(home, &["add", "team", "ci"]).await.fails(1, &["profile `team` has no file", "team.yaml"]);
    key(home, &["add", "../team", "ci"]).await.fails(64, &["is not a name"]);
    key(home, &["add", "team", "C I"]).await.fails(64, &["expected at most"]);
    key(home, &["add", "default", "ci"]).await;
    assert!(text(home, "default").starts_with("name: default\nkeys:\n  - name: ci\n    hash: "));
    for (wrong, part) in [("name: default\nkeys: 7\n", "2:7"), ("{name: default}\n", "nothing was changed")] {
        std::fs::write(home.join("profiles/default.yaml"), wrong).unwrap();
        key(home, &["add", "default", "ci"]).await.fails(1, &[part, "nothing was changed"]);
        assert_eq!(text(home, "default"), wrong);
    }
}

#[tokio::test]
async fn keys_have_roles_and_ends() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    key(home, &["add", "default", "ci", "--role", "viewer", "--expires", "30d"]).await;
    key(home, &["add", "default", "bob"]).await;
    let file = text(home, "default");
    assert!(file.contains("role: viewer") && file.matches("expires: ").count() == 1, "{file}");
    let listed = key(home, &["list", "default"]).await.stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "ROLE", "CREATED", "EXPIRES", "LAST", "USED", "USER"]);
    assert_eq!((&lines[1][..2], &lines[1][lines[1].len() - 2..]), (&["ci", "viewer"][..], &["never", "-"][..]));
    assert_eq!(lines[2][..2], ["bob", "member"]);
    assert!(!listed.contains("sha256") && !listed.contains("tcb_"), "{listed}");
    // The new one has the role and the life of the older one, which ends.
    key(home, &["rotate", "default", "ci", "--keep", "2h"]).await;
    let file = text(home, "default");
    assert_eq!((file.matches("role: viewer").count(), file.matches("expires: ").count()), (2, 2), "{file}");
    key(home, &["rotate", "default", "ci"]).await.fails(1, &["2 keys `ci`", "--old"]);
    let owned = tempfile::tempdir().unwrap();
    key(owned.path(), &["add", "default", "phone", "--user", "user:acme/ann"]).await;
    key(owned.path(), &["rotate", "default", "phone"]).await;
    let listed = key(owned.path(), &["list", "default"]).await.stdout;
    assert_eq!(listed.matches("user:acme/ann").count(), 2, "the new one is the same user's: {listed}");
    for (wrong, part) in [
        (&["add", "default", "eve", "--user", "ann"][..], "expected a user such as"),
        (&["add", "default", "eve", "--role", "owner"], "expected `viewer`"),
        (&["add", "default", "eve", "--role", "root"], "expected `viewer`"),
        (&["add", "default", "eve", "--expires", "2020-01-31"], "still to come"),
        (&["add", "default", "eve", "--expires", "soon"], "expected a date"),
        (&["add", "default", "eve", "--expires", "0d"], "expected a date"),
        (&["add", "default", "eve", "--expires", "99999999999999999999d"], "expected a date"),
        (&["rotate", "default", "ci", "--keep", "x"], "expected a period"),
    ] {
        key(home, wrong).await.fails(64, &[part]);
        assert_eq!(text(home, "default"), file);
    }
    for (line, place) in
        [("role: owner", "expected `viewer`"), ("expires: soon", "expected a date"), ("expires: 5", "expected")]
    {
        std::fs::write(home.join("profiles/default.yaml"), file.replacen("role: viewer", line, 1)).unwrap();
        key(home, &["list", "default"]).await.fails(1, &[place, "nothing was changed"]);
    }
}

/// A request of a client with a key at the profile `team`.
async fn ask(gateway: &GatewayProgram, method: Method, key: &str, session: Option<&str>) -> Response {
    let uri: Uri = format!("http://{}/mcp/p/team", gateway.address()).parse().unwrap();
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {key}");
    let lines = [
        (AUTHORIZATION, bearer.as_str()),
        (CONTENT_TYPE, "application/json"),
        (ACCEPT, if method == Method::GET { "text/event-stream" } else { "application/json, text/event-stream" }),
    ];
    let session = session.map(|id| (HeaderName::from_static("mcp-session-id"), id));
    for (name, value) in lines.into_iter().chain(session) {
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let body = if method == Method::GET { Bytes::new() } else { Bytes::from_static(hello.as_bytes()) };
    HttpClient::new().unwrap().send(method, &uri, headers, body).await.unwrap()
}

async fn last_used(home: &Path) -> String {
    let listed = key(home, &["list", "team"]).await.stdout;
    let line = listed.lines().find(|line| line.starts_with("ci")).unwrap_or_else(|| panic!("{listed}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    // EXPIRES is `never` too; the user is the last one.
    words[words.len() - 2].to_owned()
}

#[tokio::test]
async fn a_revoked_key_loses_its_stream_and_its_last_use_is_known_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "profiles/team.yaml", "name: team\n");
    let made = key(home.path(), &["add", "team", "ci"]).await.stdout;
    let secret = made.trim_end();
    assert_eq!(last_used(home.path()).await, "never");
    let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    let opened = ask(&gateway, Method::POST, secret, None).await;
    assert_eq!(opened.status, 200);
    // It is written down at the latest when the gateway ends.
    gateway.stop().await;
    let used = last_used(home.path()).await;
    assert!(used.contains(':'), "a time of day: {used}");
    let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    assert_eq!(last_used(home.path()).await, used);

    let opened = ask(&gateway, Method::POST, secret, None).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let stream = ask(&gateway, Method::GET, secret, Some(&session)).await;
    assert_eq!(stream.status, 200);
    key(home.path(), &["revoke", "team", "ci"]).await.prints("1 key(s) `ci` revoked\n");
    let end = eventually("the end of the stream", stream.body.collect(1 << 20)).await;
    assert!(!String::from_utf8_lossy(&end.unwrap_or_default()).contains("tcb_"));
    assert_eq!(ask(&gateway, Method::POST, secret, None).await.status, 401);
    gateway.stop().await;
}

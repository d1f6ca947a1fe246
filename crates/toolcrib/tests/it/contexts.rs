//! Contexts: which gateway is meant, who gets which token, and files that are not right.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::stub::{Answer, Stub, structured};
use crate::toolcrib::run;

async fn gateway() -> Stub {
    Stub::start(|message| Answer::result(message, &structured(&json!({ "tools": [], "total": 0 })))).await
}

async fn well(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let ran = run(home, arguments, variables).await;
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

#[tokio::test]
async fn a_contexts_life() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    well(home, &["context", "add", "work", "--endpoint", "https://work.example/mcp", "--token", "env:WORK"], &[]).await;
    well(
        home,
        &["context", "add", "local", "--endpoint", "http://127.0.0.1:9", "--use", "--default-output", "wide"],
        &[],
    )
    .await;
    assert_eq!(
        well(home, &["context", "list"], &[]).await,
        "CURRENT   NAME    ENDPOINT\n*         local   http://127.0.0.1:9\n-         work    https://work.example/mcp\n"
    );
    assert_eq!(well(home, &["list", "contexts", "-o", "name"], &[]).await, "local\nwork\n");
    assert_eq!(well(home, &["context", "current"], &[]).await, "local\n");
    assert!(well(home, &["context", "use", "work"], &[]).await.contains("Switched to context `work`"));
    assert!(well(home, &["context", "show"], &[]).await.contains("Token:     env:WORK"));
    well(home, &["context", "rename", "work", "office"], &[]).await;
    assert_eq!(well(home, &["context", "current"], &[]).await, "office\n");
    run(home, &["context", "delete", "local", "office"], &[]).await.fails(1, &["`office` is the current context"]);
    run(home, &["context", "delete", "none"], &[]).await.fails(1, &["no context `none`", "`office`, `local`"]);
    well(home, &["context", "delete", "office", "--force"], &[]).await;
    run(home, &["context", "current"], &[]).await.fails(1, &["no current context", "hint: "]);
    let mode = std::fs::metadata(home.join("contexts.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn wrong_contexts_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for (flags, part) in [
        (["add", "Bad", "--endpoint", "http://a"], "`Bad` is not a name"),
        (["add", "../x", "--endpoint", "http://a"], "is not a name"),
        (["add", "a", "--endpoint", "ftp://a"], "`ftp://a` is not an endpoint"),
        (["add", "a", "--endpoint", "http://u:p@a"], "is not an endpoint"),
    ] {
        run(home, &[&["context"][..], &flags].concat(), &[]).await.fails(1, &[part]);
    }
    let add = ["context", "add", "a", "--endpoint", "http://a"];
    run(home, &[&add[..], &["--token", "hunter2"]].concat(), &[])
        .await
        .fails(1, &["takes a reference", "--plain-token"]);
    run(home, &[&add[..], &["--token", "vault:x"]].concat(), &[]).await.fails(1, &["takes a reference"]);
    assert!(!home.join("contexts.yaml").exists());
    well(home, &add, &[]).await;
    run(home, &add, &[]).await.fails(1, &["`a` already exists", "context update a"]);
    run(home, &["list", "tools", "--context", "b"], &[]).await.fails(1, &["no context `b` (from `--context`)", "`a`"]);
    let both = ["list", "tools", "--context", "a", "--endpoint", "http://b"];
    run(home, &both, &[]).await.fails(64, &["cannot be used with"]);
    well(home, &["context", "update", "a", "--plain-token", "hunter2"], &[]).await;
    let shown = well(home, &["context", "show", "a", "-o", "json"], &[]).await;
    assert!(shown.contains("****") && !shown.contains("hunter2"), "{shown}");
    run(home, &["context", "update", "a", "--endpoint", "http://evil"], &[]).await.fails(1, &["belongs to `http://a`"]);
    std::fs::set_permissions(home.join("contexts.yaml"), std::fs::Permissions::from_mode(0o644)).unwrap();
    run(home, &["context", "list"], &[]).await.fails(1, &["other users can read it", "chmod 600"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_stops_only_what_needs_it() {
    let stub = gateway().await;
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("contexts.yaml"), "contexts: [{name: a\n").unwrap();
    for arguments in [&["list", "tools"][..], &["context", "list"], &["status"], &["context", "use", "a"]] {
        run(home, arguments, &[]).await.fails(1, &["contexts.yaml:", "not valid YAML", "hint: fix the file"]);
    }
    well(home, &["list", "tools", "--endpoint", &stub.url], &[]).await;
    well(home, &["list", "tools"], &[("TOOLCRIB_ENDPOINT", &stub.url)]).await;
    std::fs::remove_file(home.join("contexts.yaml")).unwrap();
    std::fs::create_dir(home.join("contexts.yaml")).unwrap();
    run(home, &["list", "tools"], &[]).await.fails(1, &["cannot read `", "--endpoint URL"]);
    stub.stop().await;
}

#[tokio::test]
async fn each_gateway_gets_its_own_token_and_no_other() {
    let (own, work) = (gateway().await, gateway().await);
    let home = tempfile::tempdir().unwrap();
    own.settle(home.path());
    let home = home.path();
    std::fs::write(home.join("work-token"), "of-work\n").unwrap();
    well(home, &["context", "add", "work", "--endpoint", &work.url, "--token", "file:work-token"], &[]).await;
    well(home, &["context", "add", "bare", "--endpoint", &work.url], &[]).await;
    let token = |stub: &Stub| {
        let asked = stub.asked("tools/call");
        let (headers, _) = asked.last().unwrap();
        headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
    };
    let mine = [("TOOLCRIB_TOKEN", "mine")];
    well(home, &["list", "tools", "--context", "work"], &mine).await;
    assert_eq!(token(&work).as_deref(), Some("Bearer of-work"));
    // A token in the environment belongs to no context.
    well(home, &["list", "tools"], &[("TOOLCRIB_CONTEXT", "bare"), mine[0]]).await;
    assert_eq!(token(&work), None);
    well(home, &["list", "tools"], &[]).await;
    assert_eq!(token(&own).as_deref(), Some("Bearer own-token"));
    well(home, &["context", "use", "work"], &[]).await;
    well(home, &["list", "tools"], &[]).await;
    assert_eq!(token(&work).as_deref(), Some("Bearer of-work"));
    well(home, &["list", "tools"], &[("TOOLCRIB_ENDPOINT", &own.url)]).await;
    assert_eq!(token(&own).as_deref(), Some("Bearer own-token"));
    std::fs::remove_file(home.join("work-token")).unwrap();
    run(home, &["list", "tools"], &[]).await.fails(2, &["cannot read a token", "work-token"]);
    own.stop().await;
    work.stop().await;
}

#[tokio::test]
async fn a_context_says_how_to_print() {
    let stub = gateway().await;
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let add = ["context", "add", "a", "--endpoint", &stub.url, "--use", "--default-output", "json"];
    well(home, &add, &[]).await;
    assert!(well(home, &["list", "tools"], &[]).await.starts_with('{'));
    assert_eq!(well(home, &["list", "tools", "-o", "table"], &[]).await, "No tools found\n");
    stub.stop().await;
}

//! `toolcrib profile export` and `import` against a control API of the tests.

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::toolcrib::{CommandOutput, run};

/// What an import would do: a server with one need, whose definition says `change`.
fn seen(change: &str) -> Value {
    let definition = json!({
        "name": "mail", "command": "npx", "args": ["-y", "a b", "\u{1b}]0;owned\u{7}"], "env": { "LD_PRELOAD": "/tmp/x" },
    });
    let need = json!({
        "server": "mail", "variable": "MAIL_KEY", "kind": "variable", "reference": "env:MAIL_KEY",
        "id": "mail/MAIL_KEY", "vault_name": "team/mail/MAIL_KEY", "help_url": "https://example.com/keys",
    });
    json!({
        "name": "team", "written": false, "needs": [need],
        "changes": [{ "kind": "server", "name": "mail", "file": "servers/mail.yaml", "change": change, "definition": definition }],
    })
}

fn gateway(change: &'static str) -> HttpServer {
    HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
        if request.method == "GET" {
            return reply
                .json(&[], &json!({ "name": "team", "bundle": "bundle: 1\n", "servers": ["mail"], "needs": [] }));
        }
        reply.json(&[], &seen(change));
    })
}

/// Runs an import of a file, and gives what was asked of the gateway too.
async fn import(change: &'static str, more: &[&str]) -> (CommandOutput, Vec<Value>) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("team.yaml");
    std::fs::write(&file, "bundle: 1\n").unwrap();
    let gateway = gateway(change);
    let endpoint = gateway.url();
    let arguments = ["profile", "import", file.to_str().unwrap(), "--endpoint", &endpoint];
    let ran = run(home.path(), &[&arguments, more].concat(), &[]).await;
    let asked = gateway.requests().iter().map(Request::json).collect();
    (ran, asked)
}

#[tokio::test]
async fn what_would_run_is_shown_first_and_cannot_steer_the_terminal() {
    let (ran, asked) = import("new", &["--preview"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in [
        "server `mail`: new, servers/mail.yaml\n",
        "  runs: npx -y \"a b\" \"\\u001b]0;owned\\u0007\"\n",
        "  variable: LD_PRELOAD=/tmp/x\n",
        "needs `MAIL_KEY` of server `mail`, which the bundle takes from `env:MAIL_KEY`, see https://example.com/keys\n",
        "Nothing was written.\n",
    ] {
        assert!(ran.stdout.contains(part), "no {part:?} in {}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'));
    assert_eq!(asked, [json!({ "bundle": "bundle: 1\n", "dry_run": true, "replace": false })]);
}

#[tokio::test]
async fn without_agreement_or_a_secret_nothing_is_written() {
    for (change, more, parts) in [
        ("new", &[][..], &["confirmation needs a terminal", "--yes"][..]),
        ("new", &["--yes"], &["missing `MAIL_KEY`", "--set mail/MAIL_KEY=env:MAIL_KEY", "--keep-references"]),
        ("new", &["--yes", "--set", "OTHER=env:OTHER"], &["needs no secret `OTHER`", "`mail/MAIL_KEY`"]),
        (
            "new",
            &["--yes", "--set", "MAIL_KEY=s3cret-value"],
            &["its vault may be on another machine", "toolcrib secret set"],
        ),
        ("new", &["--yes", "--set", "MAIL_KEY=-"], &["stdin has no line for `MAIL_KEY`"]),
        ("different", &["--yes", "--keep-references"], &["different content", "--replace"]),
    ] {
        let (ran, asked) = import(change, more).await;
        assert_eq!(ran.code, 1, "{more:?}: {}", ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{more:?}: no `{part}` in {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("s3cret-value") && !ran.stdout.contains("s3cret-value"));
        assert!(asked.iter().all(|asked| asked["dry_run"] == true), "{more:?}: {asked:?}");
    }
    let (ran, asked) = import("new", &["--set", "MAIL_KEY"]).await;
    ran.fails(64, &["NAME=VALUE"]);
    assert!(asked.is_empty());
}

#[tokio::test]
async fn references_are_those_that_the_person_agreed_to() {
    for (more, references) in [
        (&["--yes", "--keep-references"][..], json!({})),
        (&["--yes", "--set", "MAIL_KEY=vault:mine"], json!({ "mail/MAIL_KEY": "vault:mine" })),
        (&["--yes", "--set", "mail/MAIL_KEY=env:A", "--set", "MAIL_KEY=env:B"], json!({ "mail/MAIL_KEY": "env:A" })),
    ] {
        let (ran, asked) = import("new", more).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("profile `team` is served at http://"), "{}", ran.stdout);
        assert_eq!(asked[1], json!({ "bundle": "bundle: 1\n", "replace": false, "references": references }));
    }
}

#[tokio::test]
async fn an_export_overwrites_nothing() {
    let home = tempfile::tempdir().unwrap();
    let gateway = gateway("new");
    let (endpoint, file) = (gateway.url(), home.path().join("team.yaml"));
    let arguments = ["profile", "export", "team", "--endpoint", &endpoint];
    run(home.path(), &arguments, &[]).await.prints("bundle: 1\n");
    let to_file = [&arguments[..], &["--file", file.to_str().unwrap()]].concat();
    assert_eq!(run(home.path(), &to_file, &[]).await.code, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "bundle: 1\n");
    run(home.path(), &to_file, &[]).await.fails(1, &["cannot write", "choose a new file"]);
}

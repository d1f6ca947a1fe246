//! What flags become, and which do not go together.

use serde_json::json;

use super::*;

#[test]
fn flags_become_a_definition() {
    let program = Server {
        command: Some("npx".into()),
        args: vec!["-y".into(), "x".into()],
        cwd: Some("/srv".into()),
        env: vec!["K=env:K".into()],
        call_timeout: Some("30".into()),
        connect_timeout: Some("2m".into()),
        tool_prefix: Some("p".into()),
        title: Some("T".into()),
        category: Some("c".into()),
        keyword: vec!["a".into()],
        label: vec!["team=one".into()],
        start: Some("lazy".into()),
        idle: Some("90".into()),
        session: Some("shared".into()),
        era: Some("legacy".into()),
        ..Server::default()
    };
    assert_eq!(
        program.definition().unwrap(),
        json!({ "command": "npx", "args": ["-y", "x"], "cwd": "/srv", "env": { "K": "env:K" },
                "timeouts": { "connect": "2m", "call": "30s" }, "prefix": "p", "title": "T", "category": "c",
                "keywords": ["a"], "labels": { "team": "one" }, "start": "lazy", "idle": "90s", "session": "shared",
                "era": "legacy" })
    );
    let auth = auth::Auth { forward_token: true, required_audiences: vec!["a".into()], ..auth::Auth::default() };
    let remote = Server {
        transport: Some("streamable-http".into()),
        url: Some("https://a".into()),
        header: vec!["X=a=b".into()],
        auto_start: true,
        auth,
        ..Server::default()
    };
    assert_eq!(
        remote.definition().unwrap(),
        json!({ "transport": "http", "url": "https://a", "headers": { "X": "a=b" }, "start": "eager",
                "auth": { "type": "oauth", "forwardToken": true, "requiredAudiences": ["a"] } })
    );
    let issuer =
        auth::Auth { auth_issuer: Some("https://i".into()), auth_scopes: Some("a b".into()), ..auth::Auth::default() };
    assert_eq!(
        issuer.value().unwrap(),
        json!({ "type": "oauth", "authorizationServer": { "issuer": "https://i", "scopes": "a b" } })
    );
}

#[test]
fn a_change_says_only_what_changes() {
    let changes = Server {
        description: Some("d".into()),
        env: vec!["K=V".into()],
        start: Some("manual".into()),
        ..Server::default()
    };
    assert_eq!(changes.changes().unwrap(), json!({ "description": "d", "env": { "K": "V" }, "autoStart": false }));
    let header = Server { header: vec!["X=1".into()], ..Server::default() };
    assert_eq!(header.changes().unwrap(), json!({ "headers": { "X": "1" } }));
    for (server, part) in [
        (Server::default(), "nothing to change"),
        (Server { title: Some("t".into()), ..Server::default() }, "`--title` cannot change"),
        (Server { start: Some("lazy".into()), ..Server::default() }, "`--start` cannot change"),
        (Server { call_timeout: Some("3".into()), ..Server::default() }, "`--call-timeout` cannot change"),
        (Server { command: Some("c".into()), header: vec!["a=b".into()], ..Server::default() }, "over HTTP"),
    ] {
        let problem = server.changes().unwrap_err();
        assert!(problem.message.contains(part), "{problem}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (command, url) = (Some("c".to_owned()), Some("https://a".to_owned()));
    let auth = || auth::Auth { auth_type: Some("oauth".into()), ..auth::Auth::default() };
    for (server, part) in [
        (Server::default(), "neither `--command` nor `--url`"),
        (Server { transport: Some("sse".into()), ..Server::default() }, "`--url` is required"),
        (
            Server { command: command.clone(), url: url.clone(), ..Server::default() },
            "are for a server that is a program",
        ),
        (Server { cwd: command.clone(), url: url.clone(), ..Server::default() }, "are for a server that is a program"),
        (Server { command: command.clone(), header: vec!["a=b".into()], ..Server::default() }, "reached over HTTP"),
        (Server { command: command.clone(), auth: auth(), ..Server::default() }, "reached over HTTP"),
        (Server { command, env: vec!["A=1".into(), "A=2".into()], ..Server::default() }, "`A` is given twice"),
        (Server { url, header: vec!["secret".into()], ..Server::default() }, "expects `NAME=VALUE`"),
    ] {
        let problem = server.definition().unwrap_err();
        assert!(problem.message.contains(part) && !problem.message.contains("secret"), "{problem}");
    }
    assert!(Server { auto_start: true, ..Server::default() }.refuse("--file").is_err());
    assert!(Server { auth: auth(), ..Server::default() }.refuse("--file").is_err());
    assert!(Server { list_timeout: Some("1s".into()), ..Server::default() }.refuse("--file").is_err());
    Server::default().refuse("--file").unwrap();
}

//! Each state of a server and each reason of a failure has a next step.

use std::path::PathBuf;
use std::sync::Arc;

use toolcrib_base::Timestamp;
use toolcrib_upstream::HalfWritten;

use super::*;
use toolcrib_call::servers::wants_login;
use toolcrib_catalog::{AuthorizationKind, RegistryEntry, built_in};
use toolcrib_upstream::ServerUnavailable;
use toolcrib_view::advice::{for_caller, for_caller_of};

const PROGRAM: &str = "command: run\n";
const REMOTE: &str = "transport: http\nurl: https://example.com/mcp\n";

fn definition(text: &str) -> Arc<ServerDefinition> {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("servers")).unwrap();
    std::fs::write(home.path().join("servers/gh.yaml"), format!("name: gh\n{text}")).unwrap();
    let loaded = toolcrib_catalog::load(home.path());
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    loaded.servers["gh"].clone()
}

fn status(state: State, last_error: Option<&str>) -> Status {
    Status {
        state,
        since: Timestamp(0),
        last_error: last_error.map(str::to_owned),
        timed_out: false,
        next_retry: None,
        restarts: 0,
        listed: true,
        note: None,
        half_written: None,
    }
}

/// Every state. A new one does not compile until it is here.
fn states() -> Vec<State> {
    let all = [
        State::Idle,
        State::Starting,
        State::Installing,
        State::Ready,
        State::Failed,
        State::NeedsLogin,
        State::Stopped,
    ];
    for state in all {
        match state {
            State::Idle
            | State::Starting
            | State::Installing
            | State::Ready
            | State::Failed
            | State::NeedsLogin
            | State::Stopped => {}
        }
    }
    all.to_vec()
}

#[test]
fn every_state_has_a_next_step() {
    let program = definition(PROGRAM);
    for state in states() {
        let status = status(state, None);
        let own = advice_for(&program, &status, None);
        let expected = match state {
            State::Ready => "nothing: its tools answer",
            State::Idle => "nothing: it starts at the next call",
            State::Starting => "wait: it is being started",
            State::Installing => "wait: its program downloads it, which may take minutes",
            State::Stopped => "start it with `toolcrib server start gh`",
            State::Failed => {
                "fix `servers/gh.yaml` or the program it runs, then `toolcrib server restart gh`; it said more in \
                 `state/logs/gh.log`"
            }
            State::NeedsLogin => {
                "log in with `toolcrib login gh`; if its service gives out keys, you can write one under `headers` in \
                 `servers/gh.yaml` instead"
            }
        };
        assert_eq!(own, expected, "{state:?}");
        let theirs = for_caller(&program.name, &status);
        let expected = match state {
            State::Stopped => "An admin can start it with `toolcrib server start gh`.",
            State::Installing => "It is being downloaded: try again in a minute.",
            State::NeedsLogin => "Log in with `toolcrib login gh`, then repeat the call: it has not run.",
            State::Failed => "It is retried automatically; for the next step, run `toolcrib doctor gh`.",
            State::Idle | State::Starting | State::Ready => "Try again in a moment.",
        };
        assert_eq!(theirs, expected, "{state:?}");
        let away = ServerUnavailable { server: program.name.clone(), status };
        assert_eq!(for_caller_of(&away), format!("{expected} Other servers are unaffected."));
    }
    let downloads = advice_for(&program, &status(State::Installing, None), Some("npx"));
    assert_eq!(downloads, "wait: npx downloads it, which may take minutes");
}

#[test]
fn what_failed_decides_the_remedy() {
    let keyed = format!("{REMOTE}headers: {{X-Key: \"vault:gh\", X-Other: plain}}\n");
    for (text, error, parts) in [
        (PROGRAM, "no such program: `run`", ["install its program", "`command` in `servers/gh.yaml`"]),
        (PROGRAM, "cannot run `run`: permission denied", ["install its program", "`command`"]),
        (PROGRAM, "it ended with status 1", ["fix `servers/gh.yaml`", "the program it runs"]),
        (PROGRAM, "`env:KEY` is not set", ["give the secret", "`servers/gh.yaml`"]),
        (REMOTE, "the secret `vault:gh` is not there", ["give the secret", "`servers/gh.yaml`"]),
        (REMOTE, "`example.com` cannot be resolved", ["check the host in `url`", "network"]),
        (REMOTE, "HTTP status 401", ["it requires a credential", "`toolcrib secret set gh-key`"]),
        (&keyed, "HTTP status 403", ["`X-Key`, `X-Other` (from `vault:gh`)", "renew it"]),
        (REMOTE, "connection refused", ["check that its address answers", "headers in `servers/gh.yaml`"]),
    ] {
        let told = advice_for(&definition(text), &status(State::Failed, Some(error)), None);
        for part in parts.iter().chain(&["then `toolcrib server restart gh`"]) {
            assert!(told.contains(part), "{error}: no `{part}` in: {told}");
        }
        assert!(!told.contains("plain"), "{told}");
    }
    let half = HalfWritten { path: PathBuf::from("cache/entry"), why: "a file is missing".to_owned() };
    let failed = Status { half_written: Some(half), ..status(State::Failed, Some("it ended with status 1")) };
    let program = definition(PROGRAM);
    assert!(
        advice_for(&program, &failed, Some("npx"))
            .starts_with("remove the incomplete installation with `toolcrib doctor --fix`")
    );
    assert_eq!(for_caller(&program.name, &failed), "An admin can repair it with `toolcrib doctor --fix`.");
}

#[test]
fn a_login_is_advised_with_what_else_the_registry_knows() {
    let is_oauth =
        |entry: &&RegistryEntry| entry.authorization.kind == AuthorizationKind::OAuth2 && entry.host().is_some();
    let entries: Vec<_> = built_in().values().map(|it| &*it.entry).filter(is_oauth).collect();
    assert!(!entries.is_empty());
    for entry in entries {
        let host = entry.host().unwrap();
        let text = format!("transport: http\nurl: https://{host}/mcp\n");
        let told = remedy_for(&definition(&text), &status(State::NeedsLogin, None));
        assert!(
            told.starts_with("log in with `toolcrib login gh`") && told.contains("`servers/gh.yaml`"),
            "{}: {told}",
            entry.name
        );
        let has_key = entry.authorization.variables.iter().any(|key| key.header.is_some());
        assert_eq!(told.contains("\"vault:"), has_key, "{}: {told}", entry.name);
        assert!(wants_login(&definition(&text)));
    }
    assert!(wants_login(&definition(&format!("{REMOTE}auth: {{type: oauth}}\n"))));
    assert!(!wants_login(&definition(REMOTE)));
}

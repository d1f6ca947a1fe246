//! `toolcrib policy` with the settings of a team: what `check` says of groups and issuers, and what `explain` can be asked.

use toolcrib_testkit::fake_server;
use toolcrib_testkit::launch::write;

use crate::toolcrib::{run, toolcrib};

const SETTINGS: &str = "[identity]\nurl = 'http://127.0.0.1:9'\n[[identity.issuer]]\nname = 'acme'\n\
    issuer = 'https://login.example.com'\n\
    grants = [{group = 'developers', role = 'member', profiles = ['default']}]\n";
const TEAM: &str = r#"@id("near") forbid (principal in Group::"acme/developer", action, resource == Tool::"try/pid");
@id("other") forbid (principal in Group::"acme/finance", action, resource == Tool::"try/pid");
@id("issuer") forbid (principal == User::"acmee/ann", action, resource == Tool::"try/pid");
@id("entry") forbid (principal, action == Action::"configure", resource == Entry::"filesistem");
@id("late") forbid (principal in Client::"acme/editor", action == Action::"call", resource == Tool::"try/echo") when { context.time > datetime("2026-06-01") && context.door == "rest" && context.proof == "page" };
@id("tenant") forbid (principal in Tenant::"acme/t2", action, resource in Server::"try");"#;

#[tokio::test]
async fn check_knows_the_settings_and_explain_is_asked_all_that_policies_look_at() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "config.toml", SETTINGS);
    let server = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    write(home.path(), "servers/try.yaml", &server);
    write(home.path(), "policies/team.cedar", TEAM);
    write(home.path(), "profiles/default.yaml", "name: default\nregistry: [\"*\"]\n");
    let _gateway = toolcrib(home.path(), &["serve"]).serve().await;
    let checked = run(home.path(), &["policy", "check"], &[]).await;
    for said in [
        "the settings name no group `acme/developer` (Did you mean `acme/developers`?)",
        "names the issuer `acmee`, which does not exist (Did you mean `acme`?)",
        "entry `filesistem` does not exist (Did you mean `filesystem`?)",
        "policies checked: 22, 3 warnings",
    ] {
        assert!(checked.stdout.contains(said), "{said}: {} {}", checked.stdout, checked.stderr);
    }
    let late = ["--client", "editor", "--door", "rest", "--proof", "page", "--at"];
    for (more, act, said) in [
        ([&late[..], &["2026-07-01T00:00:00Z"]].concat(), &["call", "try/echo"][..], "refused by policy late"),
        ([&late[..], &["2026-05-01T00:00:00Z"]].concat(), &["call", "try/echo"], "permitted by policy baseline"),
        (vec!["--client", "editor"], &["call", "try/echo"], "depends on the call"),
        (vec!["--tenant", "t2"], &["get", "try/greet"], "hidden by policy tenant"),
        (vec!["--tenant", "t1"], &["get", "try/greet"], "permitted by policy baseline-read"),
        (vec!["--role", "operator"], &["approve", "try/echo"], "permitted by policy baseline-operator-approvals"),
        (vec![], &["approve", "try/echo"], "hidden, as if it did not exist"),
        (vec![], &["complete", "try/greet"], "permitted by policy baseline-read"),
        (vec![], &["forward", "try any/method"], "permitted by policy baseline-member"),
        (vec![], &["configure", "filesystem"], "permitted by policy baseline-member"),
        (vec![], &["run", "nothing"], "tool `workflow/nothing` does not exist"),
        (vec!["--at", "noon"], &["call", "try/echo"], "`at: noon` is no time"),
        (vec!["--door", "back"], &["call", "try/echo"], "\"back\" is not one of"),
    ] {
        let words = [&["policy", "explain", "--as", "user:acme/ann"][..], &more, act].concat();
        let explained = run(home.path(), &words, &[]).await;
        let all = format!("{} {}", explained.stdout, explained.stderr);
        assert!(all.contains(said), "{words:?}: {all}");
    }
}

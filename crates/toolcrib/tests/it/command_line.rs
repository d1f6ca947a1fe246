//! The command line itself: help, wrong use, settings, the guard before everything.

use crate::toolcrib::run;

#[tokio::test]
async fn the_help_names_the_exit_codes() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["--help"], &[]).await;
    assert_eq!(ran.code, 0);
    for part in ["serve", "stdio", "demo", "list", "find", "describe", "call", "audit", "Exit codes:", "64"] {
        assert!(ran.stdout.contains(part), "no `{part}` in:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("guard"));
    let ran = run(home.path(), &["serve", "--help"], &[]).await;
    // The lines are broken to fit a terminal.
    let help = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["--listen <ADDR>", "[env: TOOLCRIB_LISTEN] [default: 127.0.0.1:8700]", "--ready-file", "--session-idle"]
    {
        assert!(help.contains(part), "no `{part}` in:\n{help}");
    }
}

#[tokio::test]
async fn wrong_use_has_its_own_code() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &[], &[]).await.fails(64, &["Usage:"]);
    run(home.path(), &["serv"], &[]).await.fails(64, &["unrecognized subcommand", "serve"]);
    run(home.path(), &["list", "things"], &[])
        .await
        .fails(64, &["tools, servers, profiles, resources, prompts", "workflows"]);
    run(home.path(), &["find"], &[]).await.fails(64, &["<WORDS>"]);
    run(home.path(), &["find", "x", "--limit", "0"], &[]).await.fails(64, &["1..=100"]);
    run(home.path(), &["list", "tools", "-o", "xml"], &[]).await.fails(64, &["table, wide, json, yaml, name"]);
    run(home.path(), &["list", "tools", "--timeout", "soon"], &[]).await.fails(64, &["a duration above 0 such as"]);
    run(home.path(), &["stdio", "--profile", "../x"], &[]).await.fails(64, &["is not a name"]);
}

#[tokio::test]
async fn the_guard_comes_before_everything() {
    let home = tempfile::tempdir().unwrap();
    // Its own word for wrong use, not the one of the command line.
    run(home.path(), &["guard", "--help"], &[]).await.fails(2, &["toolcrib guard: "]);
}

#[tokio::test]
async fn a_gateway_is_not_opened_to_other_machines() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["serve"], &[("TOOLCRIB_LISTEN", "0.0.0.0:0")]).await;
    ran.fails(1, &["error: refusing to listen on `0.0.0.0:0`", "variable `TOOLCRIB_LISTEN`", "\nhint: set `tls.cert`"]);
    run(home.path(), &["demo", "--listen", "[::]:0"], &[]).await.fails(1, &["error: refusing to listen"]);
}

#[tokio::test]
async fn wrong_settings_name_their_place() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "\nlisten_on = 'x'\n").unwrap();
    let ran = run(home.path(), &["serve"], &[]).await;
    ran.fails(1, &["error: ", "config.toml:2: unknown key `listen_on`\n", "hint: did you mean `listen`?"]);
}

#[tokio::test]
async fn an_example_server_listens_on_this_machine_only() {
    let home = tempfile::tempdir().unwrap();
    let example = |arguments: &'static [&'static str]| run(home.path(), arguments, &[]);
    example(&["example", "units", "--listen", "0.0.0.0:0"]).await.fails(1, &["refusing to listen", "127.0.0.1:0"]);
    example(&["example", "units", "--tools", "convert"]).await.fails(1, &["no tool `convert`", "convert_length"]);
    example(&["example", "units", "--require", "NO_SUCH_KEY"]).await.fails(1, &["`NO_SUCH_KEY` is not set", "`env`"]);
}

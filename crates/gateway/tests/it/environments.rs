//! What a profile adds to the environment of its servers.

use serde_json::json;
use toolcrib_testgateway::{File, TestGateway, profile, server, server_with, text_of};

fn alpha() -> File {
    server_with("alpha", &[], "env: {BOTH: server}\nsession: shared\n")
}

fn with(name: &str, env: &str) -> File {
    profile(name, &format!("exposure: direct\n{env}"))
}

#[tokio::test]
async fn profiles_with_variables_have_processes_of_their_own_and_the_others_share_one() {
    let files = [
        alpha(),
        with("default", ""),
        with("plain", ""),
        with("work", "env: {BOTH: work, KEY: \"file:key\"}"),
        with("home", "env: {BOTH: home}"),
        ("key".to_owned(), "of-work\n".to_owned()),
    ];
    let house = TestGateway::settled(&files).await;
    let mut pids = Vec::new();
    for (name, both, key) in [
        ("default", "server", "(unset)"),
        ("plain", "server", "(unset)"),
        ("work", "work", "of-work"),
        ("home", "home", "(unset)"),
    ] {
        let [modern, legacy] = house.both(name);
        assert_eq!(modern.text("alpha_env", &json!({"name": "BOTH"})).await, both, "{name}");
        assert_eq!(legacy.text("alpha_env", &json!({"name": "KEY"})).await, key, "{name}");
        let pid = modern.text("alpha_pid", &json!({})).await;
        assert_eq!(legacy.text("alpha_pid", &json!({})).await, pid, "{name}: one for all of its clients");
        pids.push(pid);
    }
    assert_eq!(pids[0], pids[1], "no variables, no process of their own");
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[tokio::test]
async fn a_changed_variable_counts_from_the_next_call_on_and_the_old_process_ends() {
    let house = TestGateway::settled(&[alpha(), with("work", "env: {KEY: one}")]).await;
    let client = house.modern("work");
    assert_eq!(client.text("alpha_env", &json!({"name": "KEY"})).await, "one");
    let pid = client.text("alpha_pid", &json!({})).await;
    house.apply(&[with("work", "title: the same\nenv: {KEY: one}")]).await;
    assert_eq!(client.text("alpha_pid", &json!({})).await, pid, "the variables are the same");
    house.apply(&[with("work", "env: {KEY: two}")]).await;
    assert_eq!(house.server("alpha").extra_connections(), 0, "it was idle");
    assert_eq!(client.text("alpha_env", &json!({"name": "KEY"})).await, "two");
    house.apply(&[with("work", "")]).await;
    assert_eq!(house.server("alpha").extra_connections(), 0);
    assert_eq!(client.text("alpha_env", &json!({"name": "KEY"})).await, "(unset)");
}

#[tokio::test]
async fn a_reference_to_nothing_is_told_and_tried_again() {
    let env = "env: {FINE: yes it is, KEY: \"file:key\"}";
    let house = TestGateway::settled(&[alpha(), with("default", ""), with("work", env)]).await;
    let told = text_of(&house.modern("work").call("alpha_echo", &json!({"text": "a"})).await);
    for part in
        ["variable `KEY` of profile `work` for server `alpha`", "cannot read `file:key`", "give an existing file"]
    {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains("yes it is"), "{told}");
    assert_eq!(house.modern("default").text("alpha_echo", &json!({"text": "a"})).await, "a");
    house.write(&[("key".to_owned(), "here".to_owned())]);
    assert_eq!(house.modern("work").text("alpha_env", &json!({"name": "KEY"})).await, "here");
}

#[tokio::test]
async fn resources_are_read_in_it_too() {
    let house =
        TestGateway::settled(&[server("alpha", &[]), with("work", "env: {KEY: \"env:TOOLCRIB_IS_NOT_SET\"}")]).await;
    let refused = house.modern("work").ask("resources/read", &json!({"uri": "fake://text"})).await.unwrap_err();
    assert!(refused.message.contains("variable `KEY` of profile `work`"), "{refused:?}");
}

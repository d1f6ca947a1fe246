//! Operations on the registry: what is there, what each entry needs, a server made of one.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, strings, text_of};

const DESK: &str = "\
name: desk
title: Help desk
description: Reads tickets
category: office
tags: [tickets]
authorization:
  type: api_key
  help_url: https://desk.example.com/keys
  variables:
    - {name: DESK_KEY, title: Key of the desk, pattern: '^d-'}
    - {name: REGION, secret: false, default: eu, options: [eu, us]}
runtime:
  command: desk
  args: ['--region', '${REGION}']
  env: {MODE: hush}
";

fn entry(path: &str, text: &str) -> File {
    (format!("registry/{path}"), text.to_owned())
}

async fn house() -> (TestGateway, Client) {
    let time = "name: time\ntitle: Our clock\nruntime: {command: clock}\n";
    let house = TestGateway::settled(&[entry("desk.yaml", DESK), entry("custom/time.yaml", time)]).await;
    let admin = house.modern("default").admin();
    (house, admin)
}

async fn value(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = client.call(tool, &arguments).await;
    assert_ne!(result["isError"], true, "{tool} {arguments}: {result}");
    result["structuredContent"].clone()
}

#[tokio::test]
async fn entries_are_listed_by_words_category_and_tag_with_what_they_hide() {
    let (_house, admin) = house().await;
    let all = value(&admin, "core_registry_list", json!({})).await;
    let names = strings(&all["entries"], "name");
    assert!(names.is_sorted() && names.contains(&"desk".to_owned()) && names.contains(&"git".to_owned()));
    assert_eq!(all["total"], names.len());
    for (arguments, expected) in [
        (json!({"query": "HELP tickets"}), vec!["desk"]),
        (json!({"category": "office"}), vec!["desk"]),
        (json!({"tag": "tickets"}), vec!["desk"]),
        (json!({"query": "desk", "category": "search"}), vec![]),
        (json!({"query": "our clock"}), vec!["time"]),
    ] {
        let found = value(&admin, "core_registry_list", arguments.clone()).await;
        assert_eq!(strings(&found["entries"], "name"), expected, "{arguments}");
    }
    let time = value(&admin, "core_registry_list", json!({"query": "our clock"})).await["entries"][0].clone();
    assert_eq!(time["source"], "custom");
    assert_eq!((&time["origin"], &time["shadows"]), (&json!("registry/custom/time.yaml"), &json!(["built in"])));
    let git = value(&admin, "core_registry_get", json!({"name": "git"})).await;
    assert_eq!((&git["source"], &git["origin"]), (&json!("official"), &json!("built in")));
}

#[tokio::test]
async fn an_entry_tells_what_it_needs_and_no_value() {
    let (_house, admin) = house().await;
    let desk = value(&admin, "core_registry_get", json!({"name": "desk"})).await;
    let [key, region] = [0, 1].map(|at| desk["authorization"]["variables"][at].clone());
    assert_eq!((&key["name"], &key["secret"], &key["required"]), (&json!("DESK_KEY"), &json!(true), &json!(true)));
    assert_eq!((&key["pattern"], &key["help_url"]), (&json!("^d-"), &json!("https://desk.example.com/keys")));
    assert_eq!((&region["secret"], &region["options"]), (&json!(false), &json!(["eu", "us"])));
    assert_eq!(desk["needs"], json!(["DESK_KEY", "REGION"]));
    assert_eq!(desk["runtime"]["env"]["MODE"], "****");
    assert!(!desk.to_string().contains("hush"));
    let unknown = admin.call("core_registry_get", &json!({"name": "deskk"})).await;
    assert!(text_of(&unknown).contains("entry `deskk` not found. Nearest: `desk`"), "{unknown}");
}

#[tokio::test]
async fn a_server_is_made_of_an_entry_with_references_and_never_over_another() {
    let (house, admin) = house().await;
    let add = async |arguments: Value| admin.call("core_registry_add", &arguments).await;
    for (arguments, expected) in [
        (json!({"name": "desk"}), "`DESK_KEY` of entry `desk` has no value"),
        (json!({"name": "desk", "values": {"DESK_KEY": "d-hush"}}), "`DESK_KEY` is a secret"),
        (json!({"name": "desk", "values": {"DESK_KEY": "env:"}}), "expected a variable's name after `env:`"),
        (
            json!({"name": "desk", "values": {"DESK_KEY": "env:K", "REGION": "mars"}}),
            "does not accept this value of `REGION`",
        ),
        (json!({"name": "desk", "values": {"DESK_KEY": "env:K", "X": "y"}}), "no variable `X`"),
        (json!({"name": "desk", "server": "../x", "values": {"DESK_KEY": "env:K"}}), "do not fit"),
        (json!({"name": "nothing"}), "entry `nothing` not found"),
    ] {
        let answer = add(arguments.clone()).await;
        assert_eq!(answer["isError"], true, "{arguments}");
        assert!(text_of(&answer).contains(expected), "{arguments}: {answer}");
        assert!(!answer.to_string().contains("hush"));
    }
    assert!(house.gateway.loaded().servers.is_empty());

    let wanted = json!({"name": "desk", "server": "help", "values": {"DESK_KEY": "env:K", "REGION": "us"}});
    let added = add(wanted.clone()).await;
    assert_eq!(added["structuredContent"]["file"], "servers/help.yaml");
    let text = house.read("servers/help.yaml").unwrap();
    assert!(text.contains("env:K") && text.contains("--region") && text.contains("us"), "{text}");
    let desk = value(&admin, "core_registry_get", json!({"name": "desk"})).await;
    assert_eq!(desk["configured"], false, "it is the name that counts");
    assert!(house.gateway.loaded().servers.contains_key("help"));
    let again = add(wanted).await;
    assert_eq!(again["_meta"]["toolcrib/error"], "conflict");
    assert_eq!(house.read("servers/help.yaml").unwrap(), text);
}

#[tokio::test]
async fn an_entry_is_checked_without_being_written() {
    let (house, admin) = house().await;
    let check = async |arguments: Value| value(&admin, "core_registry_validate", arguments).await;
    let wrong = check(json!({"name": "lamp", "yaml": "name: lamp\nruntime: {command: lamp, arg: [on]}\n"})).await;
    assert_eq!((&wrong["valid"], &wrong["problems"][0]["line"]), (&json!(false), &json!(2)));
    let right = check(json!({"name": "lamp", "definition": {"runtime": {"command": "lamp"}}})).await;
    assert_eq!(right["valid"], true);
    assert!(right["warnings"].to_string().contains("`title`"), "{right}");
    assert!(house.read("registry/lamp.yaml").is_none());
}

#[tokio::test]
async fn non_admins_learn_nothing_and_make_nothing() {
    let (house, _) = house().await;
    let anybody = house.modern("default");
    for (tool, arguments) in [
        ("core_registry_list", json!({})),
        ("core_registry_get", json!({"name": "time"})),
        ("core_registry_add", json!({"name": "time"})),
        ("core_registry_validate", json!({"name": "time", "yaml": "name: time"})),
    ] {
        let refused = anybody.call(tool, &arguments).await;
        assert_eq!(refused["_meta"]["toolcrib/error"], "forbidden", "{tool}");
    }
    assert!(house.gateway.loaded().servers.is_empty());
}

//! The lists of several servers become one: whatever they are called, every tool has one name and every name one tool.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, stopped};

use crate::fidelity::check;

/// Names that collide once they are made to fit, by prefixing, by cutting, or with tools of the gateway itself.
const NAMES: &[&str] = &[
    "a",
    "A",
    "b",
    "a_b",
    "a b",
    "a-b",
    "a/b",
    "b_a",
    "ü",
    "ö",
    "list",
    "find_tools",
    "call_tool",
    "two_a",
    "x.y",
    "0",
    "very_long_name_that_goes_on_and_on_and_on_and_on_and_on_until_it_is_over_1",
    "very_long_name_that_goes_on_and_on_and_on_and_on_and_on_until_it_is_over_2",
];
const SERVERS: [&str; 4] = ["one", "two", "two-a", "a"];

/// The tools of each server that is there.
fn servers() -> impl Strategy<Value = BTreeMap<&'static str, Vec<&'static str>>> {
    let tools = prop::sample::subsequence(NAMES, 1..NAMES.len()).prop_shuffle();
    prop::collection::btree_map(prop::sample::select(&SERVERS[..]), tools, 1..=SERVERS.len())
}

fn files(servers: &BTreeMap<&'static str, Vec<&'static str>>, prefix: &str) -> Vec<File> {
    let lines = format!("exposure: direct\nprefix: {prefix}");
    let definitions = servers.iter().map(|(server, tools)| stopped(server, tools, ""));
    definitions.chain([profile("default", &lines)]).collect()
}

/// Every listed name and the id that it leads to.
async fn names(client: &Client) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for name in client.listed().await {
        let described = client.call("describe_tool", &json!({"name": name})).await;
        let id =
            described["structuredContent"]["id"].as_str().unwrap_or_else(|| panic!("{name}: {described}")).to_owned();
        assert!(names.insert(name.clone(), id).is_none(), "`{name}` is listed twice");
    }
    names
}

#[tokio::test]
async fn every_tool_is_listed_once_under_a_name_that_leads_to_it() {
    check(24, (servers(), prop::sample::select(&["server", "none"][..])), async |(servers, prefix)| {
        let house = TestGateway::open(&files(&servers, prefix), Setup::default());
        let expect: BTreeSet<String> = servers
            .iter()
            .flat_map(|(server, tools)| tools.iter().map(move |tool| format!("{server}/{tool}")))
            .collect();
        for client in house.both("default") {
            let names = names(&client).await;
            assert_eq!(names.values().cloned().collect::<BTreeSet<_>>(), expect, "{servers:?}");
            assert_eq!(names.len(), expect.len(), "{servers:?}");
            for name in names.keys() {
                let fits = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
                assert!((1..=64).contains(&name.len()) && name.bytes().all(fits), "{name}");
            }
            // The id stays exact, and leads to the same tool as the name.
            for id in &expect {
                let described = client.call("describe_tool", &json!({"name": id})).await;
                assert_eq!(described["structuredContent"]["id"], json!(id));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_never_changes_because_another_server_comes_or_goes() {
    check(12, (servers(), servers(), prop::sample::select(&["server", "none"][..])), async |(first, then, prefix)| {
        let house = TestGateway::open(&files(&first, prefix), Setup::default());
        let client = house.modern("default");
        let before = names(&client).await;
        let mut changed: Vec<File> = files(&then, prefix);
        // Those that stay keep their tools; those that are gone leave their names behind.
        changed.retain(|(path, _)| !first.keys().any(|server| *path == format!("servers/{server}.yaml")));
        let gone = first.keys().filter(|server| !then.contains_key(*server));
        changed.extend(gone.clone().map(|server| (format!("servers/{server}.yaml"), String::new())));
        house.apply(&changed).await;
        let during = names(&client).await;
        let back = first.iter().filter(|(server, _)| !then.contains_key(*server));
        let back: Vec<File> = back.map(|(server, tools)| stopped(server, tools, "")).collect();
        house.apply(&back).await;
        let after = names(&client).await;
        let by_id = |names: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            names.iter().map(|(name, id)| (id.clone(), name.clone())).collect()
        };
        let (before, during, after) = (by_id(&before), by_id(&during), by_id(&after));
        for (id, name) in &before {
            assert_eq!(after.get(id), Some(name), "{id} after all came back");
            assert!(during.get(id).is_none_or(|now| now == name), "{id} while others were there");
        }
        for (id, name) in &during {
            assert_eq!(after.get(id), Some(name), "{id} of a newcomer");
        }
    })
    .await;
}

#[tokio::test]
async fn the_text_of_an_entry_is_the_server_s_except_for_its_name() {
    let files = [stopped("one", &["a b"], ""), profile("default", "exposure: direct")];
    let house = TestGateway::open(&files, Setup::default());
    for client in house.both("default") {
        let list: Value = client.ask("tools/list", &json!({})).await.unwrap();
        assert_eq!(list["tools"], json!([{"name": "one_a_b", "inputSchema": {"type": "object"}}]));
    }
}

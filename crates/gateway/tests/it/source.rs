//! Sources: their tools are tools like any other, and what they call takes the one path.

use std::fmt;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_call::{Invocation, Source, Sources};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_testgateway::{File, Setup, TestGateway, profile, server, server_with, strings, text_of};
use toolcrib_view::{ObjectKind, Offer, Operation, Permission, ToolSource, VisibleNames};

const OPERATIONS: &[Operation] = &[Operation {
    tool: "core_program_count",
    path: "/programs",
    tag: "programs",
    summary: "Count the programs",
    description: "Count the programs.",
    permission: Permission::Open,
    output: r#"{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}"#,
    ..Operation::OF_SOURCE
}];

/// Tools that call each of the tools that they use, one after the other, with their own arguments.
struct Programs {
    name: ServerName,
    offers: Mutex<Arc<[Offer]>>,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Programs")
    }
}

impl Programs {
    fn of(programs: &[(&str, &[&str])]) -> Arc<Self> {
        let offers: Vec<Offer> = programs.iter().map(|(name, uses)| offer(name, uses)).collect();
        Arc::new(Self { name: ServerName::new("program").unwrap(), offers: Mutex::new(offers.into()) })
    }
}

fn offer(name: &str, uses: &[&str]) -> Offer {
    let entry = json!({
        "name": name, "description": format!("Runs the program {name}"),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    });
    let entry = Entry::from_raw(Listing::Tools, Raw::from_value(&entry)).unwrap();
    Offer { entry, uses: uses.iter().map(|&name| name.to_owned()).collect(), checks_arguments: false, slow: false }
}

impl ToolSource for Programs {
    fn name(&self) -> &ServerName {
        &self.name
    }

    fn tools(&self) -> Arc<[Offer]> {
        Arc::clone(&self.offers.lock().unwrap())
    }

    fn shows(&self, view: &dyn VisibleNames, kind: ObjectKind, name: &str) -> bool {
        let offers = self.tools();
        let offer = offers.iter().find(|offer| offer.entry.key == name);
        kind == ObjectKind::Workflow
            && offer.is_some_and(|offer| offer.uses.iter().all(|name| view.may_name_alone(name)))
    }

    fn explain(&self, _: &dyn VisibleNames, tool: &str) -> Option<Problem> {
        let is_known = self.tools().iter().any(|offer| offer.entry.key == tool);
        is_known.then(|| Problem::new(Kind::Unavailable, format!("program `{tool}` is not available")))
    }
}

impl Source for Programs {
    fn apply(&self, _: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        Vec::new()
    }

    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>> {
        let offers = self.tools();
        async move {
            let offer = offers.iter().find(|offer| offer.entry.key == invocation.tool).unwrap();
            let mut said = Vec::new();
            for tool in &offer.uses {
                said.push(invocation.call(tool, invocation.arguments.clone()).await?.to_value());
            }
            let text = said.iter().map(text_of).collect::<Vec<_>>().join("+");
            Ok(Raw::from_value(&json!({"content": [{"type": "text", "text": text}]})))
        }
        .boxed()
    }

    fn operations(&self) -> &'static [Operation] {
        OPERATIONS
    }

    fn operate(&self, operation: &'static Operation, _: Invocation) -> BoxFuture<'static, Result<Value, Problem>> {
        assert_eq!(operation.tool, "core_program_count");
        let count = self.tools().len();
        async move { Ok(json!({"count": count})) }.boxed()
    }
}

async fn settled(files: &[File], programs: &Arc<Programs>) -> TestGateway {
    let sources: Sources = Arc::new([Arc::clone(programs) as Arc<dyn Source>]);
    let house = TestGateway::open(files, Setup { sources, ..Setup::default() });
    house.settle().await;
    house
}

#[tokio::test]
async fn a_source_s_tool_is_a_tool_like_any_other() {
    let programs = Programs::of(&[("twice", &["fake/echo", "x_fake_echo"]), ("broken", &["fake/nothing"])]);
    let files = [server("fake", &[]), profile("direct", "exposure: direct\n"), profile("muster", "dialect: muster\n")];
    let house = settled(&files, &programs).await;
    for client in house.both("default") {
        assert_eq!(client.found(&json!({"query": "run the program twice"})).await[0], "program/twice");
        assert_eq!(client.text("program_twice", &json!({"text": "a"})).await, "a+a");
        assert_eq!(client.text("program/twice", &json!({"text": "b"})).await, "b+b");
        assert_eq!(
            client.text("call_tool", &json!({"name": "program_twice", "arguments": {"text": "c"}})).await,
            "c+c"
        );
        let described = client.call("describe_tool", &json!({"name": "program_twice"})).await;
        assert_eq!(described["structuredContent"]["state"], "ready");
        let wrong = client.call("program_twice", &json!({"text": 1})).await;
        assert_eq!(wrong["isError"], true);
        assert!(text_of(&wrong).contains("text"), "{wrong}");
        let refused = client.refused("program_broken", &json!({})).await;
        assert!(refused.message.contains("program `broken` is not available"), "{refused:?}");
    }
    let direct = house.modern("direct").listed().await;
    assert!(
        direct.contains(&"program_twice".to_owned()) && !direct.contains(&"program_broken".to_owned()),
        "{direct:?}"
    );
    let muster = house.modern("muster");
    let called = muster.call("call_tool", &json!({"name": "program_twice", "arguments": {"text": "d"}})).await;
    assert!(text_of(&called).contains("d+d"), "{called}");
    assert!(muster.refused("program_twice", &json!({})).await.message.contains("program_twice"));
}

#[tokio::test]
async fn every_call_in_its_course_is_decided_and_recorded() {
    let programs = Programs::of(&[("twice", &["fake/echo", "fake_echo"])]);
    let house = settled(&[server("fake", &[])], &programs).await;
    house.modern("default").text("program_twice", &json!({"text": "a"})).await;
    let audited = house.audited().await;
    let seen: Vec<_> = audited.iter().map(|it| (&*it.door, &*it.target)).collect();
    assert_eq!(seen, [("errand", "fake/echo"), ("errand", "fake/echo"), ("mcp", "program/twice")]);
}

#[tokio::test]
async fn it_is_there_only_where_all_that_it_uses_is() {
    let programs = Programs::of(&[
        ("plain", &["fake/echo"]),
        ("nested", &["program_plain"]),
        ("harm", &["program_nested", "fake/counter"]),
        ("circle", &["program_circle"]),
        ("there", &["program_back"]),
        ("back", &["program_there"]),
        ("counting", &["core_program_count"]),
    ]);
    let files = [
        server("fake", &[]),
        profile("open", "exposure: direct\n"),
        profile("without", "exposure: direct\ntools: {deny: [\"fake/echo\"]}\n"),
        profile("reading", "exposure: direct\nread_only: true\n"),
        profile("servers", "exposure: direct\nservers: [fake]\n"),
    ];
    let house = settled(&files, &programs).await;
    let programs_of = async |profile: &str| -> Vec<String> {
        let listed = house.modern(profile).listed().await;
        listed.into_iter().filter(|name| name.starts_with("program_")).collect()
    };
    assert_eq!(programs_of("open").await, ["program_plain", "program_nested", "program_harm", "program_counting"]);
    assert_eq!(programs_of("without").await, ["program_counting"]);
    assert_eq!(programs_of("reading").await, ["program_plain", "program_nested", "program_counting"]);
    assert!(programs_of("servers").await.is_empty(), "a source is named like a server");
    let listed = house.modern("open").ask("tools/list", &json!({})).await.unwrap();
    let hints = |name: &str| {
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["annotations"].clone()
    };
    assert_eq!(hints("program_counting")["readOnlyHint"], true);
    assert_eq!(hints("program_nested")["readOnlyHint"], true);
    assert_eq!(hints("program_harm")["readOnlyHint"], false);
    assert_eq!(hints("program_harm")["destructiveHint"], true);
    assert_eq!(house.modern("open").text("program_nested", &json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn its_operations_have_every_door() {
    let programs = Programs::of(&[("plain", &["fake/echo"])]);
    let house = settled(&[server("fake", &[])], &programs).await;
    let client = house.modern("default");
    let counted = client.call("core_program_count", &json!({})).await;
    assert_eq!(counted["structuredContent"]["count"], 1);
    let wrong = client.call("core_program_count", &json!({"what": 1})).await;
    assert!(text_of(&wrong).contains("what"), "{wrong}");
    let operation = house.gateway.operations.by_tool("core_program_count").unwrap();
    let answer = house
        .gateway
        .operate(
            operation,
            house.gateway.snapshot(&client.caller.profile).ok().as_ref(),
            &client.caller,
            Raw::empty_object(),
        )
        .await
        .unwrap();
    assert_eq!(answer.to_value()["count"], 1);
    let listed = house.modern("default").call("list_core_tools", &json!({})).await;
    assert!(strings(&listed["structuredContent"]["tools"], "name").contains(&"core_program_count".to_owned()));
}

#[tokio::test]
async fn limits_count_what_a_client_asks_once_at_a_time() {
    let programs = Programs::of(&[("twice", &["fake/echo", "fake/echo"])]);
    let files =
        [server("fake", &[]), profile("one", "limits: {concurrent: 1}\n"), profile("few", "limits: {per_minute: 2}\n")];
    let house = settled(&files, &programs).await;
    assert_eq!(house.modern("one").text("program_twice", &json!({"text": "a"})).await, "a+a");
    let third = house.modern("few").text("program_twice", &json!({"text": "a"})).await;
    assert!(third.contains("per_minute"), "calls of errands count: {third}");
}

#[tokio::test]
async fn the_limits_of_a_server_hold_for_calls_of_sources() {
    let programs = Programs::of(&[("twice", &["fake/echo", "fake/echo"]), ("once", &["fake/echo"])]);
    let limits = "limits: {tools: {echo: {per_minute: 4, argument_bytes: 2KiB, result_bytes: 1KiB}}}\n";
    let house =
        settled(&[server_with("fake", &[], limits), profile("few", "limits: {result_bytes: 1KiB}\n")], &programs).await;
    let client = house.modern("default");
    let large = client.text("program_once", &json!({"text": "x".repeat(3_000)})).await;
    assert!(large.contains("`limits.argument_bytes` of tool `fake/echo`"), "{large}");
    let long = client.text("program_once", &json!({"text": "x".repeat(1_500)})).await;
    assert!(long.contains("`limits.result_bytes` of tool `fake/echo`: the result has"), "never a part of it: {long}");
    assert!(!long.contains("xxxx"), "{long}");
    assert_eq!(client.text("program_twice", &json!({"text": "a"})).await, "a+a");
    let fifth = client.text("program_twice", &json!({"text": "a"})).await;
    assert!(fifth.contains("`limits.per_minute` of tool `fake/echo`: you have made 4 calls"), "{fifth}");
    let patient = house.gateway.doctor(Some("fake")).unwrap()["servers"][0].clone();
    assert_eq!(patient["limited"], json!({"per_minute": 1, "argument_bytes": 1, "result_bytes": 1}));
}

#[tokio::test]
async fn guards_look_at_the_calls_of_sources() {
    let programs = Programs::of(&[("once", &["fake/echo"])]);
    let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    for (guards, expected) in [
        ("{arguments: deny}", "a secret is in it (`github-token`)"),
        ("{results: redact}", "[redacted:github-token#1]"),
    ] {
        let files = [server_with("fake", &[], &format!("guards: {{secrets: {guards}}}\n"))];
        let house = settled(&files, &programs).await;
        let said = house.modern("default").text("program_once", &json!({ "text": token })).await;
        assert!(said.contains(expected) && !said.contains(token), "{said}");
    }
}

#[tokio::test]
async fn the_result_of_a_source_is_cut_where_the_profile_says_so() {
    let programs = Programs::of(&[("thrice", &["fake/echo", "fake/echo", "fake/echo"])]);
    let house = settled(&[server("fake", &[]), profile("few", "limits: {result_bytes: 1KiB}\n")], &programs).await;
    for client in house.both("few") {
        let cut = client.call("program_thrice", &json!({"text": "x".repeat(500)})).await;
        let uri = cut["content"][2]["uri"].as_str().unwrap();
        assert!(
            cut["content"][1]["text"].as_str().unwrap().contains("`limits.result_bytes` of profile `few`"),
            "{cut}"
        );
        let whole = client.ask("resources/read", &json!({"uri": uri})).await.unwrap();
        assert_eq!(whole["contents"][0]["text"].as_str().map(str::len), Some(1_502));
    }
}

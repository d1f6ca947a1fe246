//! Random policies, profiles, principals, labels and states: lists, search, descriptions, calls, prompts, resources,
//! completion, workflows with their steps and runs, events, explanations, operations, dialects and both eras say what the
//! policies say by themselves; and what is hidden is, byte for byte, what does not exist. `TOOLCRIB_POLICY_WORLDS=200`
//! makes more of them.

mod dialects;
mod flows;
mod states;
mod world;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcrib_base::{Identity, PrincipalId, Proof, Role, ServerName};
use toolcrib_policy::{Act, Annotations, Reference};
use toolcrib_protocol::Raw;
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, File, TestGateway, profile, strings, text_of};

use crate::visibility::{everything_about, seen};
use world::{DIALECTS, LABELS, LAPSED, Oracle, PROFILES, Random, TOOLS, World, worlds};

/// How many principals ask in each world in profiles of the native dialect, each in both eras.
const PRINCIPALS: usize = 2;

async fn outcome(client: &Client, method: &str, params: &Value) -> (&'static str, String) {
    match client.ask(method, params).await {
        Ok(result) if result["isError"] == true => ("refused", text_of(&result)),
        Ok(result) => ("ok", result.to_string()),
        Err(error) => ("refused", error.message),
    }
}

async fn check_tools(oracle: &Oracle<'_>, client: &Client, world: &str) {
    for id in TOOLS {
        let about = format!("{world}\n{id}");
        let ways = seen(client, id).await;
        let decision = oracle.decide(client, &oracle.tool(id), &json!({}), Door::MCP);
        if decision == "hidden" {
            assert_eq!(ways, Vec::<&str>::new(), "{about}");
        } else {
            for way in ["list", "find", "search", "describe", "load"] {
                assert!(ways.contains(&way), "{about}: {way} of {ways:?}");
            }
        }
        let name = id.replacen('/', "_", 1);
        for arguments in [json!({"text": "x", "name": "HOME"}), json!({"text": "y", "name": "HOME"})] {
            let decision = oracle.decide(client, &oracle.tool(id), &arguments, Door::MCP);
            let direct = outcome(client, "tools/call", &json!({"name": name, "arguments": arguments})).await;
            let inner = json!({"name": "call_tool", "arguments": {"name": id, "arguments": arguments}});
            let meta = outcome(client, "tools/call", &inner).await;
            let expect = if decision == "permit" { "ok" } else { "refused" };
            assert_eq!([direct.0, meta.0], [expect; 2], "{about} {arguments}: {decision} {direct:?} {meta:?}");
            if decision == "hidden" {
                assert!(direct.1.contains("not found") && meta.1.contains("not found"), "{about}: {direct:?} {meta:?}");
            }
        }
        check_explained(oracle, client, id, &about).await;
    }
}

/// What an administrator is told of the same request, and what the operation for all tools lists at another door.
async fn check_explained(oracle: &Oracle<'_>, client: &Client, id: &str, about: &str) {
    let Principal { id: principal, role, identity } = &client.caller.principal;
    let question = json!({
        "as": principal.as_str(), "role": role.as_str(), "groups": identity.groups, "tool": id,
        "profile": client.caller.profile.as_str(), "arguments": {"text": "x", "name": "HOME"}, "proof": identity.proof.as_str(),
        "at": "2026-11-25T12:00:00Z",
    });
    let admin = oracle.house.modern("default").admin();
    let operates = oracle.operates(&admin, "core_policy_explain", Door::MCP);
    let told = admin.call("core_policy_explain", &question).await;
    let act = oracle.tool(id);
    // The oracle holds for calls too, below and in `check_tools`.
    let expect = oracle.decide(client, &act, &json!({"text": "x", "name": "HOME"}), Door::MCP);
    let decision = told["structuredContent"]["decision"].as_str().unwrap_or_default();
    let decision = if matches!(decision, "confirm" | "approve") { "ask" } else { decision };
    // The door of keys is said by their names: an issuer is no part of them.
    if !operates {
        assert_eq!(told["isError"], true, "{about}: {told}");
    } else if !principal.as_str().starts_with("key:") {
        assert_eq!(decision, expect, "{about}: {told}");
    }
    let operation = oracle.house.gateway.operations.by_tool("core_tool_list").unwrap();
    let mut caller = client.caller.clone();
    caller.door = Door::REST;
    let snapshot = oracle.house.gateway.snapshot(&caller.profile).unwrap();
    let answer = oracle.house.gateway.operate(operation, Some(&snapshot), &caller, Raw::empty_object()).await;
    for text in ["x", "y"] {
        let arguments = json!({"text": text, "name": "HOME"});
        let decision = oracle.decide(client, &act, &arguments, Door::REST);
        let called = client.operate("core_tool_call", &json!({"name": id, "arguments": arguments})).await;
        let is_done = called.as_ref().is_ok_and(|it| it["isError"] != true);
        assert_eq!(is_done, decision == "permit", "{about} by REST: {decision} {called:?}");
    }
    assert_eq!(answer.is_ok(), oracle.operates(client, "core_tool_list", Door::REST), "{about}: {answer:?}");
    let Ok(answer) = answer else { return };
    let is_hidden = oracle.decide(client, &act, &json!({}), Door::REST) == "hidden";
    assert_eq!(answer.as_str().contains(&format!("\"{id}\"")), !is_hidden, "{about}: {}", answer.as_str());
}

async fn check_offers(oracle: &Oracle<'_>, client: &Client, world: &str) {
    for name in ["alpha", "beta"] {
        let (server, about) = (ServerName::new(name).unwrap(), format!("{world}\n{name}"));
        let exposed = format!("{name}_plain");
        let prompt = Act::GetPrompt { server: server.clone(), name: "plain".into() };
        let decision = oracle.decide(client, &prompt, &json!({}), Door::MCP);
        let listed = strings(&client.ask("prompts/list", &json!({})).await.unwrap()["prompts"], "name");
        assert_eq!(listed.contains(&exposed), decision != "hidden", "{about}: prompts {listed:?}");
        let got = outcome(client, "prompts/get", &json!({"name": exposed})).await;
        assert_eq!(got.0, if decision == "permit" { "ok" } else { "refused" }, "{about}: {got:?}");
        let complete = Act::Complete { server: server.clone(), of: Reference::Prompt, name: "plain".into() };
        let completes = oracle.decide(client, &complete, &json!({}), Door::MCP) == "permit" && decision != "hidden";
        let params = json!({"ref": {"type": "ref/prompt", "name": exposed}, "argument": {"name": "a", "value": ""}});
        let completed = outcome(client, "completion/complete", &params).await;
        assert_eq!(completed.0, if completes { "ok" } else { "refused" }, "{about}: {completed:?}");
    }
    check_resources(oracle, client, world).await;
}

/// Both servers have the same URIs: alone, one is shown by its own; together, they are told apart by their servers.
async fn check_resources(oracle: &Oracle<'_>, client: &Client, world: &str) {
    let listed = strings(&client.ask("resources/list", &json!({})).await.unwrap()["resources"], "uri");
    let inventory = oracle.house.server("alpha").inventory();
    for resource in &inventory.resources {
        let decision = |name: &str| {
            let act = Act::ReadResource { server: ServerName::new(name).unwrap(), uri: resource.key.as_str().into() };
            oracle.decide(client, &act, &json!({}), Door::MCP)
        };
        let decisions = ["alpha", "beta"].map(decision);
        let shown = decisions.iter().filter(|it| **it != "hidden").count();
        let found: Vec<&String> = listed.iter().filter(|uri| uri.ends_with(&resource.key)).collect();
        assert_eq!(found.len(), shown, "{world}\n{}: {decisions:?} {listed:?}", resource.key);
        let got = outcome(client, "resources/read", &json!({"uri": resource.key})).await;
        match (shown, decisions.contains(&"permit")) {
            (0, _) => assert!(got.0 == "refused" && got.1.contains("not found"), "{world}\n{}: {got:?}", resource.key),
            (1, is_permitted) => {
                let expect = if is_permitted { "ok" } else { "refused" };
                assert_eq!(got.0, expect, "{world}\n{}: {decisions:?} {got:?}", resource.key);
            }
            _ => {}
        }
    }
}

/// A call of a tool whose login has lapsed leads to the login, where policies let it through; else nothing tells of it.
async fn check_lapsed(oracle: &Oracle<'_>, client: &Client, world: &str) {
    let act = oracle.tool(LAPSED);
    let decision = oracle.decide(client, &act, &json!({}), Door::MCP);
    let listed = client.listed().await.contains(&"gamma_search".to_owned());
    assert_eq!(listed, decision != "hidden", "{world}\n{LAPSED}");
    for (name, arguments) in [("gamma_search", json!({})), ("call_tool", json!({"name": LAPSED, "arguments": {}}))] {
        let got = outcome(client, "tools/call", &json!({"name": name, "arguments": arguments})).await;
        let expect = match decision {
            "hidden" => "not found",
            "permit" => "requires a login",
            _ => "",
        };
        assert!(got.0 == "refused" && got.1.contains(expect), "{world}\n{LAPSED} {decision}: {got:?}");
        assert_eq!(got.1.contains("login"), decision == "permit", "{world}\n{LAPSED} {decision}: {got:?}");
    }
}

/// What happened to a server that is hidden is not told.
async fn check_events(oracle: &Oracle<'_>, client: &Client, world: &str) {
    let class = oracle.class(client, Door::MCP);
    let events = outcome(client, "tools/call", &json!({"name": "core_events", "arguments": {"limit": 1000}})).await;
    for name in ["alpha", "beta", "gamma"] {
        let server = ServerName::new(name).unwrap();
        if client.caller.principal.role < Role::Admin && !class.shows_server(&server, &oracle.labels) {
            assert!(!events.1.contains(name), "{world}\n{name}: {}", events.1);
        }
    }
}

#[tokio::test]
async fn no_door_disagrees_with_the_policies() {
    let mut random = Random(0x5eed_0014);
    let world = World::open().await;
    let house = &world.house;
    let mut decisions: BTreeMap<&str, usize> = BTreeMap::new();
    for number in 0..worlds() {
        let text = random.policies();
        house.apply(&[("policies/team.cedar".to_owned(), text.clone())]).await;
        assert_eq!(house.gateway.loaded().problems, [], "{text}");
        let oracle = Oracle::new(house, &text);
        for asker in 0..=PRINCIPALS {
            // The last one speaks another dialect.
            let profile =
                if asker < PRINCIPALS { PROFILES[random.below(PROFILES.len())].0 } else { DIALECTS[number % 3].0 };
            let principal = random.principal();
            let clients = house.both_of(principal.clone(), profile);
            for client in &clients {
                let era = if client.caller.session.is_some() { "legacy" } else { "modern" };
                let world = format!("{text}\n{principal:?} in {profile}, {era}");
                if asker == PRINCIPALS {
                    dialects::check(&oracle, client, &world).await;
                    continue;
                }
                check_tools(&oracle, client, &world).await;
                check_offers(&oracle, client, &world).await;
                check_lapsed(&oracle, client, &world).await;
                check_events(&oracle, client, &world).await;
                flows::check(&oracle, client, &world).await;
                for id in TOOLS {
                    *decisions
                        .entry(oracle.decide(client, &oracle.tool(id), &json!({"text": "x"}), Door::MCP))
                        .or_default() += 1;
                }
            }
            states::check_halted(house, &clients, &mut random, &text).await;
        }
    }
    assert!(["hidden", "deny", "permit"].iter().all(|it| decisions.contains_key(it)), "{decisions:?}");
}

/// A server, its tools and whether each reads, and what else its definition says.
type Shelf = (&'static str, &'static [(&'static str, bool)], &'static str);

/// A definition that is never started, with tools whose hints are known.
fn shelf(name: &str, tools: &[(&str, bool)], more: &str) -> File {
    let tools: Vec<Value> = tools
        .iter()
        .map(|(tool, reads)| json!({"name": tool, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": reads}}))
        .collect();
    let text = format!("name: {name}\ncommand: never-started\nstart: manual\ntools: {}\n{more}", json!(tools));
    (format!("servers/{name}.yaml"), text)
}

#[tokio::test]
async fn what_policies_hide_is_byte_identical_to_what_is_not_there() {
    const SHELVES: [Shelf; 2] = [
        ("alpha", &[("pid", true), ("echo", true), ("counter", false)], ""),
        ("beta", &[("image", true), ("counter", false), ("env", true)], LABELS),
    ];
    let mut random = Random(0x0b5c_0e7e);
    let mut compared = 0;
    for _ in 0..worlds() {
        let (text, principal) = (random.policies(), random.principal());
        let policy = ("policies/team.cedar".to_owned(), text.clone());
        let files = |keep: &dyn Fn(&str) -> bool| -> Vec<File> {
            let kept = |name: &str, tools: &[(&'static str, bool)]| -> Vec<(&'static str, bool)> {
                tools.iter().copied().filter(|(tool, _)| keep(&format!("{name}/{tool}"))).collect()
            };
            let shelves = SHELVES.iter().filter(|(name, ..)| keep(name));
            let shelves = shelves.map(|(name, tools, more)| shelf(name, &kept(name, tools), more));
            shelves.chain([profile(PROFILES[0].0, PROFILES[0].1), policy.clone()]).collect()
        };
        let with = TestGateway::settled(&files(&|_| true)).await;
        let oracle = Oracle::new(&with, &text);
        let [modern, _] = with.both_of(principal.clone(), "default");
        let class = oracle.class(&modern, Door::MCP);
        let shows = |name: &str| match name.split_once('/') {
            Some(_) => class.shows(&oracle.tool(name), &oracle.labels),
            None => class.shows_server(&ServerName::new(name).unwrap(), &oracle.labels),
        };
        let is_empty =
            |(name, tools, _): &Shelf| shows(name) && !tools.iter().any(|(tool, _)| shows(&format!("{name}/{tool}")));
        // A server that is shown without its tools is there, and one that never had any looks different.
        let hidden: Vec<&str> = TOOLS.into_iter().filter(|id| !shows(id)).collect();
        if hidden.is_empty() || SHELVES.iter().any(is_empty) {
            continue;
        }
        let without = TestGateway::settled(&files(&|name| shows(name))).await;
        let both =
            with.both_of(principal.clone(), "default").into_iter().zip(without.both_of(principal.clone(), "default"));
        for (with, without) in both {
            for id in &hidden {
                let (got, expect) = (everything_about(&with, id).await, everything_about(&without, id).await);
                assert_eq!(got, expect, "{text}\n{principal:?} {id}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "nothing was hidden in any world");
}

/// Who may do an operation: the words of the documentation, written once more.
fn may(role: Role, needs_admin: bool, annotations: Annotations) -> bool {
    let reads = annotations.read_only == Some(true);
    match role {
        Role::Viewer => reads && !needs_admin,
        Role::Member => !needs_admin,
        Role::Operator => !needs_admin || reads,
        Role::Admin | Role::Owner => true,
    }
}

#[tokio::test]
async fn every_operation_is_decided_by_the_role_at_every_door() {
    for policies in [None, Some("// what is shipped")] {
        let mut files = vec![shelf("alpha", &[("pid", true)], ""), profile(PROFILES[0].0, "groups: [admin]")];
        files.extend(policies.map(|text| ("policies/team.cedar".to_owned(), text.to_owned())));
        let house = TestGateway::settled(&files).await;
        let snapshot = house.gateway.snapshot(&house.modern("default").caller.profile).unwrap();
        let mut decided = 0;
        for role in Role::ALL {
            let principal = Principal::new(PrincipalId::new("user:acme/ann"), role, Identity::by(Proof::AccessToken));
            let [modern, legacy] = house.both_of(principal, "default");
            // What a tool's call is decided by is the tool.
            for operation in house.gateway.operations.iter().filter(|operation| !operation.is_call()) {
                let Act::Operation { needs_admin, annotations, .. } = operation.act() else { continue };
                let is_allowed = may(role, needs_admin, annotations);
                let is_closed = operation.input.contains(r#""additionalProperties":false"#);
                let acts = annotations.read_only != Some(true);
                if is_allowed && acts && !is_closed {
                    // What it does is another test's matter.
                    continue;
                }
                // What may change something is refused for its arguments, once it is let through.
                let given = if is_allowed && acts { r#"{"no such argument":1}"# } else { "{}" };
                let given = Raw::parse(given.to_owned().into(), toolcrib_protocol::json::Rules::strict(8)).unwrap();
                let about = format!("{policies:?} {} {role}", operation.tool);
                for client in [&modern, &legacy] {
                    let answer =
                        client.ask("tools/call", &json!({"name": operation.tool, "arguments": given.to_value()})).await;
                    let is_refused = answer.as_ref().is_ok_and(|it| it["_meta"]["toolcrib/error"] == "forbidden");
                    assert_eq!(is_refused, !is_allowed, "{about} by MCP: {answer:?}");
                }
                let mut caller = modern.caller.clone();
                caller.door = Door::REST;
                let answer = house.gateway.operate(operation, Some(&snapshot), &caller, given.clone()).await;
                assert!(!is_allowed || !acts || answer.is_err(), "{about} took a wrong argument: {answer:?}");
                let is_refused = answer.as_ref().is_err_and(|it| it.kind == toolcrib_base::Kind::Forbidden);
                assert_eq!(is_refused, !is_allowed, "{about} by REST: {answer:?}");
                decided += 1;
            }
        }
        assert!(decided > 250, "{decided}");
    }
}

//! Random policies, profiles, principals and labels: lists, search, descriptions, calls, prompts, resources, completion,
//! explanations, operations and both eras say what the policies say by themselves; and what is hidden is, byte for byte,
//! what does not exist. `TOOLCRIB_POLICY_WORLDS=200` makes more of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Glob, Identity, PrincipalId, Proof, Role, ServerName, Timestamp, ToolId};
use toolcrib_policy::{
    Act, Annotations, Caller, Class, LabelTable, Moment, Policies, PolicyText, PolicyVerdict, Reference, Request,
    Subject,
};
use toolcrib_protocol::Raw;
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, File, TestGateway, profile, server, server_with, strings, text_of};

use crate::visibility::{everything_about, seen};

/// How many sets of policies are tried if no one says another number.
const WORLDS: usize = 5;
const PRINCIPALS: usize = 2;

const LABELS: &str =
    "labels: {env: prod}\ntool_labels: {image: {risk: destructive_actions}, \"c*\": {env: dev, team: web}}\n";
const PROFILES: [(&str, &str); 4] = [
    ("default", "exposure: direct\ngroups: [load, resources, prompts]"),
    ("reads", "exposure: direct\ngroups: [load, resources, prompts]\nread_only: true"),
    ("quiet", "exposure: direct\ngroups: [load, resources, prompts]\ntools: {deny: [\"alpha/echo\", \"beta/c*\"]}"),
    ("alone", "exposure: direct\ngroups: [load, resources, prompts]\nservers: [alpha]"),
];
const TOOLS: [&str; 6] = ["alpha/pid", "alpha/echo", "alpha/counter", "beta/image", "beta/counter", "beta/env"];

/// A sequence that is the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn policies(&mut self) -> String {
        let count = 1 + self.below(4);
        (0..count).map(|number| self.policy(number)).collect()
    }

    fn policy(&mut self, number: usize) -> String {
        let principal = self.pick(&[
            "principal",
            "principal",
            "principal in Group::\"acme/dev\"",
            "principal == User::\"acme/ann\"",
            "principal in Profile::\"default\"",
            "principal is Key",
        ]);
        let (action, resources): (_, &[&str]) = match self.below(5) {
            0 => ("action", &["resource", "resource in Server::\"beta\"", "resource in Label::\"env=prod\""]),
            1 => (
                "action in [Action::\"read\", Action::\"get\", Action::\"complete\"]",
                &["resource in Server::\"alpha\""],
            ),
            2 => ("action == Action::\"get\"", &["resource == Prompt::\"alpha/plain\"", "resource"]),
            _ => (
                "action == Action::\"call\"",
                &[
                    "resource",
                    "resource in Server::\"alpha\"",
                    "resource in Label::\"env=prod\"",
                    "resource in Label::\"team=web\"",
                    "resource == Tool::\"alpha/echo\"",
                    "resource == Tool::\"beta/counter\"",
                ],
            ),
        };
        let resource = self.pick(resources);
        let condition = match (action.contains("call"), self.below(9)) {
            (_, 0 | 1) => "",
            (true, 2) => " unless { resource.readOnly }",
            (true, 3) => " when { resource.destructive }",
            (true, 4) => " when { resource.name like \"*e*\" }",
            (true, 5) => " when { context.arguments has text && context.arguments.text == \"x\" }",
            (true, 6) => " when { resource.labels.contains(\"env=dev\") }",
            (_, 7) => " when { context.door == \"mcp\" }",
            (_, 8) => " unless { principal in Role::\"admin\" }",
            _ => " when { context.time.toTime() >= duration(\"0h\") }",
        };
        let annotation = self.pick(&["", "", "", "@deny(\"said\") ", "@mode(\"record\") "]);
        format!("@id(\"p{number}\") {annotation}forbid ({principal}, {action}, {resource}){condition};\n")
    }

    fn principal(&mut self) -> Principal {
        let id = self.pick(&["user:acme/ann", "user:acme/bob", "key:default/ci"]);
        let mut identity = Identity::by(if id.starts_with("key") { Proof::Key } else { Proof::AccessToken });
        identity.issuer = Some("acme".into());
        identity.groups = ["dev", "ops"].into_iter().filter(|_| self.below(2) == 0).map(Into::into).collect();
        Principal::new(PrincipalId::new(id), [Role::Viewer, Role::Member, Role::Admin][self.below(3)], identity)
    }
}

/// What policies say by themselves.
struct Oracle<'a> {
    house: &'a TestGateway,
    policies: Policies,
    labels: LabelTable,
}

impl Oracle<'_> {
    fn new<'a>(house: &'a TestGateway, text: &str) -> Oracle<'a> {
        let operations = house
            .gateway
            .operations
            .iter()
            .map(|it| it.tool.trim_start_matches("core_").to_owned())
            .collect::<Vec<_>>();
        let file = PolicyText { file: "team.cedar".to_owned(), text: text.to_owned() };
        let policies = Policies::compile(&[file], &operations).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let pairs = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
            of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let of_tools = vec![
            (Glob::new("image").unwrap(), pairs(&[("risk", "destructive_actions")])),
            (Glob::new("c*").unwrap(), pairs(&[("env", "dev"), ("team", "web")])),
        ];
        let labels = LabelTable::new().server(&ServerName::new("beta").unwrap(), &pairs(&[("env", "prod")]), of_tools);
        Oracle { house, policies, labels }
    }

    fn class(&self, client: &Client, door: Door) -> Arc<Class> {
        let Principal { id, role, identity } = &client.caller.principal;
        let profile = &client.caller.profile;
        self.policies.class(&Subject { principal: id, role: *role, identity, profile, door: door.as_str() })
    }

    fn tool(&self, id: &str) -> Act {
        let tool = ToolId::parse(id).unwrap();
        let inventory = self.house.server(tool.server.as_str()).inventory();
        let entry = inventory.tools.iter().find(|it| *it.key == *tool.tool).unwrap();
        Act::CallTool { annotations: toolcrib_view::view::annotations(entry), tool }
    }

    /// `hidden`, `deny`, `ask` or `permit`: the profile first, then the policies.
    fn decide(&self, client: &Client, act: &Act, arguments: &Value, door: Door) -> &'static str {
        let view = self.house.gateway.view(client.caller.profile.as_str()).unwrap();
        let Principal { id, role, .. } = &client.caller.principal;
        let moment_of = arguments.to_string();
        let moment = Moment { arguments: Some(moment_of.as_bytes()), ..Moment::at(Timestamp(1_795_608_000_000)) };
        let request = Request { caller: Caller { principal: id, role: *role }, act };
        if let Err(denial) = view.rules.decide(&request, &moment)
            && denial.hidden
        {
            return "hidden";
        }
        let is_floor = view.rules.decide(&request, &moment).is_ok();
        match self.class(client, door).decide(act, &self.labels, &moment) {
            PolicyVerdict::Deny { hidden: true, .. } => "hidden",
            _ if !is_floor => "deny",
            PolicyVerdict::Deny { .. } => "deny",
            PolicyVerdict::Ask { .. } => "ask",
            PolicyVerdict::Permit(_) => "permit",
        }
    }
}

fn worlds() -> usize {
    std::env::var("TOOLCRIB_POLICY_WORLDS").ok().and_then(|it| it.parse().ok()).unwrap_or(WORLDS)
}

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
        "profile": client.caller.profile.as_str(), "arguments": {"text": "x"}, "proof": identity.proof.as_str(),
        "at": "2026-11-25T12:00:00Z",
    });
    let admin = oracle.house.modern("default").admin();
    let told = admin.call("core_policy_explain", &question).await;
    let act = oracle.tool(id);
    let arguments = json!({"text": "x"}).to_string();
    let moment = Moment { arguments: Some(arguments.as_bytes()), ..Moment::at(Timestamp(1_795_608_000_000)) };
    let expect = match oracle.class(client, Door::MCP).decide(&act, &oracle.labels, &moment) {
        PolicyVerdict::Permit(_) => "permit",
        PolicyVerdict::Deny { hidden: true, .. } => "hidden",
        PolicyVerdict::Deny { .. } => "deny",
        PolicyVerdict::Ask { .. } => "approve",
    };
    // The door of keys is said by their names: an issuer is no part of them.
    if !principal.as_str().starts_with("key:") {
        assert_eq!(told["structuredContent"]["decision"], expect, "{about}: {told}");
    }
    let operation = oracle.house.gateway.operations.by_tool("core_tool_list").unwrap();
    let mut caller = client.caller.clone();
    caller.door = Door::REST;
    let snapshot = oracle.house.gateway.snapshot(&caller.profile).unwrap();
    let answer = oracle.house.gateway.operate(operation, Some(&snapshot), &caller, Raw::empty_object()).await;
    let Ok(answer) = answer else {
        panic!("{about}: core_tool_list: {answer:?}");
    };
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

#[tokio::test]
async fn no_door_disagrees_with_the_policies() {
    let mut random = Random(0x5eed_0014);
    let mut files: Vec<File> = vec![server("alpha", &[]), server_with("beta", &[], LABELS)];
    files.extend(PROFILES.map(|(name, lines)| profile(name, lines)));
    let house = TestGateway::settled(&files).await;
    let mut decisions: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..worlds() {
        let text = random.policies();
        house.apply(&[("policies/team.cedar".to_owned(), text.clone())]).await;
        assert_eq!(house.gateway.loaded().problems, [], "{text}");
        let oracle = Oracle::new(&house, &text);
        for _ in 0..PRINCIPALS {
            let (principal, profile) = (random.principal(), PROFILES[random.below(4)].0);
            for client in house.both_of(principal.clone(), profile) {
                let era = if client.caller.session.is_some() { "legacy" } else { "modern" };
                let world = format!("{text}\n{principal:?} in {profile}, {era}");
                check_tools(&oracle, &client, &world).await;
                check_offers(&oracle, &client, &world).await;
                for id in TOOLS {
                    *decisions
                        .entry(oracle.decide(&client, &oracle.tool(id), &json!({"text": "x"}), Door::MCP))
                        .or_default() += 1;
                }
            }
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
                let waits = operation.tool == "core_audit_key";
                if is_allowed && (annotations.read_only != Some(true) || waits) {
                    // What it does is another test's matter; the key is waited for, and no one signs here.
                    continue;
                }
                let about = format!("{policies:?} {} {role}", operation.tool);
                for client in [&modern, &legacy] {
                    let answer = client.ask("tools/call", &json!({"name": operation.tool, "arguments": {}})).await;
                    let is_refused = answer.as_ref().is_ok_and(|it| it["_meta"]["toolcrib/error"] == "forbidden");
                    assert_eq!(is_refused, !is_allowed, "{about} by MCP: {answer:?}");
                }
                let mut caller = modern.caller.clone();
                caller.door = Door::REST;
                let answer = house.gateway.operate(operation, Some(&snapshot), &caller, Raw::empty_object()).await;
                let is_refused = answer.as_ref().is_err_and(|it| it.kind == toolcrib_base::Kind::Forbidden);
                assert_eq!(is_refused, !is_allowed, "{about} by REST: {answer:?}");
                decided += 1;
            }
        }
        assert!(decided > 100, "{decided}");
    }
}

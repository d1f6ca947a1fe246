//! What random policies hide is, in whole HTTP responses with their headers, what is not there: in every dialect, both eras
//! and REST. `TOOLCRIB_POLICY_WORLDS=200` makes more of them.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use toolcrib_testgateway::{File, profile, stopped, strings};

use crate::keys::{Key, key, with};
use crate::served::{Ask, Reply, ServedGateway};

/// How many sets of policies that hide something are tried if no one says another number.
const WORLDS: usize = 2;

const SERVERS: [(&str, &[&str], &str); 2] = [
    ("alpha", &["pid", "echo", "counter"], "labels: {env: dev}\n"),
    ("beta", &["image", "tally", "env"], "labels: {env: prod}\ntool_labels: {image: {team: web}}\n"),
];
const WORKFLOWS: [(&str, &str); 2] = [
    ("single", "steps: [{id: a, tool: alpha/echo}]\n"),
    ("double", "steps: [{id: a, tool: alpha/pid}, {id: b, tool: beta/image}]\n"),
];
const DIALECTS: [&str; 4] = ["native", "muster", "go-ent", "scooter"];

/// A sequence that is the same for the same seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn policies(&mut self) -> String {
        (0..=self.below(3)).map(|number| self.policy(number)).collect()
    }

    fn policy(&mut self, number: usize) -> String {
        let principal = self.pick(&["principal", "principal is Local", "principal is Key"]);
        let (action, resources): (_, &[&str]) = match self.below(4) {
            0 => ("action == Action::\"run\"", &["resource == Workflow::\"single\"", "resource"]),
            1 => ("action", &["resource in Server::\"beta\"", "resource in Label::\"env=prod\""]),
            _ => (
                "action == Action::\"call\"",
                &[
                    "resource in Server::\"alpha\"",
                    "resource in Label::\"team=web\"",
                    "resource == Tool::\"alpha/echo\"",
                    "resource == Tool::\"beta/tally\"",
                ],
            ),
        };
        let resource = self.pick(resources);
        let condition = match self.below(6) {
            0 if action.contains("call") => " when { resource.name like \"*e*\" }",
            1 if action.contains("call") => " when { context.arguments has text }",
            _ => "",
        };
        let annotation = self.pick(&["", "", "", "@approve(\"ops\") ", "@deny(\"said\") "]);
        format!("@id(\"p{number}\") {annotation}forbid ({principal}, {action}, {resource}){condition};\n")
    }
}

/// Who asks: anyone at this machine, or who has the key, who has profiles of its own.
struct Asker {
    key: Option<Key>,
    /// What the names of its profiles begin with.
    profiles: &'static str,
}

impl Asker {
    fn files(&self) -> Vec<File> {
        let keys = self.key.as_ref().map_or(String::new(), |key| format!("keys:\n{}", key.line));
        let of = |dialect: &str| {
            profile(
                &format!("{}-{dialect}", self.profiles),
                &format!("dialect: {dialect}\ngroups: [load, resources, prompts]\nexposure: direct\n{keys}"),
            )
        };
        DIALECTS.map(of).into()
    }

    async fn ask(&self, house: &ServedGateway, ask: Ask) -> Reply {
        house.ask(self.key.as_ref().map_or(ask.clone(), |key| with(ask, key))).await
    }

    async fn shown(&self, house: &ServedGateway) -> BTreeSet<String> {
        let ask = Ask::modern("tools/list", json!({})).to(&format!("/mcp/p/{}-native", self.profiles));
        strings(&self.ask(house, ask).await.result()["tools"], "name").into_iter().collect()
    }
}

/// The files of a house in which there is what `keep` says of the exposed names.
fn files(askers: &[Asker], policies: &str, keep: &dyn Fn(&str) -> bool) -> Vec<File> {
    let mut files: Vec<File> = askers.iter().flat_map(Asker::files).collect();
    for (name, tools, more) in SERVERS {
        let kept: Vec<&str> = tools.iter().copied().filter(|tool| keep(&format!("{name}_{tool}"))).collect();
        if !kept.is_empty() {
            files.push(stopped(name, &kept, more));
        }
    }
    for (name, steps) in WORKFLOWS.iter().filter(|(name, _)| keep(&format!("workflow_{name}"))) {
        files.push((format!("workflows/{name}.yaml"), format!("name: {name}\n{steps}")));
    }
    files.push(("policies/team.cedar".to_owned(), policies.to_owned()));
    files
}

/// What times look like, with a digit at each zero.
const TIME: &str = "0000-00-00T00:00:00.000Z";

/// A text without the times in it.
fn timeless(text: &str) -> String {
    let is_digit = |byte: u8, at: usize| TIME.as_bytes()[at] == if byte.is_ascii_digit() { b'0' } else { byte };
    let mut text = text.as_bytes().to_vec();
    let mut at = 0;
    while let Some(window) = text.get_mut(at..at + TIME.len()) {
        if window.iter().enumerate().all(|(place, byte)| is_digit(*byte, place)) {
            window.copy_from_slice(TIME.as_bytes());
        }
        at += 1;
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// All of a response but what differs from one to the next: times, and the ids of the request and the session.
fn whole(reply: &Reply) -> String {
    let ids = ["x-request-id", "mcp-session-id"].map(|name| reply.headers.get(name));
    let headers = reply.headers.iter().filter(|(name, _)| *name != "date");
    let mut headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}\n")).collect();
    headers.sort();
    let mut text =
        format!("{}\n{}\n{}", reply.status, headers.concat(), timeless(&String::from_utf8_lossy(&reply.body)));
    for id in ids.into_iter().flatten() {
        text = text.replace(id.to_str().unwrap(), "…");
    }
    text
}

/// What is different, with a little of what stands before it.
fn difference(one: &str, other: &str) -> Option<String> {
    let place = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let shown = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[place.saturating_sub(200)..]).chars().take(400).collect::<String>()
    };
    (one != other).then(|| format!("{}\n--- and ---\n{}", shown(one), shown(other)))
}

/// Every request that could tell of something by its id.
fn requests(profile: &str, id: &str, session: &str) -> Vec<Ask> {
    let (server, tool) = id.split_once('/').unwrap();
    let exposed = id.replacen('/', "_", 1);
    let mut calls: Vec<(&str, Value)> = vec![
        ("filter_tools", json!({"query": tool, "limit": 100})),
        ("find_tools", json!({"query": format!("{server} {tool}"), "limit": 100})),
        ("tool_find", json!({"query": tool, "limit": 100})),
        ("scooter_find", json!({"query": server})),
        ("scooter_add", json!({"tool_name": server})),
        ("scooter_remove", json!({"tool_name": server})),
        ("core_mcpserver_get", json!({"name": server})),
        ("core_workflow_available", json!({"name": tool})),
    ];
    for name in [id, &exposed] {
        calls.extend([
            (name, json!({"text": "x"})),
            ("call_tool", json!({"name": name, "arguments": {"text": "x"}})),
            ("describe_tool", json!({"name": name})),
            ("load_tools", json!({"names": [name]})),
            ("unload_tools", json!({"names": [name]})),
            ("tool_call", json!({"name": name})),
            ("scooter_call", json!({"tool": name})),
        ]);
    }
    let path = format!("/mcp/p/{profile}");
    let mut asks: Vec<Ask> = Vec::new();
    for (place, (name, arguments)) in calls.into_iter().enumerate() {
        let params = json!({"name": name, "arguments": arguments});
        let is_legacy = place % 2 == 0;
        asks.push(if is_legacy {
            Ask::legacy(session, "tools/call", &params).to(&path)
        } else {
            Ask::modern("tools/call", params).to(&path)
        });
    }
    let of_prompt = json!({"ref": {"type": "ref/prompt", "name": exposed}, "argument": {"name": "a", "value": ""}});
    for (method, params) in [
        ("tools/call", json!({"name": id, "arguments": {}})),
        ("tools/call", json!({"name": exposed, "arguments": {}})),
        ("prompts/get", json!({"name": exposed})),
        ("resources/read", json!({"uri": format!("{server}+file:///{tool}")})),
        ("completion/complete", of_prompt),
    ] {
        asks.push(Ask::modern(method, params.clone()).to(&path));
        asks.push(Ask::legacy(session, method, &params).to(&path));
    }
    let encoded = id.replace('/', "%2F");
    for (method, path) in [
        (Method::GET, format!("/tools/{encoded}")),
        (Method::POST, format!("/tools/{encoded}/call")),
        (Method::GET, format!("/servers/{server}")),
        (Method::GET, format!("/workflows/{tool}/available")),
    ] {
        let body = if method == Method::POST { "{}" } else { "" };
        asks.push(Ask::new(method, &format!("/api/v1{path}?profile={profile}"), body));
    }
    asks.push(Ask::get(&format!("/api/v1/search?profile={profile}&query={tool}")));
    asks
}

/// Requests for all there is.
fn overviews(profile: &str, session: &str) -> Vec<Ask> {
    let path = format!("/mcp/p/{profile}");
    let call = |name: &str| Ask::modern("tools/call", json!({"name": name, "arguments": {}})).to(&path);
    let mut asks: Vec<Ask> =
        ["list_tools", "list_resources", "list_prompts", "core_mcpserver_list", "core_workflow_list"].map(call).into();
    asks.push(Ask::modern("tools/list", json!({})).to(&path));
    asks.push(Ask::legacy(session, "tools/list", &json!({})).to(&path));
    let gets = ["tools", "servers", "workflows"];
    asks.extend(gets.map(|name| Ask::get(&format!("/api/v1/{name}?profile={profile}"))));
    asks
}

#[tokio::test]
async fn whole_responses_about_what_policies_hide_are_those_about_what_is_not_there() {
    let worlds = std::env::var("TOOLCRIB_POLICY_WORLDS").ok().and_then(|it| it.parse().ok()).unwrap_or(WORLDS);
    let mut random = Random(0x0b5c_0e7e_1dea_0001);
    let askers = [Asker { key: None, profiles: "open" }, Asker { key: Some(key("ci")), profiles: "keyed" }];
    let real = ServedGateway::settled(&files(&askers, "// none", &|_| true)).await;
    let (mut number, mut compared) = (0, 0);
    while compared < worlds {
        number += 1;
        let text = random.policies();
        real.apply(&[("policies/team.cedar".to_owned(), text.clone())]).await;
        assert_eq!(real.gateway.loaded().problems, [], "{text}");
        let asker = &askers[number % askers.len()];
        let shown = asker.shown(&real).await;
        let ids = |name: &str, tools: &[&str]| tools.iter().map(|tool| format!("{name}/{tool}")).collect::<Vec<_>>();
        let mut all: Vec<String> = SERVERS.iter().flat_map(|(name, tools, _)| ids(name, tools)).collect();
        all.extend(WORKFLOWS.map(|(name, _)| format!("workflow/{name}")));
        let mut hidden: Vec<&String> = all.iter().filter(|id| !shown.contains(&id.replacen('/', "_", 1))).collect();
        // A server that is shown without its tools is there, and one that never had any looks different.
        let servers = asker.ask(&real, Ask::get(&format!("/api/v1/servers?profile={}-native", asker.profiles))).await;
        let servers = String::from_utf8_lossy(&servers.body).into_owned();
        let is_empty = |(name, tools, _): &(&str, &[&str], &str)| {
            servers.contains(&format!("\"{name}\"")) && ids(name, tools).iter().all(|id| hidden.contains(&id))
        };
        if hidden.is_empty() || SERVERS.iter().any(is_empty) {
            continue;
        }
        // One of them is asked about: the first, or another in another world.
        hidden = vec![hidden[number % hidden.len()]];
        let bare = ServedGateway::settled(&files(&askers, &text, &|name| shown.contains(name))).await;
        for dialect in DIALECTS {
            let profile = format!("{}-{dialect}", asker.profiles);
            let mut sessions = Vec::new();
            for house in [&real, &bare] {
                let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
                let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
                let opened = asker.ask(house, Ask::post(body).to(&format!("/mcp/p/{profile}"))).await;
                sessions.push(opened.headers["mcp-session-id"].to_str().unwrap().to_owned());
            }
            let [mut of_real, mut of_bare] = [0, 1].map(|house| overviews(&profile, &sessions[house]));
            for id in &hidden {
                of_real.extend(requests(&profile, id, &sessions[0]));
                of_bare.extend(requests(&profile, id, &sessions[1]));
            }
            for (of_real, of_bare) in of_real.into_iter().zip(of_bare) {
                let about = format!("{text}\n{profile} {hidden:?}: {of_real:?}");
                let got = (asker.ask(&real, of_real).await, asker.ask(&bare, of_bare).await);
                let difference = difference(&whole(&got.0), &whole(&got.1));
                assert!(difference.is_none(), "{about}\n{}", difference.unwrap_or_default());
            }
        }
        compared += 1;
    }
}

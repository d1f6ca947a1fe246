//! Every operation, every route and every meta-tool, asked by callers from whom much is hidden: whatever comes back,
//! nothing of what is hidden is in it. What is added to the tables is walked by being there.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_testgateway::{File, profile};
use toolcrib_testkit::script::{ScriptedServer, Speaks};
use toolcrib_view::dialect::META_NAMES;
use toolcrib_view::{Method, Operation};
use toolcrib_web::route;

use crate::keys::{Key, key, with};
use crate::script::scripted;
use crate::served::{Ask, Events, Reply, ServedGateway};

/// The word in every name that is hidden, and the word in everything that hidden things say.
const MARKS: [&str; 2] = ["zebra", "quagga"];

/// The dialects, and so the profiles of the walk.
const DIALECTS: [&str; 4] = ["native", "muster", "go-ent", "scooter"];

fn hidden_server() -> ScriptedServer {
    ScriptedServer::start(Speaks::Legacy, |heard, say| {
        match heard.method.as_str() {
        "initialize" => say.result(
            &json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "zebra", "version": "1"},
                "instructions": "quagga", "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}},
            })
            .to_string(),
        ),
        "tools/list" => say.result(
            &json!({"tools": [{"name": "zebra_tool", "description": "Reads the quagga ledger", "inputSchema": {"type": "object"}}]})
                .to_string(),
        ),
        "prompts/list" => say.result(&json!({"prompts": [{"name": "zebra_prompt", "description": "quagga"}]}).to_string()),
        "resources/list" => {
            say.result(&json!({"resources": [{"uri": "zebra://quagga", "name": "zebra"}]}).to_string());
        }
        "resources/templates/list" => {
            say.result(&json!({"resourceTemplates": [{"uriTemplate": "zebra://{quagga}", "name": "zebra"}]}).to_string());
        }
        "tools/call" => say.result(r#"{"content":[{"type":"text","text":"quagga"}]}"#),
        _ => {}
    }
    })
}

/// A server that is shown, with one tool that is denied.
fn shown_server() -> ScriptedServer {
    ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let tool =
                |name: &str, text: &str| json!({"name": name, "description": text, "inputSchema": {"type": "object"}});
            let tools = [tool("open", "Opens a door"), tool("zebra", "Reads the quagga ledger of doors")];
            say.result(&json!({"tools": tools}).to_string());
        }
        "tools/call" if heard.value()["name"] == "zebra" => {
            say.result(r#"{"content":[{"type":"text","text":"quagga"}]}"#);
        }
        "tools/call" => say.result(r#"{"content":[{"type":"text","text":"opened"}]}"#),
        _ => {}
    })
}

/// What is hidden beside servers, their tools and what uses them: variables, secrets, entries of the registry, and what
/// must not be read of that which is shown.
fn plants() -> Vec<File> {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let secrets =
        "env: {QUAGGA: quagga, OTHER: 'vault:zebra-secret', FILE: 'file:quagga-key'}\ninherit_env: [QUAGGA_HOME]";
    let started = "{tool: shown/open, args: {text: quagga}, outputs: {said: text}}";
    vec![
        file(
            "servers/zebra-vault.yaml",
            &format!("name: zebra-vault\ncommand: quagga-program\nstart: manual\n{secrets}\n"),
        ),
        file(
            "servers/halted.yaml",
            &format!("name: halted\ncommand: quagga-program\nargs: [zebra]\ncwd: quagga\nstart: manual\n{secrets}\n"),
        ),
        // It cannot be started, and the reason names its secret. Only an error of a call tells the caller of it.
        file("servers/broken.yaml", &format!("name: broken\ncommand: quagga-program\nargs: [zebra]\n{secrets}\n")),
        file("quagga-key", "zebra"),
        file(
            "registry/custom/zebra-entry.yaml",
            "name: zebra-entry\ntitle: zebra\ndescription: Reads the quagga ledger\nruntime: {transport: http, url: 'https://quagga.example/mcp'}\n",
        ),
        file(
            "service-classes/open-class.yaml",
            &format!(
                "name: open-class\nargs: {{word: {{type: string, default: quagga}}}}\nserviceConfig: {{outputs: {{link: quagga}}, lifecycleTools: {{start: {started}, stop: {started}, status: {started}}}}}\n"
            ),
        ),
    ]
}

struct Walk {
    house: ServedGateway,
    key: Key,
    /// What is asked about: names of hidden things, and texts that are near them.
    texts: Vec<String>,
    asked: BTreeSet<String>,
    leaks: Vec<String>,
}

impl Walk {
    async fn begin(shown: &ScriptedServer, hidden: &ScriptedServer) -> Self {
        let key = key("ci");
        let rules = "servers: [shown, broken, halted, workflow]\ntools: {allow: ['*'], deny: ['*/zebra*']}\npinned: [shown/open, 'zebra-server/*']\n";
        let (place, text) = scripted("shown", shown, false);
        let mut files: Vec<File> = vec![
            (place, text + "headers: {X-Key: quagga, X-File: 'file:quagga-key'}\n"),
            scripted("zebra-server", hidden, false),
            ("workflows/zebra-flow.yaml".into(), "name: zebra-flow\ndescription: quagga\nsteps: [{id: quagga, tool: zebra-server/zebra_tool, store: true}]\n".into()),
            ("workflows/zebra-outer.yaml".into(), "name: zebra-outer\ndescription: quagga\nsteps: [{id: quagga, tool: workflow_zebra-flow}]\n".into()),
            ("workflows/mixed.yaml".into(), "name: mixed\nsteps: [{id: a, tool: shown/open}, {id: b, tool: shown/zebra}]\n".into()),
            ("workflows/plain.yaml".into(), "name: plain\nsteps: [{id: a, tool: shown/open}]\n".into()),
            ("service-classes/zebra-class.yaml".into(), "name: zebra-class\ndescription: quagga\nserviceConfig: {lifecycleTools: {start: {tool: zebra-server/zebra_tool}, stop: {tool: zebra-server/zebra_tool}}}\n".into()),
            profile("zebra-profile", &format!("description: quagga\nkeys:\n{}", key.line)),
            profile("keyed", &format!("{rules}exposure: pinned\nchanged_tools: hold\nkeys:\n{}", key.line)),
            profile("tight-direct", &format!("{rules}exposure: direct\n")),
        ];
        files.extend(plants());
        files.extend(
            DIALECTS.map(|dialect| profile(&format!("tight-{dialect}"), &format!("{rules}dialect: {dialect}\n"))),
        );
        let house = ServedGateway::settled(&files).await;
        // What was done with hidden things leaves runs, events, services and records.
        let run = Ask::modern("tools/call", json!({"name": "workflow_zebra-flow", "arguments": {}}));
        let run = house.ask(run).await.result();
        assert!(run.to_string().contains("quagga"), "{run}");
        let run: Value = serde_json::from_str(run["content"][0]["text"].as_str().unwrap()).unwrap();
        for (class, name) in [("zebra-class", "zebra-service"), ("open-class", "open-service")] {
            let service = json!({"serviceClassName": class, "name": name}).to_string();
            let made = Ask::new(http::Method::POST, "/api/v1/services", service).admin();
            assert_eq!(house.ask(made).await.status, 201, "{name}");
        }
        // What was decided about tools is kept by their names and texts.
        for (tool, arguments) in [
            ("core_mcpserver_approve", json!({"name": "zebra-server"})),
            ("core_mcpserver_approve", json!({"name": "shown", "tools": ["open"]})),
            ("core_mcpserver_reject", json!({"name": "shown", "tools": ["zebra"]})),
        ] {
            let decided = Ask::modern("tools/call", json!({"name": tool, "arguments": arguments})).admin();
            let decided = house.ask(decided).await.result();
            assert_ne!(decided["isError"], true, "{decided}");
        }
        let mut texts: Vec<String> = [
            "zebra-server",
            "zebra-server/zebra_tool",
            "zebra-server_zebra_tool",
            "x_zebra-server_zebra_tool",
            "shown/zebra",
            "shown_zebra",
            "zebra-flow",
            "workflow_zebra-flow",
            "workflow/zebra-outer",
            "mixed",
            "zebra-class",
            "zebra-service",
            "zebra-profile",
            "zebra-vault",
            "zebra-secret",
            "zebra-entry",
            "halted",
            "open-class",
            "open-service",
            "zebra_prompt",
            "zebra://quagga",
            "zebra",
            "zebr",
            "workflow_zebra",
            "*",
            "",
            "default",
            "shown",
            "plain",
            "read the ledger of doors",
            "MCPServer",
            "1h",
        ]
        .map(str::to_owned)
        .to_vec();
        texts.push(run["execution_id"].as_str().unwrap().to_owned());
        Self { house, key, texts, asked: BTreeSet::new(), leaks: Vec::new() }
    }

    /// Sends a request and looks for the marks in what comes back, apart from what was asked.
    async fn ask(&mut self, what: &str, sent: &str, ask: Ask) -> Reply {
        let reply = self.house.ask(ask).await;
        self.asked.insert(what.to_owned());
        let headers: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value:?}\n")).collect();
        let mut text = headers + &String::from_utf8_lossy(&reply.body);
        if !sent.is_empty() && sent != "*" {
            // Escaped as it may come back, and as it was.
            let escaped = serde_json::to_string(sent).unwrap();
            text = text.replace(escaped.trim_matches('"'), "").replace(sent, "");
            // A name that was asked for may be given back without its prefix.
            for part in sent.split(['/', '_']).filter(|part| part.len() > 5) {
                text = text.replace(part, "");
            }
        }
        if let Some(mark) = MARKS.iter().find(|mark| text.to_lowercase().contains(**mark)) {
            let start: String = text.chars().take(600).collect();
            self.leaks.push(format!("{what} with `{sent}` tells `{mark}`: {} {start}", reply.status));
        }
        reply
    }

    /// The same without a credential and with the key of a restricted profile.
    async fn ask_both(&mut self, what: &str, sent: &str, plain: Ask, keyed: Ask) {
        self.ask(what, sent, plain).await;
        let keyed = with(keyed, &self.key);
        self.ask(what, sent, keyed).await;
    }

    async fn operation(&mut self, operation: &'static Operation) {
        let schema: Value = serde_json::from_str(operation.input).unwrap();
        let method: http::Method = operation.method.as_str().parse().unwrap();
        // Most operations refuse these callers before they look at what is asked, so a few texts for each are enough.
        let few = [
            "zebra-server",
            "zebra-server/zebra_tool",
            "zebra-flow",
            "zebra-class",
            "zebra-entry",
            "zebr",
            "*",
            "plain",
            "broken",
            "open-class",
            "open-service",
        ];
        let run = self.texts.last().cloned();
        let mut asked = BTreeSet::new();
        for text in few.map(str::to_owned).into_iter().chain(run) {
            let encoded = percent(&text);
            let mut path = operation.path.to_owned();
            for name in operation.path_parameters() {
                path = path.replace(&format!("{{{name}}}"), &encoded);
            }
            let arguments = arguments(&schema, &text);
            // Where no argument takes a text, all are one request.
            if !asked.insert(format!("{path} {arguments}")) {
                continue;
            }
            let in_path: Vec<&str> = operation.path_parameters().collect();
            let rest: Vec<(&String, &Value)> =
                arguments.as_object().unwrap().iter().filter(|(name, _)| !in_path.contains(&name.as_str())).collect();
            let mut query = String::new();
            let mut body = String::new();
            if matches!(operation.method, Method::Get | Method::Delete) {
                for (name, value) in &rest {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    query.push_str(&format!("&{name}={}", percent(&value)));
                }
            } else {
                body = Value::Object(rest.iter().map(|(name, value)| ((*name).clone(), (*value).clone())).collect())
                    .to_string();
            }
            let ask = |profile: &str, query: &str| {
                Ask::new(method.clone(), &format!("/api/v1{path}?profile={profile}{query}"), body.clone())
            };
            let (bare, full) = (ask("tight-native", ""), ask("tight-native", &query));
            self.ask(operation.tool, &text, bare).await;
            self.ask_both(operation.tool, &text, full, ask("keyed", &query)).await;
            self.tool(operation.tool, &schema, &text, &DIALECTS[..1]).await;
        }
    }

    /// A tool of the gateway, called directly and by whatever calls others.
    async fn tool(&mut self, name: &str, schema: &Value, text: &str, dialects: &[&str]) {
        let arguments = arguments(schema, text);
        let call = |profile: &str, name: &str, arguments: &Value| {
            Ask::modern("tools/call", json!({"name": name, "arguments": arguments})).to(&format!("/mcp/p/{profile}"))
        };
        for dialect in dialects {
            self.ask(name, text, call(&format!("tight-{dialect}"), name, &arguments)).await;
        }
        let by = json!({"name": name, "arguments": arguments});
        self.ask_both(name, text, call("tight-muster", "call_tool", &by), call("keyed", "call_tool", &by)).await;
    }
}

/// Arguments that are plausible: each takes the text where it may be one.
fn arguments(schema: &Value, text: &str) -> Value {
    let members = schema["properties"].as_object().into_iter().flatten();
    let fitting = members.filter_map(|(name, property)| {
        if let Some(first) = property["enum"].as_array().and_then(|all| all.first()) {
            return Some((name.clone(), first.clone()));
        }
        let value = match property["type"].as_str() {
            Some("string") => match name.as_str() {
                // A time, or a kind, that is wrong ends it before it is answered.
                "since" | "until" | "resourceType" | "eventType" | "namespace" | "revision" | "cursor" => return None,
                _ => json!(text),
            },
            Some("array") => json!([text]),
            Some("object") => json!({}),
            Some("integer" | "number") => json!(10),
            Some("boolean") => json!(name != "follow"),
            _ => json!(text),
        };
        Some((name.clone(), value))
    });
    Value::Object(fitting.collect())
}

fn percent(text: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().map(|byte| if fits(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn assert_tight(walk: &Walk) {
    let shown: Vec<&String> = walk.leaks.iter().take(12).collect();
    assert!(walk.leaks.is_empty(), "{} leaks: {shown:#?}", walk.leaks.len());
}

#[tokio::test]
async fn no_operation_tells_of_what_is_hidden() {
    let (shown, hidden) = (shown_server(), hidden_server());
    let mut walk = Walk::begin(&shown, &hidden).await;
    let operations = Arc::clone(&walk.house.gateway.operations);
    // Admins are told all of it, so there is something to find.
    for path in [
        "/workflows",
        "/workflow-executions",
        "/servers",
        "/services",
        "/services/open-service",
        "/service-classes",
        "/service-classes/open-class",
        "/profiles",
        "/status",
        "/events/history",
        "/registry",
    ] {
        let all = walk.house.ask(Ask::get(&format!("/api/v1{path}")).admin()).await;
        let all = String::from_utf8_lossy(&all.body);
        assert!(MARKS.iter().any(|mark| all.contains(mark)), "{path}: {all}");
        let seen = walk.house.ask(Ask::get(&format!("/api/v1{path}?profile=tight-native"))).await;
        let is_open = !matches!(path, "/profiles" | "/registry");
        assert_eq!(seen.status == 200, is_open, "{path}: {:?}", seen.body);
    }
    for operation in operations.iter() {
        walk.operation(operation).await;
    }
    assert_tight(&walk);
    assert_eq!(walk.asked.len(), operations.iter().count());
}

/// A session of a restricted profile that follows all events, and its own stream.
async fn follows(walk: &Walk, profile: &str, has_key: bool) -> Events {
    let path = format!("/mcp/p/{profile}");
    let bearing = |ask: Ask| if has_key { with(ask.to(&path), &walk.key) } else { ask.to(&path) };
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let reply = walk.house.ask(bearing(Ask::post(body))).await;
    reply.result();
    let session = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let events = walk.house.events(bearing(Ask::get(&path).header("mcp-session-id", &session))).await;
    let follow = Ask::legacy(&session, "tools/call", &json!({"name": "core_events", "arguments": {"follow": true}}));
    let told = walk.house.ask(bearing(follow)).await.result();
    assert_ne!(told["isError"], true, "{told}");
    events
}

/// The same over HTTP+SSE of 2024-11-05.
async fn follows_of_old(walk: &Walk, profile: &str) -> Events {
    let mut events = walk.house.events(Ask::get(&format!("/sse/p/{profile}"))).await;
    let place = String::from_utf8(events.event().await.unwrap().data.to_vec()).unwrap();
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    let follow = json!({"name": "core_events", "arguments": {"follow": true}});
    for (id, method, params) in [(1, "initialize", params), (2, "tools/call", follow)] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(walk.house.ask(Ask::post(message.to_string()).to(&place)).await.status, 202);
        assert_eq!(events.next().await.unwrap()["id"], id);
    }
    events
}

/// Reads a stream until it says what is waited for, and looks for the marks in all of it.
async fn read(stream: &mut Events, what: &str, is_last: impl Fn(&Value) -> bool) {
    loop {
        let heard = stream.next().await.unwrap_or_else(|| panic!("{what} ended"));
        let text = heard.to_string();
        assert!(!MARKS.iter().any(|mark| text.contains(mark)), "{what}: {text}");
        if is_last(&heard) {
            return;
        }
    }
}

#[tokio::test]
async fn no_stream_tells_of_what_is_hidden() {
    let (shown, hidden) = (shown_server(), hidden_server());
    let walk = Walk::begin(&shown, &hidden).await;
    let house = &walk.house;
    house.ask(Ask::get("/api/v1/events")).await.problem(401);
    house.ask(with(Ask::get("/api/v1/events?profile=keyed"), &walk.key)).await.problem(403);
    let mut streams = [
        ("a session", follows(&walk, "tight-native", false).await),
        ("a session with a key", follows(&walk, "keyed", true).await),
        ("an old session", follows_of_old(&walk, "tight-native").await),
    ];
    let lists = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let listen = Ask::modern("subscriptions/listen", json!({"notifications": lists})).to("/mcp/p/tight-direct");
    let mut listening = house.events(listen).await;
    // The administrator's own stream shows that there is something to tell.
    let mut all = house.events(Ask::get("/api/v1/events").admin()).await;
    for (tool, arguments) in [
        ("workflow_zebra-flow", json!({})),
        ("workflow_mixed", json!({})),
        ("core_service_restart", json!({"name": "zebra-service"})),
        ("core_service_restart", json!({"name": "open-service"})),
        ("core_mcpserver_restart", json!({"name": "zebra-server"})),
        ("core_mcpserver_restart", json!({"name": "broken"})),
        ("core_mcpserver_restart", json!({"name": "shown"})),
    ] {
        house.ask(Ask::modern("tools/call", json!({"name": tool, "arguments": arguments})).admin()).await.result();
    }
    for (what, stream) in &mut streams {
        let is_back = |heard: &Value| {
            (&heard["params"]["resource_name"], &heard["params"]["reason"])
                == (&json!("shown"), &json!("MCPServerStarted"))
        };
        read(stream, what, is_back).await;
    }
    while !all.next().await.unwrap().to_string().contains("zebra-service") {}
    let rules = "servers: [shown, workflow]\ntools: {allow: ['*'], deny: ['*/zebra*', shown/open]}\nexposure: direct\n";
    let more = ("servers/zebra-more.yaml".to_owned(), "name: zebra-more\ncommand: quagga\nstart: manual\n".to_owned());
    house.apply(&[more, profile("tight-direct", rules)]).await;
    read(&mut listening, "listening", |heard| heard["method"] == "notifications/tools/list_changed").await;
}

#[tokio::test]
async fn no_meta_tool_tells_of_what_is_hidden() {
    let (shown, hidden) = (shown_server(), hidden_server());
    let mut walk = Walk::begin(&shown, &hidden).await;
    for meta in META_NAMES {
        let schema: Value = serde_json::from_str(meta.schema).unwrap();
        let mut asked = BTreeSet::new();
        // Where no argument takes a text, all are one request.
        for text in walk.texts.clone().into_iter().filter(|text| asked.insert(arguments(&schema, text).to_string())) {
            walk.tool(meta.name, &schema, &text, &DIALECTS).await;
        }
    }
    assert_tight(&walk);
}

#[tokio::test]
async fn no_route_and_no_method_tells_of_what_is_hidden() {
    let (shown, hidden) = (shown_server(), hidden_server());
    let mut walk = Walk::begin(&shown, &hidden).await;
    for path in route::PATHS {
        for query in ["", "?profile=tight-native", "?profile=keyed", "?profile=zebr"] {
            let path = format!("{path}{query}");
            if path.starts_with("/sse") {
                continue;
            }
            walk.ask_both(&path, "", Ask::get(&path), Ask::get(&path)).await;
        }
    }
    for profile in ["tight-native", "tight-muster", "tight-go-ent", "tight-scooter", "keyed", "nothing-of-this-name"] {
        let path = format!("/mcp/p/{profile}");
        for method in
            ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "x/y"]
        {
            let ask = Ask::modern(method, json!({})).to(&path);
            walk.ask_both(method, "", ask.clone(), ask).await;
        }
        for text in walk.texts.clone() {
            for (method, params) in [
                ("tools/call", json!({"name": text, "arguments": {}})),
                ("prompts/get", json!({"name": text})),
                ("resources/read", json!({"uri": text})),
                (
                    "completion/complete",
                    json!({"ref": {"type": "ref/prompt", "name": text}, "argument": {"name": "a", "value": "z"}}),
                ),
                (
                    "completion/complete",
                    json!({"ref": {"type": "ref/resource", "uri": text}, "argument": {"name": "a", "value": "z"}}),
                ),
                ("tasks/get", json!({"taskId": text})),
            ] {
                let ask = Ask::modern(method, params).to(&path);
                walk.ask_both(method, &text, ask.clone(), ask).await;
            }
        }
    }
    assert_tight(&walk);
}

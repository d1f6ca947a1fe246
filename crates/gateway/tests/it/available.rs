//! Entries of the registry in a profile: found and described, started by loading them, and gone without a trace when
//! that does not work.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, server, strings, text_of};
use toolcrib_testkit::eventually_holds;

/// An entry whose program notes each start in the file `starts`.
fn entry(name: &str, flags: &str, more: &str) -> File {
    let command = format!("echo {name} >> starts; exec {} {flags}", toolcrib_testkit::fake_server().display());
    let text = format!(
        "name: {name}\ntitle: The {name}\ndescription: Juggles oranges\ncategory: circus\n\
         runtime: {{command: sh, args: [\"-c\", {}], cwd: '.'}}\n{more}",
        json!(command)
    );
    (format!("registry/{name}.yaml"), text)
}

/// As the server offers them.
const TOOLS: &str = "\
tools:
  - {name: echo, description: Returns the text, inputSchema: {type: object, properties: {text: {type: string}}}}
  - {name: counter, description: Counts, inputSchema: {type: object}}
";

fn circus(lines: &str) -> Vec<File> {
    vec![
        server("alpha", &[]),
        entry("whole", "", ""),
        entry("parts", "", TOOLS),
        profile("default", &format!("registry: [whole, parts]\n{lines}")),
    ]
}

async fn load(client: &Client, names: &[&str]) -> Value {
    client.call("load_tools", &json!({"names": names})).await
}

fn starts(house: &TestGateway) -> usize {
    house.read("starts").unwrap_or_default().lines().count()
}

/// Waits until nothing but `alpha` is configured, and says that no file is left either.
async fn taken_back(house: &TestGateway, files: &[&str]) {
    // One of several entries may have failed before another was even written: that one is taken back later.
    eventually_holds("the end of all starts", || !house.gateway.is_configuring()).await;
    house
        .until("nothing of it left", |gateway| {
            gateway.loaded().servers.keys().all(|name| name.as_str() == "alpha") && gateway.is_in_step()
        })
        .await;
    for file in files {
        assert_eq!(house.read(&format!("servers/{file}.yaml")), None);
    }
}

#[tokio::test]
async fn what_is_available_is_found_and_described_and_nothing_else() {
    let house = TestGateway::settled(&circus("exposure: direct")).await;
    for client in house.both("default") {
        let listed = client.listed().await;
        assert!(listed.contains(&"load_tools".to_owned()), "what may be loaded can be: {listed:?}");
        assert!(!listed.iter().any(|name| name.contains("whole") || name.contains("parts")), "{listed:?}");

        let found = client.call("find_tools", &json!({"query": "oranges", "limit": 100})).await;
        let hits = &found["structuredContent"]["tools"];
        assert_eq!(strings(hits, "id"), ["whole/*", "parts/counter", "parts/echo"].map(str::to_owned));
        assert_eq!(strings(hits, "state"), ["available", "available", "available"]);
        assert_eq!(strings(hits, "name"), strings(hits, "id"));
        assert_eq!(hits[2]["signature"], "(text?: string)");
        let text = text_of(&found);
        assert!(text.contains("(available)") && text.contains("load_tools"), "{text}");

        for (name, described) in [("parts/echo", "Returns the text"), ("whole/*", "Juggles oranges")] {
            let about = client.call("describe_tool", &json!({"name": name})).await["structuredContent"].clone();
            assert_eq!((&about["id"], &about["description"]), (&json!(name), &json!(described)));
            assert_eq!(
                (&about["state"], &about["active"], &about["category"]),
                (&json!("available"), &json!(false), &json!("circus"))
            );
            assert_eq!(about["inputSchema"]["type"], "object");
        }
        for (name, loading) in [("parts/echo", "parts/echo"), ("whole/*", "whole/*"), ("whole/echo", "whole/*")] {
            let called = client.call("call_tool", &json!({"name": name, "arguments": {}})).await;
            assert_eq!(called["isError"], true);
            let direct = client.refused(name, &json!({})).await.message;
            for text in [text_of(&called), direct] {
                assert!(text.contains(&format!("load_tools {{\"names\":[\"{loading}\"]}}")), "{text}");
            }
        }
        let core = client.call("core_tool_list", &json!({})).await.to_string();
        let muster = client.call("filter_tools", &json!({"query": "oranges", "limit": 100})).await.to_string();
        assert!(!core.contains("parts/") && !muster.contains("parts"), "{core} {muster}");
    }
    assert_eq!(starts(&house), 0);
    assert_eq!(house.gateway.loaded().servers.len(), 1);
}

#[tokio::test]
async fn a_forbidden_entry_is_as_if_it_were_not_there() {
    let kinds = [
        ("registry: [other]", ""),
        ("registry: [mmmm]\nservers: [alpha]", ""),
        ("registry: [mmmm]\ntools: {deny: ['mmmm/*']}", ""),
        ("registry: [mmmm]\ntools: {allow: ['alpha/*', 'mmmm/other']}", TOOLS),
        ("registry: [mmmm]\nread_only: true", TOOLS),
        ("", ""),
    ];
    for (lines, tools) in kinds {
        let house =
            TestGateway::settled(&[server("alpha", &[]), entry("mmmm", "", tools), profile("default", lines)]).await;
        for client in house.both("default") {
            for (tool, arguments) in [
                ("find_tools", r#"{"query": "oranges", "server": "NAME"}"#),
                ("scooter_find", r#"{"query": "oranges"}"#),
                ("describe_tool", r#"{"name": "NAME/echo"}"#),
                ("describe_tool", r#"{"name": "NAME/*"}"#),
                ("call_tool", r#"{"name": "NAME/echo"}"#),
                ("load_tools", r#"{"names": ["NAME/*"]}"#),
                ("load_tools", r#"{"names": ["NAME/echo"]}"#),
                ("scooter_add", r#"{"tool_name": "NAME"}"#),
                ("scooter_activate", r#"{"tool_name": "NAME"}"#),
            ] {
                let mut answers = Vec::new();
                for name in ["mmmm", "wwww"] {
                    let arguments: Value = serde_json::from_str(&arguments.replace("NAME", name)).unwrap();
                    answers.push(client.call(tool, &arguments).await.to_string().replace(name, "NAME"));
                }
                assert_eq!(answers[0], answers[1], "{lines}: {tool} {arguments}");
            }
        }
        assert_eq!(starts(&house), 0, "{lines}");
        assert_eq!(house.gateway.loaded().servers.len(), 1);
    }
}

#[tokio::test]
async fn loading_configures_starts_and_loads_once() {
    let house = TestGateway::settled(&circus("require_load: true")).await;
    let client = house.modern("default");
    let loaded = load(&client, &["parts/echo", "alpha/pid"]).await;
    assert_eq!(strings(&loaded["structuredContent"]["tools"], "id"), ["alpha/pid", "parts/echo"]);
    assert_eq!(loaded["structuredContent"]["loaded"][1]["name"], "parts_echo");
    let text = house.read("servers/parts.yaml").unwrap();
    assert!(text.starts_with("# From the registry entry `parts`."), "{text}");
    assert_eq!(client.text("parts_echo", &json!({"text": "a"})).await, "a");
    assert_eq!(client.call("parts_counter", &json!({})).await["isError"], true, "it was not loaded");
    let found = client.call("find_tools", &json!({"query": "oranges", "server": "parts", "limit": 100})).await;
    assert_eq!(found["structuredContent"]["tools"][0]["state"], "ready");

    for names in [&["parts/echo"], &["parts_echo"]] {
        assert_eq!(load(&client, names).await["structuredContent"]["count"], 2);
    }
    assert_eq!((starts(&house), house.read("servers/parts.yaml").unwrap()), (1, text));

    let whole = house.legacy("default");
    let count = load(&whole, &["whole/*"]).await["structuredContent"]["count"].clone();
    assert_eq!(load(&whole, &["whole/*"]).await["structuredContent"]["count"], count);
    assert_eq!(whole.text("whole_echo", &json!({"text": "b"})).await, "b");
    whole.call("unload_tools", &json!({"names": ["whole/*"]})).await;
    assert_eq!(whole.call("whole_echo", &json!({"text": "b"})).await["isError"], true);
    assert_eq!(starts(&house), 2);

    let audited = house.audited().await;
    let events: Vec<_> = audited.iter().filter(|it| it.method == "registry/configure").collect();
    let told: Vec<_> = events.iter().map(|it| (&*it.target, &*it.outcome)).collect();
    assert_eq!(told, [("parts", "ok"), ("whole", "ok")]);
    assert!(events.iter().all(|it| it.principal == "local" && it.decision.contains("entry-allowed")));
}

/// MCP Scooter's `requiresApproval` and `rateLimit`, which it reads and does not enforce.
#[tokio::test]
async fn the_approval_and_the_rate_that_scooter_s_entry_asks_for_hold_once_it_is_a_server() {
    const ASKING: &str = "\
tools:
  - {name: echo, description: Returns the text, inputSchema: {type: object, properties: {text: {type: string}}}, annotations: {rateLimit: 2/min}}
  - {name: counter, description: Counts, inputSchema: {type: object}, annotations: {requiresApproval: true}}
";
    let files = [entry("parts", "", ASKING), profile("default", "registry: [parts]\ngroups: [load]")];
    let house = TestGateway::settled(&files).await;
    let modern = house.modern("default");
    load(&modern, &["parts/echo", "parts/counter"]).await;
    for client in house.both("default") {
        assert_eq!(client.text("parts_echo", &json!({"text": "a"})).await, "a");
        let waits = client.call("parts_counter", &json!({})).await;
        assert!(waits["isError"] == true && text_of(&waits).contains("apr_"), "{waits}");
    }
    for client in house.both("default") {
        for (name, arguments) in [
            ("parts_echo", json!({"text": "a"})),
            ("call_tool", json!({"name": "parts/echo", "arguments": {"text": "a"}})),
        ] {
            let refused = text_of(&client.call(name, &arguments).await);
            assert!(refused.contains("`limits.per_minute` of tool `parts/echo`"), "{refused}");
        }
    }
    let owner = house.modern_of("admin", "default").admin();
    let asked = owner.operate("core_approval_list", &json!({})).await.unwrap();
    let row = json!([asked["approvals"][0]["kind"], asked["approvals"][0]["tool"]]);
    assert_eq!(row, json!(["confirm", "parts/counter"]), "{asked}");
    let by_rest = modern.operate("core_tool_call", &json!({"name": "parts/counter"})).await;
    assert!(by_rest.as_ref().map_or(true, |it| it["isError"] == true), "REST asks as well: {by_rest:?}");
}

#[tokio::test]
async fn what_does_not_work_leaves_nothing_behind() {
    let mut files = circus("quota: {tools: 20}");
    let (path, mute) = entry("mute", "--never-answer", "");
    files.extend([
        entry("broken", "--exit-at-start", ""),
        entry("poor", "--tools 3", TOOLS),
        entry("large", "--tools 30", ""),
        (path, mute.replace("cwd: '.'", "cwd: '.', timeouts: {connect: 300ms}")),
        profile("default", "registry: [whole, parts, broken, poor, large, mute]\nquota: {tools: 20}"),
    ]);
    let house = TestGateway::settled(&files).await;
    for (client, name) in house.both("default").into_iter().zip(["modern", "legacy"]) {
        for (names, expected) in [
            (vec!["parts/echo", "parts/juggle"], "tool not found: `parts/juggle`; nothing was loaded"),
            (vec!["whole/*", "nobody/echo"], "tool not found: `nobody/echo`; nothing was loaded"),
            (vec!["whole/*", "broken/*"], "server `broken` could not be started"),
            (vec!["mute/*"], "server `mute` could not be started"),
            (vec!["poor/echo"], "there is no tool `poor/echo`; nothing was loaded"),
            (vec!["large/*"], "more than the quota of 20 tools; nothing was loaded"),
        ] {
            let answer = load(&client, &names).await;
            assert_eq!(answer["isError"], true, "{name} {names:?}");
            let text = text_of(&answer);
            assert!(text.contains(expected), "{name} {names:?}: {text}");
            taken_back(&house, &["whole", "parts", "broken", "poor", "large", "mute"]).await;
            let active = client.call("list_active_tools", &json!({})).await;
            assert_eq!(active["structuredContent"]["count"], 0, "{name} {names:?}");
            let found = client.call("find_tools", &json!({"server": "whole"})).await;
            assert_eq!(found["structuredContent"]["tools"][0]["state"], "available");
        }
        let broken = text_of(&load(&client, &["broken/*"]).await);
        assert!(broken.contains("stderr ends with: ") && broken.contains("toolcrib registry show broken"), "{broken}");
        taken_back(&house, &["broken"]).await;
    }
    let audited = house.audited().await;
    let of_broken = audited.iter().filter(|it| &*it.target == "broken");
    assert!(of_broken.clone().count() > 0 && of_broken.clone().all(|it| it.outcome != "ok"));
}

#[tokio::test]
async fn a_file_that_is_there_is_never_written_over() {
    let mut files = circus("");
    files.push(entry("mine", "", ""));
    files.push(profile("default", "registry: [mine]"));
    let house = TestGateway::settled(&files).await;
    house.write(&[("servers/mine.yaml".to_owned(), "name: nobody can read this: [".to_owned())]);
    let client = house.modern("default");
    let refused = text_of(&load(&client, &["mine/*"]).await);
    assert!(refused.contains("`servers/mine.yaml` already exists"), "{refused}");
    assert_eq!(house.read("servers/mine.yaml").unwrap(), "name: nobody can read this: [");
    assert_eq!(starts(&house), 0);
}

#[tokio::test]
async fn those_who_load_at_the_same_time_share_one_start() {
    let house = TestGateway::settled(&circus("")).await;
    let clients: Vec<Client> = (0..8).map(|_| house.legacy("default")).collect();
    let loads = clients.iter().map(|client| load(client, &["whole/*"]));
    for loaded in futures_util::future::join_all(loads).await {
        assert_ne!(loaded["isError"], true, "{loaded}");
    }
    assert_eq!(starts(&house), 1);
    for client in &clients {
        assert_eq!(client.text("whole_echo", &json!({"text": "a"})).await, "a");
    }
}

#[tokio::test]
async fn one_who_fails_takes_nothing_from_one_who_succeeds() {
    let mut files = circus("");
    files.extend([entry("broken", "--exit-at-start", ""), profile("default", "registry: [parts, broken]")]);
    let house = TestGateway::settled(&files).await;
    let (one, other) = (house.legacy("default"), house.legacy("default"));
    let (good, bad) =
        futures_util::future::join(load(&one, &["parts/echo"]), load(&other, &["parts/echo", "broken/*"])).await;
    assert_ne!(good["isError"], true, "{good}");
    assert_eq!(bad["isError"], true);
    assert_eq!(house.read("starts").unwrap().matches("parts").count(), 1);
    assert_eq!(one.text("parts_echo", &json!({"text": "a"})).await, "a");
    assert!(house.read("servers/parts.yaml").is_some());
}

#[tokio::test]
async fn what_is_missing_is_named_with_the_way_to_say_it() {
    let wants = "\
authorization:
  type: custom
  help_url: https://wants.example.com/keys
  variables:
    - {name: API_KEY, title: The key}
    - {name: FOLDER, secret: false}
    - {name: COLOUR, secret: false, default: red}
";
    let files = [entry("wants", "", wants), entry("whole", "", ""), profile("default", "registry: [wants, whole]")];
    let house = TestGateway::settled(&files).await;
    let client = house.modern("default");
    for names in [vec!["wants/*"], vec!["whole/*", "wants/*"]] {
        let text = text_of(&load(&client, &names).await);
        for part in [
            "`API_KEY` (The key, see https://wants.example.com/keys), `FOLDER`",
            "`toolcrib secret set API_KEY`",
            "`toolcrib registry add wants --set API_KEY=vault:API_KEY --set FOLDER=VALUE`",
            "nothing was loaded",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("COLOUR"), "{text}");
    }
    assert_eq!(starts(&house), 0);
    assert!(house.gateway.loaded().servers.is_empty());

    let values = json!({"name": "wants", "values": {"API_KEY": "env:PATH", "FOLDER": "/srv"}});
    let added = house.modern("default").admin().call("core_registry_add", &values).await;
    assert_ne!(added["isError"], true, "{added}");
    house.settle().await;
    assert_ne!(load(&client, &["wants/*"]).await["isError"], true);
}

#[tokio::test]
async fn scooter_activates_what_is_available() {
    let house = TestGateway::settled(&circus("dialect: scooter")).await;
    for (client, name) in house.both("default").into_iter().zip(["parts", "whole"]) {
        let found = client.call("scooter_find", &json!({"query": "oranges"})).await["structuredContent"].clone();
        let of = found["tools"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        assert_eq!((&of["state"], &of["source"]), (&json!("available"), &json!("custom")));
        let early = text_of(&client.call("scooter_call", &json!({"tool": format!("{name}/echo")})).await);
        assert!(early.contains(&format!("scooter_add {{\"tool_name\":\"{name}\"}}")), "{early}");

        let added = client.call("scooter_add", &json!({"tool_name": name})).await["structuredContent"].clone();
        assert_eq!((&added["status"], &added["backend_server"]), (&json!("activated"), &json!(name)));
        assert_eq!(added["tool_count"], added["available_tools"].as_array().unwrap().len());
        assert!(added["tool_schemas"][0]["inputSchema"].is_object());
        for key in ["message", "usage", "important"] {
            assert!(added[key].as_str().unwrap().len() > 10, "{key}");
        }
        let again = client.call("scooter_activate", &json!({"tool_name": name})).await;
        assert_eq!(again["structuredContent"]["status"], "already_active");
        let echo = added["available_tools"].as_array().unwrap().iter().find(|it| it.to_string().contains("echo"));
        let called = client.call("scooter_call", &json!({"tool": echo, "arguments": {"text": "a"}})).await;
        assert_eq!(text_of(&called), "a");
    }
    assert_eq!(starts(&house), 2);
}

#[tokio::test]
async fn go_ent_finds_and_loads_what_is_available() {
    let house = TestGateway::settled(&circus("dialect: go-ent")).await;
    let client = house.modern("default");
    let found = client.call("tool_find", &json!({"query": "oranges"})).await["structuredContent"]["tools"].clone();
    assert!(found.as_array().unwrap().iter().all(|it| it["state"] == "available"), "{found}");
    let about = text_of(&client.call("tool_describe", &json!({"name": "parts/echo"})).await);
    assert!(about.contains("# parts/echo"), "{about}");
    let loaded = client.call("tool_load", &json!({"names": ["parts/echo"]})).await;
    assert_ne!(loaded["isError"], true, "{loaded}");
}

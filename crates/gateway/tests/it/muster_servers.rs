//! Servers in muster's form: flat arguments, its shapes, its words for what is wrong.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped, text_of};
use toolcrib_upstream::State;

async fn house() -> TestGateway {
    TestGateway::settled(&[profile("muster", "dialect: muster"), server("alpha", &[])]).await
}

/// What an operation answers through muster's `call_tool`; the text of the error otherwise.
async fn operate(client: &Client, name: &str, arguments: Value) -> Result<Value, String> {
    let result = client.call("call_tool", &json!({ "name": name, "arguments": arguments })).await;
    let text = text_of(&result);
    let inner: Option<Value> = serde_json::from_str(&text).ok();
    let said = inner.as_ref().map(|inner| inner["content"][0]["text"].as_str().unwrap().to_owned()).unwrap_or(text);
    if result["isError"] == true {
        return Err(said);
    }
    Ok(serde_json::from_str(&said).unwrap())
}

#[tokio::test]
async fn a_server_is_created_changed_shown_and_removed() {
    let house = house().await;
    let client = house.legacy("muster").admin();
    let given = json!({
        "name": "new", "type": "stdio", "command": "echo", "args": ["one"], "env": { "KEY": "s3cret" }, "timeout": 30,
        "toolPrefix": "n", "description": "a server", "url": "http://localhost:1/mcp",
    });
    let validated = operate(&client, "core_mcpserver_validate", given.clone()).await.unwrap();
    assert_eq!((&validated["valid"], house.read("servers/new.yaml")), (&json!(true), None));
    let created = operate(&client, "core_mcpserver_create", given.clone()).await.unwrap();
    assert_eq!(created["ignored"], json!(["url"]), "{created}");
    assert!(created["message"].as_str().unwrap().contains("success"));
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "new" })).await.unwrap();
    for (key, expect) in [
        ("name", json!("new")),
        ("type", json!("stdio")),
        ("command", json!("echo")),
        ("args", json!(["one"])),
        ("env", json!({ "KEY": "****" })),
        ("timeout", json!(30)),
        ("toolPrefix", json!("n")),
        ("description", json!("a server")),
        ("autoStart", json!(false)),
        ("state", json!("stopped")),
        ("toolsCount", json!(0)),
    ] {
        assert_eq!(shown[key], expect, "{key}: {shown}");
    }
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
    let twice = operate(&client, "core_mcpserver_create", given).await.unwrap_err();
    assert!(twice.contains("already exists"), "{twice}");
    // What is not given stays, secrets included; another transport takes what it has no use for with it.
    operate(&client, "core_mcpserver_update", json!({ "name": "new", "args": ["two"] })).await.unwrap();
    let text = house.read("servers/new.yaml").unwrap();
    assert!(text.contains("two") && text.contains("s3cret") && text.contains("30s"), "{text}");
    let remote = json!({ "name": "new", "type": "streamable-http", "url": "http://127.0.0.1:1/mcp" });
    operate(&client, "core_mcpserver_update", remote).await.unwrap();
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "new" })).await.unwrap();
    assert_eq!((&shown["type"], &shown["state"]), (&json!("streamable-http"), &json!("disconnected")));
    assert!(shown.get("command").is_none() && shown["description"] == "a server", "{shown}");
    let nothing = operate(&client, "core_mcpserver_update", json!({ "name": "new" })).await.unwrap_err();
    assert!(nothing.contains("nothing to change"), "{nothing}");
    operate(&client, "core_mcpserver_delete", json!({ "name": "new" })).await.unwrap();
    for name in ["core_mcpserver_get", "core_mcpserver_update", "core_mcpserver_delete"] {
        let gone = operate(&client, name, json!({ "name": "new", })).await.unwrap_err();
        assert!(gone.contains("not found"), "{name}: {gone}");
    }
}

#[tokio::test]
async fn every_fault_of_a_definition_is_named() {
    let house = house().await;
    let client = house.legacy("muster").admin();
    let stdio = json!({ "name": "x", "type": "stdio", "command": "echo" });
    let remote = json!({ "name": "x", "type": "streamable-http", "url": "https://example.com/mcp" });
    let with = |base: &Value, more: Value| {
        let mut value = base.clone();
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    for (given, words) in [
        (json!({ "name": "x" }), vec!["required", "type"]),
        (json!({ "type": "stdio", "command": "echo" }), vec!["name", "required"]),
        (with(&stdio, json!({ "type": "invalidType" })), vec!["type", "invalid"]),
        (with(&stdio, json!({ "command": "" })), vec!["command", "required"]),
        (json!({ "name": "x", "type": "stdio" }), vec!["command", "required"]),
        (json!({ "name": "x", "type": "sse" }), vec!["url", "required"]),
        (json!({ "name": "x", "type": "streamable-http", "timeout": 30 }), vec!["url", "required"]),
        (with(&stdio, json!({ "command": 5 })), vec!["command", "wrong type", "expected string"]),
        (with(&stdio, json!({ "args": "one" })), vec!["args", "expected array"]),
        (with(&stdio, json!({ "timeout": 0 })), vec!["timeout", "minimum"]),
        (with(&stdio, json!({ "timeout": 301 })), vec!["timeout", "maximum"]),
        (with(&stdio, json!({ "comand": "x" })), vec!["unknown argument", "`comand`", "`command`"]),
        (with(&stdio, json!({ "family": { "name": "f" } })), vec!["family", "required field", "instanceArg"]),
        (with(&stdio, json!({ "name": "no such_name" })), vec!["name"]),
        (with(&stdio, json!({ "definition": {} })), vec!["mutually exclusive"]),
        (with(&stdio, json!({ "auth": { "type": "oauth" } })), vec!["auth", "stdio"]),
        (with(&remote, json!({ "auth": { "type": "ldap" } })), vec!["auth", "oauth", "teleport"]),
        (with(&remote, json!({ "auth": { "secret": "x" } })), vec!["secret"]),
        (with(&remote, json!({ "url": "ftp://example.com" })), vec!["url", "http"]),
        (with(&remote, json!({ "auth": { "type": "teleport" } })), vec!["teleport", "identityDir"]),
        (
            with(&remote, json!({ "auth": { "teleport": { "identityDir": "/x", "identitySecretName": "y" } } })),
            vec!["mutually exclusive", "identitySecretName"],
        ),
        (
            with(
                &remote,
                json!({ "auth": { "forwardToken": true, "authorizationServer": { "issuer": "https://a.example" } } }),
            ),
            vec!["mutually exclusive", "authorizationServer", "forwardToken"],
        ),
        (
            with(
                &remote,
                json!({ "auth": { "tokenExchange": { "enabled": true, "dexTokenEndpoint": "http://d.example" } } }),
            ),
            vec!["tokenExchange", "dexTokenEndpoint", "https"],
        ),
        (
            with(&remote, json!({ "auth": { "client_id": "x", "client_secret": "hunter2" } })),
            vec!["client_secret", "vault:"],
        ),
    ] {
        for name in ["core_mcpserver_create", "core_mcpserver_validate"] {
            let told = operate(&client, name, given.clone()).await.expect_err(&given.to_string());
            for word in &words {
                assert!(told.contains(word), "{name} {given}: {word}: {told}");
            }
        }
    }
    assert_eq!(house.read("servers/x.yaml"), None, "nothing was written");
}

#[tokio::test]
async fn auth_is_kept_and_shown_without_what_may_be_a_secret() {
    let house = house().await;
    let client = house.legacy("muster").admin();
    let auth = json!({
        "type": "teleport", "teleport": { "identityDir": "/run/tbot", "appName": "kube" },
        "tokenExchange": {
            "enabled": true, "dexTokenEndpoint": "https://dex.example.com/token?key=s3cret", "connectorID": "central",
            "scopes": "openid mcp:admin", "clientCredentialsSecretRef": { "name": "creds", "clientSecretKey": "k3y" },
        },
    });
    let given = json!({
        "name": "tele", "type": "streamable-http", "url": "https://example.com/mcp", "auth": auth,
        "headers": { "Accept": "text/event-stream", "Authorization": "Bearer s3cret" },
    });
    let mut with_user = given.clone();
    with_user["auth"]["tokenExchange"]["dexTokenEndpoint"] = "https://u:s3cret@dex.example.com/token".into();
    let refused = operate(&client, "core_mcpserver_create", with_user).await.unwrap_err();
    assert!(refused.contains("dexTokenEndpoint") && !refused.contains("s3cret"), "{refused}");
    let created = operate(&client, "core_mcpserver_create", given).await.unwrap();
    assert_eq!(created["ignored"], json!(["headers.Accept"]));
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "tele" })).await.unwrap();
    assert_eq!(shown["auth"]["teleport"], auth["teleport"]);
    assert_eq!(shown["auth"]["tokenExchange"]["connectorID"], "central");
    assert_eq!(shown["auth"]["tokenExchange"]["scopes"], "openid mcp:admin");
    assert_eq!(shown["headers"], json!({ "Authorization": "****" }));
    assert!(!shown.to_string().contains("s3cret") && !shown.to_string().contains("k3y"), "{shown}");
    let none = json!({ "name": "tele", "type": "streamable-http", "url": "https://example.com/mcp", "auth": { "type": "none" } });
    operate(&client, "core_mcpserver_update", none).await.unwrap();
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "tele" })).await.unwrap();
    assert!(!shown.to_string().contains("teleport"), "{shown}");
}

#[tokio::test]
async fn the_list_is_muster_s_in_its_dialect_and_whole_elsewhere() {
    let broken = ("servers/broken.yaml".to_owned(), "name: broken\ncommand: no-such-program-here\n".to_owned());
    let house = TestGateway::settled(&[profile("muster", "dialect: muster"), server("alpha", &[]), broken]).await;
    let client = house.legacy("muster").admin();
    let listed = operate(&client, "core_mcpserver_list", json!({})).await.unwrap();
    assert_eq!(
        (&listed["total"], &listed["mode"], &listed["hiddenFailed"]),
        (&json!(1), &json!("filesystem"), &json!(1))
    );
    let alpha = &listed["mcpServers"][0];
    assert_eq!(
        (&alpha["name"], &alpha["type"], &alpha["state"]),
        (&json!("alpha"), &json!("stdio"), &json!("running"))
    );
    let all = operate(&client, "core_mcpserver_list", json!({ "showAll": true, "verbose": true })).await.unwrap();
    assert_eq!((&all["total"], &all["mcpServers"][1]["state"]), (&json!(2), &json!("failed")));
    assert!(all["mcpServers"][1]["error"].as_str().unwrap().contains("no-such-program-here"), "{all}");
    let native = house.legacy("default").admin().call("core_mcpserver_list", &json!({})).await;
    assert_eq!(native["structuredContent"]["total"], 2);
    assert_eq!(native["structuredContent"]["mcpServers"][0]["state"], "ready");
}

#[tokio::test]
async fn a_tool_of_a_stopped_server_is_told_in_muster_s_words() {
    let house = house().await;
    let client = house.legacy("muster").admin();
    operate(&client, "core_mcpserver_stop", json!({ "name": "alpha" })).await.unwrap();
    house.until_status("alpha", |status| status.state == State::Stopped).await;
    let away = operate(&client, "x_alpha_echo", json!({ "text": "a" })).await.unwrap_err();
    assert!(away.contains("server not found") && away.contains("`alpha` is stopped"), "{away}");
    let native =
        house.legacy("default").call("call_tool", &json!({ "name": "alpha/echo", "arguments": { "text": "a" } })).await;
    assert!(!text_of(&native).contains("server not found"), "{native}");
}

#[tokio::test]
async fn only_administrators_change_servers() {
    let house = house().await;
    let client = house.legacy("muster");
    let given = json!({ "name": "new", "type": "stdio", "command": "echo" });
    for name in ["core_mcpserver_create", "core_mcpserver_update", "core_mcpserver_delete"] {
        operate(&client, name, given.clone()).await.unwrap_err();
    }
    assert_eq!(house.read("servers/new.yaml"), None);
}

#[tokio::test]
async fn non_admins_read_what_their_profile_shows_of_servers_and_nothing_else() {
    let more = "env: {KEY: m4rker}\ndescription: Tells the time\n";
    let files = [
        profile("muster", "dialect: muster\nservers: [alpha]\ntools: {deny: [alpha/gone]}"),
        stopped("alpha", &["now", "gone"], more),
        stopped("beta", &["now"], more),
    ];
    let house = TestGateway::settled(&files).await;
    let client = house.legacy("muster");
    let listed = operate(&client, "core_mcpserver_list", json!({ "showAll": true, "verbose": true })).await.unwrap();
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "alpha" })).await.unwrap();
    assert_eq!((&listed["total"], &listed["mcpServers"][0], &listed["problems"]), (&json!(1), &shown, &json!([])));
    assert_eq!((&shown["name"], &shown["description"]), (&json!("alpha"), &json!("Tells the time")));
    assert_eq!(shown["toolsCount"], 1, "only the tools that the profile shows are counted");
    for text in [listed.to_string(), shown.to_string()] {
        for marker in ["m4rker", "never-started", "beta", "\"env\"", "command", "\"file\"", "revision"] {
            assert!(!text.contains(marker), "`{marker}` in {text}");
        }
    }
    // What it hides is as if it were not there.
    let told = |name: &'static str| operate(&client, "core_mcpserver_get", json!({ "name": name }));
    let (hidden, absent) = (told("beta").await.unwrap_err(), told("beto").await.unwrap_err());
    assert_eq!(hidden.replace("beta", "?"), absent.replace("beto", "?"));
    // Whoever administers sees everything.
    let admin = house.legacy("muster").admin();
    let all = operate(&admin, "core_mcpserver_list", json!({ "showAll": true })).await.unwrap();
    assert_eq!((&all["total"], &all["mcpServers"][0]["command"]), (&json!(2), &json!("never-started")));
}

#[tokio::test]
async fn comments_of_a_file_stay_where_their_key_does() {
    let text = "# who runs it: ada\nname: noted\ntransport: stdio\ncommand: never-started # by hand\nstart: manual\n# slow at night\ntimeouts: {call: 9s}\n";
    let file = ("servers/noted.yaml".to_owned(), text.to_owned());
    let house = TestGateway::settled(&[profile("muster", "# mine\ndialect: muster"), file]).await;
    let client = house.legacy("muster").admin();
    operate(&client, "core_mcpserver_update", json!({ "name": "noted", "command": "other" })).await.unwrap();
    let changed = text.replace("never-started", "other");
    assert_eq!(house.read("servers/noted.yaml").unwrap(), changed);
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "noted" })).await.unwrap();
    let mut definition = shown["definition"].clone();
    definition["description"] = "notes".into();
    let whole = json!({ "name": "noted", "definition": definition, "revision": shown["revision"] });
    operate(&client, "core_mcpserver_update", whole).await.unwrap();
    assert_eq!(house.read("servers/noted.yaml").unwrap(), format!("{changed}description: notes\n"));
    let shown = operate(&client, "core_profile_get", json!({ "name": "muster" })).await.unwrap();
    let definition = json!({ "name": "muster", "dialect": "muster", "title": "M" });
    let whole = json!({ "name": "muster", "definition": definition, "revision": shown["revision"] });
    operate(&client, "core_profile_update", whole).await.unwrap();
    assert_eq!(house.read("profiles/muster.yaml").unwrap(), "name: muster\n# mine\ndialect: muster\ntitle: M\n");
}

#[tokio::test]
async fn what_is_shown_as_hidden_stays_what_it_is_when_it_is_sent_back() {
    let house = house().await;
    let client = house.legacy("muster").admin();
    let yaml = "# why\nname: kept\ncommand: echo\nenv:\n  KEY: s3cret # old\nstart: manual\n";
    operate(&client, "core_mcpserver_create", json!({ "name": "kept", "yaml": yaml })).await.unwrap();
    let shown = operate(&client, "core_mcpserver_get", json!({ "name": "kept" })).await.unwrap();
    let hidden = yaml.replace("s3cret", "\"****\"");
    assert_eq!(shown["yaml"], hidden);
    let sent = |text: &str| json!({ "name": "kept", "yaml": text, "revision": shown["revision"] });
    let new = hidden.replace("echo", "cat");
    let checked = operate(&client, "core_mcpserver_validate", json!({ "name": "kept", "yaml": new })).await.unwrap();
    assert_eq!(checked["valid"], true, "{checked}");
    // At another place there is no value for it.
    let moved = hidden.replace("KEY:", "OTHER:");
    let refused = operate(&client, "core_mcpserver_update", sent(&moved)).await.unwrap_err();
    assert!(refused.contains("the placeholder of a hidden value"), "{refused}");
    operate(&client, "core_mcpserver_update", sent(&new)).await.unwrap();
    assert_eq!(house.read("servers/kept.yaml").unwrap(), yaml.replace("echo", "cat"));
    let problems = json!({ "name": "kept", "yaml": "name: kept\ncommand: x\nstart: soon\n" });
    let wrong = operate(&client, "core_mcpserver_validate", problems).await.unwrap();
    assert_eq!((&wrong["problems"][0]["line"], &wrong["problems"][0]["field"]), (&json!(3), &json!("start")));
}

//! Verbs over every kind of thing, against a real gateway.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::eventually_finds;

use crate::serving::GatewayFixture;
use crate::toolcrib::{run, run_with_stdin};

/// The practice server as a definition.
fn definition(name: &str) -> String {
    format!("# mine\nname: {name}\ncommand: {}\nstart: eager\n", crate::serving::fake_server().display())
}

async fn said(home: &Path, arguments: &[&str]) -> String {
    let ran = run(home, arguments, &[]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}: {}", ran.stdout);
    ran.stdout
}

/// Events are written by their own thread, a moment later.
async fn prints_eventually(home: &Path, arguments: &[&str], part: &str) -> String {
    eventually_finds(part, async || {
        let text = said(home, arguments).await;
        if text.contains(part) { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test]
async fn a_servers_life_by_verbs() {
    let serving = GatewayFixture::start(&[]).await;
    let home = serving.home();
    let file = home.join("new.yaml");
    std::fs::write(&file, format!("kind: server\n{}---\n{}---\nname: three\n", definition("one"), definition("two")))
        .unwrap();
    run(home, &["create", "-f", file.to_str().unwrap()], &[])
        .await
        .fails(1, &["new.yaml:12:1 (document 3): which kind of thing it is", "hint: "]);
    std::fs::write(&file, format!("kind: server\n{}---\n{}", definition("one"), definition("two"))).unwrap();
    let file = file.to_str().unwrap();
    // Nothing was sent before all was read.
    assert_eq!(said(home, &["list", "servers"]).await, "No servers found\n");
    let created = said(home, &["create", "server", "-f", file]).await;
    assert_eq!(
        created,
        "Successfully created server 'one' in `servers/one.yaml`\nSuccessfully created server 'two' in `servers/two.yaml`\n"
    );
    let again = run(home, &["create", "mcpserver", "-f", file], &[]).await;
    again.fails(1, &["error: `servers/one.yaml` already exists"]);
    assert!(again.stderr.contains("`servers/two.yaml` already exists"), "{}", again.stderr);
    assert_eq!(said(home, &["list", "mcps", "-o", "name"]).await, "server/one\nserver/two\n");
    assert_eq!(said(home, &["start", "server", "one"]).await, "Successfully started server 'one' (ready)\n");
    assert_eq!(said(home, &["check", "server/one"]).await, "✅ server 'one' is available (ready)\n");
    assert!(said(home, &["status", "server", "one"]).await.contains("state                ready"));
    run(home, &["status", "server"], &[]).await.fails(64, &["<NAME>"]);
    run(home, &["status", "tool", "x"], &[]).await.fails(64, &["invalid value 'tool'", "server"]);
    assert_eq!(said(home, &["stop", "server", "one"]).await, "Successfully stopped server 'one' (stopped)\n");
    run(home, &["check", "server", "one"], &[])
        .await
        .fails(1, &["❌ server 'one' is not available (stopped)", "hint: "]);
    let checked = run(home, &["check", "server", "one", "-o", "json"], &[]).await;
    assert_eq!((checked.code, checked.stderr.as_str()), (1, ""));
    assert_eq!(serde_json::from_str::<Value>(&checked.stdout).unwrap()["available"], false);
    assert!(said(home, &["restart", "server", "one"]).await.starts_with("Successfully restarted server 'one'"));
    let text = definition("one").replace("eager", "lazy");
    let updated = run_with_stdin(home, &["update", "server", "-f", "-"], &[], &text).await;
    updated.prints("Successfully updated server 'one' in `servers/one.yaml`\n");
    assert_eq!(std::fs::read_to_string(home.join("servers/one.yaml")).unwrap(), text, "comments are kept");
    let got = said(home, &["get", "server", "one"]).await;
    assert!(got.starts_with("PROPERTY") && got.contains("definition.start     lazy"), "{got}");
    let ran = run(home, &["delete", "server", "one", "none", "two"], &[]).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (
            1,
            "Successfully deleted server 'one' with `servers/one.yaml`\nSuccessfully deleted server 'two' with `servers/two.yaml`\n"
        )
    );
    assert!(ran.stderr.contains("`none`"), "{}", ran.stderr);
    said(home, &["delete", "server", "none", "--ignore-not-found"]).await;
    serving.stop().await;
}

#[tokio::test]
async fn what_is_made_of_flags() {
    let serving = GatewayFixture::start(&[]).await;
    let home = serving.home();
    let program = crate::serving::fake_server();
    let program = program.to_str().unwrap();
    let flags = ["create", "mcpserver", "made", "--command", program, "--env", "A=env:PATH", "--description", "mine"];
    said(home, &[&flags[..], &["--dry-run"]].concat()).await;
    assert!(!home.join("servers/made.yaml").exists());
    said(home, &flags).await;
    let text = std::fs::read_to_string(home.join("servers/made.yaml")).unwrap();
    assert!(text.contains("A: \"env:PATH\"") || text.contains("A: env:PATH"), "{text}");
    said(home, &["update", "server", "made", "--command", program, "--auto-start"]).await;
    let text = std::fs::read_to_string(home.join("servers/made.yaml")).unwrap();
    assert!(text.contains("start: eager") && text.contains("env:PATH") && text.contains("mine"), "{text}");
    said(home, &["update", "server/made", "--description", "yours"]).await;
    let text = std::fs::read_to_string(home.join("servers/made.yaml")).unwrap();
    assert!(text.contains("yours") && text.contains("start: eager") && text.contains(program), "{text}");
    run(home, &["update", "server", "made"], &[]).await.fails(1, &["nothing to change", "--file"]);
    run(home, &["update", "server", "none", "--description", "x"], &[]).await.fails(1, &["`none`", "hint: "]);
    let remote = ["create", "server", "far", "--url", "https://example.com/mcp", "--header", "X-Key=env:KEY"];
    let more = ["--auth-issuer", "https://login.example.com", "--auth-scopes", "a b", "--connect-timeout", "3s"];
    let more =
        [&more[..], &["--start", "manual", "--label", "team=one", "--keyword", "a,b", "--title", "Far"]].concat();
    said(home, &[&remote[..], &more].concat()).await;
    let shown = said(home, &["get", "server", "far", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let definition = json!({
        "name": "far", "transport": "http", "url": "https://example.com/mcp", "headers": { "X-Key": "env:KEY" },
        "timeouts": { "connect": "3s" }, "start": "manual", "title": "Far", "keywords": ["a", "b"],
        "labels": { "team": "one" },
        "auth": { "type": "oauth", "authorizationServer": { "issuer": "https://login.example.com", "scopes": "a b" } },
    });
    assert_eq!(shown["definition"], definition);
    assert!(said(home, &["list", "servers", "-o", "wide"]).await.contains("https://example.com/mcp"));
    let both = [&remote[..], &["--auth-issuer", "https://i", "--forward-token"]].concat();
    run(home, &both, &[]).await.fails(64, &["cannot be used with"]);
    run(home, &["create", "server", "bad", "--comand", "x"], &[]).await.fails(64, &["--comand", "--command"]);
    run(home, &["create", "server", "bad"], &[]).await.fails(1, &["neither `--command` nor `--url`", "hint: "]);
    run(home, &["create", "server", "../bad", "--command", "x"], &[]).await.fails(1, &["name"]);
    run(home, &["create", "tool", "x"], &[]).await.fails(64, &["invalid value 'tool'", "server, profile"]);
    run(home, &["create"], &[]).await.fails(64, &["<KIND>"]);
    run(home, &["delete", "server"], &[]).await.fails(1, &["no server given", "toolcrib delete server NAME"]);
    said(home, &["create", "profile", "narrow"]).await;
    assert_eq!(said(home, &["list", "profiles", "-o", "name"]).await, "profile/default\nprofile/narrow\n");
    serving.stop().await;
}

#[tokio::test]
async fn a_service_is_tried_out_with_the_class_that_stands_beside_it() {
    let serving = GatewayFixture::start(&[("try", &definition("try"))]).await;
    let home = serving.home();
    let class = "kind: ServiceClass\nname: tent\nargs: {size: {type: integer, required: true}}\nserviceConfig: {lifecycleTools: {start: {tool: try/echo, args: {text: up}}, stop: {tool: try/echo, args: {text: down}}}}\n";
    let service = |size: &str| {
        format!(
            "kind: Service\nname: camp\nserviceClassName: tent\ndescription: A camp\npersist: true\nargs: {{size: {size}}}\n"
        )
    };
    let both = |size: &str| format!("{class}---\n{}", service(size));
    // An older key, which has no effect, is told and does not stop it.
    let told = "warning: stdin:10:10 (document 2): `persist`: means nothing here\n";
    let tried = run_with_stdin(home, &["create", "--dry-run", "-f", "-"], &[], &both("3")).await;
    assert_eq!((tried.code, tried.stderr.as_str()), (0, told), "{}", tried.stdout);
    assert!(!home.join("service-classes").join("tent.yaml").exists() && !home.join("services").exists());
    let tried = run_with_stdin(home, &["create", "--dry-run", "-f", "-"], &[], &both("big")).await;
    assert_eq!((tried.code, tried.stdout.as_str()), (1, "serviceclass 'tent' is valid\n"));
    assert!(tried.stderr.contains("invalid type for argument `size`"), "{}", tried.stderr);
    run_with_stdin(home, &["create", "--dry-run", "-f", "-"], &[], &service("3"))
        .await
        .fails(1, &["tent", "not found"]);
    let made = run_with_stdin(home, &["create", "-f", "-"], &[], &both("3")).await;
    assert_eq!((made.code, made.stderr.as_str()), (0, told), "{}", made.stdout);
    assert!(std::fs::read_to_string(home.join("services/camp.yaml")).unwrap().contains("A camp"));
    serving.stop().await;
}

#[tokio::test]
async fn lists_are_sorted_filtered_and_short() {
    let serving = GatewayFixture::start(&[("try", &definition("try"))]).await;
    let home = serving.home();
    let ran =
        run(home, &["list", "tools", "--sort-by", "-NAME", "--limit", "2", "--no-headers", "-o", "wide"], &[]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "2 of 15 tools\n"));
    assert!(ran.stdout.starts_with("try_slow   ") && ran.stdout.lines().count() == 2, "{}", ran.stdout);
    // A note only where something was left out.
    said(home, &["list", "servers", "--limit", "5"]).await;
    let first = said(home, &["list", "tools", "--sort-by", "-name", "--limit", "1", "-o", "json"]).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["tools"][0]["name"], &first["total"]), (&json!("try_slow"), &json!(15)), "{first}");
    assert!(said(home, &["list", "registry-entries"]).await.contains("available"));
    let prompt = said(home, &["get", "prompt", "try_greet"]).await;
    assert!(prompt.contains("\nArguments:\n") && prompt.contains("who    yes"), "{prompt}");
    assert_eq!(said(home, &["get", "secrets"]).await, "No secrets found\n");
    run(home, &["get", "event", "none"], &[]).await.fails(1, &["no event `none`"]);
    // `7` is no number where the tool wants a text.
    assert_eq!(said(home, &["call", "try_echo", "text=007"]).await, "007\n");
    for line in [["get", "server"], ["check", "server"], ["start", "server"], ["delete", "server"]] {
        let hint = "hint: see all with `toolcrib list servers`";
        run(home, &[&line[..], &["none"]].concat(), &[]).await.fails(1, &["`none`", hint]);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = ["list", "profiles", "--endpoint", serving.url()];
    run(elsewhere.path(), &stranger, &[]).await.fails(2, &["only admins", "--token-file"]);
    let filtered = said(home, &["list", "tools", "--filter", "try_e*", "--description", "TEXT", "-o", "name"]).await;
    assert_eq!(filtered, "tool/try_echo\n");
    run(home, &["list", "tools", "--sort-by", "colour"], &[]).await.fails(1, &["no column `colour`", "NAME, SERVER"]);
    let tool = said(home, &["get", "tool", "try_echo"]).await;
    assert_eq!(tool, said(home, &["describe", "tool", "try/echo"]).await);
    assert!(said(home, &["get", "resource", "fake://text"]).await.contains("\nembedded\n"));
    assert!(said(home, &["prompt", "try_greet", "who=me"]).await.contains("Greet me."));
    prints_eventually(home, &["describe", "server", "try"], "MCPServerStarted").await;
    run(home, &["describe", "thing", "x"], &[])
        .await
        .fails(1, &["cannot describe kind `thing`", "hint: known kinds: tool, server"]);
    run(home, &["get", "prompt", "none"], &[]).await.fails(1, &["no prompt `none`", "toolcrib list prompts"]);
    serving.stop().await;
}

#[tokio::test]
async fn free_flags_go_to_the_tool_and_flags_of_the_gateway_do_not() {
    let serving = GatewayFixture::start(&[("try", &definition("try"))]).await;
    let home = serving.home();
    assert_eq!(said(home, &["call", "try_echo", "--text", "a b", "--timeout", "20s", "-q"]).await, "a b\n");
    assert_eq!(said(home, &["call", "try_add", "--a", "2", "--b=-5", "--profile", "default"]).await, "-3\n");
    let ran = run(home, &["call", "try_echo", "--text", "x", "--endpoint", "http://127.0.0.1:1"], &[]).await;
    ran.fails(1, &["cannot reach the gateway"]);
    serving.stop().await;
}

#[tokio::test]
async fn events_are_listed_and_followed() {
    let serving = GatewayFixture::start(&[("try", &definition("try"))]).await;
    let home = serving.home();
    let asked = ["events", "--resource-type", "server", "--resource-name", "try", "-o", "json"];
    let listed = prints_eventually(home, &asked, "MCPServerStarted").await;
    assert!(listed.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["resource_name"] == "try"));
    run(home, &["events", "--limit", "0"], &[]).await.fails(64, &["1..=1000"]);
    run(home, &["events", "--since", "never"], &[]).await.fails(1, &["since"]);
    run(home, &["events", "--resource-type", "moon"], &[]).await.fails(1, &["resourceType", "moon"]);
    let mut follower = serving.background(&["events", "--follow", "--type", "normal", "--resource-name", "try"]);
    serving.until(&mut follower, &["restart", "server", "try"], "default/try: MCPServerStarted - ").await;
    assert_eq!(follower.end().await, Some(130));
    said(home, &["stop", "server", "try"]).await;
    let mut watcher = serving.background(&["list", "servers", "--watch", "--no-headers"]);
    watcher.reads("try   stopped").await;
    serving.until(&mut watcher, &["start", "server", "try"], "try   ready").await;
    watcher.end().await;
    let mut watcher = serving.background(&["get", "servers", "-w", "-o", "json"]);
    assert!(watcher.reads("ADDED").await.contains(r#""name":"try""#));
    serving.until(&mut watcher, &["delete", "server", "try"], "DELETED").await;
    watcher.end().await;
    serving.stop().await;
}

#[tokio::test]
async fn who_we_are_is_told_truthfully() {
    let serving = GatewayFixture::start(&[]).await;
    let home = serving.home();
    let status = said(home, &["auth", "status"]).await;
    assert!(status.contains("Status:    authenticated") && status.contains("state/token"), "{status}");
    assert!(said(home, &["auth", "whoami", "-o", "json"]).await.contains("\"administers\": true"));
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = run(elsewhere.path(), &["auth", "status", "--endpoint", serving.url()], &[]).await;
    assert!(
        ran.stdout.contains("not authenticated") && ran.stdout.contains("May:       use tools\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("--token-file"), "{}", ran.stderr);
    let wrong = [("TOOLCRIB_TOKEN", "wrong")];
    run(elsewhere.path(), &["auth", "status", "--endpoint", serving.url()], &wrong).await.fails(3, &["token"]);
    let gateway_s_own = run(home, &["auth", "login"], &[]).await;
    assert!(
        gateway_s_own.stderr.contains("no login of its own") && gateway_s_own.code == 0,
        "{}",
        gateway_s_own.stderr
    );
    run(home, &["auth", "login", "--server", "x"], &[]).await.fails(1, &["server `x` not found"]);
    let version = said(home, &["version"]).await;
    assert!(version.contains(&format!("gateway: {} at {}", env!("CARGO_PKG_VERSION"), serving.url())), "{version}");
    serving.stop().await;
}

#[tokio::test]
async fn a_gateway_without_events_is_looked_at_again_and_again() {
    let home = tempfile::tempdir().unwrap();
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let asked = std::sync::Arc::clone(&count);
    let stub = crate::stub::Stub::start(move |message| {
        let is_list = message["method"] == "tools/call";
        let before = asked.fetch_add(usize::from(is_list), std::sync::atomic::Ordering::Relaxed);
        let state = if before == 0 { "starting" } else { "ready" };
        let servers = json!({ "mcpServers": [{ "name": "a", "state": state }], "total": 1 });
        crate::stub::Answer::result(message, &crate::stub::structured(&servers))
    })
    .await;
    stub.settle(home.path());
    let mut watcher = crate::serving::background(home.path(), &["list", "servers", "-w", "-q"]);
    watcher.reads("a      starting").await;
    tokio::time::timeout(Duration::from_secs(30), watcher.reads("a      ready")).await.unwrap();
    watcher.end().await;
    stub.stop().await;
}

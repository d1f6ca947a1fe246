//! Logins of the real binary by their operations: from `needs-login` to a call that is answered, and back.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::SystemClock;
use toolcrib_testkit::launch::write;
use toolcrib_testkit::provider::{Browser, Destination, Naming, Remote, RemoteRules, fetch};
use toolcrib_testkit::{eventually, eventually_finds};

use crate::serving::GatewayFixture;
use crate::toolcrib::run;

/// Stands in for a browser's cookie.
const BROWSER: &str = "0123456789abcdef0123456789abcdef";

fn remote() -> Remote {
    Remote::start(RemoteRules::default(), Naming::Loopback, Arc::new(SystemClock))
}

fn definition(remote: &Remote) -> String {
    format!("name: notion\ntransport: http\nurl: {}\nstart: eager\n", remote.url())
}

async fn operate(gateway: &GatewayFixture, operation: &str, arguments: Value) -> Result<Value, String> {
    let ran = run(gateway.home(), &["api", operation, "--json", &arguments.to_string()], &[]).await;
    if ran.code != 0 {
        return Err(ran.stderr);
    }
    Ok(serde_json::from_str(&ran.stdout).unwrap())
}

async fn state(gateway: &GatewayFixture) -> String {
    let server = operate(gateway, "core_mcpserver_get", json!({"name": "notion"})).await.unwrap();
    server["state"].as_str().unwrap_or_default().to_owned()
}

async fn until_state(gateway: &GatewayFixture, wanted: &str) {
    let reached = async {
        while state(gateway).await != wanted {
            tokio::task::yield_now().await;
        }
    };
    eventually(wanted, reached).await;
}

/// Logs in as `core_auth_login` says, with a browser that pastes the answer.
async fn log_in(gateway: &GatewayFixture, remote: &Remote) -> Value {
    let begun = operate(gateway, "core_auth_login", json!({"server": "notion", "browser": BROWSER})).await.unwrap();
    assert_eq!(begun["status"], "auth_required", "{begun}");
    let callback = format!("http://{}/oauth/callback", gateway.address());
    let mut browser = Browser::new(remote.network());
    let url = begun["authUrl"].as_str().unwrap();
    let Destination::Callback(answer) = browser.open(url, &callback).unwrap() else { panic!("no answer for {url}") };
    operate(gateway, "core_auth_complete", json!({"answer": answer, "browser": BROWSER})).await.unwrap()
}

#[tokio::test]
async fn a_server_is_logged_in_to_called_and_logged_out_of() {
    let remote = remote();
    let gateway = GatewayFixture::start(&[("notion", &definition(&remote))]).await;
    until_state(&gateway, "needs-login").await;
    let before = operate(&gateway, "core_auth_status", json!({})).await.unwrap();
    assert_eq!(before["logins"][0]["state"], "logged-out", "{before}");

    let done = log_in(&gateway, &remote).await;
    assert_eq!(done["status"], "connected", "{done}");
    until_state(&gateway, "ready").await;
    let after = operate(&gateway, "core_auth_status", json!({})).await.unwrap();
    assert_eq!(after["logins"][0]["state"], "logged-in", "{after}");
    let again = operate(&gateway, "core_auth_login", json!({"server": "notion"})).await.unwrap();
    assert!(again["message"].as_str().unwrap().contains("already authenticated"), "{again}");
    let renewed = operate(&gateway, "core_auth_refresh", json!({"server": "notion"})).await.unwrap();
    assert_eq!((renewed["state"].as_str(), remote.refreshes()), (Some("logged-in"), 1), "{renewed}");

    let ended = operate(&gateway, "core_auth_logout", json!({"server": "notion"})).await.unwrap();
    assert_eq!(ended["status"], "logged_out", "{ended}");
    until_state(&gateway, "needs-login").await;
    assert_eq!(remote.live_grants(), 0, "what was given is revoked");
    gateway.stop().await;
}

#[tokio::test]
async fn a_login_that_cannot_be_says_why_and_what_to_do() {
    let remote = remote();
    let program =
        format!("name: files\ntransport: stdio\ncommand: {}\nstart: manual\n", crate::serving::fake_server().display());
    let open = format!("name: open\ntransport: http\nurl: {}\nstart: manual\nauth: {{type: none}}\n", remote.url());
    let servers = [("notion", definition(&remote)), ("files", program), ("open", open)];
    let servers: Vec<_> = servers.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let gateway = GatewayFixture::start(&servers).await;
    let cases = [
        (json!({"server": "nothing"}), "no server `nothing`", "toolcrib list servers"),
        (json!({"server": "files"}), "is a program on this machine", "toolcrib get server files"),
        (json!({"server": "open"}), "auth: {type: none}", "toolcrib get server open"),
    ];
    for (arguments, message, hint) in cases {
        let refused = operate(&gateway, "core_auth_login", arguments).await.unwrap_err();
        assert!(refused.contains(message) && refused.contains(hint), "{refused}");
    }
    for answer in ["http://127.0.0.1:1/oauth/callback", "code=a&state=b", "what?"] {
        let refused = operate(&gateway, "core_auth_complete", json!({"answer": answer, "browser": BROWSER})).await;
        let refused = refused.unwrap_err();
        assert!(refused.contains("toolcrib login"), "{answer}: {refused}");
    }
    let short =
        operate(&gateway, "core_auth_login", json!({"server": "notion", "browser": "short"})).await.unwrap_err();
    assert!(short.contains("browser"), "{short}");
    gateway.stop().await;
}

/// What a key gets of an operation or a tool at its profile, as text.
async fn with_key(gateway: &GatewayFixture, profile: &str, key: &str, tool: &str, arguments: Value) -> String {
    let url = format!("http://{}/mcp/p/{profile}", gateway.address());
    let lines = [
        format!("authorization: Bearer {key}"),
        "content-type: application/json".to_owned(),
        "accept: application/json, text/event-stream".to_owned(),
        "mcp-protocol-version: 2026-07-28".to_owned(),
        "mcp-method: tools/call".to_owned(),
        "mcp-name: call_tool".to_owned(),
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    let params = json!({"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    tokio::task::spawn_blocking(move || fetch("POST", &url, &lines, &body).unwrap().body).await.unwrap()
}

#[tokio::test]
async fn the_keys_of_a_named_profile_use_the_owner_s_login_and_do_not_change_it() {
    let remote = remote();
    let definition = format!("{}auth: {{share: [work]}}\n", definition(&remote));
    let gateway = GatewayFixture::start(&[("notion", &definition)]).await;
    let mut keys = Vec::new();
    for profile in ["work", "home"] {
        let text = format!("name: {profile}\ndialect: muster\ngroups: [admin]\n");
        write(gateway.home(), &format!("profiles/{profile}.yaml"), &text);
        let made = run(gateway.home(), &["profile", "key", "add", profile, "ci"], &[]).await;
        keys.push(made.stdout.trim().to_owned());
    }
    let [work, home] = &keys[..] else { panic!("{keys:?}") };
    until_state(&gateway, "needs-login").await;
    log_in(&gateway, &remote).await;
    until_state(&gateway, "ready").await;

    let call = async |profile: &str, key: &str| with_key(&gateway, profile, key, "x_notion_whoami", json!({})).await;
    let accepted = remote.accepted();
    eventually_finds("the call with the owner's login", async || {
        let said = call("work", work).await;
        if said.contains("someone") { Ok(()) } else { Err(said) }
    })
    .await;
    assert!(remote.accepted() > accepted);
    let refused = call("home", home).await;
    assert!(!refused.contains("someone"), "{refused}");
    let asked = with_key(&gateway, "home", home, "core_auth_login", json!({"server": "notion"})).await;
    assert!(asked.contains("auth_required") && asked.contains("/connect/"), "it has a login of its own: {asked}");

    for (tool, arguments) in [
        ("core_auth_logout", json!({"server": "notion"})),
        ("core_auth_login", json!({"server": "notion", "force": true})),
    ] {
        let said = with_key(&gateway, "work", work, tool, arguments).await;
        assert!(said.contains("is its owner's") && !said.contains("/connect/"), "{tool}: {said}");
    }
    assert_eq!((state(&gateway).await.as_str(), remote.live_grants()), ("ready", 1), "the owner is still logged in");
    assert!(call("work", work).await.contains("someone"));
    gateway.stop().await;
}

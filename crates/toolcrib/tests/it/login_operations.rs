//! Logins of the real binary by their operations: from `needs-login` to a call that is answered, and back.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::SystemClock;
use toolcrib_testkit::eventually;
use toolcrib_testkit::provider::{Browser, Destination, Naming, Remote, RemoteRules};

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

//! People who log in at a provider and use the gateway: the bridge as their client, a scripted browser, grants in the
//! settings, the audit log.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use toolcrib_base::SystemClock;
use toolcrib_testkit::launch::{GatewayProgram, write};
use toolcrib_testkit::provider::{ClientEntry, Naming, Remote, RemoteRules, TokenForm};

use crate::bridge_logins::Bridge;
use crate::serving::fake_server;
use crate::toolcrib::{run, toolcrib};

/// What stands in front of the gateway: its port is known before the gateway starts.
struct Proxy {
    address: SocketAddr,
    gateway: Arc<OnceLock<String>>,
}

struct Team {
    remote: Remote,
    home: tempfile::TempDir,
    gateway: GatewayProgram,
    /// Where clients reach it.
    url: String,
}

// === impl Proxy ===

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = Arc::new(OnceLock::<String>::new());
        let behind = Arc::clone(&gateway);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(Ok(server)) = behind.get().map(TcpStream::connect) else { continue };
                for (mut from, mut to) in [(&client, &server), (&server, &client)]
                    .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    std::thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        Self { address, gateway }
    }
}

// === impl Team ===

impl Team {
    /// A gateway whose profile `work` is granted to the person of the remote's provider.
    async fn start(rules: RemoteRules, more: &str) -> Self {
        let (remote, proxy) = (Remote::start(rules, Naming::Loopback, Arc::new(SystemClock)), Proxy::start());
        let home = tempfile::tempdir().unwrap();
        let url = format!("http://{}", proxy.address);
        let settings = format!(
            "[identity]\nurl = '{url}'\n[[identity.issuer]]\nname = 'acme'\nissuer = '{}'\n\
             grants = [{{user = 'someone', role = 'member', profiles = ['work']}}]\n{more}",
            remote.issuer()
        );
        write(home.path(), "config.toml", &settings);
        write(home.path(), "servers/try.yaml", &format!("name: try\ncommand: {}\n", fake_server().display()));
        for profile in ["work", "home"] {
            write(home.path(), &format!("profiles/{profile}.yaml"), &format!("name: {profile}\nexposure: direct\n"));
        }
        let gateway = toolcrib(home.path(), &["serve"]).env("OURS", "s3cret").with_path().serve().await;
        proxy.gateway.set(gateway.address().to_owned()).unwrap();
        Self { remote, home, gateway, url }
    }

    async fn client(&self, home: &tempfile::TempDir, profile: &str) -> Bridge {
        Bridge::open(home.path(), &format!("{}/mcp/p/{profile}", self.url)).await
    }
}

async fn works(team: &Team) {
    let client = tempfile::tempdir().unwrap();
    let mut bridge = team.client(&client, "work").await;
    assert_eq!(bridge.tools().await, ["authenticate"]);
    bridge.log_in(&team.remote).await;
    let tools = bridge.tools().await;
    assert!(tools.contains(&"try_echo".to_owned()), "{tools:?}");
    let called = bridge.ask("tools/call", json!({"name": "try_echo", "arguments": {"text": "hi"}})).await;
    assert!(called["result"]["isError"] != true && called["result"].is_object(), "{called}");
    bridge.end().await;
    let events = run(team.home.path(), &["audit", "list", "--target", "try/echo", "-o", "json"], &[]).await;
    assert!(events.stdout.contains("user:acme/someone"), "{}{}", events.stdout, events.stderr);
}

#[tokio::test]
async fn a_client_logs_in_at_the_provider_and_uses_what_is_granted() {
    let mut rules = RemoteRules::default();
    rules.provider.tokens = TokenForm::Jwt;
    let team = Team::start(rules, "").await;
    works(&team).await;
    // What is not granted is what is not there, before the login and after it.
    let mut said = Vec::new();
    for profile in ["home", "nope"] {
        let client = tempfile::tempdir().unwrap();
        let mut bridge = team.client(&client, profile).await;
        assert_eq!(bridge.tools().await, ["authenticate"]);
        bridge.log_in(&team.remote).await;
        let listed = bridge.ask("tools/list", json!({})).await;
        assert_eq!(listed["result"], Value::Null, "{listed}");
        said.push(listed["error"].to_string().replace(profile, "PROFILE"));
        bridge.end().await;
    }
    assert_eq!(said[0], said[1]);
    team.gateway.stop().await;
}

#[tokio::test]
async fn opaque_tokens_work_where_the_provider_may_be_asked() {
    let mut rules = RemoteRules::default();
    rules.provider.tokens = TokenForm::Opaque;
    rules.provider.clients = vec![ClientEntry { id: "tools", secret: "s3cret", redirects: Vec::new() }];
    let more = "introspect = {client_id = 'tools', client_secret = 'env:OURS'}\n";
    let team = Team::start(rules, more).await;
    works(&team).await;
    team.gateway.stop().await;
}

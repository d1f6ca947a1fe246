//! People who log in at a provider and use the gateway: the bridge as their client, a scripted browser, grants in the
//! settings, the audit log.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_base::SystemClock;
use toolcrib_testkit::launch::{GatewayProgram, write};
use toolcrib_testkit::provider::{
    Browser, ClientEntry, Destination, Form, Naming, Registration, Remote, RemoteRules, TokenForm,
};

use crate::bridge_logins::Bridge;
use crate::serving::fake_server;
use crate::toolcrib::{run, toolcrib};

/// What stands in front of the gateway: its port is known before the gateway starts.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    gateway: Arc<Mutex<String>>,
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
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = Arc::<Mutex<String>>::default();
        let behind = Arc::clone(&gateway);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let place = behind.lock().unwrap().clone();
                let Ok(server) = TcpStream::connect(place) else { continue };
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

    /// Where connections go from now on.
    pub(crate) fn leads_to(&self, gateway: &str) {
        gateway.clone_into(&mut self.gateway.lock().unwrap());
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
        proxy.leads_to(gateway.address());
        Self { remote, home, gateway, url }
    }

    async fn client(&self, home: &tempfile::TempDir, profile: &str) -> Bridge {
        Bridge::open(home.path(), &format!("{}/mcp/p/{profile}", self.url)).await
    }
}

/// Commands of a home that has logged in say as whom they act.
async fn known_by_name(team: &Team, client: &tempfile::TempDir) {
    let (url, issuer) = (format!("{}/mcp/p/work", team.url), team.remote.issuer());
    let whoami = run(client.path(), &["auth", "whoami", "--endpoint", &url], &[]).await;
    let shown = |label: &str, shown: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_else(|| panic!("no {label} in {shown}{}", whoami.stderr)).trim().to_owned()
    };
    assert_eq!(shown("Identity:", &whoami.stdout), "user:acme/someone (member)");
    assert_eq!((shown("Endpoint:", &whoami.stdout), shown("Issuer:", &whoami.stdout)), (url.clone(), issuer.clone()));
    assert!(shown("Expires:", &whoami.stdout).ends_with('Z'), "{}", whoami.stdout);
    let status = run(client.path(), &["auth", "status", "--endpoint", &url], &[]).await;
    for (label, expected) in [
        ("Status:", "authenticated"),
        ("Session:", "renewed automatically"),
        ("Issuer:", issuer.as_str()),
        ("May:", "use tools"),
    ] {
        assert_eq!(shown(label, &status.stdout), expected);
    }
    let whole = run(client.path(), &["auth", "whoami", "--endpoint", &url, "-o", "json"], &[]).await;
    let whole: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!((&whole["principal"], &whole["role"]), (&json!("user:acme/someone"), &json!("member")));
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
    known_by_name(team, &client).await;
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
async fn a_login_to_all_begins_at_the_gateway() {
    let mut rules = RemoteRules::default();
    rules.provider.tokens = TokenForm::Jwt;
    let (team, client) = (Team::start(rules, "").await, tempfile::tempdir().unwrap());
    let arguments = ["auth", "login", "--all", "--no-browser", "--endpoint", &format!("{}/mcp/p/work", team.url)];
    let mut command = toolcrib(client.path(), &arguments).start();
    let page = command.logs("  http").await.trim().to_owned();
    let redirect = Form::of_target(&page).get("redirect_uri").unwrap().to_owned();
    let Destination::Callback(answer) = Browser::new(team.remote.network()).open(&page, &redirect).unwrap() else {
        panic!("no answer")
    };
    command.types(&answer).await;
    let done = command.finish().await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in."), "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("no server needs a login"), "{}", done.stderr);
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

const PUBLIC: &str = "https://tools.example.com";

/// A gateway that people reach at [`PUBLIC`], with the server `notion` of a provider that knows clients by their documents
/// only.
async fn public_gateway() -> (Remote, tempfile::TempDir, GatewayProgram) {
    let mut rules = RemoteRules::default();
    rules.provider.registration = Registration::Absent;
    rules.provider.edits = json!({"client_id_metadata_document_supported": true});
    let redirects = vec![format!("{PUBLIC}/oauth/callback")];
    rules.provider.clients =
        vec![ClientEntry { id: "https://tools.example.com/.well-known/oauth-client.json", secret: "", redirects }];
    let remote = Remote::start(rules, Naming::Loopback, Arc::new(SystemClock));
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "config.toml", &format!("[identity]\nurl = '{PUBLIC}'\n"));
    let server = format!("name: notion\ntransport: http\nurl: {}\nstart: manual\n", remote.url());
    write(home.path(), "servers/notion.yaml", &server);
    let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    (remote, home, gateway)
}

#[tokio::test]
async fn the_gateways_document_is_its_client_where_the_provider_reads_such() {
    let (remote, home, gateway) = public_gateway().await;
    let mut command = toolcrib(home.path(), &["login", "notion", "--no-browser"]).start();
    let page = command.logs("  http").await.trim().to_owned();
    let query = Form::of_target(&page);
    let (client, redirect) = (query.get("client_id").unwrap(), query.get("redirect_uri").unwrap());
    // What the provider reads there names the redirect that is used.
    let (path, host) = (client.strip_prefix(PUBLIC).unwrap(), "tools.example.com");
    let network = remote.network().clone();
    network.add(host, gateway.address().parse().unwrap());
    let document = Browser::new(&network).visit(&format!("{PUBLIC}{path}")).unwrap();
    let document: Value = serde_json::from_str(&document.body).unwrap();
    assert_eq!((&document["client_id"], &document["redirect_uris"]), (&json!(client), &json!([redirect])));

    let Destination::Callback(answer) = Browser::new(&network).open(&page, redirect).unwrap() else {
        panic!("the provider has refused")
    };
    command.types(&answer).await;
    let done = command.finish().await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in to notion"), "{}{}", done.stdout, done.stderr);
    gateway.stop().await;
}

#[tokio::test]
async fn a_link_leads_to_the_url_under_which_people_reach_the_gateway() {
    let (remote, home, gateway) = public_gateway().await;
    let mut waiting = toolcrib(home.path(), &["login", "notion"]).start();
    let link = waiting.logs("  http").await.trim().to_owned();
    assert!(link.starts_with(&format!("{PUBLIC}/connect/")), "{link}");
    let network = remote.network().clone();
    network.add("tools.example.com", gateway.address().parse().unwrap());
    let token = std::fs::read_to_string(home.path().join("state/token")).unwrap();
    // What is opened on the gateway's own machine leads there first: the answer comes there.
    let here = link.replace(PUBLIC, &format!("http://{}", gateway.address()));
    let mut browser = Browser::new(&network).with_entry("key", token.trim());
    let page = browser.visit(&here).unwrap();
    assert!(page.status == 200 && page.body.contains("Logged in to notion"), "{page:?}");
    assert!(browser.history().contains(&link), "{:?}", browser.history());
    let done = waiting.finish().await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in to notion"), "{}{}", done.stdout, done.stderr);
    gateway.stop().await;
}

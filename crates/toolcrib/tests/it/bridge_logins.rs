//! Logins of the bridge: a gateway elsewhere that wants one, the tool that begins it, a scripted browser, what is stored.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_base::{Clock as _, ManualClock, SystemClock};
use toolcrib_testkit::eventually_finds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::launch::{Launch, Program, write};
use toolcrib_testkit::provider::{
    Browser, Challenge, ClientEntry, Consent, Destination, DocumentForm, Form, IssRule, LockedPart, Naming, ProofRule,
    RedirectRule, Registration, Remote, RemoteRules, SECRET_MARK, fetch,
};

use crate::toolcrib::{run, toolcrib};

const LISTS: [&str; 3] =
    ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"];

fn remote_with(change: impl FnOnce(&mut RemoteRules)) -> Remote {
    let mut rules = RemoteRules::default();
    change(&mut rules);
    Remote::start(rules, Naming::Loopback, Arc::new(SystemClock))
}

/// A running bridge with its client's ends.
pub(crate) struct Bridge {
    program: Program,
    said: Vec<String>,
}

impl Bridge {
    fn start(launch: Launch) -> Self {
        Self { program: launch.start(), said: Vec::new() }
    }

    /// One whose client has opened its session.
    pub(crate) async fn open(home: &Path, url: &str) -> Self {
        Self::open_with(toolcrib(home, &["bridge", url, "--no-browser"])).await
    }

    pub(crate) async fn open_with(launch: Launch) -> Self {
        let mut bridge = Self::start(launch);
        let client = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let opened = bridge.ask("initialize", params).await;
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
        bridge.says(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        bridge
    }

    async fn says(&mut self, message: &Value) {
        self.program.types(&message.to_string()).await;
    }

    async fn hears(&mut self) -> Value {
        let line = self.program.line().await;
        let message = serde_json::from_str(&line).unwrap();
        self.said.push(line);
        message
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.says(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})).await;
        self.until(|message| message["id"] == method).await
    }

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.hears().await;
            if fits(&message) {
                return message;
            }
        }
    }

    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn authenticate(&mut self) -> Value {
        self.ask("tools/call", json!({"name": "authenticate", "arguments": {}})).await
    }

    /// Calls the tool to log in and gives the link.
    pub(crate) async fn link(&mut self) -> String {
        let called = self.authenticate().await;
        assert_eq!(called["result"]["isError"], false, "{called}");
        let text = called["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        text.split(' ').find(|word| word.starts_with("http")).unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    /// Logs in with a scripted browser.
    pub(crate) async fn log_in(&mut self, remote: &Remote) {
        let link = self.link().await;
        let page = Browser::new(remote.network()).visit(&link).unwrap();
        assert_eq!(page.status, 200, "{page:?}");
        self.until_lists_changed().await;
    }

    pub(crate) async fn until_lists_changed(&mut self) {
        for list in LISTS {
            self.until(|message| message["method"] == list).await;
        }
    }

    /// Closes stdin and waits for the end. No secret was said or logged.
    pub(crate) async fn end(mut self) {
        self.program.close();
        let status = self.program.end().await;
        let log = self.program.log();
        assert!(status.success(), "{log}");
        assert!(!log.contains(SECRET_MARK), "{log}");
        for line in &self.said {
            assert!(!line.contains(SECRET_MARK), "{line}");
        }
    }
}

/// The files that the logins of bridges are kept in.
fn stored(home: &Path) -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(home.join("state/bridge")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_none());
    paths
}

#[tokio::test]
async fn one_tool_logs_in_and_the_others_follow() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(bridge.tools().await, ["authenticate"]);
    assert_eq!(bridge.ask("prompts/list", json!({})).await["result"], json!({"prompts": []}));
    assert_eq!(bridge.ask("ping", json!({})).await["result"], json!({}));
    let refused = bridge.ask("tools/call", json!({"name": "whoami"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("requires a login"), "{refused}");
    let link = bridge.link().await;
    assert!(link.starts_with(&remote.issuer()), "{link}");
    assert_eq!(bridge.link().await, link, "the same link as long as it waits");
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    assert_eq!(bridge.ask("tools/call", json!({"name": "whoami", "arguments": {}})).await["error"], Value::Null);
    bridge.end().await;
    let files = stored(home.path());
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let content = std::fs::read(&files[0]).unwrap();
    let mark = SECRET_MARK.as_bytes();
    assert!(!content.windows(mark.len()).any(|part| part == mark), "it is sealed");

    // The next bridge needs no login, and registers no client.
    let mut next = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(next.tools().await, ["whoami"]);
    next.end().await;
    assert_eq!((remote.registrations(), remote.refreshes()), (1, 0));

    run(home.path(), &["auth", "logout", "--endpoint", &remote.url()], &[]).await.prints("Logged out.\n");
    assert_eq!(remote.live_grants(), 0, "what was given is revoked");
    run(home.path(), &["auth", "logout", "--endpoint", &remote.url()], &[]).await.fails(1, &["has no login to end"]);
    let mut after = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(after.tools().await, ["authenticate"]);
    after.end().await;
}

/// A remote whose clock a test moves on.
fn remote_at(clock: &Arc<ManualClock>) -> Remote {
    Remote::start(RemoteRules::default(), Naming::Loopback, Arc::clone(clock) as _)
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(SystemClock.now()))
}

/// More than the tokens of a remote live, in milliseconds.
const LIFE: i64 = 4_000_000;

/// Its refresh tokens are good for one use: who sends one that was used ends the grant.
#[tokio::test]
async fn two_bridges_share_one_renewal() {
    let (clock, home) = (clock(), tempfile::tempdir().unwrap());
    let remote = remote_at(&clock);
    let mut one = Bridge::open(home.path(), &remote.url()).await;
    let mut other = Bridge::open(home.path(), &remote.url()).await;
    one.log_in(&remote).await;
    // Whoever logs in does it for both.
    other.until_lists_changed().await;
    assert_eq!(other.tools().await, ["whoami"]);
    clock.advance(LIFE);
    // Each knows the token that was good until now.
    let (first, second) = tokio::join!(one.tools(), other.tools());
    assert_eq!((first, second), (vec!["whoami".to_owned()], vec!["whoami".to_owned()]));
    let sent = remote.forms("token").into_iter().filter(|form| form.get("grant_type") == Some("refresh_token"));
    assert_eq!((sent.count(), remote.live_grants()), (1, 1));
    one.end().await;
    other.end().await;
}

/// A gateway that lists its tools for anyone and wants a login for calls.
#[tokio::test]
async fn a_login_of_another_bridge_is_found_when_it_is_needed() {
    let remote = remote_with(|rules| rules.server.locked = LockedPart::Calls);
    let home = tempfile::tempdir().unwrap();
    let mut idle = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(idle.tools().await, ["whoami"], "nothing is stored");
    let mut one = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(one.tools().await, ["whoami"]);
    let call = json!({"name": "whoami", "arguments": {}});
    let refused = one.ask("tools/call", call.clone()).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("requires a login"), "{refused}");
    assert_eq!(one.tools().await, ["authenticate"]);
    one.log_in(&remote).await;
    for bridge in [&mut one, &mut idle] {
        let called = bridge.ask("tools/call", call.clone()).await;
        assert!(called["error"].is_null() && called["result"].is_object(), "{called}");
    }
    assert_eq!((remote.registrations(), remote.refreshes()), (1, 0));
    one.end().await;
    idle.end().await;
}

#[tokio::test]
async fn a_login_that_was_taken_back_is_asked_for_again() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    remote.end_grants();
    bridge.says(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})).await;
    bridge.until_lists_changed().await;
    let listed = bridge.until(|message| message["id"] == 7).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "authenticate", "{listed}");
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.end().await;
}

#[tokio::test]
async fn a_provider_that_is_out_of_order_costs_no_login() {
    let (clock, home) = (clock(), tempfile::tempdir().unwrap());
    let remote = remote_at(&clock);
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    let file = stored(home.path()).remove(0);
    let before = std::fs::read(&file).unwrap();
    remote.change(|rules| rules.provider.refresh.error = "temporarily_unavailable");
    remote.end_grants();
    let refused = bridge.ask("tools/list", json!({})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("the stored login is kept"), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    bridge.end().await;
}

/// The worst moment to be killed: the provider has given new tokens, and they are lost.
#[tokio::test]
async fn a_renewal_that_was_never_stored_costs_one_login() {
    let (clock, home) = (clock(), tempfile::tempdir().unwrap());
    let remote = remote_at(&clock);
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    bridge.log_in(&remote).await;
    let file = stored(home.path()).remove(0);
    let before = std::fs::read(&file).unwrap();
    clock.advance(LIFE);
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.program.signal(Signal::KILL);
    bridge.program.end().await;
    std::fs::write(&file, before).unwrap();
    let mut next = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(next.tools().await, ["authenticate"]);
    next.log_in(&remote).await;
    assert_eq!(next.tools().await, ["whoami"]);
    next.end().await;
}

/// Killed while a renewal may be on its way: the next one works, or asks for a login.
#[tokio::test]
async fn a_bridge_that_is_killed_while_it_renews_costs_a_login_at_most() {
    let (clock, home) = (clock(), tempfile::tempdir().unwrap());
    let remote = remote_at(&clock);
    for round in 0..6 {
        let mut bridge = Bridge::open(home.path(), &remote.url()).await;
        if bridge.tools().await == ["authenticate"] {
            bridge.log_in(&remote).await;
        }
        clock.advance(LIFE);
        bridge.says(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        // At another point in each round.
        let refused = remote.refused();
        for _ in 0..round * 2_000 {
            if remote.refused() > refused && round < 3 {
                break;
            }
            tokio::task::yield_now().await;
        }
        bridge.program.signal(Signal::KILL);
        bridge.program.end().await;
    }
    let mut last = Bridge::open(home.path(), &remote.url()).await;
    if last.tools().await == ["authenticate"] {
        last.log_in(&remote).await;
    }
    assert_eq!(last.tools().await, ["whoami"]);
    last.end().await;
}

/// Where a link's answer is to come, and the answer that a browser elsewhere would bring there.
fn answer(remote: &Remote, link: &str, consent: Consent) -> (String, String) {
    let redirect = link.split("redirect_uri=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
    let redirect = redirect.replace("%3A", ":").replace("%2F", "/");
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
    match Browser::new(remote.network()).with_consent(consent).open(link, &redirect).unwrap() {
        Destination::Callback(answer) => (redirect, answer),
        Destination::Page(page) => panic!("no answer: {page:?}"),
    }
}

#[tokio::test]
async fn only_the_answer_that_is_awaited_counts() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    let link = bridge.link().await;
    let (redirect, answer) = answer(&remote, &link, Consent::Allow);
    let state = answer.split("state=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
    let foreign = answer.replace(state, "0123456789abcdef");
    let status = |method: &str, address: &str| fetch(method, address, &[], "").map_or(0, |page| page.status);
    assert_eq!(status("GET", &foreign), 400, "another login's");
    assert_eq!(status("GET", &redirect), 400, "no answer");
    assert_eq!(status("GET", &format!("{redirect}?state={state}")), 400, "neither code nor error");
    assert_eq!(status("GET", &format!("{answer}&state={state}")), 400, "two states");
    assert_eq!(status("POST", &answer), 405);
    assert_eq!(status("GET", &answer.replace("/callback", "/")), 404);
    let rebound = fetch("GET", &answer, &["host: evil.example".to_owned()], "").unwrap();
    assert_eq!(rebound.status, 421, "a page whose name leads here");
    assert_eq!(remote.forms("token").len(), 0, "no code was exchanged");
    assert_eq!(bridge.tools().await, ["authenticate"]);
    let page = fetch("GET", &answer, &[], "").unwrap();
    assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")), "{page:?}");
    assert!(!page.body.contains(SECRET_MARK), "{page:?}");
    bridge.until_lists_changed().await;
    assert_ne!(status("GET", &answer), 200, "an answer counts once");
    assert_eq!(remote.forms("token").len(), 1);
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.end().await;
}

#[tokio::test]
async fn an_answer_of_another_provider_is_refused() {
    let remote = remote_with(|rules| rules.provider.iss = IssRule::Other("https://evil.example"));
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    let link = bridge.link().await;
    let page = Browser::new(remote.network()).visit(&link).unwrap();
    assert!(page.status == 400 && page.body.contains("expected"), "{page:?}");
    assert_eq!(remote.forms("token").len(), 0, "no code went anywhere");
    assert_eq!(bridge.tools().await, ["authenticate"]);
    bridge.end().await;
}

#[tokio::test]
async fn who_says_no_can_be_asked_again() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    let link = bridge.link().await;
    let page = Browser::new(remote.network()).with_consent(Consent::Deny).visit(&link).unwrap();
    assert!(page.status == 400 && page.body.contains("log in again"), "{page:?}");
    assert_ne!(bridge.link().await, link);
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.end().await;
}

/// A program that stands in for a browser: it writes the address that it is to open into the file `opened`.
fn browser_that_writes(home: &Path) -> String {
    let script = "#!/bin/sh\nprintf %s \"$1\" > \"$0.new\" && mv \"$0.new\" \"${0%/*}/opened\"\n";
    let path = write(home, "browser", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_tool_opens_the_browser_of_who_has_one() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let home = home.path();
    let browser = browser_that_writes(home);
    let launch = |arguments: &[&str]| toolcrib(home, arguments).with_path().env("BROWSER", &browser);
    let url = remote.url();
    for quiet in [
        launch(&["bridge", &url, "--no-browser"]),
        launch(&["bridge", &url]).env("TOOLCRIB_AUTH_MODE", "none"),
        launch(&["bridge", &url]).env("MUSTER_AUTH_MODE", "prompt"),
    ] {
        let mut bridge = Bridge::open_with(quiet).await;
        bridge.link().await;
        bridge.end().await;
    }
    assert!(!home.join("opened").exists(), "no one wanted a browser");
    let mut bridge = Bridge::open_with(launch(&["bridge", &url])).await;
    let link = bridge.link().await;
    let opened = eventually_finds("the browser's address", async || std::fs::read_to_string(home.join("opened"))).await;
    assert_eq!(opened, link);
    bridge.log_in(&remote).await;
    bridge.end().await;
}

#[tokio::test]
async fn the_tool_has_muster_s_name_for_its_clients() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let arguments = ["agent", "--mcp-server", "--endpoint", &remote.url()];
    let mut bridge = Bridge::open_with(toolcrib(home.path(), &arguments)).await;
    assert_eq!(bridge.tools().await, ["authenticate_muster"]);
    let called = bridge.ask("tools/call", json!({"name": "authenticate_muster"})).await;
    let text: Value = serde_json::from_str(called["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["status"], "auth_required");
    let link = text["auth_url"].as_str().unwrap();
    assert_eq!(Browser::new(remote.network()).visit(link).unwrap().status, 200);
    bridge.until_lists_changed().await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.end().await;
}

#[tokio::test]
async fn modern_clients_learn_of_the_login_by_their_stream() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::start(toolcrib(home.path(), &["bridge", &remote.url(), "--no-browser"]));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}
    });
    let discovered = bridge.ask("server/discover", json!({"_meta": meta})).await;
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28", "{discovered}");
    let listed = bridge.ask("tools/list", json!({"_meta": meta})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "authenticate", "{listed}");
    for (member, value) in [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))] {
        assert_eq!(listed["result"][member], value, "{listed}");
    }
    let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    bridge.says(&json!({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params})).await;
    let first = bridge.hears().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    let called = bridge.ask("tools/call", json!({"_meta": meta, "name": "authenticate", "arguments": {}})).await;
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    let link = text.split(' ').find(|word| word.starts_with("http")).unwrap();
    assert_eq!(Browser::new(remote.network()).visit(link).unwrap().status, 200);
    let changed = bridge.hears().await;
    assert_eq!(changed["method"], LISTS[0], "nothing that was not asked for: {changed}");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5, "{changed}");
    let ended = bridge.hears().await;
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!(5), &json!("complete")), "{ended}");
    bridge.end().await;
}

#[tokio::test]
async fn a_modern_client_of_an_older_gateway_goes_on_with_a_handshake_after_the_login() {
    let (remote, home) = (remote_with(|rules| rules.server.sessions = true), tempfile::tempdir().unwrap());
    let mut bridge = Bridge::start(toolcrib(home.path(), &["bridge", &remote.url(), "--no-browser"]));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}
    });
    let listed = bridge.ask("tools/list", json!({"_meta": meta})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "authenticate", "{listed}");
    let called = bridge.ask("tools/call", json!({"_meta": meta, "name": "authenticate", "arguments": {}})).await;
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    let link = text.split(' ').find(|word| word.starts_with("http")).unwrap();
    assert_eq!(Browser::new(remote.network()).visit(link).unwrap().status, 200);
    let refused = loop {
        // The page is shown a moment before the bridge lets requests through.
        let answer = bridge.ask("tools/list", json!({"_meta": meta})).await;
        if answer["result"].is_null() {
            break answer;
        }
    };
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["requested"]),
        (&json!(-32022), &json!("2026-07-28"))
    );
    let supported = refused["error"]["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!("2025-11-25")) && !supported.contains(&json!("2026-07-28")), "{refused}");
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let opened = bridge.ask("initialize", params).await;
    assert_eq!(opened["result"]["serverInfo"]["name"], "simulated-remote", "{opened}");
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.end().await;
}

#[tokio::test]
async fn what_leads_elsewhere_is_an_error_and_opens_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let browser = browser_that_writes(home);
    let endpoint = |address: &str| {
        let edits = json!({"authorization_endpoint": address});
        remote_with(move |rules| rules.provider.edits = edits)
    };
    for remote in [
        remote_with(|rules| rules.server.challenge = Challenge::Address("http://169.254.169.254/latest/meta-data")),
        remote_with(|rules| rules.server.challenge = Challenge::Address("file:///etc/passwd")),
        remote_with(|rules| rules.server.edits = json!({"authorization_servers": ["http://169.254.169.254/"]})),
        remote_with(|rules| rules.provider.document = DocumentForm::Redirect("http://169.254.169.254/")),
        remote_with(|rules| rules.provider.document = DocumentForm::Endless),
        endpoint("file:///etc/passwd"),
        endpoint("javascript:alert(1)"),
        endpoint("http://$(touch pwned)/"),
        endpoint("--new-window"),
        endpoint("http://169.254.169.254/"),
    ] {
        let launch = toolcrib(home, &["bridge", &remote.url()]).with_path().env("BROWSER", &browser).folder(home);
        let mut bridge = Bridge::start(launch);
        let opened = bridge.ask("initialize", json!({"protocolVersion": "2025-11-25"})).await;
        if opened["error"].is_null() {
            let called = bridge.authenticate().await;
            // The metadata may have been found where they belong as well.
            if called["result"]["isError"] == true {
                let text = called["result"]["content"][0]["text"].as_str().unwrap();
                assert!(text.starts_with("the login cannot begin: "), "{text}");
            } else {
                let text = called["result"]["content"][0]["text"].as_str().unwrap();
                assert!(text.contains(&format!(" {}/", remote.issuer())), "{text}");
                std::fs::remove_file(home.join("opened")).unwrap_or_default();
            }
        }
        bridge.end().await;
        assert!(!home.join("opened").exists() && !home.join("pwned").exists());
        assert!(remote.forms("token").is_empty());
    }
}

/// A gateway that gives out the remote's tokens as its own and sends calls on to another origin.
#[tokio::test]
async fn a_token_goes_to_its_gateway_alone() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let elsewhere = HttpServer::start(|_: &Request, reply: &mut Reply<'_>| reply.full(200, &[], "{}"));
    let (issuer, target) = (remote.issuer(), elsewhere.url());
    let gateway = HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
        let host = request.header("host").unwrap_or_default();
        let message = request.json();
        if request.target.starts_with("/.well-known/oauth-protected-resource") {
            let resource = format!("http://{host}/mcp");
            return reply.json(&[], &json!({"resource": resource, "authorization_servers": [issuer]}));
        }
        match (request.header("authorization"), message["method"].as_str()) {
            (None, _) => {
                let metadata = format!("http://{host}/.well-known/oauth-protected-resource");
                let challenge = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"");
                reply.full(401, &[&challenge], "");
            }
            (_, Some("initialize")) => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
                reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            }
            (_, Some("tools/call")) => reply.full(307, &[&format!("location: {target}")], ""),
            _ => reply.full(202, &[], ""),
        }
    });
    let mut bridge = Bridge::open(home.path(), &gateway.url()).await;
    bridge.log_in(&remote).await;
    let called = bridge.ask("tools/call", json!({"name": "x"})).await;
    assert!(called["error"].is_object(), "{called}");
    assert_eq!(elsewhere.requests().len(), 0, "no redirect is followed there");
    bridge.end().await;
    // The same home at another path of the same origin is another login.
    let mut other = Bridge::open(home.path(), &format!("{}/p/work", gateway.url())).await;
    assert_eq!(other.tools().await, ["authenticate"]);
    other.end().await;
    assert!(gateway.requests().iter().all(|request| {
        let path = request.target.split('?').next().unwrap_or_default();
        !path.ends_with("/p/work") || request.header("authorization").is_none()
    }));
}

/// A token that its person gave is not replaced by a login.
#[tokio::test]
async fn a_token_that_was_given_stands_for_itself() {
    let (remote, home) = (remote_with(|_| {}), tempfile::tempdir().unwrap());
    let launch = toolcrib(home.path(), &["bridge", &remote.url()]).env("TOOLCRIB_TOKEN", "a-token-of-mine");
    let mut bridge = Bridge::start(launch);
    let refused = bridge.ask("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("requires a token"), "{refused}");
    bridge.end().await;
    assert_eq!(remote.registrations(), 0);
    assert!(stored(home.path()).is_empty());
}

/// What is stored for one URL opens for no other.
#[tokio::test]
async fn a_stored_login_is_bound_to_its_url() {
    let (remote, other, home) = (remote_with(|_| {}), remote_with(|_| {}), tempfile::tempdir().unwrap());
    for remote in [&remote, &other] {
        let mut bridge = Bridge::open(home.path(), &remote.url()).await;
        bridge.log_in(remote).await;
        bridge.end().await;
    }
    let files = stored(home.path());
    assert_eq!(files.len(), 2, "{files:?}");
    let (first, second) = (std::fs::read(&files[0]).unwrap(), std::fs::read(&files[1]).unwrap());
    std::fs::write(&files[0], second).unwrap();
    std::fs::write(&files[1], first).unwrap();
    for remote in [&remote, &other] {
        let before = remote.requests().len();
        let mut bridge = Bridge::open(home.path(), &remote.url()).await;
        assert_eq!(bridge.tools().await, ["authenticate"]);
        bridge.end().await;
        assert!(remote.requests()[before..].iter().all(|request| request.header("authorization").is_none()));
    }
}

#[tokio::test]
async fn a_client_that_was_registered_by_hand_logs_in() {
    let remote = remote_with(|rules| {
        rules.provider.registration = Registration::Absent;
        rules.provider.redirects = RedirectRule::AnyLoopbackPort;
        let redirects = vec!["http://127.0.0.1/callback".to_owned()];
        rules.provider.clients = vec![ClientEntry { id: "by-hand", secret: "", redirects }];
    });
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    let told = bridge.authenticate().await;
    let text = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("registered by hand") && text.contains("`--client-id ID`"), "{text}");
    bridge.end().await;
    let arguments = ["bridge", &remote.url(), "--no-browser", "--client-id", "by-hand"];
    let mut bridge = Bridge::open_with(toolcrib(home.path(), &arguments)).await;
    bridge.log_in(&remote).await;
    assert_eq!(remote.forms("token").last().unwrap().get("client_id"), Some("by-hand"));
    assert_ne!(bridge.tools().await, ["authenticate"]);
    bridge.end().await;
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_gives_a_link_and_nothing_else_stops() {
    let remote = remote_with(|rules| rules.server.call_scope = "write");
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    bridge.log_in(&remote).await;
    let tools = bridge.tools().await;
    let call = json!({"name": tools[0], "arguments": {}});
    let refused = bridge.ask("tools/call", call.clone()).await;
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("does not permit this request; it did not run"), "{message}");
    let link = message.split(' ').find(|word| word.starts_with("http")).unwrap();
    assert!(link.contains("write"), "{link}");
    assert_eq!(bridge.tools().await, tools, "what the login permits goes on");
    let page = Browser::new(remote.network()).visit(link).unwrap();
    assert_eq!(page.status, 200, "{page:?}");
    let called = bridge.ask("tools/call", call).await;
    assert!(called["result"].is_object(), "{called}");
    bridge.end().await;
}

#[tokio::test]
async fn a_gateway_that_takes_bound_tokens_gets_one_and_its_proofs() {
    let remote = remote_with(|rules| {
        rules.provider.proofs = ProofRule::Nonce;
        rules.server.proofs = ProofRule::Nonce;
    });
    let home = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::open(home.path(), &remote.url()).await;
    bridge.log_in(&remote).await;
    assert_eq!(bridge.tools().await, ["whoami"]);
    bridge.end().await;
    // The key is kept with the login.
    let mut next = Bridge::open(home.path(), &remote.url()).await;
    assert_eq!(next.tools().await, ["whoami"]);
    next.end().await;
    let credentials = remote.requests().into_iter().filter_map(|request| {
        let credential = request.header("authorization")?.starts_with("DPoP ");
        Some((credential, request.header("dpop").is_some()))
    });
    let credentials: Vec<_> = credentials.collect();
    assert!(!credentials.is_empty() && credentials.iter().all(|one| *one == (true, true)), "{credentials:?}");
}

/// Muster's way for scripts: what is kept is renewed, and nobody is asked.
#[tokio::test]
async fn a_silent_login_at_a_gateway_renews_what_is_kept_or_ends_with_code_2() {
    let (clock, home) = (Arc::new(ManualClock::at(SystemClock.now())), tempfile::tempdir().unwrap());
    let remote = Remote::start(RemoteRules::default(), Naming::Loopback, clock.clone());
    let url = remote.url();
    let login = ["auth", "login", "--endpoint", &url];
    let advice = format!("toolcrib auth login --endpoint {url}");
    for (more, variables) in [
        (&["--silent"][..], &[][..]),
        (&["--auth", "none"], &[]),
        (&[], &[("MUSTER_AUTH_MODE", "none")]),
        (&["--all", "--silent"], &[]),
    ] {
        let refused = run(home.path(), &[&login[..], more].concat(), variables).await;
        refused.fails(2, &["requires a login", &advice]);
    }
    let refused = run(home.path(), &["list", "tools", "--auth", "auto", "--endpoint", &url], &[]).await;
    refused.fails(2, &["requires a token", &advice]);
    let address = "http://127.0.0.1:1/callback?code=hush&state=hush";
    run(home.path(), &[&login[..], &["--callback", address]].concat(), &[])
        .await
        .fails(1, &["ends in the command that began it", "--no-browser"]);
    assert_eq!((remote.registrations(), stored(home.path()).len()), (0, 0), "nothing was begun");

    let mut bridge = Bridge::open(home.path(), &url).await;
    bridge.log_in(&remote).await;
    bridge.end().await;
    // Its tokens are over where they are checked.
    clock.advance(86_400_000);
    let silent = [&login[..], &["--silent"]].concat();
    run(home.path(), &silent, &[]).await.prints("Logged in. Commands and bridges of this home use the login.\n");
    assert_eq!(remote.refreshes(), 1);
    remote.end_grants();
    run(home.path(), &silent, &[]).await.fails(2, &["requires a login", &advice]);
}

#[tokio::test]
async fn a_login_for_bridges_takes_a_pasted_address() {
    let remote = remote_with(|_| {});
    let home = tempfile::tempdir().unwrap();
    let url = remote.url();
    let arguments = ["auth", "login", "--endpoint", &url, "--no-browser"];
    let mut command = toolcrib(home.path(), &arguments).start();
    let page = command.logs("  http").await.trim().to_owned();
    let redirect = Form::of_target(&page).get("redirect_uri").unwrap().to_owned();
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
    let Destination::Callback(answer) = Browser::new(remote.network()).open(&page, &redirect).unwrap() else {
        panic!("no answer")
    };
    command.types("http://127.0.0.1:1/callback?code=other&state=other").await;
    command.types(&answer).await;
    // Nothing more to read is no reason to give up a login that has just been made.
    command.close();
    let done = command.finish().await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in."), "{}{}", done.stdout, done.stderr);
    let mut bridge = Bridge::open(home.path(), &url).await;
    assert_ne!(bridge.tools().await, ["authenticate"]);
    bridge.end().await;
    run(home.path(), &arguments, &[]).await.prints("Logged in. Commands and bridges of this home use the login.\n");
}

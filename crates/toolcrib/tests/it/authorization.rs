//! The built-in authorization server of the real program: a client from the metadata to a call and to its end, the owner's
//! approval by a command, and our own bridge as a client.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::launch::{GatewayProgram, write};
use url::{Url, form_urlencoded};

use crate::bridge_logins::Bridge;
use crate::people::Proxy;
use crate::serving::fake_server;
use crate::toolcrib::{run, toolcrib};

pub(crate) const VERIFIER: &str = "a-verifier-that-has-more-than-forty-two-characters";
const CHALLENGE: &str = "i7QCCFYyu5jyfNHVht5QyxQFgyJrymBOyA8xPyDIijk";
pub(crate) const REDIRECT: &str = "http://127.0.0.1:9/callback";

pub(crate) struct House {
    pub(crate) home: TempDir,
    pub(crate) gateway: GatewayProgram,
    proxy: Proxy,
    pub(crate) url: String,
}

/// A browser in the middle of a request.
pub(crate) struct BrowserRequest {
    pub(crate) cookie: String,
    form: String,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

// === impl House ===

impl House {
    async fn start() -> Self {
        Self::start_with("", &[], &["serve"]).await
    }

    /// With more settings and servers, started in this way.
    pub(crate) async fn start_with(more: &str, servers: &[(&str, String)], command: &[&str]) -> Self {
        let (proxy, home) = (Proxy::start(), tempfile::tempdir().unwrap());
        let url = format!("http://{}", proxy.address);
        let settings = format!(
            "[identity]\nurl = '{url}'\n[identity.server]\nregistration = true\n[[identity.server.client]]\n\
             id = 'editor'\nname = 'Editor'\nredirect_uris = ['http://127.0.0.1/callback']\n{more}"
        );
        write(home.path(), "config.toml", &settings);
        write(home.path(), "servers/try.yaml", &format!("name: try\ncommand: {}\n", fake_server().display()));
        write(home.path(), "profiles/work.yaml", "name: work\nexposure: direct\n");
        for (name, definition) in servers {
            write(home.path(), &format!("servers/{name}.yaml"), definition);
        }
        let gateway = toolcrib(home.path(), command).with_path().serve().await;
        proxy.leads_to(gateway.address());
        Self { home, gateway, proxy, url }
    }

    /// The gateway is killed, and another one follows it in the same home.
    pub(crate) async fn killed(&mut self) {
        self.gateway.program().signal(rustix::process::Signal::KILL);
        self.gateway.program().end().await;
        self.gateway = toolcrib(self.home.path(), &["serve"]).with_path().serve().await;
        self.proxy.leads_to(self.gateway.address());
    }

    /// The same while a request is on its way, at another point in each round. What was answered, if anything was.
    async fn killed_during(&mut self, round: u32, url: String, form: String) -> Option<Reply> {
        let request = std::thread::spawn(move || try_ask("POST", &url, &[], &form));
        for _ in 0..round * 2_000 {
            tokio::task::yield_now().await;
        }
        self.killed().await;
        request.join().unwrap()
    }

    /// The page at which the client `editor` asks.
    pub(crate) fn page(&self) -> String {
        let resource = format!("{}/mcp/p/work", self.url);
        let query = encoded(&[
            ("response_type", "code"),
            ("client_id", "editor"),
            ("redirect_uri", REDIRECT),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "s1"),
            ("resource", &resource),
        ]);
        format!("{}/oauth/authorize?{query}", self.url)
    }

    pub(crate) fn asked(page: &str) -> BrowserRequest {
        let asked = ask("GET", page, &[], "");
        assert_eq!(asked.status, 200, "{}", asked.body);
        let cookie = asked.header("set-cookie").split(';').next().unwrap().to_owned();
        let form = asked.body.split("name=\"request\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        BrowserRequest { cookie, form: form.to_owned() }
    }

    /// The page that waits for the owner, once the person has agreed.
    fn agreed(&self, asked: &BrowserRequest) -> String {
        self.chosen(asked, "allow")
    }

    /// Where the person goes on after pressing this button.
    pub(crate) fn chosen(&self, asked: &BrowserRequest, choice: &str) -> String {
        let headers = [("origin", self.url.as_str()), ("cookie", &asked.cookie)];
        let body = encoded(&[("request", &asked.form), ("choice", choice)]);
        let said = ask("POST", &format!("{}/oauth/consent", self.url), &headers, &body);
        format!("{}{}", self.url, said.header("location"))
    }

    /// What the owner types.
    fn shown(asked: &BrowserRequest, waiting: &str) -> String {
        let shown = ask("GET", waiting, &[("cookie", &asked.cookie)], "").body;
        shown.split("toolcrib auth approve ").nth(1).unwrap()[..9].to_owned()
    }

    async fn approved(&self, code: &str) {
        let approved = run(self.home.path(), &["auth", "approve", code, "--yes"], &[]).await;
        assert!(approved.stdout.starts_with("Approved "), "{}{}", approved.stdout, approved.stderr);
    }

    fn code(asked: &BrowserRequest, waiting: &str) -> String {
        parameter(ask("GET", waiting, &[("cookie", &asked.cookie)], "").header("location"), "code")
    }

    pub(crate) fn redeemed(&self, code: &str) -> Reply {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", "editor"),
            ("redirect_uri", REDIRECT),
            ("code", code),
            ("code_verifier", VERIFIER),
        ])
    }

    pub(crate) fn refreshed(&self, token: &str) -> Reply {
        self.token(&[("grant_type", "refresh_token"), ("client_id", "editor"), ("refresh_token", token)])
    }

    /// A person opens the page of a client and allows it, and the owner approves it: where the browser goes then.
    pub(crate) async fn allowed(&self, page: &str) -> String {
        let asked = Self::asked(page);
        let waiting = self.agreed(&asked);
        let code = &Self::shown(&asked, &waiting);
        let wrong = run(self.home.path(), &["auth", "approve", "BBBB-BBBB", "--yes"], &[]).await;
        assert!(wrong.stderr.contains("no client waits for this code"), "{}", wrong.stderr);
        let unasked = run(self.home.path(), &["auth", "approve", code], &[]).await;
        assert!(unasked.stderr.contains("needs a terminal"), "{}", unasked.stderr);
        self.approved(code).await;
        ask("GET", &waiting, &[("cookie", &asked.cookie)], "").header("location").to_owned()
    }

    fn token(&self, fields: &[(&str, &str)]) -> Reply {
        ask("POST", &format!("{}/oauth/token", self.url), &[], &encoded(fields))
    }

    /// The status of a call with a token.
    pub(crate) fn call(&self, token: &str) -> u16 {
        self.call_tool(token, "try_echo", &json!({"text": "hi"})).status
    }

    /// The answer to a call with a token, without a session.
    pub(crate) fn call_tool(&self, token: &str, tool: &str, arguments: &Value) -> Reply {
        let params = json!({
            "name": tool, "arguments": arguments, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        ask("POST", &format!("{}/mcp/p/work", self.url), &headers, &body)
    }

    async fn sessions(&self) -> Vec<Value> {
        let listed = run(self.home.path(), &["auth", "sessions", "-o", "json"], &[]).await;
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{}", listed.stderr));
        listed["sessions"].as_array().unwrap().clone()
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(": ")?;
            given.eq_ignore_ascii_case(name).then_some(value)
        });
        found.unwrap_or_else(|| panic!("no `{name}` in {}\n{}", self.head, self.body))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }
}

/// One request over a connection of its own.
pub(crate) fn ask(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    try_ask(method, url, headers, body).unwrap_or_else(|| panic!("no answer of {url}"))
}

/// The same; nothing where the answer does not come.
fn try_ask(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Option<Reply> {
    let url = Url::parse(url).unwrap();
    let place = &url[url::Position::BeforePath..];
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut request = format!("{method} {place} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request += "content-type: application/x-www-form-urlencoded\r\n";
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("content-length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(&host).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, head: head.to_owned(), body: body.to_owned() })
}

pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

pub(crate) fn parameter(url: &str, name: &str) -> String {
    let url = Url::parse(url).unwrap();
    let found = url.query_pairs().find(|(given, _)| given == name).map(|(_, value)| value.into_owned());
    found.unwrap_or_else(|| panic!("no `{name}` in {url}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_comes_in_by_the_owners_word_and_goes_with_it() {
    let house = House::start().await;
    let metadata =
        ask("GET", &format!("{}/.well-known/oauth-protected-resource/mcp/p/work", house.url), &[], "").json();
    assert_eq!(metadata["authorization_servers"], json!([house.url]));
    let server = ask("GET", &format!("{}/.well-known/oauth-authorization-server", house.url), &[], "").json();
    let page = house.page();
    assert!(page.starts_with(server["authorization_endpoint"].as_str().unwrap()), "{page} {server}");
    let back = house.allowed(&page).await;
    assert!(back.starts_with(REDIRECT), "{back}");
    assert_eq!((parameter(&back, "state").as_str(), parameter(&back, "iss")), ("s1", house.url.clone()));
    let code = parameter(&back, "code");
    let tokens = house.redeemed(&code).json();
    let (access, refresh) = (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
    assert_eq!(house.call(access), 200);
    // A rotation of the key ends no token.
    let rotated = run(house.home.path(), &["auth", "key", "rotate"], &[]).await;
    assert!(rotated.stdout.contains("from now on"), "{}", rotated.stderr);
    let renewed = house.refreshed(refresh).json();
    let renewed = renewed["access_token"].as_str().unwrap();
    assert_eq!((house.call(access), house.call(renewed)), (200, 200));
    let body = encoded(&[("client_id", "editor"), ("token", renewed)]);
    assert_eq!(ask("POST", &format!("{}/oauth/revoke", house.url), &[], &body).status, 200);
    assert_eq!((house.call(access), house.call(renewed)), (401, 401));
    assert!(house.sessions().await.is_empty());
    let events = run(house.home.path(), &["audit", "list", "--target", "try/echo", "-o", "json"], &[]).await;
    assert!(events.stdout.contains("\"local\""), "{}", events.stdout);
    house.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_bridge_logs_in_at_our_own_server() {
    let house = House::start().await;
    let client = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::open(client.path(), &format!("{}/mcp/p/work", house.url)).await;
    assert_eq!(bridge.tools().await, ["authenticate"]);
    let link = bridge.link().await;
    let back = house.allowed(&link).await;
    assert_eq!(ask("GET", &back, &[], "").status, 200);
    bridge.until_lists_changed().await;
    assert!(bridge.tools().await.contains(&"try_echo".to_owned()));
    let [session] = &house.sessions().await[..] else { panic!() };
    let id = session["session"].as_str().unwrap();
    let revoked = run(house.home.path(), &["auth", "revoke", id], &[]).await;
    assert!(revoked.stdout.contains("none of its tokens counts"), "{}", revoked.stderr);
    assert!(house.sessions().await.is_empty());
    bridge.end().await;
    house.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_commands_use_the_login_at_a_gateway_elsewhere() {
    let (house, client) = (House::start().await, tempfile::tempdir().unwrap());
    let url = format!("{}/mcp/p/work", house.url);
    let at = |arguments: &[&str]| -> Vec<String> {
        arguments.iter().copied().chain(["--endpoint", &url]).map(str::to_owned).collect()
    };
    let run_at = async |arguments: &[&str]| {
        let arguments = at(arguments);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(client.path(), &arguments, &[]).await
    };
    let step = format!("log in with `toolcrib auth login --endpoint {url}`");
    run_at(&["call", "try_echo", "text=hi"]).await.fails(2, &["requires a token", &step]);
    let arguments = at(&["auth", "login", "--no-browser"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = toolcrib(client.path(), &arguments).start();
    let page = command.logs("  http").await.trim().to_owned();
    let back = house.allowed(&page).await;
    assert_eq!(ask("GET", &back, &[], "").status, 200);
    let done = command.finish().await;
    assert!(done.code == 0 && done.stdout.starts_with("Logged in."), "{}{}", done.stdout, done.stderr);

    let called = run_at(&["call", "try_echo", "text=hi"]).await;
    assert!(called.code == 0 && called.stdout.contains("hi"), "{}{}", called.stdout, called.stderr);
    let listed = run_at(&["list", "tools"]).await;
    assert!(listed.code == 0 && listed.stdout.contains("try_echo"), "{}{}", listed.stdout, listed.stderr);
    // The control API takes the login too, and a member does not administer.
    let explained = run_at(&["explain", "try/echo"]).await;
    assert!(explained.code != 0 && explained.stderr.contains("only admins can do it"), "{}", explained.stderr);
    let status = run_at(&["auth", "status"]).await;
    for part in ["Status:    authenticated", "of the login at the gateway", "use tools"] {
        assert!(status.stdout.contains(part), "no `{part}` in:\n{}{}", status.stdout, status.stderr);
    }
    let refused = run_at(&["secret", "list"]).await;
    assert!(refused.code != 0 && refused.stdout.is_empty(), "a member administers nothing: {}", refused.stdout);
    // Another home has none, and a login never goes to another gateway.
    let other = tempfile::tempdir().unwrap();
    run(other.path(), &["call", "try_echo", "text=hi", "--endpoint", &url], &[]).await.fails(2, &["requires a token"]);
    let elsewhere = format!("http://{}/mcp/p/work", house.gateway.address());
    let elsewhere = run(client.path(), &["call", "try_echo", "text=hi", "--endpoint", &elsewhere], &[]).await;
    elsewhere.fails(2, &["requires a token"]);

    let [session] = &house.sessions().await[..] else { panic!() };
    let revoked = run(house.home.path(), &["auth", "revoke", session["session"].as_str().unwrap()], &[]).await;
    assert!(revoked.stdout.contains("none of its tokens counts"), "{}", revoked.stderr);
    run_at(&["call", "try_echo", "text=hi"]).await.fails(2, &["the login at the gateway", "does not count", &step]);
    run_at(&["auth", "logout"]).await.prints("Logged out.\n");
    run_at(&["call", "try_echo", "text=hi"]).await.fails(2, &["requires a token", &step]);
    house.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_agreed_outlives_a_kill_at_each_step() {
    let mut house = House::start().await;
    let asked = House::asked(&house.page());
    house.killed().await;
    let waiting = house.agreed(&asked);
    house.killed().await;
    let shown = House::shown(&asked, &waiting);
    house.killed().await;
    house.approved(&shown).await;
    house.killed().await;
    let code = House::code(&asked, &waiting);
    house.killed().await;
    let tokens = house.redeemed(&code).json();
    let (access, refresh) = (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
    house.killed().await;
    assert_eq!(house.call(access), 200);
    let renewed = house.refreshed(refresh).json();
    house.killed().await;
    // The answer was lost with the gateway: it is given again.
    assert_eq!(house.refreshed(refresh).json()["refresh_token"], renewed["refresh_token"]);
    let next = house.refreshed(renewed["refresh_token"].as_str().unwrap()).json();
    let next = next["access_token"].as_str().unwrap();
    let body = encoded(&[("client_id", "editor"), ("token", next)]);
    assert_eq!(ask("POST", &format!("{}/oauth/revoke", house.url), &[], &body).status, 200);
    house.killed().await;
    assert_eq!((house.call(access), house.call(next)), (401, 401), "what was revoked does not come back");
    house.gateway.stop().await;
}

/// Killed while a request is on its way: the next try works, or its error says to connect again.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_a_request_costs_a_new_connection_at_most() {
    let mut house = House::start().await;
    let token = format!("{}/oauth/token", house.url);
    for round in 0..4 {
        let asked = House::asked(&house.page());
        let waiting = house.agreed(&asked);
        house.approved(&House::shown(&asked, &waiting)).await;
        let code = House::code(&asked, &waiting);
        let form = encoded(&[
            ("grant_type", "authorization_code"),
            ("client_id", "editor"),
            ("redirect_uri", REDIRECT),
            ("code", &code),
            ("code_verifier", VERIFIER),
        ]);
        let answered = house.killed_during(round, token.clone(), form).await;
        let again = house.redeemed(&code);
        let tokens = match (answered, again.status) {
            // It was not used before the end.
            (None, 200) => again.json(),
            // It was, and no one heard the answer, or it comes twice: connect again.
            (_, 400) => {
                assert_eq!(again.json()["error"], "invalid_grant");
                let code = parameter(&house.allowed(&house.page()).await, "code");
                house.redeemed(&code).json()
            }
            (answered, status) => panic!("{:?} {status}", answered.map(|reply| reply.body)),
        };
        let refresh = tokens["refresh_token"].as_str().unwrap();
        let form = encoded(&[("grant_type", "refresh_token"), ("client_id", "editor"), ("refresh_token", refresh)]);
        house.killed_during(round, token.clone(), form).await;
        // Renewed or not, the same token gives an answer for half a minute.
        let renewed = house.refreshed(refresh);
        assert_eq!(renewed.status, 200, "{}", renewed.body);
        assert_eq!(house.call(renewed.json()["access_token"].as_str().unwrap()), 200);
    }
    house.gateway.stop().await;
}

//! The pages of logins to servers: the link that begins one, the answer of the authorization server, and what must not
//! work with either.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use http::Method;
use toolcrib_base::{Clock, Limits, ManualClock, ServerName, Timestamp};
use toolcrib_login::{
    Begin, Config, LoginSettings, LoginTarget, Logins, MemoryRows, Owner, PossessionKeys, Quirks, SystemResolver,
};
use toolcrib_testgateway::{File, profile};
use toolcrib_testkit::provider::{
    Browser, BrowserPage, Consent, Destination, Form, Naming, ProviderRules, Remote, RemoteRules, SECRET_MARK,
};
use toolcrib_transport::http::client::HttpClient;
use tracing_subscriber::fmt::MakeWriter;

use crate::keys::{Key, key};
use crate::served::{Ask, Reply, ServedGateway};

const FORM: &str = "application/x-www-form-urlencoded";
/// What a browser says of a window that a page of another site leads somewhere.
const LED: [(&str, &str); 3] =
    [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];

/// A gateway with one server that wants a login.
struct House {
    gateway: ServedGateway,
    remote: Remote,
    logins: Logins,
    clock: Arc<ManualClock>,
}

/// A browser that was sent to the provider.
struct ProviderVisit {
    /// The provider's page.
    provider: String,
    /// `name=value`.
    cookie: String,
}

fn notion() -> ServerName {
    ServerName::new("notion").unwrap()
}

impl House {
    async fn open() -> Self {
        Self::open_with(&[], RemoteRules::default(), LoginSettings::default(), None).await
    }

    async fn open_with(files: &[File], rules: RemoteRules, settings: LoginSettings, redirect: Option<&str>) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
        let remote = Remote::start(rules, Naming::Loopback, Arc::clone(&clock) as Arc<dyn Clock>);
        let mut made = None;
        let gateway = ServedGateway::open_with(files, Limits::default(), |address, scope| {
            let own = format!("http://{address}/oauth/callback");
            let config = Config {
                rows: Arc::new(MemoryRows::default()),
                http: HttpClient::new().unwrap(),
                resolver: Arc::new(SystemResolver),
                clock: Arc::clone(&clock) as Arc<dyn Clock>,
                keys: PossessionKeys::new(Arc::clone(&clock) as Arc<dyn Clock>),
                quirks: Quirks::default(),
                redirect_uri: redirect.map_or(own, str::to_owned),
                client_document: None,
                scope: scope.clone(),
                audit: None,
            };
            let logins = Logins::new(config);
            logins.set_target(LoginTarget::new(notion(), &remote.url(), settings).unwrap());
            made = Some(logins.clone());
            Some(logins)
        })
        .await;
        Self { gateway, remote, logins: made.unwrap(), clock }
    }

    async fn ticket_of(&self, owner: &Owner) -> String {
        let pending = self.logins.begin(&notion(), owner, None, Begin::New).await.unwrap();
        pending.ticket.expose().to_owned()
    }

    async fn ticket(&self) -> String {
        self.ticket_of(&Owner::installation()).await
    }

    async fn is_logged_in(&self, owner: &Owner) -> bool {
        self.logins.headers(&notion(), owner).await.unwrap().is_some()
    }

    /// Whether anybody is logged in: nobody may be before.
    async fn is_anybody_logged_in(&self) -> bool {
        self.is_logged_in(&Owner::installation()).await || self.is_logged_in(&Owner::of(Some("key:locked/ci"))).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway.address)
    }

    /// As the form on the page of a link is sent by a browser; `fields` beside its token.
    fn form(&self, ticket: &str, token: &str, fields: &Form) -> Ask {
        self.sent_form(ticket, fields.clone().with("token", token).encoded())
    }

    fn sent_form(&self, ticket: &str, body: String) -> Ask {
        let origin = format!("http://{}", self.gateway.address);
        Ask::new(Method::POST, &format!("/connect/{ticket}"), body)
            .with("content-type", FORM)
            .with("accept", "text/html,*/*;q=0.8")
            .header("origin", &origin)
            .header("sec-fetch-site", "same-origin")
    }

    /// The token of the page of a link.
    async fn token(&self, ticket: &str) -> String {
        let page = self.gateway.ask(page(&format!("/connect/{ticket}"))).await;
        assert_eq!(page.status, 200, "{}", text(&page));
        let text = text(&page);
        let token = text.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        token.to_owned()
    }

    /// Opens a link as a person does, up to the provider.
    async fn send(&self, ticket: &str, fields: &Form) -> ProviderVisit {
        let token = self.token(ticket).await;
        sent(&self.gateway.ask(self.form(ticket, &token, fields)).await)
    }

    /// What the provider answers to a person with a browser of their own: a path of the gateway.
    async fn agree(&self, provider: &str, consent: Consent) -> String {
        let browser = Browser::new(self.remote.network()).with_consent(consent);
        let (provider, callback) = (provider.to_owned(), self.url("/oauth/callback"));
        let base = self.url("");
        let opened = tokio::task::spawn_blocking(move || {
            let mut browser = browser;
            browser.open(&provider, &callback)
        });
        match opened.await.unwrap().unwrap() {
            Destination::Callback(address) => address.strip_prefix(&base).unwrap().to_owned(),
            Destination::Page(page) => panic!("{page:?}"),
        }
    }

    async fn come_back(&self, path: &str, cookies: &str) -> Reply {
        let ask = LED.iter().fold(page(path), |ask, (name, value)| ask.header(name, value));
        self.gateway.ask(if cookies.is_empty() { ask } else { ask.header("cookie", cookies) }).await
    }
}

/// A browser goes all the way by itself.
async fn visit(browser: Browser, address: String) -> (Browser, BrowserPage) {
    let work = tokio::task::spawn_blocking(move || {
        let mut browser = browser;
        let page = browser.visit(&address).unwrap();
        (browser, page)
    });
    work.await.unwrap()
}

/// A request for a page by a browser.
fn page(path: &str) -> Ask {
    Ask::get(path).without("content-type").with("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.to_vec()).unwrap()
}

fn sent(reply: &Reply) -> ProviderVisit {
    assert_eq!(reply.status, 303, "{}", text(reply));
    let cookie = reply.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    ProviderVisit { provider: reply.headers["location"].to_str().unwrap().to_owned(), cookie }
}

/// Expects a page with this status and text, which nobody can frame, run or keep.
fn check_page(reply: &Reply, status: u16, expected: &str) {
    let text = text(reply);
    assert_eq!(reply.status, status, "{text}");
    assert!(text.contains(expected), "no {expected:?} in {text}");
    let header = |name: &str| reply.headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let policy = header("content-security-policy");
    for rule in ["default-src 'none'; ", "; base-uri 'none'; frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    let has_form = text.contains("<form");
    assert_eq!(policy.contains("; form-action 'none';"), !has_form, "{policy}");
    assert_eq!(header("referrer-policy"), if has_form { "same-origin" } else { "no-referrer" });
    assert_eq!((header("x-frame-options"), header("cache-control")), ("DENY", "no-store"));
    assert_eq!((header("x-content-type-options"), text.contains("<script")), ("nosniff", false));
}

fn parameter(address: &str, name: &str) -> String {
    Form::of_target(address).get(name).unwrap().to_owned()
}

fn locked(keys: &[&Key]) -> File {
    let lines: String = keys.iter().map(|key| key.line.as_str()).collect();
    profile("locked", &format!("keys:\n{lines}"))
}

/// All that is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_login_goes_from_its_link_to_the_provider_and_back_and_no_log_has_a_secret() {
    let log = Log::default();
    let logging = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    let _logging = tracing::subscriber::set_default(logging);
    let house = House::open().await;
    let ticket = house.ticket().await;
    let browser = Browser::new(house.remote.network());
    let (browser, page) = visit(browser, house.url(&format!("/connect/{ticket}"))).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("Logged in to notion."), "{page:?}");
    assert!(page.body.contains("You can close this window."), "{page:?}");
    let removed = page.header("set-cookie").unwrap();
    assert!(removed.starts_with("toolcrib-login-") && removed.ends_with("; Max-Age=0"), "{removed}");
    assert!(house.is_logged_in(&Owner::installation()).await);
    assert!(!house.is_logged_in(&Owner::of(Some("key:locked/ci"))).await);
    let callback = browser.history().last().unwrap();
    let (code, state) = (parameter(callback, "code"), parameter(callback, "state"));
    tracing::info!("the end");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the end"));
    for secret in [&*ticket, &*code, &*state, SECRET_MARK, "toolcrib-login-"] {
        assert!(!log.contains(secret), "`{secret}` in {log}");
    }
}

#[tokio::test]
async fn a_link_says_whose_login_it_begins_and_nothing_happens_before_the_button() {
    let ours = key("ci");
    let house = House::open_with(&[locked(&[&ours])], RemoteRules::default(), LoginSettings::default(), None).await;
    let ticket = house.ticket().await;
    let path = format!("/connect/{ticket}");
    for _ in 0..3 {
        let reply = house.gateway.ask(page(&path)).await;
        check_page(&reply, 200, "Log in to notion?");
        let text = text(&reply);
        for shown in [&house.remote.url(), "the owner of this gateway", "2027-01-15T08:00:00.000Z"] {
            assert!(text.contains(shown), "{shown} in {text}");
        }
        assert!(!text.contains("type=\"password\""), "{text}");
        assert!(reply.headers.get("set-cookie").is_none());
        let head = house.gateway.ask(Ask::new(Method::HEAD, &path, "").with("accept", "text/html")).await;
        assert_eq!((head.status.as_u16(), head.headers["allow"].to_str().unwrap()), (405, "GET, POST"));
        let prefetched = house.gateway.ask(page(&path).header("sec-purpose", "prefetch;prerender")).await;
        assert_eq!(prefetched.status, 200);
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(house.gateway.ask(Ask::new(method, &path, "")).await.status, 405);
        }
    }
    assert_eq!(house.remote.requests().len(), 0);
    let of_key = house.ticket_of(&Owner::of(Some("key:locked/ci"))).await;
    let reply = house.gateway.ask(page(&format!("/connect/{of_key}"))).await;
    check_page(&reply, 200, "the key <code>ci</code> of profile <code>locked</code>");
    assert!(text(&reply).contains("type=\"password\" name=\"key\""), "{}", text(&reply));
    house.send(&ticket, &Form::default()).await;
    assert!(!house.remote.requests().is_empty());
}

#[tokio::test]
async fn a_link_of_a_key_is_opened_with_that_key_only() {
    let (ours, other, elsewhere) = (key("ci"), key("bob"), key("ci"));
    let unlike = profile("unlike", &format!("keys:\n{}", elsewhere.line));
    let files = [locked(&[&ours, &other]), unlike];
    let house = House::open_with(&files, RemoteRules::default(), LoginSettings::default(), None).await;
    let owner = Owner::of(Some("key:locked/ci"));
    let ticket = house.ticket_of(&owner).await;
    let token = house.token(&ticket).await;
    let wrong = [&*other.secret, &elsewhere.secret, crate::served::TOKEN, "", "someone"];
    let forms = wrong.map(|key| Form::default().with("key", key));
    for form in [Form::default()].iter().chain(&forms) {
        let reply = house.gateway.ask(house.form(&ticket, &token, form)).await;
        assert_eq!(reply.status, 403, "{form:?}: {}", text(&reply));
        assert!(reply.headers.get("set-cookie").is_none());
        assert!(reply.headers.get("location").is_none());
        // The administrator is somebody else, too.
        let reply = house.gateway.ask(house.form(&ticket, &token, form).admin()).await;
        check_page(&reply, 403, "");
    }
    assert_eq!(house.remote.requests().len(), 0);
    // A key in place of nothing does not open the link of the owner.
    let sent = house.send(&ticket, &Form::default().with("key", &format!(" {}\n", ours.secret))).await;
    let back = house.agree(&sent.provider, Consent::Allow).await;
    check_page(&house.come_back(&back, &sent.cookie).await, 200, "Logged in to notion.");
    assert!(house.is_logged_in(&owner).await);
    assert!(!house.is_logged_in(&Owner::installation()).await);
    // A revoked key opens nothing.
    let ticket = house.ticket_of(&owner).await;
    house.gateway.apply(&[locked(&[&other])]).await;
    let form = Form::default().with("key", &ours.secret);
    check_page(&house.gateway.ask(house.form(&ticket, &token, &form)).await, 403, "is not the key");
    let gone = house.ticket_of(&Owner::of(Some("key:gone/ci"))).await;
    check_page(&house.gateway.ask(house.form(&gone, &token, &form)).await, 403, "is not the key");
    let unknown = house.ticket_of(&Owner::of(Some("user:https://x.example/1"))).await;
    check_page(&house.gateway.ask(house.form(&unknown, &token, &form)).await, 403, "belongs to someone else");
}

#[tokio::test]
async fn an_answer_counts_only_in_the_browser_that_was_sent_for_it() {
    let ours = key("ci");
    let house = House::open_with(&[locked(&[&ours])], RemoteRules::default(), LoginSettings::default(), None).await;
    // One opens a link and has someone else agree: the answer comes in the other's browser.
    let owner = Owner::of(Some("key:locked/ci"));
    let ticket = house.ticket_of(&owner).await;
    let attacker = house.send(&ticket, &Form::default().with("key", &ours.secret)).await;
    let back = house.agree(&attacker.provider, Consent::Allow).await;
    // The other one has begun a login, too, which is not ended by it.
    let ticket = house.ticket().await;
    let victim = house.send(&ticket, &Form::default()).await;
    for cookies in ["", &*victim.cookie, &victim.cookie.replace("login", "x"), "toolcrib-login-0=0"] {
        let reply = house.come_back(&back, cookies).await;
        check_page(&reply, 403, "This answer came by another browser");
        assert!(text(&reply).contains("close this page"), "{}", text(&reply));
        assert!(reply.headers.get("set-cookie").is_none());
    }
    let (name, value) = attacker.cookie.split_once('=').unwrap();
    let planted = format!("{name}={}", "0".repeat(value.len()));
    for cookies in [planted.clone(), format!("{planted}; {}", attacker.cookie), format!("{}0=1", attacker.cookie)] {
        check_page(&house.come_back(&back, &cookies).await, 403, "another browser");
    }
    assert!(!house.is_anybody_logged_in().await);
    let agreed = house.agree(&victim.provider, Consent::Allow).await;
    check_page(&house.come_back(&agreed, &attacker.cookie).await, 403, "another browser");
    assert!(!house.is_anybody_logged_in().await);
    // With the right cookie among others each ends its own.
    let both = format!("a=b; {}; {}", victim.cookie, attacker.cookie);
    check_page(&house.come_back(&agreed, &both).await, 200, "Logged in to notion.");
    assert!(house.is_logged_in(&Owner::installation()).await && !house.is_logged_in(&owner).await);
    check_page(&house.come_back(&back, &both).await, 200, "Logged in to notion.");
    assert!(house.is_logged_in(&owner).await);
}

#[tokio::test]
async fn links_that_are_unknown_used_replaced_or_too_old_are_404() {
    let house = House::open().await;
    let ticket = house.ticket().await;
    let token = house.token(&ticket).await;
    let refused = async |ticket: &str| {
        for ask in [page(&format!("/connect/{ticket}")), house.form(ticket, &token, &Form::default())] {
            let reply = house.gateway.ask(ask.clone()).await;
            check_page(&reply, 404, "This link is not valid any more");
            assert!(text(&reply).contains("<code>toolcrib login SERVER</code>"), "{}", text(&reply));
            assert!(ticket.len() < 64 || !text(&reply).contains(ticket));
            let program = house.gateway.ask(ask.with("accept", "*/*")).await;
            assert!(program.problem(404)["hint"].as_str().unwrap().contains("toolcrib login"));
            assert_eq!(program.headers["cache-control"], "no-store");
        }
    };
    let unknown = "0".repeat(64);
    let unlike = [&*unknown, "", "x", &ticket[1..], &ticket.to_uppercase(), &format!("{ticket}0"), &"a".repeat(5_000)];
    for wrong in unlike.into_iter().chain([&*format!("{ticket}/"), "..%2f..", "%00"]) {
        refused(wrong).await;
    }
    house.send(&ticket, &Form::default()).await;
    refused(&ticket).await;
    let replaced = house.ticket().await;
    let newer = house.ticket().await;
    refused(&replaced).await;
    house.token(&newer).await;
    house.clock.advance(601_000);
    refused(&newer).await;
    assert!(!house.is_anybody_logged_in().await);
}

#[tokio::test]
async fn what_is_no_answer_is_refused_and_the_right_one_counts_once() {
    let house = House::open().await;
    let ticket = house.ticket().await;
    let sent = house.send(&ticket, &Form::default()).await;
    let back = house.agree(&sent.provider, Consent::Allow).await;
    let (code, state) = (parameter(&back, "code"), parameter(&back, "state"));
    let long = "a".repeat(60_000);
    for (query, status, expected) in [
        (String::new(), 400, "has no <code>state</code>"),
        ("?".into(), 400, "has no <code>state</code>"),
        (format!("?code={code}"), 400, "has no <code>state</code>"),
        (format!("?state={state}"), 400, "neither <code>code</code> nor <code>error</code>"),
        (format!("?code=&state={state}"), 400, "neither"),
        (format!("?code={code}&state={state}&error=x"), 400, "both"),
        (format!("?code={code}&code={code}&state={state}"), 400, "twice"),
        (format!("?code={code}&state={state}&state=x"), 400, "twice"),
        (format!("?code={code}&state={state}&a={long}"), 400, "too long"),
        (format!("?code={code}&state=other"), 404, "no login that waits"),
        ("?error=access_denied&state=other".into(), 404, "no login that waits"),
        (format!("?code={code}&state={state}&iss=https%3A%2F%2Fevil.example%2F%3Cb%3E"), 403, "evil.example/&lt;b&gt;"),
    ] {
        let path = format!("/oauth/callback{query}");
        let reply = house.come_back(&path, &sent.cookie).await;
        check_page(&reply, status, expected);
        for secret in [&*code, &*state, &*sent.cookie] {
            assert!(!text(&reply).contains(secret));
        }
        let program = Ask::get(&path).header("cookie", &sent.cookie);
        house.gateway.ask(program).await.problem(status);
    }
    for method in [Method::HEAD, Method::POST, Method::PUT] {
        let reply = house.gateway.ask(Ask::new(method, &back, "").header("cookie", &sent.cookie)).await;
        assert_eq!((reply.status.as_u16(), reply.headers["allow"].to_str().unwrap()), (405, "GET"));
    }
    for (name, value) in [("sec-purpose", "prefetch"), ("purpose", "prefetch"), ("x-moz", "Prefetch")] {
        let reply = house.gateway.ask(page(&back).header("cookie", &sent.cookie).header(name, value)).await;
        check_page(&reply, 403, "in advance");
    }
    assert!(!house.is_anybody_logged_in().await);
    let reply = house.gateway.ask(Ask::get(&back).header("cookie", &sent.cookie)).await;
    assert_eq!(reply.json(), serde_json::json!({"server": "notion", "status": "connected"}));
    assert_eq!(reply.headers["cache-control"], "no-store");
    check_page(&house.come_back(&back, &sent.cookie).await, 404, "no login that waits");
}

#[tokio::test]
async fn a_provider_that_says_no_is_quoted_as_text() {
    let house = House::open().await;
    let ticket = house.ticket().await;
    let sent = house.send(&ticket, &Form::default()).await;
    let back = house.agree(&sent.provider, Consent::Deny).await;
    let reply = house.come_back(&back, &sent.cookie).await;
    check_page(&reply, 401, "access_denied");
    assert!(text(&reply).contains("<code>toolcrib login notion</code>"), "{}", text(&reply));
    let ticket = house.ticket().await;
    let sent = house.send(&ticket, &Form::default()).await;
    let state = parameter(&sent.provider, "state");
    let words = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%0D%0ASet-Cookie%3Aa%3Db";
    let back = format!("/oauth/callback?error=x&error_description={words}&state={state}");
    let reply = house.come_back(&back, &sent.cookie).await;
    let status = reply.status.as_u16();
    check_page(&reply, status, if status == 401 { "&lt;script&gt;alert(1)" } else { "names the authorization server" });
    assert!(reply.headers.get("set-cookie").is_none());
    assert!(!house.is_anybody_logged_in().await);
}

#[tokio::test]
async fn a_form_that_another_page_sends_is_refused() {
    let house = House::open().await;
    let ticket = house.ticket().await;
    let token = house.token(&ticket).await;
    let form = || house.form(&ticket, &token, &Form::default());
    let port = house.gateway.address.port();
    for origin in [
        "http://localhost:3000".to_owned(),
        format!("http://127.0.0.1:{}", port ^ 1),
        format!("http://localhost:{port}"),
        "http://127.0.0.1".to_owned(),
        "https://app.example.com".to_owned(),
        "https://evil.example".to_owned(),
        "null".to_owned(),
    ] {
        check_page(&house.gateway.ask(form().with("origin", &origin)).await, 403, "");
        check_page(&house.gateway.ask(form().header("origin", &origin)).await, 403, "");
    }
    check_page(&house.gateway.ask(form().without("origin").with("sec-fetch-site", "cross-site")).await, 403, "");
    let path = format!("/connect/{ticket}");
    let body = |body: String| house.sent_form(&ticket, body);
    for (ask, status) in [
        (house.form(&ticket, "", &Form::default()), 403),
        (house.form(&ticket, &"0".repeat(64), &Form::default()), 403),
        (house.form(&ticket, &ticket, &Form::default()), 403),
        (body(String::new()), 403),
        (body(format!("token={token}&token={token}")), 400),
        (body(format!("token={token}&key=a&key=b")), 400),
        (body(format!("token={token}&a={}", "a".repeat(5_000))), 413),
        (form().with("content-type", "application/json"), 400),
        (form().with("content-type", "text/plain"), 400),
        (form().without("content-type"), 400),
        (Ask::new(Method::POST, &path, "{}"), 400),
    ] {
        let reply = house.gateway.ask(ask.clone()).await;
        assert_eq!(reply.status, status, "{ask:?}: {}", text(&reply));
        assert!(reply.headers.get("set-cookie").is_none() && reply.headers.get("location").is_none());
    }
    assert_eq!(house.remote.requests().len(), 0);
    sent(&house.gateway.ask(form()).await);
}

#[tokio::test]
async fn other_sites_may_lead_a_window_to_these_pages_and_nothing_else() {
    let house = House::open().await;
    let ticket = house.ticket().await;
    let paths = [format!("/connect/{ticket}"), "/oauth/callback?code=a&state=b".to_owned()];
    let led = |ask: Ask| LED.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    let statuses = [200, 404];
    for (path, status) in paths.iter().zip(statuses) {
        check_page(&house.gateway.ask(led(page(path))).await, status, "");
        for ask in [
            page(path).header("sec-fetch-site", "cross-site"),
            led(page(path)).with("sec-fetch-dest", "iframe"),
            led(page(path)).with("sec-fetch-mode", "no-cors"),
            led(page(path)).with("host", "evil.example"),
            led(page(path)).header("origin", "https://evil.example"),
            page(path).header("origin", "null"),
        ] {
            check_page(&house.gateway.ask(ask.clone()).await, 403, "");
            house.gateway.ask(ask.with("accept", "application/json")).await.problem(403);
        }
        check_page(&house.gateway.ask(page(path).header("authorization", "Bearer wrong")).await, 401, "not valid here");
    }
    for path in ["/mcp", "/readyz", "/metrics", "/api/v1/tools", "/connect", "/oauth", "/oauth/callback/x"] {
        house.gateway.ask(led(page(path))).await.problem(403);
    }
    // Where there are no logins, there are no such pages.
    let bare = ServedGateway::settled(&[]).await;
    for path in &paths {
        bare.ask(page(path)).await.problem(404);
    }
}

#[tokio::test]
async fn a_link_at_another_name_goes_on_to_the_name_where_the_answer_comes() {
    let house = House::open().await;
    let ticket = house.ticket().await;
    let token = house.token(&ticket).await;
    let (here, port) = (house.gateway.address, house.gateway.address.port());
    let other = format!("localhost:{port}");
    let form = house.form(&ticket, &token, &Form::default());
    let form = form.with("host", &other).with("origin", &format!("http://{other}"));
    let reply = house.gateway.ask(form).await;
    assert_eq!(reply.status, 303, "{}", text(&reply));
    assert_eq!(reply.headers["location"], format!("http://{here}/connect/{ticket}"));
    assert_eq!(reply.headers["referrer-policy"], "no-referrer");
    assert_eq!(reply.headers["cache-control"], "no-store");
    assert!(reply.headers.get("set-cookie").is_none());
    // The link was not used by that.
    let sent = house.send(&ticket, &Form::default()).await;
    let back = house.agree(&sent.provider, Consent::Allow).await;
    check_page(&house.come_back(&back, &sent.cookie).await, 200, "Logged in to notion.");
    // A definition can name a redirect that leads elsewhere: no ticket goes there.
    for redirect in ["https://muster.example/oauth/callback", "http://localhost:1/callback"] {
        let settings = LoginSettings { redirect_uri: Some(redirect.to_owned()), ..LoginSettings::default() };
        let house = House::open_with(&[], RemoteRules::default(), settings, None).await;
        let ticket = house.ticket().await;
        let token = house.token(&ticket).await;
        let reply = house.gateway.ask(house.form(&ticket, &token, &Form::default())).await;
        check_page(&reply, 422, "where this gateway does not listen");
        assert!(text(&reply).contains("--no-browser"), "{}", text(&reply));
        assert!(reply.headers.get("location").is_none());
    }
}

#[tokio::test]
async fn over_https_the_cookie_is_of_this_host_alone() {
    let redirect = "https://tools.example.com/oauth/callback";
    let house = House::open_with(&[], RemoteRules::default(), LoginSettings::default(), Some(redirect)).await;
    let ticket = house.ticket().await;
    let token = house.token(&ticket).await;
    let named = |ask: Ask| ask.with("host", "tools.example.com").with("origin", "https://tools.example.com");
    // Opened at this machine it goes to the name first.
    let reply = house.gateway.ask(house.form(&ticket, &token, &Form::default())).await;
    assert_eq!(reply.headers["location"], format!("https://tools.example.com/connect/{ticket}"));
    let reply = house.gateway.ask(named(house.form(&ticket, &token, &Form::default()))).await;
    let ProviderVisit { provider, cookie } = sent(&reply);
    assert!(cookie.starts_with("__Host-toolcrib-login-"), "{cookie}");
    let attributes = reply.headers["set-cookie"].to_str().unwrap();
    assert!(attributes.ends_with("; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"), "{attributes}");
    let browser = Browser::new(house.remote.network());
    let opened = tokio::task::spawn_blocking(move || {
        let mut browser = browser;
        browser.open(&provider, redirect)
    });
    let Destination::Callback(back) = opened.await.unwrap().unwrap() else { panic!("no callback") };
    let back = back.strip_prefix("https://tools.example.com").unwrap();
    // The same without the prefix may be set by any page of a neighbouring host.
    let plain = cookie.strip_prefix("__Host-").unwrap();
    check_page(&house.come_back(back, plain).await, 403, "another browser");
    check_page(&house.come_back(back, &cookie).await, 200, "Logged in to notion.");
}

#[tokio::test]
async fn a_provider_that_has_forgotten_the_client_is_visited_once_more() {
    let rules = RemoteRules { provider: ProviderRules::default(), ..RemoteRules::default() };
    let house = House::open_with(&[], rules, LoginSettings::default(), None).await;
    let ticket = house.ticket().await;
    let first = house.send(&ticket, &Form::default()).await;
    let back = house.agree(&first.provider, Consent::Allow).await;
    house.remote.forget_clients();
    let again = sent(&house.come_back(&back, &first.cookie).await);
    assert_eq!(again.cookie, first.cookie);
    assert_ne!(parameter(&again.provider, "client_id"), parameter(&first.provider, "client_id"));
    let back = house.agree(&again.provider, Consent::Allow).await;
    check_page(&house.come_back(&back, "").await, 403, "another browser");
    check_page(&house.come_back(&back, &again.cookie).await, 200, "Logged in to notion.");
    assert!(house.is_logged_in(&Owner::installation()).await);
}

//! The endpoints of the built-in authorization server: pages that ask, cookies that bind, tokens that open the door and
//! end with their session. What a request may ask for is tested where it is decided.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_auth::{KeyPreference, Vault};
use toolcrib_authorization::{
    ApprovalGrant, AuthorizationServer, ClientSettings, DocumentFetch, FetchDocuments, FindGrants, ServerParts,
    ServerSettings,
};
use toolcrib_base::{Identity, PrincipalId, ProfileName, Role};
use toolcrib_identity::{CheckStatements, NoSignIns, SignIn, StatementCheck, TokenGrant};
use toolcrib_store::{Config, Store};
use toolcrib_testgateway::profile;
use toolcrib_testkit::eventually;
use toolcrib_web::Front;
use url::Url;

use crate::people::{Issuer, ORIGIN};
use crate::served::{Ask, Reply, ServedGateway, stopped, without_time};
use crate::ui::{Desk, cookies, place, text};

const HOST: &str = "tools.example.com";
const REDIRECT: &str = "https://editor.example/callback";
const VERIFIER: &str = "a-verifier-that-has-more-than-forty-two-characters";
const CHALLENGE: &str = "i7QCCFYyu5jyfNHVht5QyxQFgyJrymBOyA8xPyDIijk";

/// No document and no statement; everyone of `acme` is a member of `work`.
#[derive(Debug)]
struct Outside;

impl FetchDocuments for Outside {
    fn fetch<'a>(&'a self, _: &'a Url) -> DocumentFetch<'a> {
        Box::pin(std::future::ready(Err("it answers with status 404".to_owned())))
    }
}

impl CheckStatements for Outside {
    fn check<'a>(&'a self, _: &'a str, _: &'a str) -> StatementCheck<'a> {
        Box::pin(std::future::ready(Err("no issuer makes them".to_owned())))
    }
}

impl FindGrants for Outside {
    fn grants(&self, _: &PrincipalId, _: &Identity) -> Vec<TokenGrant> {
        vec![TokenGrant { role: Role::Member, profiles: vec![ProfileName::new("work").unwrap()] }]
    }
}

struct House {
    gateway: ServedGateway,
    server: AuthorizationServer,
    _folder: TempDir,
}

/// A browser in the middle of a request.
struct Browser {
    cookie: String,
    form: String,
}

impl House {
    /// Where the owner approves.
    async fn of_owner() -> Self {
        Self::new(&[], ORIGIN).await
    }

    /// Where people sign in.
    async fn of_team() -> Self {
        Self::new(&["acme"], ORIGIN).await
    }

    async fn new(sign_in: &[&str], origin: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let sealer = Vault::new(folder.path(), None).sealer(KeyPreference::File).unwrap();
        let mut server = None;
        let files = [stopped("alpha", &["one"]), profile("work", ""), profile("home", "")];
        let gateway = ServedGateway::with_front(&files, |clock| {
            let client = ClientSettings {
                id: "editor".into(),
                name: "Editor <b>".into(),
                redirects: vec![REDIRECT.into(), "editor://cb".into()],
                secret: None,
                keys: None,
                grant: None,
                exchanges: false,
            };
            let settings = ServerSettings {
                origin: origin.into(),
                scopes: Vec::new(),
                registration: false,
                clients: vec![client],
                sign_in: sign_in.iter().map(|name| (*name).to_owned()).collect(),
                assertions: Vec::new(),
            };
            let config = Config { clock: Arc::clone(&clock), ..Config::default() };
            let made = AuthorizationServer::open(ServerParts {
                settings,
                store: Store::in_memory(config).unwrap(),
                sealer,
                documents: Arc::new(Outside),
                issuers: Arc::new(Issuer::new(Arc::clone(&clock), 600_000)),
                statements: Arc::new(Outside),
                grants: Arc::new(Outside),
                sign_ins: Arc::new(NoSignIns),
                clock: Arc::clone(&clock),
            });
            let made = made.unwrap();
            server = Some(made.clone());
            let issuers = Arc::new(Issuer::new(Arc::clone(&clock), 600_000));
            let front = Front::new(origin.into(), issuers, Vec::new(), clock);
            let front = if sign_in.is_empty() { front } else { front.with_sign_in(Arc::new(Desk) as Arc<dyn SignIn>) };
            front.with_server(made)
        });
        Self { gateway: gateway.await, server: server.unwrap(), _folder: folder }
    }

    async fn ask(&self, ask: Ask) -> Reply {
        self.gateway.ask(ask).await
    }

    async fn asked(&self, redirect: &str) -> Browser {
        let page = self.ask(get(&authorize(redirect))).await;
        assert_eq!(page.status, 200, "{}", text(&page));
        let [(cookie, attributes)] = &cookies(&page)[..] else { panic!("{page:?}") };
        assert!(cookie.starts_with("__Host-toolcrib-consent-"), "{cookie}");
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600");
        let page = text(&page);
        let form = page.split("name=\"request\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        Browser { cookie: cookie.clone(), form: form.to_owned() }
    }

    async fn said(&self, browser: &Browser, choice: &str) -> Reply {
        self.ask(consent(browser, choice)).await
    }

    /// The code of a client that the owner approves.
    async fn approved(&self) -> String {
        let browser = self.asked(REDIRECT).await;
        let waiting = place(&self.said(&browser, "allow").await).to_owned();
        let page = self.ask(get(&waiting).with("cookie", &browser.cookie)).await;
        assert_eq!(page.headers["refresh"], "3");
        let page = text(&page);
        let code = page.split("toolcrib auth approve ").nth(1).unwrap();
        self.server.approve(&code[..9], ApprovalGrant::default()).await.unwrap();
        let back = self.ask(get(&waiting).with("cookie", &browser.cookie)).await;
        code_of(place(&back))
    }

    async fn token(&self, form: &str) -> Reply {
        let ask = Ask::new(Method::POST, "/oauth/token", form.to_owned()).header("host", HOST);
        self.ask(ask.with("content-type", "application/x-www-form-urlencoded")).await
    }

    async fn redeemed(&self, code: &str) -> Value {
        let form = format!(
            "grant_type=authorization_code&client_id=editor&code={code}&code_verifier={VERIFIER}&redirect_uri={REDIRECT}"
        );
        let reply = self.token(&form).await;
        assert_eq!((reply.status.as_u16(), &reply.headers["cache-control"]), (200, &"no-store".parse().unwrap()));
        reply.json()
    }

    async fn lists(&self, token: &str, path: &str) -> u16 {
        let ask = Ask::modern("tools/list", json!({})).to(path).header("host", HOST);
        self.ask(ask.header("authorization", &format!("Bearer {token}"))).await.status.as_u16()
    }
}

fn get(path: &str) -> Ask {
    Ask::get(path).header("host", HOST)
}

fn authorize(redirect: &str) -> String {
    format!(
        "/oauth/authorize?response_type=code&client_id=editor&redirect_uri={redirect}&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&state=s1&resource={ORIGIN}/mcp/p/work"
    )
}

fn consent(browser: &Browser, choice: &str) -> Ask {
    let body = format!("request={}&choice={choice}", browser.form);
    Ask::new(Method::POST, "/oauth/consent", body)
        .header("host", HOST)
        .with("content-type", "application/x-www-form-urlencoded")
        .header("origin", ORIGIN)
        .header("cookie", &browser.cookie)
}

fn code_of(url: &str) -> String {
    let url = Url::parse(url).unwrap();
    let found = url.query_pairs().find(|(name, _)| name == "code").map(|(_, value)| value.into_owned());
    found.unwrap_or_else(|| panic!("{url}"))
}

#[tokio::test]
async fn a_client_finds_its_way_from_the_challenge_to_a_call() {
    let house = House::of_owner().await;
    let refused = house.ask(Ask::modern("tools/list", json!({})).to("/mcp/p/work").header("host", HOST)).await;
    assert_eq!(refused.status, 401);
    let challenge = refused.headers["www-authenticate"].to_str().unwrap();
    let metadata = challenge.split('"').nth(1).unwrap().strip_prefix(ORIGIN).unwrap();
    let resource = house.ask(get(metadata)).await.json();
    assert_eq!(resource["authorization_servers"], json!([ORIGIN]), "at the others no client can register");
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"] {
        let server = house.ask(get(path)).await.json();
        assert_eq!(
            (&server["issuer"], &server["token_endpoint"]),
            (&json!(ORIGIN), &json!(format!("{ORIGIN}/oauth/token")))
        );
    }
    assert_eq!(house.ask(get("/oauth/jwks")).await.json()["keys"].as_array().unwrap().len(), 2);
    let code = house.approved().await;
    let tokens = house.redeemed(&code).await;
    let token = tokens["access_token"].as_str().unwrap();
    assert_eq!(house.lists(token, "/mcp/p/work").await, 200);
    // What is not granted looks like what is not there.
    assert_eq!(house.lists(token, "/mcp/p/home").await, house.lists(token, "/mcp/p/none").await);
    assert_eq!(house.lists(token, "/mcp/p/home").await, 401);
    let form = format!(
        "grant_type=refresh_token&client_id=editor&refresh_token={}",
        tokens["refresh_token"].as_str().unwrap()
    );
    let renewed = house.token(&form).await.json();
    assert_eq!(house.lists(renewed["access_token"].as_str().unwrap(), "/mcp/p/work").await, 200);
}

#[tokio::test]
async fn a_session_and_its_streams_end_with_what_was_granted() {
    let house = House::of_owner().await;
    let code = house.approved().await;
    let tokens = house.redeemed(&code).await;
    let bearer = format!("Bearer {}", tokens["access_token"].as_str().unwrap());
    let ask = |body: Value| {
        Ask::post(body.to_string()).to("/mcp/p/work").header("host", HOST).header("authorization", &bearer)
    };
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let opened = house.ask(ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap();
    let stream = get("/mcp/p/work").header("authorization", &bearer).header("mcp-session-id", session);
    let stream = stream.header("mcp-protocol-version", "2025-11-25").with("accept", "text/event-stream");
    let mut events = house.gateway.events(stream).await;
    let revoke = Ask::new(Method::POST, "/oauth/revoke", format!("client_id=editor&token={}", &bearer[7..]));
    let revoke = revoke.header("host", HOST).with("content-type", "application/x-www-form-urlencoded");
    let ended = without_time("the end of the stream", async {
        assert_eq!(house.ask(revoke).await.status, 200);
        while events.event().await.is_some() {}
    });
    ended.await;
    assert_eq!(house.lists(&bearer[7..], "/mcp/p/work").await, 401);
    events.hang_up().await;
}

#[tokio::test]
async fn a_halt_of_a_principal_client_or_session_ends_what_was_granted_for_good() {
    for kind in ["principal", "client", "session"] {
        let house = House::of_owner().await;
        let code = house.approved().await;
        let tokens = house.redeemed(&code).await;
        let token = tokens["access_token"].as_str().unwrap();
        assert_eq!(house.lists(token, "/mcp/p/work").await, 200);
        let session = house.server.sessions().await.unwrap()[0].clone();
        let subject = match kind {
            "principal" => session.principal.as_str(),
            "client" => &session.client,
            _ => &session.id,
        };
        let halt = async |subject: &str| {
            let halt = json!({"kind": kind, "subject": subject, "reason": "a test"}).to_string();
            let added = house.ask(Ask::new(Method::POST, "/api/v1/halts", halt).admin().with("host", HOST)).await;
            assert_eq!(added.status, 201, "{:?}", added.body);
            added.json()["id"].as_str().unwrap().to_owned()
        };
        halt("another").await;
        let id = halt(subject).await;
        let mut ends = house.server.watch_ends();
        eventually("the end of the session", async {
            while !house.server.sessions().await.unwrap().is_empty() {
                let _ = ends.changed().await;
            }
        })
        .await;
        let lift = Ask::new(Method::DELETE, &format!("/api/v1/halts/{id}"), "").admin().with("host", HOST);
        assert_eq!(house.ask(lift).await.status, 200);
        assert_eq!(house.lists(token, "/mcp/p/work").await, 401, "{kind}: it does not come back");
        let refresh = format!(
            "grant_type=refresh_token&client_id=editor&refresh_token={}",
            tokens["refresh_token"].as_str().unwrap()
        );
        assert_eq!(house.token(&refresh).await.status, 400, "{kind}: neither does its refresh token");
    }
}

#[tokio::test]
async fn consent_comes_before_the_provider_and_counts_in_one_browser() {
    let house = House::of_team().await;
    let browser = house.asked(REDIRECT).await;
    let waiting = place(&house.said(&browser, "allow:acme").await).to_owned();
    let away = house.ask(get(&waiting).with("cookie", &browser.cookie)).await;
    let sign_in = place(&away).to_owned();
    assert!(sign_in.starts_with("/ui/sign-in/acme?next=/oauth/consent/"), "{sign_in}");
    let begun = house.ask(get(&sign_in)).await;
    let state = place(&begun).split("state=").nth(1).unwrap().to_owned();
    let done = get(&format!("/ui/callback?code=ann&state={state}")).with("cookie", &cookies(&begun)[0].0);
    let done = house.ask(done).await;
    assert_eq!(place(&done), waiting);
    let page = cookies(&done)[0].0.clone();
    // Who has signed in elsewhere does not end a request that began here, nor the reverse.
    let other = house.asked(REDIRECT).await;
    for cookie in [&page, &format!("{page}; {}", other.cookie)] {
        assert_eq!(house.ask(get(&waiting).with("cookie", cookie)).await.status, 403);
    }
    let back = house.ask(get(&waiting).with("cookie", &format!("{page}; {}", browser.cookie))).await;
    assert!(place(&back).starts_with(REDIRECT));
    assert!(cookies(&back)[0].1.ends_with("Max-Age=0"), "the cookie is not needed any more");
    let tokens = house.redeemed(&code_of(place(&back))).await;
    assert_eq!(house.lists(tokens["access_token"].as_str().unwrap(), "/mcp/p/work").await, 200);
    let [session] = &house.server.sessions().await.unwrap()[..] else { panic!() };
    assert_eq!(session.principal.as_str(), "user:acme/ann");
}

#[tokio::test]
async fn a_form_is_neither_framed_nor_forged() {
    let house = House::of_team().await;
    let page = house.ask(get(&authorize(REDIRECT))).await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("frame-ancestors 'none'") && page.headers["x-frame-options"] == "DENY", "{policy}");
    assert!(text(&page).contains("Editor &lt;b&gt;") && !text(&page).contains("<b>"));
    let browser = house.asked(REDIRECT).await;
    for forged in [
        consent(&browser, "allow:acme").without("origin"),
        consent(&browser, "allow:acme").with("origin", "https://evil.example"),
        consent(&browser, "allow:acme").with("origin", "https://app.example.com"),
        consent(&browser, "allow:acme").with("origin", "https://tools.example.com:8443"),
        consent(&browser, "allow:acme").with("origin", "null"),
        consent(&browser, "allow:acme").header("origin", ORIGIN),
        consent(&browser, "allow:acme").without("cookie"),
        consent(&Browser { form: "x.y".into(), cookie: browser.cookie.clone() }, "allow:acme"),
        consent(&Browser { form: browser.form.clone(), cookie: house.asked(REDIRECT).await.cookie }, "allow:acme"),
        get(&authorize(REDIRECT)).header("sec-fetch-site", "cross-site").header("sec-fetch-dest", "iframe"),
    ] {
        let reply = house.ask(forged.clone()).await;
        assert_eq!(reply.status, 403, "{forged:?}: {}", text(&reply));
        assert!(reply.headers.get("location").is_none());
    }
    let denied = house.said(&browser, "deny").await;
    assert!(place(&denied).contains("error=access_denied") && place(&denied).contains("iss=https"), "{denied:?}");
}

#[tokio::test]
async fn what_is_not_proven_leads_nowhere_and_what_is_leads_back() {
    let house = House::of_team().await;
    for path in [
        authorize("https://evil.example/callback"),
        authorize(REDIRECT).replace("client_id=editor", "client_id=other"),
        authorize(REDIRECT).replace("client_id=editor", "client_id=https://evil.example/client.json"),
        format!("{}&client_id=editor", authorize(REDIRECT)),
        "/oauth/authorize".to_owned(),
    ] {
        let reply = house.ask(get(&path)).await;
        assert_eq!((reply.status.as_u16(), reply.headers.get("location")), (400, None), "{path}");
    }
    let plain = authorize(REDIRECT).replace("=S256", "=plain");
    assert!(place(&house.ask(get(&plain)).await).starts_with(&format!("{REDIRECT}?error=invalid_request")));
    // No program is started before a person has said yes.
    let program = house.ask(get(&authorize("editor://cb").replace("=S256", "=plain"))).await;
    assert_eq!((program.status.as_u16(), program.headers.get("refresh")), (200, None));
    assert!(text(&program).contains("href=\"editor://cb?error=invalid_request"), "{}", text(&program));
}

#[tokio::test]
async fn a_person_reads_that_a_program_takes_the_answer() {
    let house = House::of_owner().await;
    let page = text(&house.ask(get(&authorize("editor://cb"))).await);
    for part in ["whichever program of your machine opens <code>editor:</code>", "<code>editor://cb</code>"] {
        assert!(page.contains(part), "{page}");
    }
    assert!(!text(&house.ask(get(&authorize(REDIRECT))).await).contains("whichever program"));
    // A program's own address is no redirect of a form.
    let browser = house.asked("editor://cb").await;
    let denied = house.said(&browser, "deny").await;
    assert_eq!(denied.status, 200);
    assert!(denied.headers["refresh"].to_str().unwrap().starts_with("0; url=editor://cb?error=access_denied"));
    // No other address of the same program.
    for other in ["editor://cb/", "editor://cb?x=1", "editor:cb", "editor2://cb"] {
        assert_eq!(house.ask(get(&authorize(other))).await.status, 400, "{other}");
    }
}

#[tokio::test]
async fn clients_read_errors_as_oauth_has_them() {
    let house = House::of_owner().await;
    for (form, status, expected) in [
        ("grant_type=authorization_code&client_id=editor", 400, "invalid_request"),
        ("grant_type=authorization_code&client_id=editor&code=x", 400, "invalid_grant"),
        ("grant_type=authorization_code&client_id=other&code=x", 401, "invalid_client"),
        ("grant_type=password&client_id=editor", 400, "unsupported_grant_type"),
        ("", 401, "invalid_client"),
    ] {
        let reply = house.token(form).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]), (status, &json!(expected)), "{form}");
        assert_eq!(reply.headers.contains_key("www-authenticate"), status == 401, "{form}");
    }
    let reply = house.ask(Ask::new(Method::POST, "/oauth/token", "{}").header("host", HOST)).await;
    assert_eq!(reply.json()["error"], "invalid_request", "JSON is no form");
    for (path, method, status) in [
        ("/oauth/token", Method::GET, 405),
        ("/oauth/authorize", Method::POST, 405),
        ("/oauth/consent", Method::GET, 405),
        ("/oauth/consent/x", Method::GET, 404),
        ("/oauth/jwks", Method::POST, 405),
        ("/oauth/register", Method::POST, 404),
    ] {
        let reply = house.ask(Ask::new(method, path, "").header("host", HOST)).await;
        assert_eq!(reply.status, status, "{path}");
    }
}

#[tokio::test]
async fn without_the_server_there_are_no_endpoints() {
    let house = crate::people::House::new(&[]).await;
    for path in ["/oauth/authorize", "/oauth/token", "/oauth/jwks", "/.well-known/oauth-authorization-server"] {
        let status = house.ask(get(path)).await.status.as_u16();
        assert!(matches!(status, 401 | 404), "{path}: {status}");
    }
}

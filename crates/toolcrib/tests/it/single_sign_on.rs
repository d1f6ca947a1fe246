//! Single sign-on with the real binary: callers come with tokens of their issuer, and servers see the caller's own token,
//! one that it was exchanged for, or nothing.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64_text::encode;
use serde_json::{Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::{Clock as _, SystemClock};
use toolcrib_testkit::eventually_finds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_testkit::launch::{GatewayProgram, write};
use toolcrib_testkit::provider::{BrowserPage, Form, fetch};

use crate::toolcrib::{run, toolcrib};

const ORIGIN: &str = "https://tools.example.com";

/// An issuer, an endpoint that exchanges tokens, a server that wants tokens for its tool, and a gateway between them.
struct Office {
    key: SigningKey,
    /// What the issuer publishes of its keys.
    published: Arc<Mutex<Value>>,
    issuer: HttpServer,
    server: HttpServer,
    /// What the endpoint of exchanges answers.
    exchange: Arc<Mutex<Value>>,
    /// Whether it answers only when the issuer is released.
    is_held: Arc<AtomicBool>,
    /// Headers that the server refuses.
    refused: Arc<Mutex<HashSet<String>>>,
    home: tempfile::TempDir,
    gateway: GatewayProgram,
}

/// A client with a token, or a key.
struct Caller<'a> {
    office: &'a Office,
    credential: String,
    session: String,
}

// === impl Office ===

impl Office {
    /// `auth` is what the definition says; `EXCHANGE` in it is the endpoint.
    async fn start(auth: &str) -> Self {
        let key = SigningKey::read(&SigningKey::generate()).unwrap();
        let published = Arc::new(Mutex::new(json!(key.public_jwk())));
        let (jwk, exchange) = (Arc::clone(&published), Arc::new(Mutex::new(json!({"error": "invalid_grant"}))));
        let (is_held, refused) = (Arc::<AtomicBool>::default(), Arc::<Mutex<HashSet<String>>>::default());
        let (said, holds, bad) = (Arc::clone(&exchange), Arc::clone(&is_held), Arc::clone(&refused));
        let issuer = HttpServer::start(move |request, reply| {
            let issuer = format!("http://{}", request.header("host").unwrap());
            match request.target.as_str() {
                "/.well-known/oauth-authorization-server" => {
                    reply.json(&[], &json!({"issuer": issuer, "jwks_uri": format!("{issuer}/jwks")}));
                }
                "/jwks" => reply.json(&[], &json!({"keys": [*jwk.lock().unwrap()]})),
                "/token" => {
                    if holds.load(Ordering::SeqCst) {
                        reply.wait_for_release(1);
                    }
                    let answer = said.lock().unwrap().clone();
                    let status = if answer["error"].is_string() { 400 } else { 200 };
                    reply.full(status, &["content-type: application/json"], answer.to_string());
                }
                _ => reply.full(404, &[], ""),
            }
        });
        let server = token_server(bad);
        let home = tempfile::tempdir().unwrap();
        let url = format!("http://{}", issuer.address());
        let settings = format!(
            "[identity]\nurl = '{ORIGIN}'\n[[identity.issuer]]\nname = 'acme'\nissuer = '{url}'\ngrants = [\
             {{user = 'ann', role = 'member', profiles = ['work']}}, {{user = 'bob', role = 'member', profiles = ['work']}}]\n"
        );
        write(home.path(), "config.toml", &settings);
        write(home.path(), "profiles/work.yaml", "name: work\ndialect: muster\n");
        let auth = auth.replace("EXCHANGE", &format!("{url}/token"));
        let definition = format!("name: files\ntransport: http\nurl: {}\nstart: eager\nauth: {auth}\n", server.url());
        write(home.path(), "servers/files.yaml", &definition);
        let gateway = Self::serve(&home).await;
        Self { key, published, issuer, server, exchange, is_held, refused, home, gateway }
    }

    async fn serve(home: &tempfile::TempDir) -> GatewayProgram {
        toolcrib(home.path(), &["serve"]).env("OURS", "s3cret").with_path().serve().await
    }

    async fn restart(self) -> Self {
        self.gateway.stop().await;
        let gateway = Self::serve(&self.home).await;
        Self { gateway, ..self }
    }

    /// The status of an opening with a credential.
    async fn knock(&self, credential: &str) -> u16 {
        let caller = Caller { office: self, credential: credential.to_owned(), session: String::new() };
        caller.post("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await.status
    }

    /// A token of a user for the gateway and for these.
    fn token(&self, user: &str, audiences: &[&str]) -> String {
        let now = SystemClock.now().0 / 1_000;
        let audiences: Vec<&str> = audiences.iter().copied().chain([ORIGIN]).collect();
        let claims = json!({
            "iss": format!("http://{}", self.issuer.address()), "sub": user, "client_id": "app", "aud": audiences,
            "exp": now + 3_600, "iat": now, "jti": toolcrib_base::random::hex_128(),
        });
        self.key.sign("at+jwt", claims.as_object().unwrap())
    }

    async fn caller(&self, credential: &str) -> Caller<'_> {
        let mut caller = Caller { office: self, credential: credential.to_owned(), session: String::new() };
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let opened = caller.post("initialize", &params).await;
        caller.session =
            opened.header("mcp-session-id").unwrap_or_else(|| panic!("{}: {}", opened.status, opened.body)).to_owned();
        caller
    }

    /// What calls carried to the server.
    fn carried(&self) -> Vec<String> {
        carried(&self.server)
    }

    async fn stop(self) {
        self.gateway.stop().await;
    }
}

// === impl Caller ===

impl Caller<'_> {
    async fn post(&self, method: &str, params: &Value) -> BrowserPage {
        let url = format!("http://{}/mcp/p/work", self.office.gateway.address());
        let mut lines = vec![
            format!("authorization: Bearer {}", self.credential),
            "content-type: application/json".to_owned(),
            "accept: application/json, text/event-stream".to_owned(),
        ];
        if !self.session.is_empty() {
            lines.push(format!("mcp-session-id: {}", self.session));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        tokio::task::spawn_blocking(move || fetch("POST", &url, &lines, &body).unwrap()).await.unwrap()
    }

    async fn ask(&self, method: &str, params: &Value) -> Value {
        let page = self.post(method, params).await;
        let text = page.body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&page.body);
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{}: {}", page.status, page.body))
    }

    /// The text of a tool's answer.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}});
        self.ask("tools/call", &params).await.to_string()
    }

    async fn status(&self) -> Value {
        let read = self.ask("resources/read", &json!({"uri": "auth://status"})).await;
        let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        serde_json::from_str::<Value>(text).unwrap()["servers"][0].clone()
    }

    /// The status once it says this of a key: what a caller sees of a server is read beside its first request.
    async fn status_with(&self, key: &str, expected: Value) -> Value {
        eventually_finds(key, async || {
            let status = self.status().await;
            if status[key] == expected { Ok(status) } else { Err(status) }
        })
        .await
    }
}

/// A server that calls its tool for those with a token that is not among these.
pub(crate) fn token_server(refused: Arc<Mutex<HashSet<String>>>) -> HttpServer {
    HttpServer::start(move |request, reply| {
        let message = request.json();
        let method = message["method"].as_str().unwrap_or_default();
        let token = request.header("authorization");
        let is_good = |token: &str| token.starts_with("Bearer ") && !refused.lock().unwrap().contains(token);
        if method == "tools/call" && !token.is_some_and(is_good) {
            return reply.full(401, &["www-authenticate: Bearer error=\"invalid_token\""], "");
        }
        let result = match method {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "files", "version": "1"},
            }),
            // One tool is for those alone who prove themselves.
            "tools/list" => {
                let tools = ["whoami", "mine"].into_iter().filter(|tool| *tool == "whoami" || token.is_some());
                let tools = tools.map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}}));
                json!({"tools": tools.collect::<Vec<_>>()})
            }
            "tools/call" => json!({"content": [{"type": "text", "text": "someone"}]}),
            _ if message.get("id").is_none() => return reply.full(202, &[], ""),
            _ => {
                let error = json!({"code": -32601, "message": "not known"});
                return reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
        };
        reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    })
}

/// What calls carried to a server.
pub(crate) fn carried(server: &HttpServer) -> Vec<String> {
    let calls = server.requests().into_iter().filter(|request| request.json()["method"] == "tools/call");
    calls.map(|request| request.header("authorization").unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_callers_own_token_is_forwarded_and_no_other() {
    let office = Office::start("{forwardToken: true, requiredAudiences: [files]}").await;
    let (anns, bobs) = (office.token("ann", &["files"]), office.token("bob", &["files"]));
    let (ann, bob) = (office.caller(&anns).await, office.caller(&bobs).await);
    for caller in [&ann, &bob] {
        let status = caller.status_with("status", json!("connected")).await;
        assert_eq!(status["token_forwarding_enabled"], true, "{status}");
    }
    for (caller, token) in [(&ann, &anns), (&bob, &bobs), (&ann, &anns)] {
        let called = caller.call("x_files_whoami", json!({})).await;
        assert!(called.contains("someone"), "{called}");
        assert_eq!(office.carried().last(), Some(&format!("Bearer {token}")), "byte for byte");
    }
    let events = run(office.home.path(), &["audit", "list", "--target", "files/whoami", "-o", "json"], &[]).await;
    let events: Value = serde_json::from_str(&events.stdout).unwrap();
    let whose = |event: &Value| (event["principal"].clone(), event["credential"].clone());
    let whose: Vec<_> = events["events"].as_array().unwrap_or_else(|| panic!("{events}")).iter().map(whose).collect();
    assert!(whose.contains(&(json!("user:acme/ann"), json!("forwarded"))), "{events}");
    let login = ann.call("core_auth_login", json!({"server": "files"})).await;
    assert!(login.contains("already authenticated"), "{login}");
    // Who logs out is out until it logs in again.
    let out = bob.call("core_auth_logout", json!({"server": "files"})).await;
    assert!(out.contains("logged out"), "{out}");
    assert_eq!(bob.status().await["status"], "auth_required");
    assert!(!bob.call("x_files_whoami", json!({})).await.contains("someone"));
    assert_eq!(ann.status().await["status"], "connected");
    let login = bob.call("core_auth_login", json!({"server": "files"})).await;
    assert!(login.contains("successfully connected to"), "{login}");
    assert!(bob.call("x_files_whoami", json!({})).await.contains("someone"));
    // A caller whose token is for another audience, and the owner, who has none.
    office.stop().await;
    let office = Office::start("{forwardToken: true, requiredAudiences: [files]}").await;
    let stranger = office.caller(&office.token("ann", &["other"])).await;
    assert!(!stranger.call("x_files_whoami", json!({})).await.contains("someone"));
    let refused = stranger.call("core_auth_login", json!({"server": "files"})).await;
    assert!(refused.contains("another audience"), "{refused}");
    let owner = run(office.home.path(), &["call", "files/whoami"], &[]).await;
    assert_ne!(owner.code, 0, "{}", owner.stdout);
    assert!(office.carried().iter().all(String::is_empty), "{:?}", office.carried());
    office.stop().await;
}

#[tokio::test]
async fn a_callers_token_is_exchanged_for_one_of_the_other_cluster() {
    let office = Office::start(
        "{tokenExchange: {enabled: true, dexTokenEndpoint: 'EXCHANGE', connectorId: a, expectedIssuer: 'https://dex.b', \
         clientId: tools, clientSecret: 'env:OURS'}}",
    )
    .await;
    let anns = office.token("ann", &[]);
    let ann = office.caller(&anns).await;
    let refused = ann.call("x_files_whoami", json!({})).await;
    assert!(!refused.contains("someone") && !refused.contains(&anns), "{refused}");
    let status = ann.status_with("sso_attempt_failed", json!(true)).await;
    assert!(status.to_string().contains("invalid_grant") && !status.to_string().contains(&anns), "{status}");
    assert_eq!((&status["status"], &status["token_exchange_enabled"]), (&json!("auth_required"), &json!(true)));
    let exchanged = format!("{}.{}.sig", encode(r#"{"alg":"ES256"}"#), encode(r#"{"iss":"https://dex.b","sub":"x"}"#));
    *office.exchange.lock().unwrap() = json!({"access_token": exchanged, "token_type": "bearer", "expires_in": 600});
    let login = ann.call("core_auth_login", json!({"server": "files"})).await;
    assert!(login.contains("successfully connected to"), "{login}");
    for _ in 0..2 {
        let called = ann.call("x_files_whoami", json!({})).await;
        assert!(called.contains("someone"), "{called}");
    }
    assert_eq!(office.carried(), [format!("Bearer {exchanged}"), format!("Bearer {exchanged}")]);
    let asked: Vec<_> = office.issuer.requests().into_iter().filter(|request| request.target == "/token").collect();
    assert_eq!(asked.len(), 2, "one that failed, one that is kept");
    let form = Form::parse(&String::from_utf8_lossy(&asked[1].body));
    assert_eq!((form.get("subject_token"), form.get("connector_id")), (Some(anns.as_str()), Some("a")));
    assert_eq!(ann.status().await["status"], "connected");
    // Before it comes: its sign-on begins with its session.
    *office.exchange.lock().unwrap() = json!({"error": "access_denied"});
    let bob = office.caller(&office.token("bob", &[])).await;
    let refused = bob.call("x_files_whoami", json!({})).await;
    assert!(!refused.contains("someone"), "{refused}");
    let status = bob.status_with("sso_attempt_failed", json!(true)).await;
    assert!(status.to_string().contains("access_denied"), "{status}");
    assert_eq!(office.carried().len(), 2, "who fails uses no one else's");
    office.stop().await;
}

#[tokio::test]
async fn a_first_call_waits_for_its_sign_on_and_its_status_says_so_meanwhile() {
    let office = Office::start(
        "{tokenExchange: {enabled: true, dexTokenEndpoint: 'EXCHANGE', clientId: tools, clientSecret: 'env:OURS'}}",
    )
    .await;
    office.is_held.store(true, Ordering::SeqCst);
    *office.exchange.lock().unwrap() = json!({"access_token": "exchanged", "token_type": "bearer", "expires_in": 600});
    let ann = office.caller(&office.token("ann", &[])).await;
    let mut called = Box::pin(ann.call("x_files_mine", json!({})));
    let meanwhile = async {
        let status = ann.status_with("status", json!("sso_pending")).await;
        assert_eq!(status["token_exchange_enabled"], true, "{status}");
        let listed = ann.call("core_auth_status", json!({})).await;
        assert!(listed.contains(r#"\"pending\":true"#), "{listed}");
    };
    tokio::select! {
        biased;
        early = &mut called => panic!("not waited for: {early}"),
        () = meanwhile => {}
    }
    office.issuer.release();
    let called = called.await;
    assert!(called.contains("someone"), "{called}");
    assert_eq!(office.carried(), ["Bearer exchanged"]);
    assert_eq!(ann.status().await["status"], "connected");
    office.stop().await;
}

#[tokio::test]
async fn a_newer_token_takes_the_place_of_a_refused_one() {
    let office = Office::start("{forwardToken: true, requiredAudiences: [files]}").await;
    let (older, newer) = (office.token("ann", &["files"]), office.token("ann", &["files"]));
    let mut ann = office.caller(&older).await;
    let called = ann.call("x_files_mine", json!({})).await;
    assert!(called.contains("someone"), "{called}");
    office.refused.lock().unwrap().insert(format!("Bearer {older}"));
    for _ in 0..2 {
        let refused = ann.call("x_files_mine", json!({})).await;
        assert!(refused.contains("refuses the token of the caller that was forwarded to it (HTTP 401)"), "{refused}");
        assert!(refused.contains("another token is tried at once") && !refused.contains(&older), "{refused}");
    }
    assert_eq!(office.carried().len(), 2, "one that is refused is not sent again");
    assert_eq!(ann.status_with("sso_attempt_failed", json!(true)).await["status"], "auth_required");
    // The client refreshes, in the session that it has.
    newer.clone_into(&mut ann.credential);
    let called = ann.call("x_files_mine", json!({})).await;
    assert!(called.contains("someone"), "{called}");
    assert_eq!(office.carried().last(), Some(&format!("Bearer {newer}")));
    assert_eq!(ann.status_with("status", json!("connected")).await["token_forwarding_enabled"], true);
    office.stop().await;
}

#[tokio::test]
async fn a_revoked_key_and_a_removed_issuer_sign_no_one_on_until_there_is_another() {
    let mut office = Office::start("{forwardToken: true, requiredAudiences: [files]}").await;
    let works = async |office: &Office, token: &str| {
        let called = office.caller(token).await.call("x_files_mine", json!({})).await;
        assert!(called.contains("someone"), "{called}");
        assert_eq!(office.carried().last(), Some(&format!("Bearer {token}")));
    };
    let older = office.token("ann", &["files"]);
    works(&office, &older).await;
    // The issuer takes its key back, and signs with another one.
    office.key = SigningKey::read(&SigningKey::generate()).unwrap();
    *office.published.lock().unwrap() = json!(office.key.public_jwk());
    let mut office = office.restart().await;
    assert_eq!(office.knock(&older).await, 401);
    assert_eq!(office.carried().len(), 1, "it is passed on no more");
    let newer = office.token("ann", &["files"]);
    works(&office, &newer).await;
    // The issuer is taken out of the settings, and put back.
    let settings = office.home.path().join("config.toml");
    let before = std::fs::read_to_string(&settings).unwrap();
    write(office.home.path(), "config.toml", &format!("[identity]\nurl = '{ORIGIN}'\n"));
    office = office.restart().await;
    assert_eq!(office.knock(&newer).await, 401);
    assert_eq!(office.carried().len(), 2);
    std::fs::write(&settings, before).unwrap();
    office = office.restart().await;
    works(&office, &newer).await;
    assert_eq!(office.knock(&older).await, 401, "what was taken back stays so");
    office.stop().await;
}

/// Base64url, as tokens have it.
mod base64_text {
    pub(super) fn encode(text: &str) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut encoded = String::new();
        for part in text.as_bytes().chunks(3) {
            let bits = part.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
            let letters = (0..=part.len()).map(|at| char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]));
            encoded.extend(letters);
        }
        encoded
    }
}

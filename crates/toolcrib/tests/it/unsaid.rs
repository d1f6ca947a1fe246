//! Nothing secret is in what a gateway says or keeps in the clear, while all happens that has to do with identity: logins at
//! servers, people at the door, forwarded tokens, consents, refreshes, keys, and what is wrong with any of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::{Clock as _, SystemClock};
use toolcrib_testkit::eventually_finds;
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::provider::{Naming, Remote, RemoteRules, SECRET_MARK};

use crate::authorization::{House, VERIFIER, ask, parameter};
use crate::logins::{definition, log_in, until_state};
use crate::toolcrib::run;

/// What every signed token begins with.
const SIGNED: &str = "eyJ";
const WRONG_TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl";
const TOKEN_IN_URL: &str = "a-token-that-stands-in-an-address";

/// What was said, and by whom.
#[derive(Default)]
pub(crate) struct Words(Vec<(String, String)>);

// === impl Words ===

impl Words {
    fn add(&mut self, whose: &str, text: impl Into<String>) {
        self.0.push((whose.to_owned(), text.into()));
    }

    /// What a command says, which goes well.
    async fn of(&mut self, home: &Path, arguments: &[&str]) {
        let said = run(home, arguments, &[]).await;
        assert!(!said.stdout.is_empty() || !said.stderr.is_empty(), "{arguments:?} says nothing");
        self.add(&arguments.join(" "), format!("{}{}", said.stdout, said.stderr));
    }

    /// All files below a folder, but for those that are secrets by themselves.
    pub(crate) fn of_files(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                self.of_files(&path);
            } else if name != "token"
                && let Ok(bytes) = fs::read(&path)
            {
                self.add(&path.display().to_string(), String::from_utf8_lossy(&bytes));
            }
        }
    }

    pub(crate) fn check(&self, secrets: &[(&str, &str)]) {
        for (what, secret) in secrets {
            assert!(secret.len() >= 3, "{what} is none");
            for (whose, text) in &self.0 {
                let line = text.lines().find(|line| line.contains(secret));
                assert!(line.is_none(), "{what} is in {whose}: {line:?}");
            }
        }
    }

    fn has(&self, whose: &str, part: &str) {
        let said = self.0.iter().any(|(who, text)| who.starts_with(whose) && text.contains(part));
        assert!(said, "`{part}` is not in {whose}");
    }
}

/// A client gets its tokens by the owner's word, renews them, and tries what does not count.
async fn authorize(house: &House) -> Vec<String> {
    let code = parameter(&house.allowed(&house.page()).await, "code");
    let tokens = house.redeemed(&code).json();
    let [access, refresh] = ["access_token", "refresh_token"].map(|name| tokens[name].as_str().unwrap().to_owned());
    assert_eq!(house.call(&access), 200);
    let renewed = house.refreshed(&refresh).json();
    let [next_access, next] = ["access_token", "refresh_token"].map(|name| renewed[name].as_str().unwrap().to_owned());
    assert_eq!(house.call(&next_access), 200);
    // A code that was used, a token that never was.
    assert_eq!((house.redeemed(&code).status, house.refreshed(VERIFIER).status), (400, 400));
    vec![code, refresh, next]
}

/// An issuer of signed tokens.
fn issuer(key: &SigningKey) -> HttpServer {
    let jwk = key.public_jwk().clone();
    HttpServer::start(move |request, reply| {
        let issuer = format!("http://{}", request.header("host").unwrap());
        match request.target.as_str() {
            "/.well-known/oauth-authorization-server" => {
                reply.json(&[], &json!({"issuer": issuer, "jwks_uri": format!("{issuer}/jwks")}));
            }
            "/jwks" => reply.json(&[], &json!({"keys": [jwk]})),
            _ => reply.full(404, &[], ""),
        }
    })
}

/// A token of the issuer for someone whose token goes on to a server.
fn token_of(key: &SigningKey, issuer: &str, audience: &str) -> String {
    let now = SystemClock.now().0 / 1_000;
    let claims =
        json!({"iss": issuer, "sub": "someone", "client_id": "app", "aud": audience, "exp": now + 3_600, "iat": now});
    key.sign("at+jwt", claims.as_object().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_gateway_says_or_keeps_has_a_secret_in_it() {
    let clock = || Arc::new(SystemClock);
    let notion = Remote::start(RemoteRules::default(), Naming::Loopback, clock());
    let files = Remote::start(RemoteRules::default(), Naming::Loopback, clock());
    let signer = SigningKey::read(&SigningKey::generate()).unwrap();
    let issuer = issuer(&signer);
    let acme = format!("http://{}", issuer.address());
    let settings = format!(
        "[[identity.issuer]]\nname = 'acme'\nissuer = '{acme}'\n\
         grants = [{{user = 'someone', role = 'member', profiles = ['work']}}]\n"
    );
    let forwarding = format!("{}auth: {{forwardToken: true, anyAudience: true}}\n", definition("files", &files));
    let servers = [("notion", definition("notion", &notion)), ("files", forwarding)];
    let mut house = House::start_with(&settings, &servers, &["serve", "--log", "trace"]).await;
    let home = house.home.path().to_owned();
    until_state(&home, "needs-login").await;

    let logged_in = log_in(&home, &notion).await;
    assert_eq!(logged_in.code, 0, "{}", logged_in.stderr);
    let renewed = run(&home, &["auth", "refresh", "-s", "notion"], &[]).await;
    assert_eq!(renewed.code, 0, "{}", renewed.stderr);
    let secrets = authorize(&house).await;
    // The server gets the token, and refuses it.
    assert_eq!(house.call(&token_of(&signer, &acme, &house.url)), 200);
    let carries = |request: &Request| request.header("authorization").is_some_and(|token| token.contains(SIGNED));
    let passed_on = async || if files.requests().iter().any(carries) { Ok(()) } else { Err(()) };
    eventually_finds("the token is passed on", passed_on).await;
    assert_eq!(house.call(&token_of(&signer, &acme, "https://elsewhere.example")), 401);
    let key = run(&home, &["profile", "key", "add", "work", "ci"], &[]).await.stdout.trim().to_owned();
    let status = async || match house.call(&key) {
        200 => Ok(()),
        other => Err(other),
    };
    eventually_finds("the key opens its profile", status).await;
    assert_eq!((house.call(&key[..20]), house.call(WRONG_TOKEN)), (401, 401));
    let in_url = ask("GET", &format!("{}/mcp/p/work?access_token={TOKEN_IN_URL}", house.url), &[], "");
    assert!(in_url.status >= 400, "{}", in_url.status);
    // A grant that its provider has ended.
    notion.end_grants();
    let _ = run(&home, &["auth", "refresh", "-s", "notion"], &[]).await;

    let mut words = Words::default();
    let token = fs::read_to_string(home.join("state/token")).unwrap().trim().to_owned();
    for arguments in [
        &["audit", "list", "--limit", "1000", "-o", "json"][..],
        &["audit", "verify"],
        &["events", "-o", "json"],
        &["auth", "status", "-o", "json"],
        &["auth", "sessions", "-o", "json"],
        &["auth", "whoami"],
        &["list", "server", "-o", "json"],
        &["get", "server", "notion", "-o", "yaml"],
        &["describe", "server", "files"],
        &["profile", "key", "list", "work"],
        &["logs", "notion"],
        &["status"],
        &["doctor"],
    ] {
        words.of(&home, arguments).await;
    }
    let bearer = format!("Bearer {token}");
    for path in ["/metrics", "/readyz", "/api/v1/status", "/api/v1/servers"] {
        let page = ask("GET", &format!("{}{path}", house.url), &[("authorization", &bearer)], "");
        words.add(path, page.body);
    }
    words.add("the log", house.gateway.program().log());
    house.gateway.stop().await;
    words.of_files(&home.join("state"));

    words.has("the log", "TRACE");
    words.has("audit list", "try/echo");
    words.has("/metrics", "toolcrib_");
    words.has(&home.join("state").display().to_string(), "user:acme/someone");
    let mut all = vec![
        ("a secret of a provider", SECRET_MARK),
        ("a signed token", SIGNED),
        ("the verifier", VERIFIER),
        ("the key of a profile", &key),
        ("a part of a key", &key[..20]),
        ("the token of the gateway", &token),
        ("a token in an address", TOKEN_IN_URL),
    ];
    all.extend(secrets.iter().map(|secret| ("a code or a refresh token", secret.as_str())));
    words.check(&all);
}

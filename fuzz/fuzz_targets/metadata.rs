//! Metadata of servers and authorization servers, registrations and answers with tokens: a login ends with a page that is
//! safe to open, or with an error, and what it leaves fits a header.

#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use toolcrib_base::task::Scope;
use toolcrib_base::{ManualClock, ProfileName, Secret, ServerName, Timestamp};
use toolcrib_fuzz::{Answer, NOW, Server, block_on, leads_elsewhere};
use toolcrib_identity::{Identities, IssuerSettings, PresentedToken, ProveTokens as _, Resource};
use toolcrib_login::{
    Begin, Config, LoginSettings, LoginTarget, Logins, MemoryRows, OpenOutcome, OpenRequest, Owner, PossessionKeys,
    Quirks, Resolution, ResolveHost,
};
use toolcrib_transport::http::checked::CheckedClient;
use toolcrib_transport::http::client::HttpClient;

const BROWSER: &str = "a-secret-of-at-least-thirty-two-characters";

/// Finds no host.
#[derive(Debug)]
struct NoHosts;

impl ResolveHost for NoHosts {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolution<'a> {
        Box::pin(async { Err(std::io::Error::other("no such host")) })
    }
}

// Parts end with a line that is `%`: the server's metadata, the authorization server's, a registration, tokens. `$H` is
// the address of all of them.
fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if leads_elsewhere(&text) {
        return;
    }
    let server = Server::get();
    let text = text.replace("$H", &server.authority());
    let parts: Vec<Vec<u8>> = text.split("\n%\n").map(|part| part.as_bytes().to_vec()).collect();
    server.answers(move |path, _| {
        let part = |at: usize| parts.get(at).filter(|part| !part.is_empty()).map(|part| Answer::json(part.clone()));
        let answer = match path.split('?').next().unwrap_or_default() {
            path if path.starts_with("/.well-known/oauth-protected-resource") => part(0),
            path if path.contains("/.well-known/") => part(1),
            "/register" => part(2),
            "/token" => part(3),
            "/jwks" => part(2),
            _ => None,
        };
        answer.unwrap_or_else(Answer::missing)
    });
    block_on(async {
        log_in(&server.authority()).await;
        prove(&server.authority()).await;
    });
});

async fn log_in(authority: &str) {
    let rows = Arc::<MemoryRows>::default();
    let logins = Logins::new(Config {
        rows,
        http: client(),
        resolver: Arc::new(NoHosts),
        clock: clock(),
        keys: PossessionKeys::new(clock()),
        quirks: Quirks::built_in(),
        redirect_uri: "http://127.0.0.1:8700/oauth/callback".to_owned(),
        client_document: Some("https://tools.example.com/.well-known/oauth-client.json".to_owned()),
        scope: Scope::new(),
        audit: None,
    });
    let (server, owner) = (ServerName::new("fuzz").expect("a name"), Owner::installation());
    let target = LoginTarget::new(server.clone(), &format!("http://{authority}/mcp"), LoginSettings::default());
    logins.set_target(target.expect("a URL"));
    let pending = logins.begin(&server, &owner, None, Begin::New).await.expect("the first login");
    let browser = Secret::new(BROWSER);
    let open = OpenRequest { ticket: pending.ticket.expose(), opener: &owner, browser: &browser, origin: None };
    let Ok(OpenOutcome::Provider(page)) = logins.open(open).await else { return };
    let page = url::Url::parse(page.as_str()).expect("it was checked");
    assert!(matches!(page.scheme(), "http" | "https") && page.username().is_empty(), "{page}");
    assert!(page.fragment().is_none() && !page.as_str().contains(['"', '\'', '<', '`', ' ']), "{page}");
    let value = |name: &str| page.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    assert_eq!(value("code_challenge_method").as_deref(), Some("S256"), "{page}");
    assert_eq!(value("redirect_uri").as_deref(), Some("http://127.0.0.1:8700/oauth/callback"), "{page}");
    let state = value("state").expect("each login has one");
    let _ = logins.complete(&format!("code=c&state={state}"), &browser).await;
    if let Ok(Some(headers)) = logins.headers(&server, &owner).await {
        assert!(headers.len() <= 1 && headers.values().all(http::HeaderValue::is_sensitive), "{headers:?}");
    }
}

async fn prove(authority: &str) {
    let settings = IssuerSettings {
        name: "acme".into(),
        issuer: format!("http://{authority}"),
        audiences: Vec::new(),
        grants: Vec::new(),
        introspection: None,
        sign_in: None,
        groups_claim: None,
        tenant_claim: None,
        allows_private: false,
    };
    let client = CheckedClient::new(client(), Arc::new(NoHosts));
    let identities = Identities::new(vec![settings], client, clock(), Scope::new()).expect("a URL");
    let profile = ProfileName::new("work").expect("a name");
    let claims = serde_json::json!({
        "iss": format!("http://{authority}"), "sub": "ann", "aud": "https://t.example", "exp": NOW / 1_000 + 60,
    });
    let token = token(&claims.to_string());
    let presented = PresentedToken {
        token: &token,
        is_dpop: false,
        proof: None,
        method: "POST",
        path: "/mcp",
        resource: Resource { origin: "https://t.example", profile: &profile },
    };
    assert!(identities.prove(presented).await.is_err(), "no one has signed this token");
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp(NOW)))
}

fn client() -> HttpClient {
    static CLIENT: OnceLock<HttpClient> = OnceLock::new();
    CLIENT.get_or_init(|| HttpClient::new().expect("a client")).clone()
}

/// A token with a signature of no one.
fn token(claims: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let part = |text: &[u8]| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(br#"{"alg":"ES256","typ":"at+jwt"}"#), part(claims.as_bytes()), part(&[7; 64]))
}

//! The simulated remotes: that a login at one goes as specified, that each switch does what it says, and that a client
//! which does not know of a remote's difference fails there.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolcrib_base::clock::{ManualClock, Timestamp};
use toolcrib_testkit::provider::corpus::{ClientSettings, CorpusEntry, LoginEnd, corpus};
use toolcrib_testkit::provider::{
    Browser, Challenge, Consent, Destination, DocumentForm, Form, IssRule, LockedPart, MetadataPlace, Naming, Network,
    PkceRule, ProviderRules, Remote, RemoteRules, ResourcePlace, SECRET_MARK, ScopeRefusal, ServerRules, StatedIssuer,
    TokenForm,
};

const REDIRECT: &str = "http://127.0.0.1:8090/oauth/callback";
const VERIFIER: &str = "a-verifier-that-is-long-enough-for-rfc-7636-section-4.1";

/// A remote and a client that knows where its endpoints are.
struct Client {
    remote: Remote,
    clock: Arc<ManualClock>,
    redirect: String,
    id: String,
    secret: Option<String>,
}

/// An answer to the client.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn challenge(&self) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix("www-authenticate: "))
    }
}

impl Client {
    fn start(rules: RemoteRules) -> Self {
        Self::start_as(rules, ClientSettings::default(), Naming::Loopback)
    }

    fn start_as(rules: RemoteRules, settings: ClientSettings, naming: Naming) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
        let remote = Remote::start(rules, naming, clock.clone());
        let secret = (!settings.client_secret.is_empty()).then(|| settings.client_secret.to_owned());
        Self { remote, clock, id: settings.client_id.to_owned(), redirect: REDIRECT.to_owned(), secret }
    }

    fn ask(&self, method: &str, address: &str, headers: &[&str], body: &str) -> Reply {
        let uri: http::Uri = address.parse().unwrap();
        let mut stream = TcpStream::connect(self.remote.network().address(&uri).unwrap()).unwrap();
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let (target, host) = (uri.path_and_query().unwrap(), uri.authority().unwrap());
        let length = body.len();
        write!(stream, "{method} {target} HTTP/1.1\r\nhost: {host}\r\n{lines}content-length: {length}\r\n\r\n{body}")
            .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn register(&mut self, wanted: &Value) -> Reply {
        let reply = self.ask("POST", &self.endpoint("register"), &[], &wanted.to_string());
        self.id = reply.json()["client_id"].as_str().unwrap_or_default().to_owned();
        self.secret = reply.json()["client_secret"].as_str().map(str::to_owned);
        reply
    }

    fn registered(mut self) -> Self {
        if self.id.is_empty() {
            self.register(&json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}));
        }
        self
    }

    fn endpoint(&self, name: &str) -> String {
        format!("{}/{name}", self.remote.issuer())
    }

    fn authorization(&self) -> Form {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let form = Form::default().with("response_type", "code").with("client_id", &self.id);
        let form = form.with("redirect_uri", &self.redirect).with("state", "the-state");
        form.with("code_challenge", &challenge).with("code_challenge_method", "S256")
    }

    /// The callback's query, or the page that it came to instead.
    fn open(&self, authorization: &Form) -> Result<Form, u16> {
        let mut browser = Browser::new(self.remote.network());
        let address = authorization.appended_to(&self.endpoint("authorize"));
        match browser.open(&address, &self.redirect).unwrap() {
            Destination::Callback(address) => Ok(Form::of_target(&address)),
            Destination::Page(page) => Err(page.status),
        }
    }

    fn token(&self, form: Form) -> Reply {
        let form = form.with("client_id", &self.id);
        let form = match &self.secret {
            Some(secret) => form.with("client_secret", secret),
            None => form,
        };
        self.ask("POST", &self.endpoint("token"), &[], &form.encoded())
    }

    fn redeem(&self, code: &str, verifier: &str) -> Reply {
        let form = Form::default().with("grant_type", "authorization_code").with("code", code);
        let form = form.with("redirect_uri", REDIRECT).with("code_verifier", verifier);
        self.token(form.with("resource", &self.remote.url()))
    }

    fn refresh(&self, token: &str) -> Reply {
        let form = Form::default().with("grant_type", "refresh_token").with("refresh_token", token);
        self.token(form.with("resource", &self.remote.url()))
    }

    fn login(&self) -> Value {
        let callback = self.open(&self.authorization().with("resource", &self.remote.url())).unwrap();
        assert_eq!(callback.get("state"), Some("the-state"));
        self.redeem(callback.get("code").unwrap(), VERIFIER).json()
    }

    fn send(&self, method: &str, token: &str) -> Reply {
        let header = format!("authorization: Bearer {token}");
        let headers: &[&str] = if token.is_empty() { &[] } else { &[&header] };
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "whoami"}});
        self.ask("POST", &self.remote.url(), headers, &message.to_string())
    }

    fn call(&self, token: &Value) -> u16 {
        self.send("tools/call", token.as_str().unwrap()).status
    }
}

#[test]
fn a_login_gives_a_token_that_ends_and_is_renewed_and_revoked() {
    let client = Client::start(RemoteRules::default()).registered();
    assert_eq!(client.send("tools/call", "").status, 401);
    let tokens = client.login();
    assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("Bearer"), &json!(3_600)));
    assert_eq!(client.call(&tokens["access_token"]), 200);
    client.clock.advance(3_600_000);
    assert_eq!(client.call(&tokens["access_token"]), 401);
    let renewed = client.refresh(tokens["refresh_token"].as_str().unwrap()).json();
    assert_eq!(client.call(&renewed["access_token"]), 200);
    let form = Form::default().with("token", renewed["refresh_token"].as_str().unwrap()).with("client_id", &client.id);
    assert_eq!(client.ask("POST", &client.endpoint("introspect"), &[], &form.encoded()).json()["active"], false);
    assert_eq!(client.ask("POST", &client.endpoint("revoke"), &[], &form.encoded()).status, 200);
    assert_eq!(client.call(&renewed["access_token"]), 401);
    let remote = &client.remote;
    assert_eq!((remote.accepted(), remote.refused(), remote.refreshes()), (2, 3, 1));
    assert_eq!((remote.registrations(), remote.revocations(), remote.live_grants()), (1, 1, 0));
    assert_eq!(remote.forms("token").len(), 2);
    assert_eq!(remote.forms("authorize")[0].get("resource"), Some(remote.url().as_str()));
}

#[test]
fn a_signed_token_is_checked_by_the_published_keys() {
    let provider = ProviderRules { tokens: TokenForm::Jwt, ..ProviderRules::default() };
    let client = Client::start(RemoteRules { provider, ..RemoteRules::default() }).registered();
    let tokens = client.login();
    client.remote.change_key();
    let renewed = client.refresh(tokens["refresh_token"].as_str().unwrap()).json();
    let keys = client.ask("GET", &client.endpoint("jwks"), &[], "").json();
    for (at, answer) in [tokens, renewed].iter().enumerate() {
        assert_eq!(client.call(&answer["access_token"]), 200);
        let parts: Vec<&str> = answer["access_token"].as_str().unwrap().split('.').collect();
        let [header, claims] = [parts[0], parts[1]].map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
        let [header, claims] = [header, claims].map(|part| serde_json::from_slice::<Value>(&part).unwrap());
        assert_eq!((&header["typ"], &header["alg"]), (&json!("at+jwt"), &json!("ES256")));
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!(client.remote.issuer()), &json!(client.remote.url())));
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3_600);
        let key = &keys["keys"][at];
        assert_eq!(key["kid"], header["kid"]);
        let mut point = vec![4];
        for half in ["x", "y"] {
            point.extend(URL_SAFE_NO_PAD.decode(key[half].as_str().unwrap()).unwrap());
        }
        let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
        let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
        public.verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &signature).unwrap();
    }
}

#[test]
fn an_old_refresh_token_and_an_old_code_end_the_grant() {
    let client = Client::start(RemoteRules::default()).registered();
    let tokens = client.login();
    let old = tokens["refresh_token"].as_str().unwrap();
    let renewed = client.refresh(old).json();
    assert_eq!(client.refresh(old).json()["error"], "invalid_grant");
    assert_eq!(client.call(&renewed["access_token"]), 401, "whoever has stolen a token ends the grant with it");

    let callback = client.open(&client.authorization().with("resource", &client.remote.url())).unwrap();
    let code = callback.get("code").unwrap();
    assert_eq!(client.redeem(code, "another-verifier").status, 400);
    let callback = client.open(&client.authorization().with("resource", &client.remote.url())).unwrap();
    let tokens = client.redeem(callback.get("code").unwrap(), VERIFIER).json();
    assert_eq!(client.redeem(callback.get("code").unwrap(), VERIFIER).json()["error"], "invalid_grant");
    assert_eq!(client.call(&tokens["access_token"]), 401);
}

#[test]
fn a_person_decides_in_the_browser_that_was_asked() {
    let client = Client::start(RemoteRules::default()).registered();
    let asked = client.authorization().with("resource", &client.remote.url());
    let address = asked.appended_to(&client.endpoint("authorize"));
    let browser = || Browser::new(client.remote.network());
    let Destination::Callback(denied) = browser().with_consent(Consent::Deny).open(&address, REDIRECT).unwrap() else {
        panic!("a person who says no is sent back");
    };
    assert_eq!(Form::of_target(&denied).get("error"), Some("access_denied"));
    let page = browser().with_consent(Consent::Leave).visit(&address).unwrap();
    let prompt = page.body.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
    let decision = client.ask("POST", &client.endpoint("consent"), &[], &format!("prompt={prompt}"));
    assert_eq!(decision.status, 403, "the other browser has no cookie");
    assert_eq!(client.open(&Form::default().with("client_id", "nobody")), Err(400));
    let elsewhere = Form::default().with("client_id", &client.id).with("redirect_uri", "https://thief.example/");
    assert_eq!(client.open(&elsewhere), Err(400));
}

#[test]
fn documents_and_challenges_are_where_the_rules_say() {
    let oauth = "/.well-known/oauth-authorization-server";
    let open_id = "/.well-known/openid-configuration";
    for (place, at) in [
        (MetadataPlace::OAuthInserted, format!("{oauth}/tenant")),
        (MetadataPlace::OAuthAppended, format!("/tenant{oauth}")),
        (MetadataPlace::OpenIdInserted, format!("{open_id}/tenant")),
        (MetadataPlace::OpenIdAppended, format!("/tenant{open_id}")),
        (MetadataPlace::Path("/somewhere"), "/somewhere".to_owned()),
    ] {
        let provider = ProviderRules { path: "/tenant", metadata: vec![place], ..ProviderRules::default() };
        let client = Client::start(RemoteRules { provider, ..RemoteRules::default() });
        let origin = client.remote.issuer().replace("/tenant", "");
        let found = client.ask("GET", &format!("{origin}{at}"), &[], "");
        assert_eq!(found.json()["issuer"], client.remote.issuer(), "{place:?}");
        let elsewhere = client.ask("GET", &format!("{origin}{oauth}"), &[], "");
        assert_eq!(elsewhere.status, 404, "{place:?}");
    }
    let resource = "/.well-known/oauth-protected-resource";
    for (place, at) in [
        (ResourcePlace::Inserted, format!("{resource}/mcp")),
        (ResourcePlace::Root, resource.to_owned()),
        (ResourcePlace::Path("/about"), "/about".to_owned()),
    ] {
        let server = ServerRules { metadata: vec![place], challenge_scope: "a b", ..ServerRules::default() };
        let client = Client::start(RemoteRules { server, ..RemoteRules::default() });
        let address = client.remote.url().replace("/mcp", &at);
        let refused = client.send("initialize", "");
        assert_eq!(refused.challenge().unwrap(), format!("Bearer resource_metadata=\"{address}\", scope=\"a b\""));
        let found = client.ask("GET", &address, &[], "").json();
        assert_eq!(found["resource"], client.remote.url());
        assert_eq!(found["authorization_servers"], json!([client.remote.issuer()]));
    }
    for (challenge, header) in [
        (Challenge::Plain, Some("Bearer")),
        (Challenge::Address("https://a.example/b"), Some("Bearer resource_metadata=\"https://a.example/b\"")),
        (Challenge::Absent, None),
    ] {
        let server = ServerRules { challenge, ..ServerRules::default() };
        let client = Client::start(RemoteRules { server, ..RemoteRules::default() });
        assert_eq!(client.send("initialize", "").challenge(), header);
    }
}

#[test]
fn hostile_documents_are_what_they_say() {
    let answer = |document| {
        let provider = ProviderRules { document, ..ProviderRules::default() };
        let client = Client::start(RemoteRules { provider, ..RemoteRules::default() });
        client.ask("GET", &client.endpoint(".well-known/oauth-authorization-server"), &[], "")
    };
    assert!(answer(DocumentForm::Redirect("http://169.254.169.254/")).head.contains("location: http://169.254"));
    assert!(answer(DocumentForm::Html).body.starts_with("<!doctype"));
    assert_eq!(answer(DocumentForm::Status(503)).status, 503);
    assert!(answer(DocumentForm::Deep).body.starts_with("[[[["));
    assert!(answer(DocumentForm::Endless).body.len() > 4 * 1024 * 1024);
    let edits = json!({"authorization_endpoint": "file:///etc/passwd", "token_endpoint": null});
    let provider =
        ProviderRules { edits, issuer: StatedIssuer::Other("https://x.example"), ..ProviderRules::default() };
    let client = Client::start(RemoteRules { provider, ..RemoteRules::default() });
    let found = client.ask("GET", &client.endpoint(".well-known/oauth-authorization-server"), &[], "").json();
    assert_eq!(
        (&found["authorization_endpoint"], &found["issuer"]),
        (&json!("file:///etc/passwd"), &json!("https://x.example"))
    );
    assert_eq!(found["token_endpoint"], Value::Null);
}

#[test]
fn a_redirect_names_the_issuer_or_another_one() {
    for (iss, named, promised) in [
        (IssRule::Absent, None, false),
        (IssRule::Issuer, Some(true), true),
        (IssRule::Other("https://mixed.example"), Some(false), true),
        (IssRule::Broken, None, true),
    ] {
        let provider = ProviderRules { iss, ..ProviderRules::default() };
        let client = Client::start(RemoteRules { provider, ..RemoteRules::default() }).registered();
        let callback = client.open(&client.authorization().with("resource", &client.remote.url())).unwrap();
        assert_eq!(callback.get("iss").map(|iss| iss == client.remote.issuer()), named);
        let found = client.ask("GET", &client.endpoint(".well-known/oauth-authorization-server"), &[], "").json();
        assert_eq!(found["authorization_response_iss_parameter_supported"] == true, promised);
    }
}

#[test]
fn calls_may_need_more_than_lists() {
    for (scope_refusal, challenge) in [(ScopeRefusal::Challenge, true), (ScopeRefusal::Text, false)] {
        let server =
            ServerRules { locked: LockedPart::Calls, call_scope: "write", scope_refusal, ..ServerRules::default() };
        let client = Client::start(RemoteRules { server, ..RemoteRules::default() }).registered();
        assert_eq!(client.send("tools/list", "").json()["result"]["tools"][0]["name"], "whoami");
        let tokens = client.login();
        let refused = client.send("tools/call", tokens["access_token"].as_str().unwrap());
        assert_eq!(refused.status, 403);
        let says = refused.challenge().is_some_and(|says| says.contains("insufficient_scope\", scope=\"write\""));
        assert_eq!(says, challenge);
    }
}

#[test]
fn pkce_is_checked_as_far_as_the_provider_knows_it() {
    for (pkce, plain, s256) in [
        (PkceRule::S256, false, true),
        (PkceRule::Silent, false, true),
        (PkceRule::Plain, true, false),
        (PkceRule::Absent, true, true),
    ] {
        let provider = ProviderRules { pkce, ..ProviderRules::default() };
        let client = Client::start(RemoteRules { provider, ..RemoteRules::default() }).registered();
        let asked = Form::default().with("response_type", "code").with("client_id", &client.id);
        let asked = asked.with("redirect_uri", REDIRECT).with("resource", &client.remote.url());
        let asked = asked.with("code_challenge", VERIFIER).with("code_challenge_method", "plain");
        assert_eq!(client.open(&asked).unwrap().get("code").is_some(), plain, "{pkce:?}");
        let asked = client.authorization().with("resource", &client.remote.url());
        assert_eq!(client.open(&asked).unwrap().get("code").is_some(), s256, "{pkce:?}");
    }
}

/// The remote of this name, with the client that the entry describes.
fn real(name: &str) -> Client {
    let entries: Vec<CorpusEntry> = corpus(REDIRECT).into_iter().filter(|entry| entry.name == name).collect();
    let [entry] = &entries[..] else { panic!("`{name}` is not one remote of the corpus") };
    Client::start_as(entry.rules.clone(), entry.settings, Naming::Hosts)
}

#[test]
fn a_client_that_does_not_know_a_remote_fails_there() {
    let github = real("github, client by hand");
    let callback = github.open(&github.authorization()).unwrap();
    let form = Form::default().with("grant_type", "authorization_code").with("code", callback.get("code").unwrap());
    let reply = github.token(form.with("redirect_uri", REDIRECT).with("code_verifier", VERIFIER));
    assert!(reply.body.starts_with("access_token=") && reply.head.contains("urlencoded"), "{}", reply.body);
    assert!(github.redeem("no-code", VERIFIER).head.starts_with("HTTP/1.1 200"));

    let google = real("google, client by hand");
    let scope = "https://www.googleapis.com/auth/gmail.readonly";
    let refused = google.open(&google.authorization().with("scope", &format!("{scope} offline_access"))).unwrap();
    assert_eq!(refused.get("error"), Some("invalid_scope"));
    let callback = google.open(&google.authorization().with("scope", scope)).unwrap();
    assert_eq!(google.redeem(callback.get("code").unwrap(), VERIFIER).json()["refresh_token"], Value::Null);
    let callback = google.open(&google.authorization().with("scope", scope).with("access_type", "offline")).unwrap();
    let tokens = google.redeem(callback.get("code").unwrap(), VERIFIER).json();
    let renewed = google.refresh(tokens["refresh_token"].as_str().unwrap()).json();
    assert_eq!(renewed["refresh_token"], Value::Null);
    assert_eq!(google.call(&renewed["access_token"]), 200);

    let slack = real("slack, client by hand");
    assert_eq!(slack.open(&slack.authorization()).unwrap().get("error"), Some("invalid_scope"));
    let refused = slack.redeem("no-code", VERIFIER);
    assert_eq!((refused.status, &refused.json()["ok"]), (200, &json!(false)));

    let mut entra = real("entra, client by hand");
    assert_eq!(entra.open(&entra.authorization().with("scope", "api://mcp/.default")), Err(400));
    entra.redirect = REDIRECT.replace("127.0.0.1", "localhost");
    let asked = entra.authorization().with("scope", "api://mcp/.default");
    let refused = entra.open(&asked.clone().with("resource", &entra.remote.url())).unwrap();
    assert!(refused.get("error_description").unwrap().contains("AADSTS9010010"));
    assert_eq!(entra.open(&asked.clone().with("prompt", "consent")).unwrap().get("error"), Some("access_denied"));
    assert!(entra.open(&asked).unwrap().get("code").is_some());

    let auth0 = real("auth0").registered();
    let without = auth0.login();
    assert_eq!(auth0.call(&without["access_token"]), 401, "a token without an audience is for nobody");
    let callback = auth0.open(&auth0.authorization().with("audience", &auth0.remote.url())).unwrap();
    let tokens = auth0.redeem(callback.get("code").unwrap(), VERIFIER).json();
    assert_eq!(auth0.call(&tokens["access_token"]), 200);

    let mut keycloak = real("keycloak");
    let refused = keycloak.register(&json!({"redirect_uris": [REDIRECT], "resource": "x"}));
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_client_metadata")));

    let mut figma = real("figma");
    assert_eq!((figma.register(&json!({})).status, figma.register(&json!({})).body.as_str()), (403, "Forbidden"));
    let mut figma = real("figma, client on its list");
    let given = figma.register(&json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"})).json();
    assert_eq!((&given["token_endpoint_auth_method"], given["client_secret"].is_string()), (&json!("none"), true));
    figma.secret = None;
    assert_eq!(figma.redeem("any", VERIFIER).json()["error"], "invalid_client");

    let atlassian = real("atlassian, no loopback redirect").registered();
    assert_eq!(atlassian.open(&atlassian.authorization()), Err(400));
    let aws = real("aws").registered();
    let tokens = aws.login();
    aws.remote.forget_clients();
    assert_eq!(aws.refresh(tokens["refresh_token"].as_str().unwrap()).json()["error"], "invalid_client");
    assert_eq!(aws.open(&aws.authorization()), Err(400));
}

#[test]
fn the_corpus_names_each_remote_once_and_marks_every_secret() {
    let entries = corpus(REDIRECT);
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), entries.len());
    assert!(entries.len() >= 18 && entries.iter().filter(|entry| entry.end == LoginEnd::Renewal).count() >= 18);
    for entry in entries {
        let secret = entry.settings.client_secret;
        assert!(secret.is_empty() || secret.starts_with(SECRET_MARK), "{}", entry.name);
        let network = Network::default();
        let clock = Arc::new(ManualClock::default());
        let remote = Remote::start_in(&network, entry.rules, Naming::Hosts, clock);
        for address in [remote.url(), remote.issuer()] {
            assert!(network.address(&address.parse().unwrap()).is_some(), "{address}");
        }
    }
}

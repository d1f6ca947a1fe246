//! What a person signed in with at its provider, through the built-in authorization server, goes to a server that wants it
//! with the person's first request, also after a kill, and with no one else's.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::{Clock as _, SystemClock};
use toolcrib_testkit::http::HttpServer;

use crate::authorization::{House, REDIRECT, ask, encoded, parameter};
use crate::single_sign_on::{carried, token_server};
use crate::unsaid::Words;

/// The provider of two people.
struct Provider {
    key: SigningKey,
    http: HttpServer,
    /// What the next code gives.
    answer: Arc<Mutex<Value>>,
}

// === impl Provider ===

impl Provider {
    fn start() -> Self {
        let key = SigningKey::read(&SigningKey::generate()).unwrap();
        let (jwk, answer) = (key.public_jwk().clone(), Arc::<Mutex<Value>>::default());
        let said = Arc::clone(&answer);
        let http = HttpServer::start(move |request, reply| {
            let issuer = format!("http://{}", request.header("host").unwrap());
            match request.target.as_str() {
                "/.well-known/oauth-authorization-server" => {
                    let [authorize, token, jwks] = ["authorize", "token", "jwks"].map(|it| format!("{issuer}/{it}"));
                    let metadata = json!({
                        "issuer": issuer, "jwks_uri": jwks, "authorization_endpoint": authorize, "token_endpoint": token,
                    });
                    reply.json(&[], &metadata);
                }
                "/jwks" => reply.json(&[], &json!({"keys": [jwk]})),
                "/token" => reply.json(&[], &said.lock().unwrap()),
                _ => reply.full(404, &[], ""),
            }
        });
        Self { key, http, answer }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.http.address())
    }

    /// A person signs in at the page to which the browser was sent: the ID token that the gateway gets for the code.
    fn signs_in(&self, user: &str, page: &str) -> String {
        let now = SystemClock.now().0 / 1_000;
        let claims = json!({
            "iss": self.issuer(), "sub": user, "aud": "tools", "nonce": parameter(page, "nonce"),
            "iat": now, "exp": now + 3_600,
        });
        let token = self.key.sign("JWT", claims.as_object().unwrap());
        *self.answer.lock().unwrap() = json!({"access_token": "x", "token_type": "Bearer", "id_token": token});
        token
    }
}

/// What a client of a person got, and what the person signed in with.
struct Visit {
    access: String,
    refresh: String,
    id_token: String,
}

impl Visit {
    /// A client asks, the person agrees and signs in at the provider.
    fn begin(house: &House, provider: &Provider, user: &str) -> Self {
        let asked = House::asked(&house.page());
        let waiting = house.chosen(&asked, "allow:acme");
        let within = |place: &str| format!("{}{place}", house.url);
        let away = ask("GET", &waiting, &[("cookie", &asked.cookie)], "");
        let begun = ask("GET", &within(away.header("location")), &[], "");
        let page = begun.header("location");
        assert!(page.starts_with(&provider.issuer()), "{page}");
        let id_token = provider.signs_in(user, page);
        let cookie = |set: &str| set.split(';').next().unwrap().to_owned();
        let query = encoded(&[("code", "c0de"), ("state", &parameter(page, "state"))]);
        let answer = [("cookie", &*cookie(begun.header("set-cookie")))];
        let done = ask("GET", &within(&format!("/ui/callback?{query}")), &answer, "");
        let cookies = format!("{}; {}", cookie(done.header("set-cookie")), asked.cookie);
        let back = ask("GET", &waiting, &[("cookie", &cookies)], "");
        let place = back.header("location");
        assert!(place.starts_with(REDIRECT), "{place}");
        let tokens = house.redeemed(&parameter(place, "code")).json();
        let [access, refresh] = ["access_token", "refresh_token"].map(|name| tokens[name].as_str().unwrap().to_owned());
        Self { access, refresh, id_token }
    }

    /// The text of the answer of the server that wants the token.
    fn calls(&self, house: &House) -> String {
        house.call_tool(&self.access, "files_whoami", &json!({})).body
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_signed_in_with_goes_with_the_first_request_and_stays_sealed() {
    let (provider, files) = (Provider::start(), token_server(Arc::default()));
    let definition = format!(
        "name: files\ntransport: http\nurl: {}\nstart: eager\nauth: {{forwardToken: true, requiredAudiences: [tools]}}\n",
        files.url()
    );
    let grants = ["ann", "bob"].map(|user| format!("{{user = '{user}', role = 'member', profiles = ['work']}}"));
    let settings = format!(
        "[[identity.issuer]]\nname = 'acme'\nissuer = '{}'\nsign_in = {{client_id = 'tools'}}\ngrants = [{}]\n",
        provider.issuer(),
        grants.join(", ")
    );
    let mut house = House::start_with(&settings, &[("files", definition)], &["serve"]).await;
    let (ann, bob) = (Visit::begin(&house, &provider, "ann"), Visit::begin(&house, &provider, "bob"));
    assert!(carried(&files).is_empty());
    for visit in [&ann, &bob, &ann] {
        let said = visit.calls(&house);
        assert!(said.contains("someone"), "{said}");
        assert_eq!(carried(&files).last(), Some(&format!("Bearer {}", visit.id_token)), "with the very first request");
    }
    // Nothing but the sealed row is left of it.
    house.killed().await;
    assert!(bob.calls(&house).contains("someone"));
    assert_eq!(carried(&files).last(), Some(&format!("Bearer {}", bob.id_token)));
    let logout = encoded(&[("client_id", "editor"), ("token", &ann.refresh)]);
    assert_eq!(ask("POST", &format!("{}/oauth/revoke", house.url), &[], &logout).status, 200);
    assert!(!ann.calls(&house).contains("someone"));
    assert_eq!(carried(&files).len(), 4, "each call once, and none after the session");
    house.gateway.stop().await;
    let mut words = Words::default();
    words.of_files(&house.home.path().join("state"));
    words.check(&[("what Ann signed in with", &ann.id_token), ("what Bob signed in with", &bob.id_token)]);
}

//! Credentials that need no caller's token: the gateway's client, a workload, an identity provider that vouches.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Method;
use serde_json::{Value, json};
use toolcrib_auth::jose::{PublicKey, SignedToken, SigningKey};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, ManualClock, Secret, ServerName, Timestamp};
use toolcrib_login::{
    ClientProof, EnterpriseSettings, MemoryRows, NoSubjects, PossessionKeys, ProviderSettings, Quirks, ReadSecret,
    SignOnClient, SignOnConfig, SignOnMethod, SignOnTarget, SignOns, SubjectKind, SubjectToken, SubjectTokens,
    SystemResolver, WorkloadSettings,
};
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::provider::Form;
use toolcrib_transport::http::checked::CheckedClient;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::possession::{BoundRequest, ProvePossession as _};
use url::Url;

const BOB: Option<&str> = Some("user:acme/bob");

/// A secret that a test changes.
#[derive(Debug, Clone)]
struct ChangingSecret(Arc<Mutex<String>>);

impl ReadSecret for ChangingSecret {
    fn read(&self) -> Result<Secret, String> {
        match self.0.lock().unwrap().as_str() {
            "" => Err("there is no such file".to_owned()),
            text => Ok(Secret::new(text)),
        }
    }
}

fn secret(text: &str) -> Arc<dyn ReadSecret> {
    Arc::new(ChangingSecret(Arc::new(Mutex::new(text.to_owned()))))
}

/// Someone who has signed in.
#[derive(Debug)]
struct SignedIn;

impl SubjectTokens for SignedIn {
    fn want(&self, _: bool) {}

    fn tokens_of(&self, principal: &str) -> Vec<SubjectToken> {
        let token = |kind, token| SubjectToken {
            token: Secret::new(token),
            kind,
            issuer: "https://idp".into(),
            audiences: vec!["tools".into()],
            expires: Timestamp(i64::MAX),
        };
        match principal {
            "user:acme/ann" => vec![token(SubjectKind::Access, "access"), token(SubjectKind::Id, "anns-id-token")],
            "user:acme/bob" => vec![token(SubjectKind::Access, "access")],
            _ => Vec::new(),
        }
    }
}

/// A server, its provider and an identity provider at one address.
struct Place {
    http: HttpServer,
    /// What `/token` and `/idp` answer.
    answers: Arc<Mutex<[Value; 2]>>,
    clock: Arc<ManualClock>,
    sign_ons: SignOns,
    keys: PossessionKeys,
    server: ServerName,
}

impl Place {
    fn start(subjects: Arc<dyn SubjectTokens>) -> Self {
        let granted = json!({"access_token": "granted", "token_type": "Bearer", "expires_in": 600});
        let answers = Arc::new(Mutex::new([granted.clone(), granted]));
        let said = Arc::clone(&answers);
        let http = HttpServer::start(move |request, reply| {
            let origin = format!("http://{}", request.header("host").unwrap());
            let json = |reply: &mut toolcrib_testkit::http::Reply<'_>, answer: &Value| {
                let status = if answer["error"].is_string() { 400 } else { 200 };
                reply.full(status, &["content-type: application/json"], answer.to_string());
            };
            match request.target.as_str() {
                "/.well-known/oauth-protected-resource/mcp" => reply.json(
                    &[],
                    &json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["jobs"]}),
                ),
                // No word about PKCE: no one logs in here.
                "/.well-known/oauth-authorization-server" => reply.json(
                    &[],
                    &json!({
                        "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                        "token_endpoint": format!("{origin}/token"), "scopes_supported": ["jobs", "offline_access"],
                    }),
                ),
                "/token" => json(reply, &said.lock().unwrap()[0]),
                "/idp" => json(reply, &said.lock().unwrap()[1]),
                _ => reply.full(404, &[], ""),
            }
        });
        let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
        let keys = PossessionKeys::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let sign_ons = SignOns::new(SignOnConfig {
            http: CheckedClient::new(HttpClient::new().unwrap(), Arc::new(SystemResolver)),
            quirks: Quirks::built_in(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            scope: Scope::new(),
            subjects,
            logouts: Arc::<MemoryRows>::default(),
            keys: keys.clone(),
        });
        let sign_ons = sign_ons.unwrap();
        Self { http, answers, clock, sign_ons, keys, server: ServerName::new("jobs").unwrap() }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.http.address())
    }

    fn use_method(&self, method: SignOnMethod) {
        let url = format!("{}/mcp", self.origin());
        self.sign_ons.set_target(SignOnTarget::new(self.server.clone(), &url, method).unwrap());
    }

    async fn header(&self, principal: Option<&str>) -> Result<String, String> {
        let headers = self.sign_ons.headers(&self.server, principal).await.unwrap();
        let text = |headers: http::HeaderMap| headers["authorization"].to_str().unwrap().to_owned();
        headers.map(text).map_err(|error| error.to_string())
    }

    fn asked(&self, path: &str) -> Vec<Request> {
        self.http.requests().into_iter().filter(|request| request.target == path).collect()
    }
}

fn provider(proof: ClientProof) -> ProviderSettings {
    let client = Some(SignOnClient { id: secret("ours"), proof });
    ProviderSettings { token_endpoint: None, issuer: None, scopes: Vec::new(), private: false, client, dpop: None }
}

fn form(request: &Request) -> Form {
    Form::parse(&String::from_utf8_lossy(&request.body))
}

#[tokio::test]
async fn the_gateways_own_client_gets_one_token_for_all() {
    let place = Place::start(Arc::new(NoSubjects));
    place.use_method(SignOnMethod::ClientCredentials(provider(ClientProof::Secret(secret("s3cret")))));
    for principal in [None, BOB, Some("key:work/ci")] {
        assert_eq!(place.header(principal).await.unwrap(), "Bearer granted");
    }
    let asked = place.asked("/token");
    assert_eq!((asked.len(), asked[0].header("authorization")), (1, Some("Basic b3VyczpzM2NyZXQ=")));
    let sent = form(&asked[0]);
    let resource = format!("{}/mcp", place.origin());
    for (name, value) in [("grant_type", "client_credentials"), ("scope", "jobs"), ("resource", resource.as_str())] {
        assert_eq!(sent.get(name), Some(value), "{name}");
    }
    assert!(!place.sign_ons.end(&place.server, BOB).await.unwrap(), "what is one for all is not ended by one");
    assert_eq!(place.header(None).await.unwrap(), "Bearer granted");
    assert!(place.sign_ons.end(&place.server, None).await.unwrap());
    place.header(BOB).await.unwrap_err();
}

#[tokio::test]
async fn a_client_with_a_key_signs_for_the_issuer_and_for_a_minute() {
    let place = Place::start(Arc::new(NoSubjects));
    let document = SigningKey::generate();
    let public = PublicKey::read(SigningKey::read(&document).unwrap().public_jwk()).unwrap();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", STANDARD.encode(&document));
    let key = ClientProof::Key(secret(&pem), Some("k1".into()));
    place.use_method(SignOnMethod::ClientCredentials(provider(key)));
    assert_eq!(place.header(None).await.unwrap(), "Bearer granted");
    let asked = place.asked("/token");
    assert_eq!(asked[0].header("authorization"), None);
    let sent = form(&asked[0]);
    assert_eq!(sent.get("client_assertion_type"), Some("urn:ietf:params:oauth:client-assertion-type:jwt-bearer"));
    let assertion = sent.get("client_assertion").unwrap().to_owned();
    let token = SignedToken::parse(&assertion).unwrap();
    token.verify(&public).unwrap();
    assert_eq!(token.header("kid"), Some("k1"));
    let claims = token.claims();
    assert_eq!(
        (&claims["iss"], &claims["sub"], &claims["aud"]),
        (&json!("ours"), &json!("ours"), &json!(place.origin()))
    );
    let now = place.clock.now().0 / 1_000;
    assert_eq!((claims["iat"].as_i64(), claims["exp"].as_i64()), (Some(now), Some(now + 60)));
    place.use_method(SignOnMethod::ClientCredentials(provider(ClientProof::Key(secret("no key"), None))));
    let refused = place.header(None).await.unwrap_err();
    assert!(refused.contains("none that can sign") && !refused.contains("no key"), "{refused}");
}

#[tokio::test]
async fn a_token_of_the_gateways_own_client_can_be_bound_to_its_key() {
    let place = Place::start(Arc::new(NoSubjects));
    let demanding = || ProviderSettings { dpop: Some(true), ..provider(ClientProof::Secret(secret("s3cret"))) };
    place.use_method(SignOnMethod::ClientCredentials(demanding()));
    let refused = place.header(None).await.unwrap_err();
    assert!(refused.contains("a token that is not bound to a key"), "{refused}");
    place.answers.lock().unwrap()[0]["token_type"] = json!("DPoP");
    place.use_method(SignOnMethod::ClientCredentials(demanding()));
    assert_eq!(place.header(None).await.unwrap(), "DPoP granted");
    let asked = place.asked("/token");
    let proof = SignedToken::parse(asked[1].header("dpop").unwrap()).unwrap();
    assert_eq!(proof.claims()["htu"], json!(format!("{}/token", place.origin())));
    let uri = format!("{}/mcp?x=1", place.origin()).parse().unwrap();
    let request = BoundRequest { method: &Method::GET, uri: &uri, token: "granted" };
    let own = place.keys.prove(&request).unwrap();
    let own = SignedToken::parse(own.value.to_str().unwrap()).unwrap();
    let keys = [&proof, &own].map(|proof| proof.own_key().unwrap().thumbprint().to_owned());
    assert_eq!(keys[0], keys[1], "requests are proven with the key that the token is bound to");
    place.use_method(SignOnMethod::ClientCredentials(provider(ClientProof::Secret(secret("s3cret")))));
    let refused = place.header(None).await.unwrap_err();
    assert!(refused.contains("bound to a key that is not ours"), "{refused}");
}

#[tokio::test]
async fn a_workloads_token_is_read_again_each_time() {
    let place = Place::start(Arc::new(NoSubjects));
    let file = ChangingSecret(Arc::default());
    let method = WorkloadSettings { provider: provider(ClientProof::None), assertion: Arc::new(file.clone()) };
    place.use_method(SignOnMethod::Workload(method));
    let refused = place.header(None).await.unwrap_err();
    assert!(refused.contains("no such file"), "{refused}");
    assert!(place.asked("/token").is_empty());
    for token in ["first", "second\n"] {
        *file.0.lock().unwrap() = token.to_owned();
        place.clock.advance(600_000);
        assert_eq!(place.header(BOB).await.unwrap(), "Bearer granted");
        let sent = form(place.asked("/token").last().unwrap());
        assert_eq!((sent.get("assertion"), sent.get("client_id")), (Some(token.trim()), Some("ours")));
        assert_eq!(sent.get("grant_type"), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    }
    place.answers.lock().unwrap()[0] = json!({"error": "invalid_grant"});
    place.clock.advance(600_000);
    let refused = place.header(None).await.unwrap_err();
    assert!(refused.contains("invalid_grant") && !refused.contains("second"), "{refused}");
    place.header(None).await.unwrap_err();
    assert_eq!(place.asked("/token").len(), 3, "a refusal is not argued with");
}

#[tokio::test]
async fn an_identity_provider_vouches_for_who_signed_in() {
    let place = Place::start(Arc::new(SignedIn));
    let idp = Url::parse(&format!("{}/idp", place.origin())).unwrap();
    let settings = |id_token| EnterpriseSettings {
        provider: provider(ClientProof::Secret(secret("s3cret"))),
        token_endpoint: idp.clone(),
        client: Some(SignOnClient { id: secret("at-work"), proof: ClientProof::None }),
        id_token,
    };
    place.use_method(SignOnMethod::Enterprise(settings(None)));
    let word = URL_SAFE_NO_PAD.encode("word");
    let id_jag = "urn:ietf:params:oauth:token-type:id-jag";
    for (answer, expected) in [
        (json!({"error": "access_denied", "error_description": "not this server"}), "not this server"),
        (json!({"access_token": word, "token_type": "N_A"}), "not a bearer token"),
        (json!({"access_token": word, "token_type": "bearer"}), "another kind of token"),
        (json!({"issued_token_type": id_jag, "token_type": "N_A"}), "without a token"),
    ] {
        place.answers.lock().unwrap()[1] = answer;
        place.use_method(SignOnMethod::Enterprise(settings(None)));
        let refused = place.header(Some("user:acme/ann")).await.unwrap_err();
        assert!(refused.contains(expected) && !refused.contains("anns-id-token"), "{refused}");
    }
    assert!(place.asked("/token").is_empty());
    place.answers.lock().unwrap()[1] =
        json!({"access_token": word, "issued_token_type": id_jag, "token_type": "N_A", "expires_in": 300});
    place.use_method(SignOnMethod::Enterprise(settings(None)));
    assert_eq!(place.header(Some("user:acme/ann")).await.unwrap(), "Bearer granted");
    let sent = form(place.asked("/idp").last().unwrap());
    let resource = format!("{}/mcp", place.origin());
    for (name, value) in [
        ("subject_token", "anns-id-token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("requested_token_type", id_jag),
        ("audience", place.origin().as_str()),
        ("resource", resource.as_str()),
        ("client_id", "at-work"),
    ] {
        assert_eq!(sent.get(name), Some(value), "{name}");
    }
    let asked = place.asked("/token");
    assert_eq!((asked.len(), form(&asked[0]).get("assertion")), (1, Some(word.as_str())));
    assert_eq!(asked[0].header("authorization"), Some("Basic b3VyczpzM2NyZXQ="));
    let refused = place.header(BOB).await.unwrap_err();
    assert!(refused.contains("has not signed in"), "an access token is no ID token: {refused}");
    place.use_method(SignOnMethod::Enterprise(settings(Some(secret("the-one-id-token")))));
    assert_eq!(place.header(None).await.unwrap(), "Bearer granted");
    assert_eq!(form(place.asked("/idp").last().unwrap()).get("subject_token"), Some("the-one-id-token"));
}

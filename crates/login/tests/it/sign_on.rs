//! Single sign-on without a gateway: which token goes where, what is remembered of a failure, and what a hostile
//! authorization server answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, ManualClock, Secret, ServerName, Timestamp};
use toolcrib_login::{
    AudienceRule, ClientProof, ExchangeSettings, LogoutRow, LogoutRows, MemoryRows, Owner, PossessionKeys, Quirks,
    ReadSecret, Rejection, RowError, SignOnClient, SignOnConfig, SignOnMethod, SignOnState, SignOnTarget, SignOns,
    SubjectKind, SubjectToken, SubjectTokens, SystemResolver,
};
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::provider::Form;
use toolcrib_transport::http::checked::CheckedClient;
use toolcrib_transport::http::client::HttpClient;
use url::Url;

const SERVER_URL: &str = "https://files.example.com/mcp";
const ANN: Option<&str> = Some("user:acme/ann");
const BOB: Option<&str> = Some("user:acme/bob");

/// What principals came with.
#[derive(Debug, Default)]
struct Tokens {
    of: Mutex<BTreeMap<String, Vec<SubjectToken>>>,
    is_wanted: Mutex<bool>,
}

impl SubjectTokens for Tokens {
    fn want(&self, is_wanted: bool) {
        *self.is_wanted.lock().unwrap() = is_wanted;
    }

    fn tokens_of(&self, principal: &str) -> Vec<SubjectToken> {
        self.of.lock().unwrap().get(principal).cloned().unwrap_or_default()
    }
}

#[derive(Debug)]
struct FixedSecret(&'static str);

impl ReadSecret for FixedSecret {
    fn read(&self) -> Result<Secret, String> {
        Ok(Secret::new(self.0))
    }
}

/// An authorization server of a few lines, and sign-ons that use it.
struct Desk {
    endpoint: HttpServer,
    answer: Arc<Mutex<(u16, String)>>,
    tokens: Arc<Tokens>,
    clock: Arc<ManualClock>,
    logouts: Arc<dyn LogoutRows>,
    sign_ons: SignOns,
    server: ServerName,
}

impl Desk {
    fn start() -> Self {
        Self::with(Arc::<MemoryRows>::default())
    }

    fn with(logouts: Arc<dyn LogoutRows>) -> Self {
        let answer = Arc::new(Mutex::new((200, String::new())));
        let said = Arc::clone(&answer);
        let endpoint = HttpServer::start(move |_, reply| {
            let (status, body) = said.lock().unwrap().clone();
            reply.full(status, &["content-type: application/json"], body);
        });
        let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
        let tokens = Arc::<Tokens>::default();
        let (sign_ons, server) = (sign_ons(&clock, &tokens, &logouts), ServerName::new("files").unwrap());
        Self { endpoint, answer, tokens, clock, logouts, sign_ons, server }
    }

    /// What callers come with and what is on disk stays; the rest is gone.
    fn restart(&mut self) {
        self.sign_ons = sign_ons(&self.clock, &self.tokens, &self.logouts);
    }

    fn use_method(&self, method: SignOnMethod) {
        self.sign_ons.set_target(SignOnTarget::new(self.server.clone(), SERVER_URL, method).unwrap());
    }

    fn exchange(&self) -> ExchangeSettings {
        ExchangeSettings {
            token_endpoint: Url::parse(&format!("{}/token", self.endpoint.url().trim_end_matches('/'))).unwrap(),
            expected_issuer: None,
            connector: None,
            scopes: Vec::new(),
            audiences: AudienceRule::Any,
            client: None,
            private: false,
        }
    }

    /// The principal comes with this token.
    fn comes(&self, principal: Option<&str>, token: &str, audiences: &[&str]) {
        let token = SubjectToken {
            token: Secret::new(token),
            kind: SubjectKind::Access,
            issuer: "https://login.example.com".into(),
            audiences: audiences.iter().map(|audience| (*audience).into()).collect(),
            expires: Timestamp(self.clock.now().0 + 3_600_000),
        };
        self.tokens.of.lock().unwrap().insert(principal.unwrap().to_owned(), vec![token]);
    }

    fn says(&self, status: u16, body: &Value) {
        *self.answer.lock().unwrap() = (status, body.to_string());
    }

    async fn header(&self, principal: Option<&str>) -> Result<String, String> {
        let headers = self.sign_ons.headers(&self.server, principal).await.unwrap();
        headers.map(|headers| headers[AUTHORIZATION].to_str().unwrap().to_owned()).map_err(|error| error.to_string())
    }

    async fn refuse(&self, principal: Option<&str>, token: &str) -> Rejection {
        let sent = HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())]);
        self.sign_ons.rejected(&self.server, principal, Some(&sent)).await
    }

    fn state(&self, principal: Option<&str>) -> SignOnState {
        self.sign_ons.status(&self.server, principal).unwrap().state
    }

    fn asked(&self) -> Vec<Request> {
        self.endpoint.requests()
    }

    fn minutes(&self, minutes: i64) {
        self.clock.advance(minutes * 60_000);
    }
}

fn sign_ons(clock: &Arc<ManualClock>, tokens: &Arc<Tokens>, logouts: &Arc<dyn LogoutRows>) -> SignOns {
    let config = SignOnConfig {
        http: CheckedClient::new(HttpClient::new().unwrap(), Arc::new(SystemResolver)),
        quirks: Quirks::built_in(),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        scope: Scope::new(),
        subjects: Arc::clone(tokens) as Arc<dyn SubjectTokens>,
        logouts: Arc::clone(logouts),
        keys: PossessionKeys::new(Arc::clone(clock) as Arc<dyn Clock>),
    };
    SignOns::new(config).unwrap()
}

fn jwt(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2ln", part(&json!({"alg": "ES256"})), part(claims))
}

fn issued(token: &str) -> Value {
    json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600})
}

#[tokio::test]
async fn a_token_is_forwarded_byte_for_byte_to_whom_it_is_for() {
    let desk = Desk::start();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Server));
    desk.sign_ons.want_subjects(true);
    assert!(*desk.tokens.is_wanted.lock().unwrap(), "tokens are kept from now on");
    let refused = desk.header(ANN).await.unwrap_err();
    assert!(refused.contains("did not come with one"), "{refused}");
    desk.comes(ANN, "Ann.s-Token", &["https://tools.example.com"]);
    let refused = desk.header(ANN).await.unwrap_err();
    assert!(refused.contains("another audience") && !refused.contains("Ann.s"), "{refused}");
    desk.comes(ANN, "Ann.s-Token", &["https://tools.example.com", SERVER_URL]);
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer Ann.s-Token");
    assert!(matches!(desk.state(ANN), SignOnState::On { .. }));
    for other in [BOB, None, Some("local"), Some("key:work/ann"), Some("user:acme/ann2")] {
        desk.header(other).await.unwrap_err();
        assert!(!desk.sign_ons.can(&desk.server, other), "{other:?}");
    }
    desk.use_method(SignOnMethod::Forward(AudienceRule::All(vec!["a".into()])));
    desk.header(ANN).await.unwrap_err();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer Ann.s-Token");
    desk.sign_ons.remove_target(&desk.server);
    assert!(desk.sign_ons.headers(&desk.server, ANN).await.is_none());
}

#[tokio::test]
async fn a_forwarded_token_that_is_refused_is_not_sent_again_for_a_while() {
    let desk = Desk::start();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    desk.comes(ANN, "one", &[]);
    desk.comes(BOB, "bobs", &[]);
    assert_eq!(desk.refuse(ANN, "one").await, Rejection::NeedsLogin);
    for minutes in [5, 10, 20, 30, 30] {
        desk.minutes(minutes - 1);
        let refused = desk.header(ANN).await.unwrap_err();
        assert!(refused.contains("refuses the token"), "{refused}");
        assert!(matches!(desk.state(ANN), SignOnState::Failed { .. }));
        // A call that was refused asks for no other attempt, unlike a person.
        desk.sign_ons.join(&desk.server, ANN).await.unwrap_err();
        assert!(desk.header(ANN).await.is_err());
        desk.minutes(1);
        assert_eq!(desk.header(ANN).await.unwrap(), "Bearer one");
        assert_eq!(desk.refuse(ANN, "one").await, Rejection::NeedsLogin);
    }
    assert_eq!(desk.header(BOB).await.unwrap(), "Bearer bobs", "it is no one else's failure");
    desk.comes(ANN, "two", &[]);
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer two", "another token is tried at once");
    assert_eq!(desk.refuse(ANN, "one").await, Rejection::Renewed);
}

#[tokio::test]
async fn a_token_is_exchanged_once_and_again_before_it_ends() {
    let desk = Desk::start();
    desk.use_method(SignOnMethod::Exchange(ExchangeSettings {
        expected_issuer: Some("https://dex.b.example".into()),
        connector: Some("cluster-a".into()),
        scopes: vec!["openid".into(), "groups".into()],
        client: Some(SignOnClient {
            id: Arc::new(FixedSecret("gate way")),
            proof: ClientProof::Secret(Arc::new(FixedSecret("s3cret"))),
        }),
        ..desk.exchange()
    }));
    desk.comes(ANN, "anns", &[]);
    assert_eq!(desk.state(ANN), SignOnState::Ready);
    let first = jwt(&json!({"iss": "https://dex.b.example", "sub": "x"}));
    desk.says(200, &issued(&first));
    assert_eq!(desk.header(ANN).await.unwrap(), format!("Bearer {first}"));
    assert_eq!(desk.header(ANN).await.unwrap(), format!("Bearer {first}"));
    let asked = desk.asked();
    assert_eq!(asked.len(), 1, "it is kept");
    let form = Form::parse(&String::from_utf8_lossy(&asked[0].body));
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", "anns"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("connector_id", "cluster-a"),
        ("scope", "openid groups"),
    ] {
        assert_eq!(form.get(name), Some(value), "{name}");
    }
    assert_eq!(asked[0].header("authorization"), Some("Basic Z2F0ZSt3YXk6czNjcmV0"), "`gate+way:s3cret`");
    desk.header(BOB).await.unwrap_err();
    assert_eq!(desk.asked().len(), 1, "who has no token of its own asks for none");
    let second = jwt(&json!({"iss": "https://dex.b.example", "sub": "y"}));
    desk.says(200, &issued(&second));
    desk.minutes(53);
    assert_eq!(desk.header(ANN).await.unwrap(), format!("Bearer {first}"));
    assert_eq!(desk.asked().len(), 1);
    desk.minutes(1);
    assert_eq!(desk.header(ANN).await.unwrap(), format!("Bearer {first}"), "while the next one is got");
    toolcrib_testkit::eventually_holds("the next one", || desk.asked().len() == 2).await;
    desk.minutes(6);
    assert_eq!(desk.header(ANN).await.unwrap(), format!("Bearer {second}"));
    assert_eq!(desk.asked().len(), 2);
    // The server refuses it: one more, and then no more.
    let third = jwt(&json!({"iss": "https://dex.b.example", "sub": "z"}));
    desk.says(200, &issued(&third));
    assert_eq!(desk.refuse(ANN, &second).await, Rejection::Renewed);
    assert_eq!(desk.header(ANN).await.unwrap(), format!("Bearer {third}"));
    assert_eq!(desk.refuse(ANN, &third).await, Rejection::NeedsLogin);
    desk.header(ANN).await.unwrap_err();
    assert_eq!(desk.asked().len(), 3);
}

#[tokio::test]
async fn a_failed_exchange_says_why_and_waits() {
    let desk = Desk::start();
    let settings = || ExchangeSettings { expected_issuer: Some("https://dex".into()), ..desk.exchange() };
    desk.comes(ANN, "anns-own-token", &[]);
    for (status, answer, expected) in [
        (400, json!({"error": "invalid_grant", "error_description": "unknown user"}), "invalid_grant: unknown user"),
        (401, json!({"error": "invalid_client"}), "invalid_client"),
        (503, json!({}), "status 503"),
        (200, json!({}), "status 200"),
        (200, json!("text"), "status 200"),
        (200, issued("opaque"), "names no issuer, expected `https://dex`"),
        (200, issued(&jwt(&json!({"iss": "https://evil"}))), "of the issuer `https://evil`, expected `https://dex`"),
        (200, issued(&jwt(&json!({"iss": ["https://dex"]}))), "names no issuer"),
        (200, issued(&jwt(&json!({"iss": "https://dex/"}))), "of the issuer `https://dex/`"),
        (200, issued("two words"), "cannot stand in a header"),
        (302, json!({"access_token": "a"}), "status 302"),
    ] {
        desk.use_method(SignOnMethod::Exchange(settings()));
        desk.says(status, &answer);
        let before = desk.asked().len();
        let refused = desk.header(ANN).await.unwrap_err();
        assert!(refused.contains(expected) && refused.contains("`files`"), "{refused}");
        assert!(!refused.contains("anns-own-token"), "{refused}");
        assert_eq!(desk.header(ANN).await.unwrap_err(), refused, "the reason stays");
        assert_eq!(desk.asked().len(), before + 1, "it is not asked again at once: {expected}");
        let SignOnState::Failed { reason, retry_at } = desk.state(ANN) else { panic!("{expected}") };
        assert!(reason.contains(expected) && retry_at.since(desk.clock.now()) == 300_000, "{reason}");
    }
    desk.says(503, &json!({}));
    desk.sign_ons.begin(&desk.server, ANN).await.unwrap_err();
    let before = desk.asked().len();
    desk.says(200, &issued(&jwt(&json!({"iss": "https://dex"}))));
    desk.sign_ons.begin(&desk.server, ANN).await.unwrap_err();
    assert_eq!(desk.asked().len(), before, "not twice within seconds");
    desk.clock.advance(6_000);
    desk.sign_ons.begin(&desk.server, ANN).await.unwrap();
    assert!(matches!(desk.state(ANN), SignOnState::On { .. }), "who asks for it waits for seconds only");
    desk.says(400, &json!({"error": "invalid_grant"}));
    desk.comes(BOB, "bobs", &[]);
    desk.header(BOB).await.unwrap_err();
    desk.header(ANN).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_at_a_private_address_or_without_an_end_is_not_used() {
    let desk = Desk::start();
    desk.comes(ANN, "anns", &[]);
    for (endpoint, expected) in [
        ("https://10.0.0.7/token", "`auth: {private: true}`"),
        ("https://169.254.169.254/latest/meta-data", "no server may have"),
        ("http://dex.example.com/token", "`https`"),
    ] {
        let token_endpoint = Url::parse(endpoint).unwrap();
        desk.use_method(SignOnMethod::Exchange(ExchangeSettings { token_endpoint, ..desk.exchange() }));
        let refused = desk.header(ANN).await.unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    desk.use_method(SignOnMethod::Exchange(desk.exchange()));
    *desk.answer.lock().unwrap() = (200, format!(r#"{{"access_token":"{}"}}"#, "a".repeat(2 << 20)));
    desk.header(ANN).await.unwrap_err();
}

#[tokio::test]
async fn who_logs_out_stays_out_until_asked_or_another_token_comes() {
    let desk = Desk::start();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    desk.comes(ANN, "one", &[]);
    assert!(desk.sign_ons.end(&desk.server, ANN).await.unwrap());
    assert!(desk.header(ANN).await.unwrap_err().contains("has logged out"));
    assert!(matches!(desk.state(ANN), SignOnState::Out(_)));
    desk.sign_ons.begin(&desk.server, ANN).await.unwrap();
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer one");
    desk.sign_ons.end(&desk.server, ANN).await.unwrap();
    desk.comes(ANN, "two", &[]);
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer two");
    assert!(!desk.sign_ons.end(&desk.server, BOB).await.unwrap(), "there was nothing to end");
}

#[tokio::test]
async fn who_has_logged_out_stays_out_whoever_else_comes_and_after_a_restart() {
    let mut desk = Desk::start();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    desk.comes(ANN, "one", &[]);
    assert!(desk.sign_ons.end(&desk.server, ANN).await.unwrap());
    // More than are remembered: each one's refusal is.
    for number in 0..33_000 {
        let other = format!("user:acme/someone-{number}");
        desk.comes(Some(&other), "theirs", &[]);
        assert_eq!(desk.refuse(Some(&other), "theirs").await, Rejection::NeedsLogin);
    }
    desk.comes(BOB, "bobs", &[]);
    assert_eq!(desk.header(BOB).await.unwrap(), "Bearer bobs");
    let stays_out = async |desk: &Desk| {
        assert!(desk.header(ANN).await.unwrap_err().contains("has logged out"));
        assert!(matches!(desk.state(ANN), SignOnState::Out(_)));
        assert!(!desk.sign_ons.can(&desk.server, ANN));
        assert_eq!(desk.refuse(ANN, "one").await, Rejection::NeedsLogin);
    };
    stays_out(&desk).await;
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    stays_out(&desk).await;
    desk.restart();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    stays_out(&desk).await;
    desk.sign_ons.begin(&desk.server, ANN).await.unwrap();
    desk.restart();
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer one", "who asks for it is on again, also after a restart");
}

#[tokio::test]
async fn a_logout_counts_for_every_token_that_the_caller_came_with() {
    let desk = Desk::start();
    desk.use_method(SignOnMethod::Exchange(desk.exchange()));
    desk.says(200, &issued("theirs"));
    desk.comes(ANN, "one", &[]);
    desk.header(ANN).await.unwrap();
    // The door has forgotten the token that was exchanged, and knows two others.
    desk.comes(ANN, "two", &[]);
    let (key, two) = (ANN.unwrap(), desk.tokens.tokens_of(ANN.unwrap()));
    desk.comes(ANN, "three", &[]);
    desk.tokens.of.lock().unwrap().get_mut(key).unwrap().extend(two);
    assert!(desk.sign_ons.end(&desk.server, ANN).await.unwrap());
    for token in ["one", "two", "three"] {
        desk.comes(ANN, token, &[]);
        assert!(desk.header(ANN).await.unwrap_err().contains("has logged out"), "{token}");
    }
    desk.comes(ANN, "four", &[]);
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer theirs");
    desk.sign_ons.end(&desk.server, ANN).await.unwrap();
    desk.comes(ANN, "one", &[]);
    assert!(desk.header(ANN).await.unwrap_err().contains("has logged out"), "the earlier logout counts as well");
    // Long after these tokens have ended nothing is left of it.
    desk.minutes(26 * 60);
    desk.comes(BOB, "bobs", &[]);
    desk.sign_ons.end(&desk.server, BOB).await.unwrap();
    desk.comes(ANN, "one", &[]);
    desk.header(ANN).await.unwrap();
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "the endpoint answers on a thread of its own once the lock is released")]
async fn a_logout_while_a_token_is_got_leaves_none() {
    let desk = Desk::start();
    desk.use_method(SignOnMethod::Exchange(desk.exchange()));
    desk.says(200, &issued("theirs"));
    desk.comes(ANN, "one", &[]);
    let held = desk.answer.lock().unwrap();
    let (sign_ons, server) = (desk.sign_ons.clone(), desk.server.clone());
    let scope = Scope::new();
    let awaited = scope.spawn(async move { sign_ons.headers(&server, ANN).await });
    toolcrib_testkit::eventually_holds("the attempt", || desk.state(ANN) == SignOnState::Pending).await;
    desk.sign_ons.end(&desk.server, ANN).await.unwrap();
    drop(held);
    let error = awaited.await.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("has logged out"), "{error}");
    assert!(matches!(desk.state(ANN), SignOnState::Out(_)));
    assert!(desk.header(ANN).await.is_err());
}

/// A disk that is full.
#[derive(Debug)]
struct FullRows;

impl LogoutRows for FullRows {
    fn logouts(&self) -> Result<Vec<LogoutRow>, RowError> {
        Ok(Vec::new())
    }

    fn put_logout(&self, _: &LogoutRow) -> Result<(), RowError> {
        Err(RowError("the disk is full".into()))
    }

    fn remove_logout(&self, _: &ServerName, _: &Owner) -> Result<(), RowError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_logout_that_cannot_be_remembered_is_an_error_and_ends_nothing() {
    let desk = Desk::with(Arc::new(FullRows));
    desk.use_method(SignOnMethod::Forward(AudienceRule::Any));
    desk.comes(ANN, "one", &[]);
    assert_eq!(desk.sign_ons.end(&desk.server, ANN).await, Err(RowError("the disk is full".into())));
    assert_eq!(desk.header(ANN).await.unwrap(), "Bearer one");
}

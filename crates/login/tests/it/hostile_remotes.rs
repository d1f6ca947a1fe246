//! Remotes that mean harm: documents that lead elsewhere or never end, URLs that are no URLs, answers of someone else.
//! Nothing is connected to that may not be, nothing is opened that no browser should open, and no code and no token
//! reaches anyone but who is to get it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::StatusCode;
use serde_json::{Value, json};
use toolcrib_base::Secret;
use toolcrib_login::{
    Begin, Challenge, LoginError, LoginSettings, LoginTarget, OpenRequest, Owner, Rejection, Resolution, ResolveHost,
};
use toolcrib_testkit::provider::corpus::ClientSettings;
use toolcrib_testkit::provider::{
    Destination, DocumentForm, Form, IssRule, PkceRule, ProviderRules, RemoteRules, SECRET_MARK, ServerRules,
    StatedIssuer,
};

use crate::stage::{Ending, Stage};

/// Addresses that no server may have, in every way in which they are written.
const FORBIDDEN: [&str; 8] = [
    "https://169.254.169.254/latest/meta-data",
    "https://2852039166/",
    "https://0xa9fea9fe/",
    "https://[::ffff:169.254.169.254]/",
    "https://[fd00:ec2::254]/",
    "https://[fe80::1]/",
    "https://100.100.100.200/",
    "https://0.0.0.0/",
];

fn of_provider(provider: ProviderRules) -> Stage {
    Stage::start(&RemoteRules { provider, ..RemoteRules::default() }, ClientSettings::default())
}

fn with_provider_edits(edits: Value) -> Stage {
    of_provider(ProviderRules { edits, ..ProviderRules::default() })
}

fn with_server_edits(edits: Value) -> Stage {
    let server = ServerRules { edits, ..ServerRules::default() };
    Stage::start(&RemoteRules { server, ..RemoteRules::default() }, ClientSettings::default())
}

/// An error that a person can read: one line, no secret.
fn readable(error: &LoginError) -> String {
    let text = format!("{error} {error:?} {:?}", error.problem());
    assert!(!text.contains(['\n', '\u{1b}']) && !text.contains(SECRET_MARK), "{text}");
    error.to_string()
}

#[tokio::test]
async fn no_browser_is_given_what_is_no_page() {
    for address in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,hello",
        "--new-window",
        "https://x.example/\"&calc.exe&\"",
        "https://x.example/'",
        "https://x.example/`id`",
        "https://x.example/$(id)",
        "https://x.example/ --profile=/tmp",
        "https://x.example/\r\nSet-Cookie: a=b",
        "https://x.example/\u{202e}",
        "https://login.example@evil.example/",
        "http://x.example/authorize",
        "",
    ] {
        let stage = with_provider_edits(json!({"authorization_endpoint": address}));
        let refused = stage.open(None).await.unwrap_err();
        let text = readable(&refused);
        assert!(address.len() < 12 || !text.contains(address), "{text}");
        assert!(stage.remote.forms("register").is_empty(), "nobody registers with who is not believed: {address}");
    }
}

#[tokio::test]
async fn no_request_goes_to_an_address_that_no_server_may_have() {
    for address in FORBIDDEN {
        let why = |error: &LoginError| {
            let text = readable(error);
            assert!(text.contains("no server may have"), "{address}: {text}");
        };
        let stage = with_provider_edits(json!({"registration_endpoint": address}));
        why(&stage.open(None).await.unwrap_err());

        let stage = with_provider_edits(json!({"token_endpoint": address}));
        why(&stage.login(None).await.unwrap_err());

        let stage = with_server_edits(json!({"authorization_servers": [address]}));
        readable(&stage.open(None).await.unwrap_err());

        // Who is logged in can log out, whatever the provider says about it.
        let stage = with_provider_edits(json!({"revocation_endpoint": address}));
        assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
        assert_eq!(stage.logins.logout(&stage.server, &stage.owner).await, Ok(true));
    }
    for address in ["http://169.254.169.254/", "http://login.example/", "file:///etc/passwd", "gopher://127.0.0.1:70/"]
    {
        for member in ["registration_endpoint", "token_endpoint", "revocation_endpoint"] {
            let stage = with_provider_edits(json!({member: address}));
            readable(&stage.open(None).await.unwrap_err());
        }
        let stage = with_server_edits(json!({"authorization_servers": [address]}));
        readable(&stage.open(None).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_challenge_leads_nowhere_but_to_where_metadata_may_be() {
    let elsewhere = ["http://169.254.169.254/", "file:///etc/passwd", "https://login.example@169.254.169.254/"];
    for address in FORBIDDEN.into_iter().chain(elsewhere) {
        let stage = of_provider(ProviderRules::default());
        let challenge = Challenge { resource_metadata: Some(address.to_owned()), ..Challenge::default() };
        match stage.login(Some(&challenge)).await {
            // The metadata were where they belong.
            Ok(ending) => assert!(matches!(ending, Ending::Done), "{address}: {ending:?}"),
            Err(error) => drop(readable(&error)),
        }
    }
}

/// Gives addresses of a list, one list after the other, and counts.
#[derive(Debug)]
struct ListResolver {
    lists: Mutex<Vec<Vec<SocketAddr>>>,
    questions: AtomicUsize,
}

impl ListResolver {
    fn new(lists: &[&[&str]]) -> Arc<Self> {
        let addresses = |list: &&[&str]| list.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 443)).collect();
        let lists = lists.iter().rev().map(addresses).collect();
        Arc::new(Self { lists: Mutex::new(lists), questions: AtomicUsize::new(0) })
    }
}

impl ResolveHost for ListResolver {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolution<'a> {
        self.questions.fetch_add(1, Ordering::SeqCst);
        let list = self.lists.lock().unwrap().pop().unwrap_or_default();
        Box::pin(async move { Ok(list) })
    }
}

#[tokio::test]
async fn a_name_that_leads_into_the_own_network_is_not_followed() {
    for list in [
        &["10.0.0.1"][..],
        &["192.168.1.1"],
        &["169.254.169.254"],
        &["::1", "10.0.0.1"],
        &["fd00::1"],
        &["::ffff:10.0.0.1"],
        &["64:ff9b::a00:1"],
        // One good address does not make up for a bad one.
        &["1.1.1.1", "10.0.0.1"],
    ] {
        let server = ServerRules {
            edits: json!({"authorization_servers": ["https://rebound.example"]}),
            ..ServerRules::default()
        };
        let rules = RemoteRules { server, ..RemoteRules::default() };
        let resolver = ListResolver::new(&[list; 8]);
        let stage = Stage::start_with(&rules, ClientSettings::default(), resolver.clone());
        let text = readable(&stage.open(None).await.unwrap_err());
        assert!(text.contains("rebound.example"), "{list:?}: {text}");
        assert!(resolver.questions.load(Ordering::SeqCst) >= 1);
    }
    // Only a server on this machine may have its provider here.
    for list in [&["127.0.0.1"][..], &["::1"], &["::ffff:127.0.0.1"]] {
        let resolver = ListResolver::new(&[list; 8]);
        let stage = Stage::start_with(&RemoteRules::default(), ClientSettings::default(), resolver);
        let target = LoginTarget::new(stage.server.clone(), "https://mcp.example/mcp", LoginSettings::default());
        stage.logins.set_target(target.unwrap());
        let text = readable(&stage.open(None).await.unwrap_err());
        assert!(text.contains("this machine"), "{list:?}: {text}");
    }
}

#[tokio::test]
async fn documents_that_are_none_end_the_login() {
    for document in [
        DocumentForm::Endless,
        DocumentForm::Html,
        DocumentForm::Deep,
        DocumentForm::Status(500),
        DocumentForm::Redirect("http://169.254.169.254/"),
        DocumentForm::Redirect("https://evil.example/metadata"),
    ] {
        let stage = of_provider(ProviderRules { document, ..ProviderRules::default() });
        match stage.open(None).await {
            Err(error) => drop(readable(&error)),
            Ok(page) => panic!("{document:?} led to {page}"),
        }
        let server = ServerRules { document, ..ServerRules::default() };
        let stage = Stage::start(&RemoteRules { server, ..RemoteRules::default() }, ClientSettings::default());
        if let Err(error) = stage.open(None).await {
            readable(&error);
        }
        assert!(stage.remote.forms("token").is_empty(), "{document:?}");
    }
}

#[tokio::test]
async fn who_does_not_know_s256_is_not_asked() {
    for pkce in [PkceRule::Plain, PkceRule::Absent] {
        let stage = of_provider(ProviderRules { pkce, ..ProviderRules::default() });
        let text = readable(&stage.open(None).await.unwrap_err());
        assert!(text.contains("S256"), "{text}");
        assert!(stage.remote.forms("authorize").is_empty());
    }
}

#[tokio::test]
async fn metadata_of_someone_else_are_not_used() {
    for issuer in [StatedIssuer::Other("https://login.bank.example"), StatedIssuer::Other("")] {
        let stage = of_provider(ProviderRules { issuer, ..ProviderRules::default() });
        readable(&stage.open(None).await.unwrap_err());
    }
    // A tenant that calls itself by the name of all of them.
    let provider = ProviderRules { path: "/tenant", issuer: StatedIssuer::Origin, ..ProviderRules::default() };
    readable(&of_provider(provider).open(None).await.unwrap_err());
    for resource in ["https://mcp.bank.example/mcp", "https://mcp.bank.example", ""] {
        let stage = with_server_edits(json!({"resource": resource}));
        readable(&stage.open(None).await.unwrap_err());
    }
}

#[tokio::test]
async fn an_answer_of_another_provider_is_not_taken() {
    for iss in [IssRule::Other("https://mixed.example"), IssRule::Broken] {
        let stage = of_provider(ProviderRules { iss, ..ProviderRules::default() });
        let refused = stage.login(None).await.unwrap_err();
        assert!(matches!(refused, LoginError::Issuer { .. }), "{refused:?}");
        readable(&refused);
        assert!(stage.remote.forms("token").is_empty(), "the code goes to nobody");
    }
    // One that was sent without having been announced counts as well.
    let stage = of_provider(ProviderRules::default());
    let Destination::Callback(callback) = stage.browse(&stage.open(None).await.unwrap()) else { panic!("a callback") };
    let mixed = stage.complete(&format!("{callback}&iss=https%3A%2F%2Fmixed.example")).await;
    assert!(matches!(mixed, Err(LoginError::Issuer { .. })), "{mixed:?}");
}

#[tokio::test]
async fn a_login_ends_in_the_browser_in_which_it_was_begun() {
    let stage = of_provider(ProviderRules::default());
    let page = stage.open(None).await.unwrap();
    let Destination::Callback(callback) = stage.browse(&page) else { panic!("a callback") };
    let other = stage.complete_in(&callback, "another-cookie-of-thirty-two-characters").await;
    assert_eq!(other, Err(LoginError::Browser));
    let state = Form::of_target(&callback).get("state").unwrap().to_owned();
    for answer in [
        "http://127.0.0.1:8090/oauth/callback?code=x".to_owned(),
        format!("http://127.0.0.1:8090/oauth/callback?state={state}"),
        format!("state={state}&state={state}&code=x"),
        format!("state={state}&code=x&code=y"),
        format!("state={state}&code=x&error=access_denied"),
        format!("state={state}x&code=x"),
        "state=&code=x".to_owned(),
        "x".repeat(1_000_000),
    ] {
        readable(&stage.complete(&answer).await.unwrap_err());
    }
    assert!(stage.remote.forms("token").is_empty(), "none of them is sent on");
    stage.complete(&callback).await.unwrap();
    assert_eq!(stage.complete(&callback).await, Err(LoginError::State), "it counts once");

    // A link that someone else was given.
    let theirs = Owner::of(Some("key:work/claude"));
    let pending = stage.logins.begin(&stage.server, &stage.owner, None, Begin::New).await.unwrap();
    let browser = Secret::new("a-cookie-of-at-least-thirty-two-characters");
    let request = OpenRequest { ticket: pending.ticket.expose(), opener: &theirs, browser: &browser, origin: None };
    assert_eq!(stage.logins.open(request).await, Err(LoginError::Opener));
}

#[tokio::test]
async fn an_error_page_of_a_provider_is_shown_on_one_line() {
    let stage = of_provider(ProviderRules::default());
    let page = stage.open(None).await.unwrap();
    let state = Form::of_target(&page).get("state").unwrap().to_owned();
    let said = "%1b%5b31m%3Cscript%3E%0d%0aSet-Cookie%3a%20a".repeat(100);
    let answer = format!("state={state}&error=access_denied&error_description={said}");
    let text = readable(&stage.complete(&answer).await.unwrap_err());
    assert!(text.len() < 1_000, "{text}");
}

#[tokio::test]
async fn no_credential_follows_to_another_issuer_or_server() {
    let stage = of_provider(ProviderRules { path: "/first", ..ProviderRules::default() });
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    let first = stage.logins.headers(&stage.server, &stage.owner).await.unwrap();
    let old = stage.remote.issuer();

    let other = LoginSettings { issuer: Some("https://other.example".to_owned()), ..LoginSettings::default() };
    stage.set_settings(other);
    assert_eq!(stage.logins.headers(&stage.server, &stage.owner).await, Ok(None), "the definition names another");
    stage.set_settings(LoginSettings { issuer: Some(old), ..LoginSettings::default() });
    assert_eq!(stage.logins.headers(&stage.server, &stage.owner).await, Ok(first));
    let target = LoginTarget::new(stage.server.clone(), "https://elsewhere.example/mcp", LoginSettings::default());
    stage.logins.set_target(target.unwrap());
    assert_eq!(stage.logins.headers(&stage.server, &stage.owner).await, Ok(None), "the server is another one");

    // The server itself names another issuer.
    stage.set_settings(LoginSettings::default());
    stage.remote.change(|rules| rules.provider.path = "/second");
    stage.remote.end_grants();
    let sent = stage.logins.headers(&stage.server, &stage.owner).await.unwrap();
    let refused = stage.call().await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let rejection = stage.logins.rejected(&stage.server, &stage.owner, sent.as_ref(), refused.challenge.as_ref()).await;
    assert_ne!(rejection, Ok(Rejection::Renewed));
    let before = stage.remote.requests().len();
    assert!(matches!(stage.login(refused.challenge.as_ref()).await, Ok(Ending::Done)));
    assert_eq!((stage.call().await.status, stage.remote.registrations()), (StatusCode::OK, 2));
    for request in &stage.remote.requests()[before.min(stage.remote.requests().len())..] {
        let body = String::from_utf8_lossy(&request.body);
        assert!(!body.contains("refresh_token=") && !body.contains("client-1&"), "{}", request.target);
    }
}

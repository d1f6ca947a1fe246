//! A provider by its endpoints' functions: whom it gives tokens to, and which tokens count.

use serde_json::json;

use super::*;

fn settings() -> ProviderSettings {
    ProviderSettings {
        name: "idp".to_owned(),
        scopes: vec!["openid".to_owned(), "read".to_owned()],
        approves: true,
        lifetime: Duration::from_secs(600),
        client_id: Some("app".to_owned()),
        has_mock_clock: true,
        ..ProviderSettings::default()
    }
}

fn provider(settings: ProviderSettings) -> Provider {
    Provider::new(settings, "http://127.0.0.1:1".to_owned())
}

fn ann() -> Bearer {
    Bearer { subject: "ann".to_owned(), role: None }
}

/// The page of a proper request.
fn page() -> Url {
    changed("", "")
}

/// The same with one parameter set to another value.
fn changed(parameter: &str, other: &str) -> Url {
    let mut url = Url::parse("http://127.0.0.1:1/authorize").unwrap();
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", "http://127.0.0.1:9/cb"),
        ("code_challenge", "x"),
        ("code_challenge_method", "S256"),
        ("state", "s"),
    ] {
        let value = if name == parameter { other } else { value };
        if !value.is_empty() {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    url
}

#[test]
fn a_person_is_sent_back_only_for_a_proper_request() {
    let provider = provider(ProviderSettings { wants_pkce: true, ..settings() });
    let back = provider.approve(&page(), &ann()).unwrap();
    assert!(back.starts_with("http://127.0.0.1:9/cb?code=") && back.ends_with("&state=s"), "{back}");
    for (parameter, other, expected) in [
        ("response_type", "token", "response_type"),
        ("client_id", "other", "client"),
        ("redirect_uri", "https://evil.example/cb", "this machine"),
        ("redirect_uri", "http://127.0.0.1.evil.example/cb", "this machine"),
        ("redirect_uri", "http://127.0.0.1:9/cb#x", "this machine"),
        ("code_challenge", "", "PKCE"),
        ("code_challenge_method", "plain", "S256"),
    ] {
        let why = provider.approve(&changed(parameter, other), &ann()).unwrap_err().0;
        assert!(why.contains(expected), "{parameter} {other}: {why}");
    }
    assert!(provider.authorize(&page(), None).unwrap_err().0.contains("not approved"));
}

#[test]
fn tokens_count_until_they_end_by_the_provider_s_clock() {
    let provider = provider(settings());
    let token = provider.sign_in(&ann());
    assert_eq!(provider.claims(&token).unwrap()["sub"], "ann");
    provider.advance(Duration::from_secs(599)).unwrap();
    assert!(provider.claims(&token).is_some());
    provider.advance(Duration::from_secs(2)).unwrap();
    assert!(provider.claims(&token).is_none());
    assert_eq!(provider.why_not(&token), "the token has expired");
    assert_eq!(provider.why_not("other"), "the token is not known");
    let fixed = Provider::new(ProviderSettings { has_mock_clock: false, ..settings() }, String::new());
    assert!(fixed.advance(Duration::from_secs(1)).unwrap_err().contains("use_mock_clock"));
}

#[test]
fn all_tokens_are_revoked_or_those_for_one_server() {
    let provider = provider(settings());
    let for_one = provider.issue("app", &ann(), &[], &["http://a/mcp".to_owned()]);
    let for_other = provider.issue("app", &ann(), &[], &["http://b/mcp".to_owned()]);
    assert_eq!(provider.revoke_all(Some("http://a/mcp")), 1);
    assert!(provider.claims(&for_one).is_none() && provider.claims(&for_other).is_some());
    assert_eq!(provider.revoke_all(None), 1);
    assert_eq!(provider.why_not(&for_other), "the token was revoked");
}

#[test]
fn a_minted_token_says_what_the_step_writes() {
    let provider = provider(settings());
    let claims = json!({ "sub": "eve", "iss": "https://elsewhere.example", "aud": ["x"] });
    let token = provider.mint(claims.as_object().unwrap(), "JWT");
    let read = provider.claims(&token).unwrap();
    assert_eq!((&read["sub"], &read["iss"]), (&json!("eve"), &json!("https://elsewhere.example")));
    assert_eq!(token.split('.').count(), 3);
}

#[test]
fn scopes_that_it_does_not_know_are_not_granted() {
    let provider = provider(settings());
    assert_eq!(provider.granted("read admin"), ["read"]);
    assert_eq!(provider.granted(""), ["openid", "read"]);
    let any = Provider::new(ProviderSettings { scopes: Vec::new(), ..settings() }, String::new());
    assert_eq!(any.granted("x y"), ["x", "y"]);
}

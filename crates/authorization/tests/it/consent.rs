//! What is asked, who answers, and that a request begun in one browser ends in no other.

use toolcrib_authorization::{AuthorizeRefusal, ConsentChoice, ConsentStep, ReturnStep};
use toolcrib_base::{Kind, Secret};

use crate::world::{CLIENT, DOCUMENT, ORIGIN, REDIRECT, World, challenge, parameter};

#[tokio::test]
async fn what_a_client_may_not_ask_for_goes_back_to_it() {
    let world = World::of_team();
    let plain = challenge();
    for (changes, expected) in [
        (vec![("response_type", "token")], "unsupported_response_type"),
        (vec![("response_type", "")], "invalid_request"),
        (vec![("response_mode", "fragment")], "invalid_request"),
        (vec![("code_challenge", "")], "invalid_request"),
        (vec![("code_challenge_method", "")], "invalid_request"),
        (vec![("code_challenge_method", "plain")], "invalid_request"),
        (vec![("code_challenge", &plain[1..])], "invalid_request"),
        (vec![("resource", "https://other.example/mcp")], "invalid_target"),
        (vec![("resource", "https://tools.example.com.evil.example/mcp")], "invalid_target"),
        (vec![("resource", "https://tools.example.com/api/v1")], "invalid_target"),
        (vec![("resource", "https://tools.example.com/mcp/p/../x")], "invalid_target"),
        (vec![("scope", "everything")], "invalid_scope"),
        (vec![("request", "eyJ")], "invalid_request"),
    ] {
        let Err(AuthorizeRefusal::Redirect(url)) = world.asked(&changes).await else { panic!("{changes:?}") };
        assert!(url.starts_with(&format!("{REDIRECT}?")), "{url}");
        assert_eq!(parameter(&url, "error").as_deref(), Some(expected), "{changes:?}");
        assert_eq!(parameter(&url, "state").as_deref(), Some("s-1"));
        assert_eq!(parameter(&url, "iss").as_deref(), Some(ORIGIN), "whose answer it is");
    }
}

#[tokio::test]
async fn nothing_goes_to_an_address_that_is_not_proven() {
    let world = World::of_team();
    for changes in [
        [("client_id", "unknown")],
        [("client_id", "")],
        [("client_id", "https://hosted.example/other.json")],
        [("redirect_uri", "https://editor.example/callback2")],
        [("redirect_uri", "https://editor.example/callback#x")],
        [("redirect_uri", "https://editor.example@evil.example/callback")],
        [("redirect_uri", "https://editor.example/a/../callback")],
        [("redirect_uri", "https://editor.example.evil.example/callback")],
        [("redirect_uri", "http://editor.example/callback")],
        [("redirect_uri", "")],
        [("redirect_uri", "javascript:alert(1)")],
    ] {
        let Err(AuthorizeRefusal::Page(_)) = world.asked(&changes).await else { panic!("{changes:?}") };
    }
    // Twice is not once.
    let twice = format!("{}&client_id=other", crate::world::query(&[]));
    assert!(matches!(world.server.authorize(&twice, &world.browser).await, Err(AuthorizeRefusal::Page(_))));
}

/// Between the request and the consent, and between the consent and the answer.
#[tokio::test]
async fn an_address_that_the_client_takes_back_gets_no_answer() {
    let world = World::of_team();
    let of_document = [("client_id", DOCUMENT), ("redirect_uri", "https://hosted.example/callback")];
    let name = world.allowed(&of_document).await;
    let prompt = world.asked(&of_document).await.unwrap();
    *world.hosted.redirect.lock().unwrap() = "https://hosted.example/new";
    // Its document is read again after a while.
    world.clock.advance(300_000);
    let allowed = world.said(&prompt, ConsentChoice::Allow { issuer: Some("acme".into()) }).await;
    assert!(matches!(allowed, Err(AuthorizeRefusal::Page(_))), "{allowed:?}");
    let resumed = world.resumed(&name, Some("ann")).await;
    assert!(matches!(resumed, Err(AuthorizeRefusal::Page(_))), "{resumed:?}");
}

#[tokio::test]
async fn a_person_reads_who_asks_and_where_the_answer_goes() {
    let world = World::of_team();
    let prompt = world.asked(&[("client_id", DOCUMENT), ("redirect_uri", "https://hosted.example/callback")]).await;
    let prompt = prompt.unwrap();
    assert_eq!((prompt.client_name.as_str(), prompt.client.as_str()), ("Hosted", DOCUMENT));
    assert_eq!(prompt.redirect, "https://hosted.example/callback");
    assert_eq!(
        (prompt.resource.as_str(), prompt.issuers.as_slice()),
        ("https://tools.example.com/mcp/p/work", &["acme".into()][..])
    );
    let prompt = world.asked(&[("redirect_uri", "http://127.0.0.1:7777/callback"), ("resource", "")]).await.unwrap();
    assert_eq!((prompt.redirect.as_str(), prompt.resource.as_str()), ("http://127.0.0.1:7777/callback", ORIGIN));
}

#[tokio::test]
async fn a_form_counts_in_the_browser_that_was_asked_and_nowhere_else() {
    let world = World::of_team();
    let prompt = world.asked(&[]).await.unwrap();
    let allow = || ConsentChoice::Allow { issuer: Some("acme".into()) };
    let refused = |step: Result<ConsentStep, AuthorizeRefusal>| match step {
        Err(AuthorizeRefusal::Page(problem)) => assert_eq!(problem.kind, Kind::Forbidden),
        other => panic!("{other:?}"),
    };
    refused(world.said_in(&prompt, allow(), &Secret::new("toolcrib-consent-1=3")).await);
    let mut forged = prompt.clone();
    forged.form = Secret::new(format!("x{}", prompt.form.expose()));
    refused(world.said(&forged, allow()).await);
    forged.form = Secret::new("");
    refused(world.said(&forged, allow()).await);
    world.clock.advance(600_001);
    refused(world.said(&prompt, allow()).await);
    world.clock.advance(-3_600_000);
    refused(world.said(&prompt, allow()).await);
    world.clock.advance(3_600_000 - 300_000);
    assert!(matches!(world.said(&prompt, allow()).await, Ok(ConsentStep::Wait(_))));
    // Where there is a provider, there is no other way.
    let page = world.said(&prompt, ConsentChoice::Allow { issuer: None }).await;
    assert!(matches!(page, Err(AuthorizeRefusal::Page(_))));
    let page = world.said(&prompt, ConsentChoice::Allow { issuer: Some("other".into()) }).await;
    assert!(matches!(page, Err(AuthorizeRefusal::Page(_))));
}

#[tokio::test]
async fn no_is_no() {
    let world = World::of_team();
    let prompt = world.asked(&[]).await.unwrap();
    let Ok(ConsentStep::Return(url)) = world.said(&prompt, ConsentChoice::Deny).await else { panic!() };
    assert_eq!(parameter(&url, "error").as_deref(), Some("access_denied"));
    assert_eq!((parameter(&url, "state").as_deref(), parameter(&url, "code")), (Some("s-1"), None));
}

#[tokio::test]
async fn a_request_ends_where_it_was_begun() {
    let world = World::of_team();
    let name = world.allowed(&[]).await;
    // The attacker's link in the victim's browser, and the victim's link in the attacker's.
    let other = Secret::new("toolcrib-consent-9=9");
    assert!(matches!(world.resumed_in(&name, Some("ann"), &other).await, Err(AuthorizeRefusal::Page(_))));
    assert!(matches!(world.resumed(&Secret::new("0".repeat(64)), Some("ann")).await, Err(AuthorizeRefusal::Page(_))));
    assert_eq!(world.resumed(&name, None).await.unwrap(), ReturnStep::SignIn("acme".into()));
    let world = world.restarted();
    let Ok(ReturnStep::Return(url)) = world.resumed(&name, Some("ann")).await else { panic!() };
    assert!(url.starts_with(REDIRECT) && parameter(&url, "code").is_some());
    assert_eq!(parameter(&url, "iss").as_deref(), Some(ORIGIN));
    // Once: a second window gets none.
    assert!(matches!(world.resumed(&name, Some("ann")).await, Err(AuthorizeRefusal::Page(_))));
}

#[tokio::test]
async fn who_has_no_grant_gets_no_code() {
    let world = World::of_team();
    let name = world.allowed(&[]).await;
    let Ok(ReturnStep::Return(url)) = world.resumed(&name, Some("bob")).await else { panic!() };
    assert_eq!((parameter(&url, "error").as_deref(), parameter(&url, "code")), (Some("access_denied"), None));
}

#[tokio::test]
async fn someone_else_than_the_page_said_does_not_end_a_request() {
    let world = World::of_team();
    let prompt = world.asked(&[]).await.unwrap();
    let browsers = [world.browser.clone()];
    let consent = toolcrib_authorization::Consent {
        form: prompt.form.expose(),
        browsers: &browsers,
        choice: ConsentChoice::Allow { issuer: Some("acme".into()) },
        address: "192.0.2.1".into(),
        user: Some("user:acme/eve".into()),
    };
    let Ok(ConsentStep::Wait(name)) = world.server.consent(consent).await else { panic!() };
    let Err(AuthorizeRefusal::Page(problem)) = world.resumed(&name, Some("ann")).await else { panic!() };
    assert!(problem.message.contains("someone else"), "{problem}");
}

#[tokio::test]
async fn requests_that_wait_have_a_bound() {
    let world = World::of_team();
    for _ in 0..64 {
        world.allowed(&[]).await;
    }
    let prompt = world.asked(&[]).await.unwrap();
    let step = world.said(&prompt, ConsentChoice::Allow { issuer: Some("acme".into()) }).await;
    let Err(AuthorizeRefusal::Page(problem)) = step else { panic!("{step:?}") };
    assert_eq!(problem.kind, Kind::Busy);
    world.clock.advance(600_001);
    world.allowed(&[("client_id", CLIENT)]).await;
}

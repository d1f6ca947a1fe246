//! Which client logs in: that of the definition, our document, one that is registered; how it proves itself; and what a
//! person is told when there is none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use toolcrib_base::Secret;
use toolcrib_login::{LoginError, LoginSettings, OpenOutcome, OpenRequest, Quirk, Quirks};
use toolcrib_testkit::http::{HttpServer, Request};

use crate::scripted::{answer_of, metadata, open, parameter, server};
use crate::world::{ORIGIN, REDIRECT, World, owner};

/// An authorization server with these members in its metadata, and this answer to registrations.
fn provider(members: Value, registration: Value) -> HttpServer {
    server(move |request, reply| {
        let host = request.header("host").unwrap_or_default();
        match request.target.as_str() {
            "/.well-known/oauth-authorization-server" => {
                let mut document = metadata(host);
                for (name, value) in members.as_object().unwrap() {
                    document[name] = value.clone();
                }
                reply.json(&[], &document);
            }
            "/register" if registration != Value::Null => {
                reply.full(201, &["content-type: application/json"], registration.to_string());
            }
            _ => return false,
        }
        true
    })
}

fn token_request(server: &HttpServer) -> Request {
    server.requests().into_iter().find(|request| request.target == "/token").unwrap()
}

fn registered(server: &HttpServer) -> Option<Value> {
    server.requests().iter().find(|request| request.target == "/register").map(Request::json)
}

#[tokio::test]
async fn a_client_is_registered_with_its_kind_and_its_one_redirect() {
    let provider = provider(json!({}), Value::Null);
    let (_, opened) = open(&provider).await;
    let asked = registered(&provider).unwrap();
    assert_eq!(asked["redirect_uris"], json!([REDIRECT]));
    assert_eq!(asked["application_type"], "native");
    assert_eq!(asked["token_endpoint_auth_method"], "none");
    assert_eq!(asked["client_name"], "Toolcrib");
    assert_eq!(parameter(&opened.unwrap(), "redirect_uri").as_deref(), Some(REDIRECT));
}

#[tokio::test]
async fn a_secret_is_proven_in_the_way_that_the_registration_says() {
    let both = json!({"token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"]});
    let post = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    for (members, method, is_basic) in [
        (&both, "client_secret_post", false),
        (&both, "client_secret_basic", true),
        (&post, "", false),
        (&json!({}), "", true),
    ] {
        let mut answer = json!({"client_id": "c", "client_secret": "s:%"});
        if !method.is_empty() {
            answer["token_endpoint_auth_method"] = method.into();
        }
        let provider = provider(members.clone(), answer);
        let (world, opened) = open(&provider).await;
        world.complete(&answer_of(&opened.unwrap())).await.unwrap();
        let request = token_request(&provider);
        let body = String::from_utf8(request.body.clone()).unwrap();
        let basic = format!("Basic {}", BASE64.encode("c:s%3A%25"));
        assert_eq!(request.header("authorization"), is_basic.then_some(basic.as_str()), "{members} {method}");
        assert_eq!(body.contains("client_secret=s%3A%25"), !is_basic, "{members} {method}: {body}");
    }
}

#[tokio::test]
async fn a_client_of_the_definition_comes_first() {
    let provider = provider(json!({"client_id_metadata_document_supported": true}), json!({"client_id": "other"}));
    let mut world = World::new(Default::default());
    world.settings = LoginSettings {
        client_id: Some("mine".into()),
        client_secret: Some(Secret::new("s")),
        scopes: vec!["a".into(), "b".into()],
        ..LoginSettings::default()
    };
    world.client_document(Some("https://tools.example.com/client.json"), Quirks::built_in());
    world.point_to(&provider.url());
    let url = world.open(&world.ticket().await).await.unwrap();
    assert_eq!(parameter(&url, "client_id").as_deref(), Some("mine"));
    assert_eq!(parameter(&url, "scope").as_deref(), Some("a+b"));
    assert_eq!(registered(&provider), None);
}

#[tokio::test]
async fn a_client_document_spares_the_registration_where_it_is_read() {
    for is_read in [true, false] {
        let provider =
            provider(json!({"client_id_metadata_document_supported": is_read}), json!({"client_id": "other"}));
        let mut world = World::new(Default::default());
        world.client_document(Some("https://tools.example.com/client.json"), Quirks::built_in());
        world.point_to(&provider.url());
        let url = world.open(&world.ticket().await).await.unwrap();
        let expected = if is_read { "https://tools.example.com/client.json" } else { "other" };
        assert_eq!(parameter(&url, "client_id").as_deref(), Some(expected));
        assert_eq!(registered(&provider).is_some(), !is_read);
        world.complete(&answer_of(&url)).await.unwrap();
        assert_eq!(token_request(&provider).header("authorization"), None);
    }
}

#[tokio::test]
async fn a_client_document_is_not_used_with_a_redirect_that_is_not_in_it() {
    let provider = provider(json!({"client_id_metadata_document_supported": true}), json!({"client_id": "other"}));
    let mut world = World::new(Default::default());
    world.settings =
        LoginSettings { redirect_uri: Some("https://elsewhere.example/cb".into()), ..LoginSettings::default() };
    world.client_document(Some("https://tools.example.com/client.json"), Quirks::built_in());
    world.point_to(&provider.url());
    let (ticket, opener) = (world.ticket().await, owner());
    // A command takes the answer, wherever it comes.
    let open = OpenRequest { ticket: ticket.expose(), opener: &opener, browser: &world.browser, origin: None };
    let OpenOutcome::Provider(url) = world.logins.open(open).await.unwrap() else { panic!("another origin") };
    assert_eq!(parameter(url.as_str(), "client_id").as_deref(), Some("other"));
    let asked = registered(&provider).unwrap();
    assert_eq!(asked["redirect_uris"], json!(["https://elsewhere.example/cb"]));
    assert_eq!(asked["application_type"], "web");
}

#[tokio::test]
async fn a_provider_that_reads_audience_is_known_by_its_metadata() {
    let members =
        json!({"mfa_challenge_endpoint": "https://login.acme.example/mfa", "scopes_supported": ["offline_access"]});
    for (members, is_known) in [(members, true), (json!({"scopes_supported": ["offline_access"]}), false)] {
        let provider = provider(members, Value::Null);
        let (_, opened) = open(&provider).await;
        let url = opened.unwrap();
        assert_eq!(parameter(&url, "audience"), is_known.then(|| provider.url()), "{url}");
        let scope = parameter(&url, "scope").unwrap_or_default();
        assert_eq!(scope.contains("offline_access"), is_known, "{url}");
    }
}

#[tokio::test]
async fn who_has_no_client_is_told_what_to_register_where() {
    let without = provider(json!({"registration_endpoint": null}), Value::Null);
    let (_, opened) = open(&without).await;
    let issuer = format!("http://{}", without.address());
    let error = opened.unwrap_err();
    assert_eq!(
        error.problem().to_string(),
        format!(
            "`{issuer}` wants its clients registered by hand: register one there with the redirect URL `{REDIRECT}`, then \
             set `auth: {{client_id: …}}` in the definition of `sim` (the definition is `servers/sim.yaml`; then: `toolcrib login sim`)"
        )
    );
    let refusing = server(|request, reply| {
        if request.target == "/register" {
            reply.full(403, &["content-type: text/plain"], "Forbidden");
        }
        request.target == "/register"
    });
    let (_, opened) = open(&refusing).await;
    let LoginError::NeedsClient { reason, .. } = opened.unwrap_err() else { panic!("another error") };
    assert_eq!(reason, " (status 403: Forbidden)");
}

#[tokio::test]
async fn a_secret_that_ends_is_not_relied_on() {
    let soon = json!({"client_id": "c", "client_secret": "s", "client_secret_expires_at": 1_795_132_900});
    let provider = provider(json!({}), soon);
    let (world, opened) = open(&provider).await;
    world.complete(&answer_of(&opened.unwrap())).await.unwrap();
    let registrations = || provider.requests().iter().filter(|request| request.target == "/register").count();
    world.open(&world.ticket().await).await.unwrap();
    world.advance(3_600);
    world.open(&world.ticket().await).await.unwrap();
    assert_eq!(registrations(), 2);
}

#[tokio::test]
async fn a_provider_that_wants_localhost_gets_the_link_opened_there() {
    let provider = server(|_, _| false);
    let mut world = World::new(Default::default());
    let quirk = Quirk { redirect_host: Some("localhost".into()), ..Quirk::default() };
    world.client_document(None, Quirks::built_in().with(&provider.address().to_string(), quirk));
    world.point_to(&provider.url());
    let (ticket, opener) = (world.ticket().await, owner());
    let open = |origin| OpenRequest { ticket: ticket.expose(), opener: &opener, browser: &world.browser, origin };
    let there = "http://localhost:4711";
    assert_eq!(world.logins.open(open(Some(ORIGIN))).await, Ok(OpenOutcome::Origin(there.to_owned())));
    let Ok(OpenOutcome::Provider(url)) = world.logins.open(open(Some(there))).await else { panic!("not opened") };
    assert_eq!(parameter(url.as_str(), "redirect_uri").as_deref(), Some("http://localhost:4711/oauth/callback"));
}

#[tokio::test]
async fn a_ticket_does_not_leave_the_gateway() {
    let provider = server(|_, _| false);
    let mut world = World::new(Default::default());
    world.settings.redirect_uri = Some("https://tools.example.com/callback".into());
    world.point_to(&provider.url());
    let error = world.open(&world.ticket().await).await.unwrap_err();
    assert_eq!(
        error.problem().to_string(),
        "the answer to the login of `sim` goes to `https://tools.example.com/callback`, where this gateway does not listen \
         (paste the address where the browser ends: `toolcrib login --no-browser sim`)"
    );
    // A command takes what the person pastes.
    let (ticket, opener) = (world.ticket().await, owner());
    let request = OpenRequest { ticket: ticket.expose(), opener: &opener, browser: &world.browser, origin: None };
    let Ok(OpenOutcome::Provider(url)) = world.logins.open(request).await else { panic!("not opened") };
    let pasted = format!("https://tools.example.com/callback?{}", answer_of(url.as_str()));
    assert!(world.complete(&pasted).await.is_ok());
}

#[tokio::test]
async fn the_table_changes_what_is_sent() {
    let provider = server(|_, _| false);
    let mut world = World::new(Default::default());
    let quirk = Quirk {
        authorization_parameters: vec![("access_type".into(), "offline".into())],
        added_scopes: vec!["extra".into()],
        dropped_scopes: vec!["bad".into()],
        refuses_resource: true,
        reads_audience: true,
        ..Quirk::default()
    };
    world.settings.scopes = vec!["good".into(), "bad".into()];
    world.client_document(None, Quirks::built_in().with(&provider.address().to_string(), quirk));
    world.point_to(&provider.url());
    let url = world.open(&world.ticket().await).await.unwrap();
    assert_eq!(parameter(&url, "access_type").as_deref(), Some("offline"));
    assert_eq!(parameter(&url, "scope").as_deref(), Some("good+extra"));
    assert_eq!(parameter(&url, "audience"), Some(provider.url()));
    assert_eq!(parameter(&url, "resource"), None);
    world.complete(&answer_of(&url)).await.unwrap();
    assert!(!String::from_utf8(token_request(&provider).body).unwrap().contains("resource="));
}

#[tokio::test]
async fn a_query_that_may_hold_a_key_is_not_told_to_the_provider() {
    let provider = server(|_, _| false);
    let mut world = World::new(Default::default());
    world.point_to(&format!("{}?key=hidden#part", provider.url()));
    let url = world.open(&world.ticket().await).await.unwrap();
    assert_eq!(parameter(&url, "resource"), Some(provider.url()));
    assert!(provider.requests().iter().all(|request| !request.target.contains("hidden")));
}

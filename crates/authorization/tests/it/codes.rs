//! What a code gives, once, and to whom.

use toolcrib_base::Role;

use crate::world::{DOCUMENT, PS256_STATEMENT, SIGNED, World, parameter, text};

#[tokio::test]
async fn a_code_gives_tokens_that_count_at_the_door() {
    let world = World::of_team();
    let code = world.code(&[]).await;
    let answer = world.redeemed(&code, &[]).await.unwrap();
    assert_eq!((text(&answer, "token_type"), answer["expires_in"].as_i64()), ("Bearer".into(), Some(900)));
    assert_eq!(text(&answer, "scope"), "tools");
    let token = text(&answer, "access_token");
    let known = world.proves(&token, "work").await.unwrap();
    assert_eq!((known.id.as_str(), known.grants.len()), ("user:acme/ann", 1));
    assert_eq!(known.identity.client.as_deref(), Some("editor"));
    assert_eq!(known.scopes, ["tools".into()]);
    // For this profile alone.
    assert!(world.proves(&token, "home").await.unwrap_err().contains("another audience"));
    let world = world.restarted();
    assert!(world.proves(&token, "work").await.is_ok());
    world.clock.advance(900_000);
    assert!(world.proves(&token, "work").await.unwrap_err().contains("expired"));
}

#[tokio::test]
async fn a_code_is_its_clients_and_fits_its_request() {
    let world = World::of_team();
    let code = world.code(&[]).await;
    for (changes, expected) in [
        ([("client_id", DOCUMENT)], "invalid_grant"),
        ([("client_id", "unknown")], "invalid_client"),
        ([("redirect_uri", "http://127.0.0.1/callback")], "invalid_grant"),
        ([("redirect_uri", "")], "invalid_request"),
        ([("code_verifier", "")], "invalid_request"),
        ([("code_verifier", "short")], "invalid_grant"),
        ([("code_verifier", "another-verifier-that-has-more-than-forty-two")], "invalid_grant"),
        ([("code", "0123")], "invalid_grant"),
        ([("resource", "https://tools.example.com/mcp/p/home")], "invalid_target"),
        ([("grant_type", "password")], "unsupported_grant_type"),
        ([("client_secret", "guessed")], "invalid_client"),
    ] {
        let error = world.redeemed(&code, &changes).await.unwrap_err();
        assert_eq!(error.code.as_str(), expected, "{changes:?}: {error}");
    }
    world.redeemed(&code, &[("resource", "https://tools.example.com/mcp/p/work")]).await.unwrap();
}

#[tokio::test]
async fn a_client_signs_with_the_key_that_its_document_leads_to() {
    let world = World::of_owner();
    let own = [("client_id", SIGNED), ("redirect_uri", "https://signed.example/callback")];
    let code = world.code(&own).await;
    let kind = ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    let (message, signature) = PS256_STATEMENT.rsplit_once('.').unwrap();
    let forged = format!("{message}.{}A", &signature[..signature.len() - 2]);
    for wrong in [None, Some(forged.as_str())] {
        let mut fields = own.to_vec();
        fields.extend(wrong.map(|statement| ("client_assertion", statement)));
        fields.extend(wrong.map(|_| kind));
        let error = world.redeemed(&code, &fields).await.unwrap_err();
        assert_eq!(error.code.as_str(), "invalid_client", "{error}");
    }
    let fields = [own[0], own[1], kind, ("client_assertion", PS256_STATEMENT)];
    let tokens = world.redeemed(&code, &fields).await.unwrap();
    world.proves(&text(&tokens, "access_token"), "work").await.unwrap();
    let again = world.redeemed(&code, &fields).await.unwrap_err();
    assert!(again.description.contains("used before"), "{again}");
}

#[tokio::test]
async fn a_code_counts_for_a_minute() {
    let world = World::of_team();
    let code = world.code(&[]).await;
    world.clock.advance(60_000);
    assert_eq!(world.redeemed(&code, &[]).await.unwrap_err().code.as_str(), "invalid_grant");
}

#[tokio::test]
async fn a_code_that_comes_twice_ends_what_it_gave() {
    let world = World::of_team();
    let code = world.code(&[]).await;
    let answer = world.redeemed(&code, &[]).await.unwrap();
    let world = world.restarted();
    let token = text(&answer, "access_token");
    world.proves(&token, "work").await.unwrap();
    // Also long after it has ended itself.
    world.clock.advance(120_000);
    assert_eq!(world.redeemed(&code, &[]).await.unwrap_err().code.as_str(), "invalid_grant");
    assert!(world.proves(&token, "work").await.unwrap_err().contains("has ended"));
    assert!(world.refreshed(&text(&answer, "refresh_token")).await.is_err());
}

#[tokio::test]
async fn an_address_of_any_port_is_the_one_of_the_request() {
    let world = World::of_team();
    let [one, other] = ["http://127.0.0.1:5000/callback", "http://127.0.0.1:5001/callback"];
    let code = world.code(&[("redirect_uri", one)]).await;
    assert!(world.redeemed(&code, &[("redirect_uri", other)]).await.is_err());
    world.redeemed(&code, &[("redirect_uri", one)]).await.unwrap();
}

#[tokio::test]
async fn a_revoked_session_ends_at_once() {
    let world = World::of_team();
    let answer = world.tokens().await;
    let (token, refresh) = (text(&answer, "access_token"), text(&answer, "refresh_token"));
    world.proves(&token, "work").await.unwrap();
    let mut ends = world.server.watch_ends();
    let revoke = async |token: &str, client: &str| {
        let body = format!("client_id={client}&token={token}");
        world.server.revoke(toolcrib_authorization::TokenRequest { authorization: None, body: body.as_bytes() }).await
    };
    // Another client's, and no token at all: neither an error nor an end.
    revoke(&token, "https%3A%2F%2Fhosted.example%2Fclient.json").await.unwrap();
    revoke("nonsense", "editor").await.unwrap();
    world.proves(&token, "work").await.unwrap();
    assert!(!ends.has_changed().unwrap());
    revoke(&refresh, "editor").await.unwrap();
    assert!(ends.has_changed().unwrap());
    ends.mark_unchanged();
    assert!(world.proves(&token, "work").await.unwrap_err().contains("has ended"));
    let again = world.tokens().await;
    let token = text(&again, "access_token");
    revoke(&token, "editor").await.unwrap();
    assert!(world.proves(&token, "work").await.is_err());
    assert!(world.restarted().proves(&token, "work").await.is_err());
}

#[tokio::test]
async fn the_owner_lists_and_ends_sessions() {
    let world = World::of_owner();
    let answer = world.tokens().await;
    let token = text(&answer, "access_token");
    let known = world.proves(&token, "work").await.unwrap();
    assert_eq!((known.id.as_str(), known.grants[0].role), ("local", Role::Member));
    let [session] = &world.server.sessions().await.unwrap()[..] else { panic!() };
    assert_eq!((session.client.as_str(), session.principal.as_str()), ("editor", "local"));
    assert!(world.server.has_session(&session.id));
    assert!(world.server.end_session(&session.id).await.unwrap());
    assert!(!world.server.end_session(&session.id).await.unwrap());
    assert!(!world.server.has_session(&session.id) && world.proves(&token, "work").await.is_err());
}

#[tokio::test]
async fn sessions_of_one_principal_have_a_bound() {
    let world = World::of_team();
    let first = text(&world.tokens().await, "access_token");
    for _ in 0..64 {
        world.clock.advance(1);
        world.tokens().await;
    }
    assert!(world.proves(&first, "work").await.unwrap_err().contains("has ended"), "the one used longest ago");
    assert_eq!(world.server.sessions().await.unwrap().len(), 64);
}

#[tokio::test]
async fn an_answer_says_from_whom_it_comes() {
    let world = World::of_team();
    let name = world.allowed(&[("state", "")]).await;
    let Ok(toolcrib_authorization::ReturnStep::Return(url)) = world.resumed(&name, Some("ann")).await else { panic!() };
    assert_eq!(parameter(&url, "state"), None);
    assert!(parameter(&url, "iss").is_some());
}

//! What clients are given, renew and lose is on record, with who gave it; a token never is.

use toolcrib_authorization::{ConsentChoice, TokenRequest};
use toolcrib_store::AuditFilter;

use crate::world::{World, text};

#[tokio::test]
async fn consents_tokens_renewals_and_ends_are_on_record() {
    let world = World::of_team();
    let prompt = world.asked(&[]).await.unwrap();
    world.said(&prompt, ConsentChoice::Deny).await.unwrap();
    let answer = world.tokens().await;
    let (token, refresh) = (text(&answer, "access_token"), text(&answer, "refresh_token"));
    let next = text(&world.refreshed(&refresh).await.unwrap(), "refresh_token");
    let body = format!("client_id=editor&token={next}");
    world.server.revoke(TokenRequest { authorization: None, body: body.as_bytes() }).await.unwrap();
    assert_eq!(
        world.recorded().await,
        [
            "oauth/consent anonymous deny:consent error:forbidden",
            "oauth/consent user:acme/ann permit:authorization ok",
            "oauth/code user:acme/ann permit:authorization ok",
            "oauth/refresh user:acme/ann permit:authorization ok",
            "oauth/end user:acme/ann permit:client ok",
        ]
    );
    let rows = world.audit.list(&AuditFilter { limit: 100, ..AuditFilter::default() }).unwrap();
    let texts = format!("{rows:?}");
    assert!([&token, &refresh, &next].iter().all(|secret| !texts.contains(secret.as_str())));
    let given = &rows[1];
    let named = [&given.issuer, &given.oauth_client, &given.session].map(Option::is_some);
    assert_eq!((given.door.as_str(), given.oauth_client.as_deref(), named), ("oauth", Some("editor"), [true; 3]));
}

#[tokio::test]
async fn what_is_stolen_and_what_an_administrator_ends_is_on_record() {
    let world = World::of_team();
    let first = text(&world.tokens().await, "refresh_token");
    world.refreshed(&first).await.unwrap();
    world.clock.advance(60_000);
    world.refreshed(&first).await.unwrap_err();
    let end = "oauth/end user:acme/ann deny:refresh-token-reused denied";
    assert_eq!(world.recorded().await.last().unwrap(), end);
    let code = world.code(&[]).await;
    world.redeemed(&code, &[]).await.unwrap();
    world.redeemed(&code, &[]).await.unwrap_err();
    assert_eq!(world.recorded().await.last().unwrap(), "oauth/end user:acme/ann deny:code-reused denied");
    world.tokens().await;
    let session = world.server.sessions().await.unwrap().remove(0);
    assert!(world.server.end_session(&session.id).await.unwrap());
    assert_eq!(world.recorded().await.last().unwrap(), "oauth/end user:acme/ann permit:administrator ok");
}

#[tokio::test]
async fn no_token_is_given_that_cannot_be_put_on_record() {
    let world = World::of_team();
    let code = world.code(&[]).await;
    world.audit.close().await.unwrap();
    assert_eq!(world.redeemed(&code, &[]).await.unwrap_err().code.as_str(), "server_error");
    let world = world.restarted();
    world.redeemed(&code, &[]).await.unwrap();
}

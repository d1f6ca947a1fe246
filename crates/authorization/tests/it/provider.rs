//! With what people signed in at their provider: sealed with the session that came of it, renewed, and gone with it.

use toolcrib_authorization::TokenRequest;
use toolcrib_identity::SignInError;

use crate::world::{CLIENT, World, text};

const ANN: &str = "user:acme/ann";

fn tokens(world: &World, principal: &str) -> Vec<String> {
    world.server.provider_tokens(principal).iter().map(|bearer| bearer.token.expose().to_owned()).collect()
}

#[tokio::test]
async fn what_someone_signed_in_with_is_sealed_and_gone_with_the_session() {
    let world = World::of_team();
    world.tokens().await;
    assert_eq!((tokens(&world, ANN).len(), world.provider.count()), (0, 0), "no server wants it");
    world.server.want_provider_tokens(true);
    let answer = world.tokens().await;
    assert_eq!(tokens(&world, ANN), ["id-1"]);
    assert!(tokens(&world, "user:acme/bob").is_empty() && tokens(&world, "local").is_empty());
    for secret in ["id-1", "refresh-1"] {
        assert!(!answer.to_string().contains(secret) && !world.has_on_disk(secret), "{secret}");
    }
    let world = world.restarted();
    assert!(tokens(&world, ANN).is_empty(), "no server wants it yet");
    world.server.want_provider_tokens(true);
    assert_eq!(tokens(&world, ANN), ["id-1"]);
    let refresh = text(&answer, "refresh_token");
    let form = format!("client_id={CLIENT}&token={refresh}");
    world.server.revoke(TokenRequest { authorization: None, body: form.as_bytes() }).await.unwrap();
    assert!(tokens(&world, ANN).is_empty());
    let world = world.restarted();
    world.server.want_provider_tokens(true);
    assert!(tokens(&world, ANN).is_empty(), "also from the database");
}

#[tokio::test]
async fn what_someone_signed_in_with_is_renewed_before_it_ends() {
    let world = World::of_team();
    world.server.want_provider_tokens(true);
    world.tokens().await;
    world.clock.advance(54 * 60_000);
    world.server.renew_provider_tokens().await;
    assert_eq!((tokens(&world, ANN), world.provider.count()), (vec!["id-1".to_owned()], 1), "it lasts");
    world.clock.advance(60_000);
    *world.provider.refuses.lock().unwrap() = Some(SignInError::Unavailable);
    world.server.renew_provider_tokens().await;
    assert_eq!(tokens(&world, ANN), ["id-1"], "an error of the network takes nothing");
    *world.provider.refuses.lock().unwrap() = None;
    world.server.renew_provider_tokens().await;
    assert_eq!(tokens(&world, ANN), ["id-2"]);
    let world = world.restarted();
    world.server.want_provider_tokens(true);
    assert_eq!(tokens(&world, ANN), ["id-2"], "it is kept before it is used");
    // The provider takes the sign-in back: what it gave is not asked for again.
    world.clock.advance(56 * 60_000);
    *world.provider.refuses.lock().unwrap() = Some(SignInError::Refused("invalid_grant".to_owned()));
    world.server.renew_provider_tokens().await;
    assert!(tokens(&world, ANN).is_empty());
    *world.provider.refuses.lock().unwrap() = None;
    let world = world.restarted();
    world.server.want_provider_tokens(true);
    world.server.renew_provider_tokens().await;
    assert_eq!((tokens(&world, ANN).len(), world.provider.count()), (0, 2));
}

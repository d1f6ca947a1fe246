//! Tokens that are kept for servers that want them: whose, how long, and which never.

use serde_json::json;
use toolcrib_identity::{BearerKind, PresentedToken, ProveTokens as _};

use crate::world::{ORIGIN, World};

fn kept(world: &World, principal: &str) -> Vec<String> {
    world.identities.bearers(principal).iter().map(|bearer| bearer.token.expose().to_owned()).collect()
}

#[tokio::test]
async fn a_token_is_kept_byte_for_byte_while_it_is_wanted_and_valid() {
    let world = World::start();
    let key = world.key();
    let token = key.sign("at+jwt", &world.claims(&json!({"aud": [ORIGIN, "files"]})));
    world.prove(&token).await.unwrap();
    assert!(kept(&world, "user:acme/ann").is_empty(), "no server wants it");
    world.identities.keep_bearers(true);
    world.known(&token).unwrap();
    assert_eq!(kept(&world, "user:acme/ann"), std::slice::from_ref(&token), "also one that is known already");
    let bearer = &world.identities.bearers("user:acme/ann")[0];
    assert_eq!((bearer.kind, bearer.audiences.len()), (BearerKind::Access, 2));
    assert!(!format!("{bearer:?}").contains(&token));
    assert!(kept(&world, "user:acme/bob").is_empty(), "it is no one else's");
    // Of those that were issued at one time the one that lasts longest comes first, and no more than a few are kept.
    let mut longer = Vec::new();
    for more in 1..6 {
        let exp = world.claims(&json!({}))["exp"].as_i64().unwrap() + more;
        longer.push(key.sign("at+jwt", &world.claims(&json!({"exp": exp}))));
        world.prove(longer.last().unwrap()).await.unwrap();
    }
    longer.reverse();
    assert_eq!(kept(&world, "user:acme/ann"), longer[..4]);
    world.prove(&token).await.unwrap();
    assert_eq!(kept(&world, "user:acme/ann"), longer[..4], "an older one takes no place of a newer one");
    // A renewed one is meant, also where it ends before the one that it takes the place of.
    let now = world.claims(&json!({}))["iat"].as_i64().unwrap();
    let renewed = key.sign("at+jwt", &world.claims(&json!({"iat": now + 10, "exp": now + 600})));
    world.prove(&renewed).await.unwrap();
    assert_eq!(kept(&world, "user:acme/ann"), [std::slice::from_ref(&renewed), &longer[..3]].concat());
    let again = key.sign("at+jwt", &world.claims(&json!({"iat": now + 10, "exp": now + 600, "jti": "again"})));
    world.prove(&again).await.unwrap();
    assert_eq!(kept(&world, "user:acme/ann")[..2], [again, renewed], "also within a second");
    world.advance(3_600 + 5);
    assert!(kept(&world, "user:acme/ann").is_empty(), "no tolerance for clocks where it is passed on");
    world.identities.keep_bearers(false);
}

#[tokio::test]
async fn what_no_server_may_get_is_not_kept() {
    let world = World::start();
    world.identities.keep_bearers(true);
    let (key, own) = (world.key(), world.key());
    let bound = key.sign("at+jwt", &world.claims(&json!({"sub": "bound", "cnf": {"jkt": own.id()}})));
    let _ = world.identities.prove(PresentedToken { is_dpop: true, ..world.presented(&bound) }).await;
    world.answers.lock().unwrap().introspection = json!({"active": true, "sub": "opaque", "aud": ORIGIN});
    world.prove("an-opaque-token").await.unwrap();
    world.prove(&key.sign("at+jwt", &world.claims(&json!({"sub": "other", "aud": "other"})))).await.unwrap_err();
    for principal in ["user:acme/bound", "user:acme/opaque", "user:acme/other"] {
        assert!(kept(&world, principal).is_empty(), "{principal}");
    }
}

#[tokio::test]
async fn a_token_that_is_taken_back_is_dropped() {
    let world = World::start();
    world.identities.keep_bearers(true);
    let token = world.key().sign("at+jwt", &world.claims(&json!({})));
    world.prove(&token).await.unwrap();
    assert_eq!(kept(&world, "user:acme/ann").len(), 1);
    // Its issuer publishes another key.
    world.answers.lock().unwrap().keys.clear();
    world.key();
    world.advance(900);
    let other = world.key().sign("at+jwt", &world.claims(&json!({"sub": "bob"})));
    world.prove(&other).await.unwrap();
    world.prove(&token).await.unwrap_err();
    assert!(kept(&world, "user:acme/ann").is_empty());
    assert_eq!(kept(&world, "user:acme/bob").len(), 1);
    world.identities.keep_bearers(false);
    assert!(kept(&world, "user:acme/bob").is_empty(), "no server wants them any more");
}

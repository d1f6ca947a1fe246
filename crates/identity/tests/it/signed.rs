//! Signed tokens: keys that come, go and cannot be fetched, and tokens that are not what they seem.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::Role;
use toolcrib_identity::TokenRefusal;
use toolcrib_testkit::{eventually, eventually_holds};

use crate::world::{World, invalid};

/// How many tokens with unknown keys come: `TOOLCRIB_FLOOD`, or 5,000.
fn strangers() -> usize {
    std::env::var("TOOLCRIB_FLOOD").map_or(5_000, |number| number.parse().expect("a number"))
}

#[tokio::test]
async fn a_token_is_proven_once_and_known_from_then_on() {
    let world = World::start();
    let token = world.key().sign("at+jwt", &world.claims(&json!({"scope": "tools"})));
    assert_eq!(world.known(&token), None);
    let proven = world.prove(&token).await.unwrap();
    assert_eq!((proven.id.as_str(), proven.role_in(&world.profile)), ("user:acme/ann", Some(Role::Member)));
    assert_eq!(world.known(&token), Some(proven));
    assert_eq!(world.asked("/jwks").len(), 1);
    // Its last letter is another one.
    let mut forged = token.clone();
    let last = if forged.pop() == Some('A') { 'Q' } else { 'A' };
    forged.push(last);
    assert_eq!(world.known(&forged), None);
    invalid(&world.prove(&forged).await.unwrap_err(), "");
    world.advance(600);
    assert_eq!(world.known(&token), None, "it is checked again");
    world.prove(&token).await.unwrap();
    world.advance(3_000 + 59);
    world.prove(&token).await.unwrap();
    world.advance(1);
    assert_eq!(world.known(&token), None);
    invalid(&world.prove(&token).await.unwrap_err(), "expired");
}

#[tokio::test]
async fn only_access_tokens_of_the_issuers_own_keys_count() {
    let world = World::start();
    let key = world.key();
    let other = SigningKey::read(&SigningKey::generate()).unwrap();
    for (kind, claims, expected) in [
        ("id+jwt", json!({}), "not an access token"),
        ("dpop+jwt", json!({}), "not an access token"),
        ("", json!({}), "not an access token"),
        ("at+jwt", json!({"nonce": "n"}), "not an access token"),
        ("at+jwt", json!({"iss": "https://evil.example"}), "issuer is not accepted"),
        ("at+jwt", json!({"aud": "https://other.example"}), "another audience"),
        ("at+jwt", json!({"aud": "https://tools.example.com/mcp/p/home"}), "another audience"),
        ("at+jwt", json!({"aud": null}), "another audience"),
        ("at+jwt", json!({"exp": 1}), "expired"),
    ] {
        invalid(&world.prove(&key.sign(kind, &world.claims(&claims))).await.unwrap_err(), expected);
    }
    assert!(world.server.requests().is_empty(), "what is not for us makes no request");
    for kind in ["at+jwt", "application/at+jwt", "AT+JWT", "JWT"] {
        world.prove(&key.sign(kind, &world.claims(&json!({})))).await.unwrap();
    }
    // The key in the header, and the name of a good key over another signature.
    invalid(&world.prove(&other.sign_with_own_key("at+jwt", &world.claims(&json!({})))).await.unwrap_err(), "own key");
    let mut claims = world.claims(&json!({}));
    claims.insert("pad".into(), json!(1));
    let signed = other.sign("at+jwt", &claims);
    let parts: Vec<&str> = signed.split('.').collect();
    for (header, expected) in [
        (json!({"alg": "ES256", "typ": "at+jwt", "kid": key.id()}), "signature is wrong"),
        (json!({"alg": "ES256", "typ": "at+jwt", "kid": key.id(), "jku": world.server.url()}), "own key"),
        (json!({"alg": "ES256", "typ": "at+jwt", "kid": key.id(), "x5u": world.server.url()}), "own key"),
        (json!({"alg": "none", "typ": "at+jwt"}), "algorithm"),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": key.id()}), "algorithm"),
        (json!({"alg": "RS256", "typ": "at+jwt", "kid": key.id()}), "key that its issuer does not have"),
        (json!({"alg": "ES256", "typ": ["at+jwt"], "kid": key.id()}), "not an access token"),
    ] {
        let token = format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), parts[1], parts[2]);
        invalid(&world.prove(&token).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn many_unknown_keys_make_one_request_a_minute() {
    let world = World::start();
    world.prove(&world.key().sign("at+jwt", &world.claims(&json!({})))).await.unwrap();
    let stranger = SigningKey::read(&SigningKey::generate()).unwrap();
    let signed = stranger.sign("at+jwt", &world.claims(&json!({})));
    let (_, rest) = signed.split_once('.').unwrap();
    for number in 0..strangers() {
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": format!("stranger {number}")});
        let forged = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()));
        invalid(&world.prove(&forged).await.unwrap_err(), "key that its issuer does not have");
    }
    assert_eq!(world.asked("/jwks").len(), 2, "once at the start, once for the first key that is not known");
    // A new key counts as soon as it may be looked for.
    let new = world.key().sign("at+jwt", &world.claims(&json!({})));
    invalid(&world.prove(&new).await.unwrap_err(), "key that its issuer does not have");
    world.advance(60);
    world.prove(&new).await.unwrap();
    assert_eq!(world.asked("/jwks").len(), 3);
}

#[tokio::test]
async fn keys_that_are_taken_back_count_no_longer_than_ten_minutes() {
    let world = World::start();
    let (old, new) = (world.key(), world.key());
    world.prove(&old.sign("at+jwt", &world.claims(&json!({})))).await.unwrap();
    world.answers.lock().unwrap().keys.remove(0);
    world.advance(601);
    // No request waits for the issuer: this one still counts, and has the keys fetched.
    world.prove(&new.sign("at+jwt", &world.claims(&json!({})))).await.unwrap();
    eventually_holds("the keys are fetched again", || world.asked("/jwks").len() == 2).await;
    // The answer may be on its way still.
    eventually("the key no longer counts", async {
        loop {
            let late = old.sign("at+jwt", &world.claims(&json!({"jti": toolcrib_base::random::hex_128()})));
            if world.prove(&late).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn keys_last_a_day_while_the_issuer_is_away() {
    let world = World::start();
    let key = world.key();
    let token = |sub: &str| key.sign("at+jwt", &world.claims(&json!({"sub": sub})));
    world.prove(&token("a")).await.unwrap();
    world.answers.lock().unwrap().status = Some(503);
    world.advance(24 * 3_600 - 1);
    world.prove(&token("b")).await.unwrap();
    world.advance(61);
    let refusal = world.prove(&token("c")).await.unwrap_err();
    assert!(matches!(&refusal, TokenRefusal::Unavailable(why) if why.contains("status 503")), "{refusal:?}");
    world.answers.lock().unwrap().status = None;
    world.advance(60);
    world.prove(&token("c")).await.unwrap();
}

#[tokio::test]
async fn documents_that_lead_elsewhere_are_not_followed() {
    for (metadata, expected) in [
        (json!({"issuer": "https://evil.example"}), "another issuer"),
        (json!({"introspection_endpoint": null, "jwks_uri": "http://169.254.169.254/latest"}), "logins use `https`"),
        (json!({"introspection_endpoint": null, "jwks_uri": "https://169.254.169.254/latest"}), "169.254.169.254"),
        (
            json!({"introspection_endpoint": null, "jwks_uri": "https://10.0.0.7/jwks"}),
            "`private = true` at the issuer",
        ),
        (json!({"introspection_endpoint": null, "jwks_uri": "file:///etc/passwd"}), "a URL that is none"),
        (json!({"introspection_endpoint": null, "jwks_uri": 7}), "no `jwks_uri`"),
    ] {
        let world = World::start();
        world.answers.lock().unwrap().metadata = metadata.clone();
        let refusal = world.prove(&world.key().sign("at+jwt", &world.claims(&json!({})))).await.unwrap_err();
        let TokenRefusal::Unavailable(why) = &refusal else { panic!("{metadata}: {refusal:?}") };
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn a_clock_that_was_wrong_for_an_hour_does_not_lock_everyone_out() {
    let world = World::start();
    let key = world.key();
    world.prove(&key.sign("at+jwt", &world.claims(&json!({})))).await.unwrap();
    world.advance(-3_600);
    world.prove(&key.sign("at+jwt", &world.claims(&json!({"sub": "bob"})))).await.unwrap();
    let new = world.key();
    world.prove(&new.sign("at+jwt", &world.claims(&json!({"sub": "bob"})))).await.unwrap();
}

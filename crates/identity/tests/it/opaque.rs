//! Opaque tokens, about which the issuer is asked.

use std::str;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::own_secret;
use toolcrib_identity::TokenRefusal;

use crate::world::{ORIGIN, SECRET, World, invalid};

fn says(world: &World, more: &serde_json::Value) {
    let mut claims = world.claims(more);
    claims.insert("active".into(), json!(true));
    world.answers.lock().unwrap().introspection = claims.into();
}

#[tokio::test]
async fn the_issuer_is_asked_once_a_minute() {
    let world = World::start();
    says(&world, &json!({"iss": null, "exp": null}));
    assert_eq!(world.prove("opaque-1").await.unwrap().id.as_str(), "user:acme/ann");
    assert!(world.known("opaque-1").is_some());
    let asked = world.asked("/introspect");
    let [request] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(str::from_utf8(&request.body), Ok("token=opaque-1&token_type_hint=access_token"));
    let basic = request.header("authorization").unwrap().strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(basic).unwrap(), b"tools%3A1:s3cret+of+ours+%26+more");
    // Revoked.
    world.answers.lock().unwrap().introspection = json!({"active": false});
    world.advance(59);
    assert!(world.known("opaque-1").is_some());
    world.advance(1);
    assert!(world.known("opaque-1").is_none());
    invalid(&world.prove("opaque-1").await.unwrap_err(), "not valid here");
}

#[tokio::test]
async fn what_is_no_opaque_token_by_its_form_is_shown_to_no_issuer() {
    let world = World::start();
    says(&world, &json!({}));
    let home = SigningKey::read(&SigningKey::generate()).unwrap();
    let of_another_home = home.sign("at+jwt", &world.claims(&json!({"iss": "https://home.example.org", "sid": "1"})));
    let (cut, longer) = (&of_another_home[..of_another_home.len() / 2], format!("{of_another_home}.x"));
    let expired = home.sign("at+jwt", &world.claims(&json!({"iss": "https://home.example.org", "exp": 1})));
    let [key, token] = [own_secret::PROFILE_KEY, own_secret::GATEWAY_TOKEN].map(own_secret::make);
    let refresh = "tcr_0123.abcd.ef";
    for text in [&of_another_home, cut, &longer, &expired, key.expose(), token.expose(), refresh] {
        let refusal = world.prove(text).await.unwrap_err();
        assert!(matches!(&refusal, TokenRefusal::Invalid(why) if !why.contains(text)), "{text}: {refusal:?}");
    }
    assert!(world.server.requests().is_empty());
    // An encrypted one is opaque to us.
    world.prove("eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..a.b.c").await.unwrap();
}

#[tokio::test]
async fn an_active_token_must_still_be_for_us() {
    let world = World::start();
    for (claims, expected) in [
        (json!({"aud": null}), "another audience"),
        (json!({"aud": "https://other.example"}), "another audience"),
        (json!({"iss": "https://evil.example"}), "issuer"),
        (json!({"exp": 1}), "expired"),
        (json!({"sub": null, "client_id": null}), "names no one"),
    ] {
        says(&world, &claims);
        invalid(&world.prove(&format!("opaque for {expected}").replace(' ', "-")).await.unwrap_err(), expected);
    }
    says(&world, &json!({"aud": [ORIGIN]}));
    world.prove("opaque").await.unwrap();
}

#[tokio::test]
async fn an_issuer_that_cannot_say_is_not_a_refusal_and_no_secret_is_told() {
    let world = World::start();
    for answer in [json!({}), json!({"active": "true"}), json!([])] {
        world.answers.lock().unwrap().introspection = answer;
        let refusal = world.prove("opaque").await.unwrap_err();
        assert!(matches!(refusal, TokenRefusal::Unavailable(_)), "{refusal:?}");
    }
    for status in [302, 401, 403, 500] {
        world.answers.lock().unwrap().status = Some(status);
        let TokenRefusal::Unavailable(why) = world.prove("opaque-s3cret").await.unwrap_err() else {
            panic!("{status}")
        };
        assert!(!why.contains(SECRET) && !why.contains("opaque-s3cret"), "{why}");
    }
}

#[tokio::test]
async fn without_a_client_of_ours_opaque_tokens_do_not_count() {
    let world = World::start_with(|settings| settings.introspection = None);
    says(&world, &json!({}));
    for token in ["opaque", "a.b", "a.b.c", &"x".repeat(5_000)] {
        invalid(&world.prove(token).await.unwrap_err(), "not valid here");
    }
    assert!(world.server.requests().is_empty());
}

#[tokio::test]
async fn credentials_go_into_the_body_where_the_issuer_wants_them_there() {
    let world = World::start();
    world.answers.lock().unwrap().metadata =
        json!({"introspection_endpoint_auth_methods_supported": ["client_secret_post"]});
    says(&world, &json!({}));
    world.prove("opaque").await.unwrap();
    let asked = world.asked("/introspect");
    assert_eq!(asked[0].header("authorization"), None);
    assert!(
        str::from_utf8(&asked[0].body).unwrap().ends_with("client_id=tools%3A1&client_secret=s3cret+of+ours+%26+more")
    );
}

#[tokio::test]
async fn an_issuer_that_is_asked_at_each_request_ends_signed_tokens_at_once() {
    let world = World::start_with(|settings| {
        settings.introspection.as_mut().unwrap().each_request = true;
    });
    let signed = world.key().sign("at+jwt", &world.claims(&json!({})));
    says(&world, &json!({}));
    for token in [signed.as_str(), "opaque"] {
        assert_eq!(world.prove(token).await.unwrap().id.as_str(), "user:acme/ann", "{token}");
        assert!(world.known(token).is_none(), "{token} is asked about again");
    }
    assert_eq!(world.asked("/introspect").len(), 2);
    // A signature alone proves nothing here: neither once the token is taken back, nor while no one can say.
    world.answers.lock().unwrap().introspection = json!({"active": false});
    for token in [signed.as_str(), "opaque"] {
        invalid(&world.prove(token).await.unwrap_err(), "not valid here");
    }
    world.answers.lock().unwrap().introspection = json!({});
    assert!(matches!(world.prove(&signed).await.unwrap_err(), TokenRefusal::Unavailable(_)));
    // A token that is not the issuer's own makes no question.
    let asked = world.asked("/introspect").len();
    let forged = SigningKey::read(&SigningKey::generate()).unwrap();
    let forged = forged.sign("at+jwt", &world.claims(&json!({})));
    assert!(world.prove(&forged).await.is_err());
    assert_eq!(world.asked("/introspect").len(), asked);
}

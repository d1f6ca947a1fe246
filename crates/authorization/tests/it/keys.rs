//! Keys come and go, and break no one.

use serde_json::Value;
use toolcrib_auth::jose::{SignedToken, SigningKey};
use toolcrib_base::Kind;

use crate::world::{World, text};

fn ids(set: &Value) -> Vec<String> {
    set["keys"].as_array().unwrap().iter().map(|key| text(key, "kid")).collect()
}

fn key_of(token: &str) -> String {
    SignedToken::parse(token).unwrap().header("kid").unwrap().to_owned()
}

#[tokio::test]
async fn a_rotation_breaks_no_one() {
    let world = World::of_team();
    let before = ids(&world.server.key_set());
    assert_eq!(before.len(), 2, "the current and the next");
    let old = text(&world.tokens().await, "access_token");
    assert_eq!(key_of(&old), before[0]);
    assert_eq!(world.server.rotate_key().await.unwrap(), before[1]);
    let after = ids(&world.server.key_set());
    assert_eq!((after.len(), &after[0], &after[2]), (3, &before[1], &before[0]));
    let new = text(&world.tokens().await, "access_token");
    assert_eq!(key_of(&new), before[1], "it was published before it signed");
    let world = world.restarted();
    assert_eq!(ids(&world.server.key_set()), after);
    for token in [&old, &new] {
        world.proves(token, "work").await.unwrap();
    }
    // The key before would go while its tokens count.
    assert_eq!(world.server.rotate_key().await.unwrap_err().kind, Kind::Conflict);
    world.clock.advance(900_000);
    world.server.rotate_key().await.unwrap();
    assert!(!ids(&world.server.key_set()).contains(&before[0]));
}

#[tokio::test]
async fn keys_lie_sealed_in_the_database() {
    /// P-256 as a key in the clear names it (RFC 5480, section 2.1.1.1).
    const CURVE: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let is_in = |bytes: &[u8]| bytes.windows(CURVE.len()).any(|part| part == CURVE);
    assert!(is_in(&SigningKey::generate()));
    let world = World::of_team();
    world.tokens().await;
    world.server.rotate_key().await.unwrap();
    let files: Vec<Vec<u8>> = world.state_files();
    assert!(files.iter().any(|bytes| bytes.starts_with(b"SQLite")));
    assert!(!files.iter().any(|bytes| is_in(bytes)), "a key lies in the clear");
}

#[tokio::test]
async fn a_token_of_another_key_proves_nothing() {
    let (world, other) = (World::of_team(), World::of_team());
    let token = text(&other.tokens().await, "access_token");
    assert_eq!(world.proves(&token, "work").await.unwrap_err(), "not ours");
    let own = text(&world.tokens().await, "access_token");
    let (head, _) = own.split_once('.').unwrap();
    let (_, rest) = token.split_once('.').unwrap();
    assert!(world.proves(&format!("{head}.{rest}"), "work").await.unwrap_err().contains("signature"));
    for (at, _) in own.char_indices().skip(head.len() + 1).step_by(97) {
        let changed = if &own[at..=at] == "A" { "B" } else { "A" };
        let forged = format!("{}{changed}{}", &own[..at], &own[at + 1..]);
        assert!(world.proves(&forged, "work").await.is_err(), "character {at}");
    }
}

#[tokio::test]
async fn a_clock_that_was_an_hour_off_proves_nothing_from_the_future() {
    let world = World::of_team();
    let token = text(&world.tokens().await, "access_token");
    world.clock.advance(-3_600_000);
    let world = world.restarted();
    assert!(world.proves(&token, "work").await.unwrap_err().contains("not valid yet"));
    world.clock.advance(3_600_000);
    world.proves(&token, "work").await.unwrap();
}

#[test]
fn the_metadata_say_what_is_there() {
    let world = World::of_team();
    let metadata = world.server.metadata();
    assert_eq!(text(&metadata, "issuer"), "https://tools.example.com");
    assert_eq!(metadata["code_challenge_methods_supported"], serde_json::json!(["S256"]));
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    assert!(metadata.get("registration_endpoint").is_none());
    assert!(World::with_registration().server.metadata().get("registration_endpoint").is_some());
}

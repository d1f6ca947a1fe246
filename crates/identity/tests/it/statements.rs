//! Statements of issuers about their users (Identity Assertion Authorization Grant): the good one, and each that is not.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::Clock as _;
use toolcrib_identity::{CheckStatements as _, IssuerStatement};

use crate::world::{ORIGIN, World};

const KIND: &str = "oauth-id-jag+jwt";
/// The client that brings them.
const CLIENT: &str = "agent";

/// The claims of a good statement with others in their place; `null` removes one.
fn claims(world: &World, more: &Value) -> Map<String, Value> {
    let mut all =
        json!({"client_id": CLIENT, "jti": "s-1", "resource": format!("{ORIGIN}/mcp/p/work"), "scope": "tools"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.claims(&all)
}

async fn checked(world: &World, statement: &str) -> Result<IssuerStatement, String> {
    world.identities.check(statement, ORIGIN).await
}

async fn refused(world: &World, statement: &str, expected: &str) {
    let why = checked(world, statement).await.expect_err(expected);
    assert!(why.contains(expected), "{expected}: {why}");
}

#[tokio::test]
async fn a_statement_says_who_for_which_client_and_what_for() {
    let world = World::start();
    let key = world.key();
    for kind in [KIND, "OAUTH-ID-JAG+JWT"] {
        let statement = checked(&world, &key.sign(kind, &claims(&world, &json!({})))).await.unwrap();
        assert_eq!(statement.known.id.as_str(), "user:acme/ann");
        assert_eq!(statement.known.identity.client.as_deref(), Some(CLIENT));
        assert_eq!(statement.known.grants.len(), 1, "by the group that it names");
        assert_eq!((statement.id.as_str(), statement.scope.as_deref()), ("s-1", Some("tools")));
        assert_eq!(statement.resource.as_deref(), Some("https://tools.example.com/mcp/p/work"));
    }
    assert_eq!(world.asked("/jwks").len(), 1);
}

#[tokio::test]
async fn a_statement_that_is_wrong_in_one_way_does_not_count() {
    let world = World::start();
    let key = world.key();
    let now = world.clock.now().0 / 1_000;
    for (changes, expected) in [
        (json!({"iss": "https://evil.example"}), "issuer is not accepted"),
        (json!({"iss": null}), "issuer is not accepted"),
        (json!({"aud": "https://other.example"}), "another server"),
        (json!({"aud": format!("{ORIGIN}/mcp/p/work")}), "another server"),
        (json!({"aud": [ORIGIN, "https://other.example"]}), "another server"),
        (json!({"aud": []}), "another server"),
        (json!({"aud": null}), "another server"),
        (json!({"exp": now - 60}), "expired"),
        (json!({"exp": null}), "when it expires"),
        (json!({"exp": "soon"}), "not a time"),
        (json!({"nbf": now + 61}), "not valid yet"),
        (json!({"iat": now + 3_600}), "not valid yet"),
        (json!({"jti": null}), "no `jti`"),
        (json!({"jti": ""}), "no `jti`"),
        (json!({"jti": 7}), "no `jti`"),
        (json!({"sub": null}), "no user"),
        (json!({"sub": ""}), "`sub`"),
        (json!({"sub": CLIENT}), "no user"),
        (json!({"idtyp": "app"}), "no user"),
        (json!({"client_id": null}), "no client"),
        (json!({"client_id": null, "azp": CLIENT}), "no client"),
        (json!({"client_id": [CLIENT]}), "`client_id`"),
        (json!({"cnf": {"jkt": "x"}}), "bound to a key"),
        (json!({"cnf": {"x5t#S256": "x"}}), "bound to something"),
        (json!({"nonce": "n"}), "not an access token"),
    ] {
        refused(&world, &key.sign(KIND, &claims(&world, &changes)), expected).await;
    }
    for kind in ["JWT", "at+jwt", "id+jwt", "oauth-id-jag", ""] {
        refused(&world, &key.sign(kind, &claims(&world, &json!({}))), "another type").await;
    }
    assert!(world.server.requests().is_empty(), "what is not for us makes no request");
}

#[tokio::test]
async fn only_the_issuers_own_keys_sign_statements() {
    let world = World::start();
    let (key, other) = (world.key(), SigningKey::read(&SigningKey::generate()).unwrap());
    let good = claims(&world, &json!({}));
    refused(&world, &other.sign_with_own_key(KIND, &good), "own key").await;
    refused(&world, &other.sign(KIND, &good), "key that its issuer does not have").await;
    let signed = key.sign(KIND, &good);
    let parts: Vec<&str> = signed.split('.').collect();
    let forged = URL_SAFE_NO_PAD.encode(Value::Object(claims(&world, &json!({"sub": "root"}))).to_string());
    refused(&world, &format!("{}.{forged}.{}", parts[0], parts[2]), "signature is wrong").await;
    for (header, expected) in [
        (json!({"alg": "none", "typ": KIND}), "algorithm"),
        (json!({"alg": "HS256", "typ": KIND, "kid": key.id()}), "algorithm"),
        (json!({"alg": "ES256", "typ": KIND, "kid": key.id(), "jku": world.server.url()}), "own key"),
        (json!({"alg": "ES256", "typ": KIND, "kid": key.id(), "x5u": world.server.url()}), "own key"),
        (json!({"alg": "ES256", "typ": KIND, "kid": key.id(), "crit": ["exp"]}), "extension"),
        (json!({"alg": "ES256", "typ": [KIND], "kid": key.id()}), "another type"),
    ] {
        let statement = format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), parts[1], parts[2]);
        refused(&world, &statement, expected).await;
    }
    for text in ["", "opaque", "a.b.c", &signed[..signed.len() / 2]] {
        refused(&world, text, "not a signed token").await;
    }
    // An issuer that is away, and a key that it takes back.
    world.answers.lock().unwrap().status = Some(503);
    world.advance(24 * 3_600 + 1);
    refused(&world, &key.sign(KIND, &claims(&world, &json!({}))), "cannot be checked now").await;
    world.answers.lock().unwrap().status = None;
    world.answers.lock().unwrap().keys.clear();
    world.key();
    world.advance(61);
    refused(&world, &key.sign(KIND, &claims(&world, &json!({}))), "key that its issuer does not have").await;
}

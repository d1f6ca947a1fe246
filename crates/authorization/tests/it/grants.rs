//! Clients of the settings: in their own name, in the name of others, and how they prove themselves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use toolcrib_auth::jose::SignedToken;
use toolcrib_authorization::{OAuthError, TokenRequest};
use toolcrib_base::{Clock as _, Role};
use url::form_urlencoded;

use crate::world::{ORIGIN, World, text};

const OWN: &str = "grant_type=client_credentials&resource=https%3A%2F%2Ftools.example.com%2Fmcp%2Fp%2Fwork";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ASSERTION: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

async fn with_header(world: &World, header: &str, body: &str) -> Result<Value, OAuthError> {
    world.server.token(TokenRequest { authorization: Some(header), body: body.as_bytes() }).await
}

fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

#[tokio::test]
async fn a_client_acts_in_its_own_name() {
    let world = World::of_team();
    let answer = world.token(&format!("{OWN}&client_id=nightly&client_secret=s3cret")).await.unwrap();
    assert!(answer.get("refresh_token").is_none());
    let token = text(&answer, "access_token");
    let known = world.proves(&token, "work").await.unwrap();
    assert_eq!((known.id.as_str(), known.grants[0].role), ("service:own/nightly", Role::Member));
    let header = format!("Basic {}", STANDARD.encode("nightly:s3cret"));
    let again = text(&with_header(&world, &header, OWN).await.unwrap(), "access_token");
    for token in [&token, &again] {
        world.proves(token, "work").await.unwrap();
    }
    let [session] = &world.server.sessions().await.unwrap()[..] else { panic!("one for all its tokens") };
    world.server.end_session(&session.id).await.unwrap();
    for token in [&token, &again] {
        assert!(world.proves(token, "work").await.is_err());
    }
}

#[tokio::test]
async fn a_client_proves_itself_in_its_own_way_alone() {
    let world = World::of_team();
    let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
    for (header, body, expected) in [
        (None, format!("{OWN}&client_id=nightly"), "invalid_client"),
        (None, format!("{OWN}&client_id=nightly&client_secret=guess"), "invalid_client"),
        (None, format!("{OWN}&client_id=signer&client_secret=s3cret"), "invalid_client"),
        (None, format!("{OWN}&client_id=editor"), "unauthorized_client"),
        (None, format!("{OWN}&client_id=agent&client_secret=s3cret"), "unauthorized_client"),
        (None, OWN.to_owned(), "invalid_client"),
        (Some(basic("nightly:guess")), OWN.to_owned(), "invalid_client"),
        (Some(basic("nightly:s3cret")), format!("{OWN}&client_id=agent"), "invalid_request"),
        (Some(basic("nightly:s3cret")), format!("{OWN}&client_secret=s3cret"), "invalid_request"),
        (Some("Bearer x".to_owned()), format!("{OWN}&client_id=nightly"), "invalid_client"),
        (Some("Basic %%%".to_owned()), OWN.to_owned(), "invalid_client"),
    ] {
        let request = TokenRequest { authorization: header.as_deref(), body: body.as_bytes() };
        let error = world.server.token(request).await.unwrap_err();
        assert_eq!(error.code.as_str(), expected, "{header:?} {body}: {error}");
        assert!(!error.description.contains("s3cret"));
    }
}

/// A statement that the client `signer` signs of itself, with some claims changed.
fn signed(world: &World, id: &str, changes: &Value) -> String {
    let now = world.clock.now().0 / 1_000;
    let claims = json!({"iss": "signer", "sub": "signer", "aud": ORIGIN, "exp": now + 300, "iat": now, "jti": id});
    let mut claims: Map<String, Value> = claims.as_object().unwrap().clone();
    claims.extend(changes.as_object().unwrap().clone());
    claims.retain(|_, value| !value.is_null());
    world.key.sign("JWT", &claims)
}

async fn asserted(world: &World, assertion: &str) -> Result<Value, OAuthError> {
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let proof = form(&[("client_assertion_type", kind), ("client_assertion", assertion)]);
    world.token(&format!("{OWN}&{proof}")).await
}

#[tokio::test]
async fn a_client_with_keys_signs_each_time() {
    let world = World::of_team();
    let first = signed(&world, "1", &json!({}));
    let answer = asserted(&world, &first).await.unwrap();
    world.proves(&text(&answer, "access_token"), "work").await.unwrap();
    asserted(&world, &signed(&world, "2", &json!({"aud": format!("{ORIGIN}/oauth/token")}))).await.unwrap();
    let world = world.restarted();
    assert!(asserted(&world, &first).await.unwrap_err().description.contains("used before"));
    let now = world.clock.now().0 / 1_000;
    for (changes, expected) in [
        (json!({"iss": "other"}), "not about the client"),
        (json!({"sub": "nightly"}), "not proven"),
        (json!({"aud": "https://other.example"}), "another server"),
        (json!({"aud": [ORIGIN, "https://other.example"]}), "another server"),
        (json!({"exp": now - 61}), "expired"),
        (json!({"exp": now + 3_600}), "too long"),
        (json!({"exp": null}), "when it ends"),
        (json!({"nbf": now + 3_600}), "not valid yet"),
        (json!({"jti": null}), "no `jti`"),
    ] {
        let error = asserted(&world, &signed(&world, "3", &changes)).await.unwrap_err();
        assert_eq!(error.code.as_str(), "invalid_client");
        assert!(error.description.contains(expected), "{changes}: {error}");
    }
    let other = World::of_team();
    let error = asserted(&world, &signed(&other, "4", &json!({}))).await.unwrap_err();
    assert!(error.description.contains("signature"), "{error}");
}

#[tokio::test]
async fn a_client_of_the_settings_acts_for_the_bearer_of_a_token() {
    let world = World::of_team();
    let subject = text(&world.tokens().await, "access_token");
    let resource = format!("{ORIGIN}/mcp/p/work");
    let fields = |client, token, kind| {
        let secret = if client == "agent" { "s3cret" } else { "" };
        form(&[
            ("grant_type", EXCHANGE),
            ("client_id", client),
            ("client_secret", secret),
            ("subject_token", token),
            ("subject_token_type", kind),
            ("resource", &resource),
        ])
    };
    let answer = world.token(&fields("agent", &subject, ACCESS_TOKEN)).await.unwrap();
    assert_eq!(text(&answer, "issued_token_type"), ACCESS_TOKEN);
    let token = text(&answer, "access_token");
    assert_eq!(SignedToken::parse(&token).unwrap().claims()["act"], json!({"sub": "agent"}));
    let known = world.proves(&token, "work").await.unwrap();
    assert_eq!((known.id.as_str(), known.identity.client.as_deref()), ("user:acme/ann", Some("agent")));
    let nested = text(&world.token(&fields("agent", &token, ACCESS_TOKEN)).await.unwrap(), "access_token");
    let acted = SignedToken::parse(&nested).unwrap().claims()["act"].clone();
    assert_eq!(acted, json!({"sub": "agent", "act": {"sub": "agent"}}));
    for (body, expected) in [
        (fields("editor", &subject, ACCESS_TOKEN), "unauthorized_client"),
        (fields("agent", "made-up", ACCESS_TOKEN), "invalid_grant"),
        (fields("agent", &subject, "urn:ietf:params:oauth:token-type:id_token"), "invalid_request"),
    ] {
        assert_eq!(world.token(&body).await.unwrap_err().code.as_str(), expected, "{body}");
    }
    // What was given for a token ends with its session.
    let sessions = world.server.sessions().await.unwrap();
    let first = sessions.iter().find(|session| session.client == "editor").unwrap();
    world.server.end_session(&first.id).await.unwrap();
    assert!(world.proves(&token, "work").await.is_err());
}

#[tokio::test]
async fn an_issuer_lets_a_client_in_for_its_user() {
    let world = World::of_team();
    let fields = |assertion| {
        form(&[
            ("grant_type", ASSERTION),
            ("client_id", "agent"),
            ("client_secret", "s3cret"),
            ("assertion", assertion),
        ])
    };
    let answer = world.token(&fields("statement:ann:agent:1")).await.unwrap();
    let known = world.proves(&text(&answer, "access_token"), "work").await.unwrap();
    assert_eq!(known.id.as_str(), "user:acme/ann");
    for (assertion, expected) in [
        ("statement:ann:agent:1", "used before"),
        ("statement:ann:other:2", "another client"),
        ("statement:bob:agent:3", "nothing here is granted"),
        ("forged", "signature"),
    ] {
        let error = world.token(&fields(assertion)).await.unwrap_err();
        assert_eq!(error.code.as_str(), "invalid_grant");
        assert!(error.description.contains(expected), "{assertion}: {error}");
    }
}

//! Tokens that are bound to a key: each request proves it anew.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::Clock as _;
use toolcrib_identity::{KnownToken, PresentedToken, ProveTokens as _, TokenRefusal};

use crate::world::{ORIGIN, World, invalid};

struct Client {
    world: World,
    key: SigningKey,
    token: String,
    nonce: String,
}

impl Client {
    async fn start() -> Self {
        let world = World::start();
        let key = SigningKey::read(&SigningKey::generate()).unwrap();
        let token = world.key().sign("at+jwt", &world.claims(&json!({"cnf": {"jkt": key.id()}})));
        let mut client = Self { world, key, token, nonce: String::new() };
        let TokenRefusal::Nonce(nonce) = client.send(&client.proof(&json!({}))).await.unwrap_err() else { panic!() };
        client.nonce = nonce;
        client
    }

    fn claims(&self, more: &Value) -> Map<String, Value> {
        let mut claims = json!({
            "jti": toolcrib_base::random::hex_128(), "htm": "POST", "htu": format!("{ORIGIN}/mcp/p/work"),
            "iat": self.world.clock.now().0 / 1_000, "nonce": self.nonce,
            "ath": URL_SAFE_NO_PAD.encode(Sha256::digest(self.token.as_bytes())),
        });
        let members = claims.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        members.clone()
    }

    fn proof(&self, more: &Value) -> String {
        self.key.sign_with_own_key("dpop+jwt", &self.claims(more))
    }

    async fn send(&self, proof: &str) -> Result<std::sync::Arc<KnownToken>, TokenRefusal> {
        self.send_as(PresentedToken { is_dpop: true, proof: Some(proof), ..self.world.presented(&self.token) }).await
    }

    async fn send_as(&self, presented: PresentedToken<'_>) -> Result<std::sync::Arc<KnownToken>, TokenRefusal> {
        self.world.identities.prove(presented).await
    }
}

fn refused(refusal: &TokenRefusal, expected: &str) {
    assert!(matches!(refusal, TokenRefusal::Proof(why) if why.contains(expected)), "{refusal:?}, {expected}");
}

#[tokio::test]
async fn a_proof_counts_once_for_its_request() {
    let client = Client::start().await;
    let proof = client.proof(&json!({}));
    client.send(&proof).await.unwrap();
    refused(&client.send(&proof).await.unwrap_err(), "was used before");
    client.send(&client.proof(&json!({"htu": format!("{ORIGIN}:443/mcp/p/work?x=1#y")}))).await.unwrap();
    assert_eq!(client.world.known(&client.token), None, "it is never known without a proof");
    for (claims, expected) in [
        (json!({"htm": "GET"}), "another method"),
        (json!({"htm": "post"}), "another method"),
        (json!({"htu": format!("{ORIGIN}/mcp/p/home")}), "another URL"),
        (json!({"htu": "https://tools.example.com.evil.example/mcp/p/work"}), "another URL"),
        (json!({"htu": "http://tools.example.com/mcp/p/work"}), "another URL"),
        (json!({"htu": null}), "another URL"),
        (json!({"ath": "x"}), "another token"),
        (json!({"ath": null}), "another token"),
        (json!({"jti": ""}), "no `jti`"),
        (json!({"jti": "x".repeat(257)}), "no `jti`"),
        (json!({"jti": null}), "no `jti`"),
        (json!({"iat": null}), "too old"),
        (json!({"iat": 1_800_000_000 - 301}), "too old"),
        (json!({"iat": 1_800_000_000 + 3_600}), "clock of the client"),
        (json!({"iat": i64::MAX}), "clock of the client"),
    ] {
        refused(&client.send(&client.proof(&claims)).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn a_proof_is_made_with_the_key_of_the_token() {
    let client = Client::start().await;
    let thief = SigningKey::read(&SigningKey::generate()).unwrap();
    let claims = client.claims(&json!({}));
    refused(&client.send(&thief.sign_with_own_key("dpop+jwt", &claims)).await.unwrap_err(), "another key");
    // The key of the victim in the header, the signature of the thief.
    let (own, stolen) = (thief.sign_with_own_key("dpop+jwt", &claims), client.proof(&json!({})));
    let header = stolen.split('.').next().unwrap();
    let parts: Vec<&str> = own.split('.').collect();
    refused(&client.send(&format!("{header}.{}.{}", parts[1], parts[2])).await.unwrap_err(), "wrong signature");
    refused(&client.send(&client.key.sign_with_own_key("at+jwt", &claims)).await.unwrap_err(), "type `dpop+jwt`");
    refused(&client.send(&client.key.sign("dpop+jwt", &claims)).await.unwrap_err(), "no public key");
    for text in ["", "x", "a.b.c", &"x".repeat(9_000)] {
        refused(&client.send(text).await.unwrap_err(), "the proof of possession is");
    }
    let none = PresentedToken { is_dpop: true, ..client.world.presented(&client.token) };
    refused(&client.send_as(none).await.unwrap_err(), "missing");
}

#[tokio::test]
async fn a_bound_token_does_not_count_as_a_bearers_nor_the_reverse() {
    let client = Client::start().await;
    invalid(&client.world.prove(&client.token).await.unwrap_err(), "send it with `DPoP`");
    let plain = client.world.key().sign("at+jwt", &client.world.claims(&json!({})));
    client.world.advance(60);
    client.world.prove(&plain).await.unwrap();
    let proof = client.proof(&json!({}));
    let presented = PresentedToken { is_dpop: true, proof: Some(&proof), ..client.world.presented(&plain) };
    invalid(&client.send_as(presented).await.unwrap_err(), "send it with `Bearer`");
}

#[tokio::test]
async fn a_nonce_counts_for_a_few_minutes() {
    let mut client = Client::start().await;
    client.world.advance(179);
    client.send(&client.proof(&json!({}))).await.unwrap();
    client.world.advance(360);
    for nonce in [json!(client.nonce), json!(""), json!(null), json!(7)] {
        let refusal = client.send(&client.proof(&json!({"nonce": nonce}))).await.unwrap_err();
        let TokenRefusal::Nonce(new) = refusal else { panic!("{refusal:?}") };
        assert_ne!(new, client.nonce);
    }
    let TokenRefusal::Nonce(new) = client.send(&client.proof(&json!({}))).await.unwrap_err() else { panic!() };
    client.nonce = new;
    let proof = client.proof(&json!({}));
    client.send(&proof).await.unwrap();
    // It is remembered for as long as its nonce counts.
    for _ in 0..6 {
        client.world.advance(60);
        assert!(client.send(&proof).await.is_err());
    }
    client.world.advance(-360);
    refused(&client.send(&proof).await.unwrap_err(), "was used before");
}

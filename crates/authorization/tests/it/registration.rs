//! Clients that register themselves, where that is switched on.

use serde_json::{Value, json};
use toolcrib_authorization::{ClientSource, OAuthError};

use crate::world::{World, text};

async fn registered(world: &World, metadata: &Value) -> Result<Value, OAuthError> {
    world.server.register(metadata.to_string().as_bytes()).await
}

#[tokio::test]
async fn a_client_registers_and_is_known_by_what_it_said() {
    let world = World::with_registration();
    let metadata = json!({"client_name": "New", "redirect_uris": ["http://localhost:1/cb"], "software_id": "x"});
    let client = registered(&world, &metadata).await.unwrap();
    let id = text(&client, "client_id");
    assert!(client.get("client_secret").is_none() && client.get("software_id").is_none());
    let world = world.restarted();
    let prompt = world.asked(&[("client_id", &id), ("redirect_uri", "http://localhost:2/cb")]).await.unwrap();
    assert_eq!((prompt.client_name.as_str(), prompt.source), ("New", ClientSource::Registration));
    world.clock.advance(24 * 3_600_000);
    assert!(world.asked(&[("client_id", &id), ("redirect_uri", "http://localhost:2/cb")]).await.is_err(), "unused");
}

#[tokio::test]
async fn a_client_with_a_secret_proves_itself() {
    let world = World::with_registration();
    let metadata = json!({
        "redirect_uris": ["https://new.example/cb"], "token_endpoint_auth_method": "client_secret_post",
    });
    let client = registered(&world, &metadata).await.unwrap();
    let (id, secret) = (text(&client, "client_id"), text(&client, "client_secret"));
    let new = [("client_id", id.as_str()), ("redirect_uri", "https://new.example/cb")];
    let code = world.code(&new).await;
    for wrong in ["", "guessed"] {
        let error = world.redeemed(&code, &[new[0], new[1], ("client_secret", wrong)]).await.unwrap_err();
        assert_eq!(error.code.as_str(), "invalid_client");
    }
    world.redeemed(&code, &[new[0], new[1], ("client_secret", &secret)]).await.unwrap();
    world.clock.advance(25 * 3_600_000);
    assert!(world.asked(&new).await.is_ok(), "it has a session");
}

#[tokio::test]
async fn what_a_client_says_wrongly_is_named() {
    let world = World::with_registration();
    for (metadata, expected) in [
        (json!({}), "invalid_redirect_uri"),
        (json!({"redirect_uris": []}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["http://app.example/cb"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["https://app.example/cb#x"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": [7]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": vec!["https://app.example/cb"; 33]}), "invalid_redirect_uri"),
        (
            json!({"redirect_uris": ["https://app.example/cb"], "token_endpoint_auth_method": "tls_client_auth"}),
            "invalid_client_metadata",
        ),
        (json!([]), "invalid_client_metadata"),
    ] {
        assert_eq!(registered(&world, &metadata).await.unwrap_err().code.as_str(), expected, "{metadata}");
    }
}

#[tokio::test]
async fn where_it_is_off_no_id_is_looked_up() {
    let world = World::of_team();
    assert!(!world.server.registers());
    assert!(world.asked(&[("client_id", "tcc_0123")]).await.is_err());
}

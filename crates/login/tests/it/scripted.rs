//! A server of which a test writes single answers, and that is a good authorization server otherwise.

use serde_json::json;
use toolcrib_login::LoginError;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_testkit::provider::RemoteRules;

use crate::world::World;

/// A server without metadata of its own whose authorization server is the same one.
pub(crate) fn metadata(host: &str) -> serde_json::Value {
    json!({
        "issuer": format!("http://{host}"),
        "authorization_endpoint": format!("http://{host}/authorize"),
        "token_endpoint": format!("http://{host}/token"),
        "registration_endpoint": format!("http://{host}/register"),
        "code_challenge_methods_supported": ["S256"],
    })
}

/// Answers as an authorization server does, but where `odd` answers.
pub(crate) fn server(odd: impl Fn(&Request, &mut Reply<'_>) -> bool + Send + Sync + 'static) -> HttpServer {
    HttpServer::start(move |request, reply| {
        if odd(request, reply) {
            return;
        }
        let host = request.header("host").unwrap_or_default();
        match request.target.as_str() {
            "/.well-known/oauth-authorization-server" => reply.json(&[], &metadata(host)),
            "/register" => reply.full(201, &["content-type: application/json"], r#"{"client_id":"c"}"#),
            "/token" => reply.json(&[], &json!({"access_token": "a", "refresh_token": "r", "expires_in": 100})),
            _ => reply.full(404, &[], ""),
        }
    })
}

pub(crate) async fn open(server: &HttpServer) -> (World, Result<String, LoginError>) {
    let mut world = World::new(RemoteRules::default());
    world.point_to(&server.url());
    let opened = world.open(&world.ticket().await).await;
    (world, opened)
}

/// The good answer to a login with this authorization URL.
pub(crate) fn answer_of(url: &str) -> String {
    format!("state={}&code=c", parameter(url, "state").unwrap())
}

/// A parameter of a URL.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let query = url.split_once('?')?.1;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.replace("%3A", ":").replace("%2F", "/"))
}

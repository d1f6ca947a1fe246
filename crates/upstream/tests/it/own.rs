//! Principals with credentials of their own: a connection for each credential, and the lists that each was shown before a
//! restart.

use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use serde_json::json;
use toolcrib_protocol::Raw;
use toolcrib_testkit::http::HttpServer;
use toolcrib_upstream::{
    Call, Client, CredentialHolder, Credentials, Proof, Refusal, Renewal, ServerConfig, SessionPolicy, Sight, State,
};

use crate::mcp;
use crate::world::{World, known};

/// Each has a credential; keys have the owner's.
#[derive(Debug)]
struct Wallets;

impl Credentials for Wallets {
    fn headers<'a>(&'a self, server: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        let own = principal.filter(|_| self.whose(server, principal) == CredentialHolder::Own);
        let value = HeaderValue::from_str(&format!("Bearer {}", own.unwrap_or("owner"))).unwrap();
        Proof::Known(HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]))
    }

    fn whose(&self, _: &ServerConfig, principal: Option<&str>) -> CredentialHolder {
        let is_shared = principal.is_none_or(|principal| principal.starts_with("key:"));
        if is_shared { CredentialHolder::Owner } else { CredentialHolder::Own }
    }

    fn renew<'a>(&'a self, _: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        Box::pin(std::future::ready(Renewal::NeedsLogin))
    }
}

fn openings(server: &HttpServer) -> Vec<String> {
    let requests = server.requests();
    let opened = requests.iter().filter(|request| mcp::method(request) == "initialize");
    opened.map(|request| request.header("authorization").unwrap_or("none").to_owned()).collect()
}

#[tokio::test]
async fn connections_are_those_of_credentials() {
    let server = HttpServer::start(mcp::answer);
    // Whatever the definition says: what two share is a credential, not a connection.
    let config = ServerConfig { session: SessionPolicy::Shared, ..mcp::config(&server) };
    let world = World::proving(config, None, Some(Arc::new(Wallets)));
    world.until(State::Ready).await;
    let params = Raw::from_value(&json!({"name": "echo", "arguments": {"text": "a"}}));
    let principals = ["key:work/one", "user:ann", "key:work/two", "user:bob", "user:ann"];
    for principal in principals {
        let client = Client { principal: Some(principal.into()), ..Client::default() };
        world.server.call("tools/call", &params, Call { client, ..Call::default() }).await.unwrap().unwrap();
    }
    assert_eq!(openings(&server), ["Bearer owner", "Bearer user:ann", "Bearer user:bob"]);
    let requests = server.requests();
    let calls = requests.iter().filter(|request| mcp::method(request) == "tools/call");
    let carried: Vec<_> = calls.map(|request| request.header("authorization").unwrap_or("none")).collect();
    assert_eq!(carried, ["Bearer owner", "Bearer user:ann", "Bearer owner", "Bearer user:bob", "Bearer user:ann"]);
}

#[tokio::test]
async fn stored_lists_are_their_principals_before_the_server_answers() {
    // It never does.
    let server = HttpServer::start(|_, reply| reply.hang());
    let config = ServerConfig { wants_login: true, ..mcp::config(&server) };
    let world = World::proving(config, None, Some(Arc::new(Wallets)));
    world.server.remember_own(&["user:ann"], Arc::new(known()));
    let tools = |principal: Option<&str>| -> Vec<String> {
        let seen = world.server.as_seen(&world.server.seen_by(principal));
        seen.inventory().tools.iter().map(|tool| tool.key.clone()).collect()
    };
    assert_eq!(tools(Some("user:ann")), ["known"]);
    assert!(!world.server.is_first_read_for("user:ann"), "no one waits for it");
    for other in [Some("user:bob"), Some("key:work/ann"), None] {
        assert!(tools(other).is_empty(), "{other:?}");
    }
    assert!(matches!(world.server.seen_by(Some("user:bob")), Sight::Own(_)));
}

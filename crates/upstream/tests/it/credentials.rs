//! What requests prove: each principal's own credential on each of its requests, on connections that only it uses.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use serde_json::json;
use toolcrib_base::ServerName;
use toolcrib_protocol::{Era, Raw};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::credentials::Proof;
use toolcrib_upstream::server::Call;
use toolcrib_upstream::{Client, Credentials, Nature, ServerConfig, State};

use crate::mcp;
use crate::world::World;

/// Everyone proves its own name; no one knows `mallory`.
#[derive(Debug)]
struct Names;

impl Credentials for Names {
    fn headers<'a>(&'a self, server: &'a ServerName, principal: Option<&'a str>) -> Proof<'a> {
        Box::pin(async move {
            let name = principal.unwrap_or("owner");
            if name == "mallory" {
                return Err("nobody has logged in".into());
            }
            let value = HeaderValue::from_str(&format!("Bearer {server}-{name}")).unwrap();
            Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]))
        })
    }
}

fn modern(request: &Request, reply: &mut Reply<'_>) {
    let result = match mcp::method(request).as_str() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [{"name": "echo"}]}),
        _ => mcp::text("done"),
    };
    reply.json(&[], &mcp::answer_to(request, &result));
}

async fn call(world: &World, principal: Option<&str>) -> Result<(), String> {
    let client = Client { principal: principal.map(Into::into), ..Client::default() };
    let params = Raw::from_value(&json!({"name": "echo", "arguments": {"text": "a"}}));
    let call = Call { client, ..Call::default() };
    let called = world.server.call("tools/call", &params, call).await;
    called.map(|outcome| assert!(outcome.is_ok(), "{outcome:?}")).map_err(|error| error.to_string())
}

fn proofs(server: &HttpServer, method: &str) -> Vec<String> {
    let requests = server.requests();
    let of_method = requests.iter().filter(|request| mcp::method(request) == method);
    of_method.map(|request| request.header("authorization").unwrap_or("none").to_owned()).collect()
}

#[tokio::test]
async fn each_request_proves_for_whom_it_is() {
    for era in [Era::Legacy, Era::Modern] {
        let server = HttpServer::start(move |request, reply| match era {
            Era::Legacy => mcp::answer(request, reply),
            Era::Modern => modern(request, reply),
        });
        let config = ServerConfig { nature: Nature { era: Some(era), ..Nature::default() }, ..mcp::config(&server) };
        let world = World::proving(config, None, Some(Arc::new(Names)));
        world.until(State::Ready).await;
        call(&world, None).await.unwrap();
        call(&world, Some("ann")).await.unwrap();
        call(&world, Some("bob")).await.unwrap();
        assert_eq!(proofs(&server, "tools/call"), ["Bearer fake-owner", "Bearer fake-ann", "Bearer fake-bob"]);
        let openings = if era == Era::Legacy {
            vec!["Bearer fake-owner", "Bearer fake-ann", "Bearer fake-bob"]
        } else {
            Vec::new()
        };
        assert_eq!(proofs(&server, "initialize"), openings, "a session belongs to one principal");
        let refused = call(&world, Some("mallory")).await.unwrap_err();
        assert!(refused.contains("nobody has logged in"), "{refused}");
        assert_eq!(proofs(&server, "tools/call").len(), 3, "nothing was sent for somebody without a credential");
    }
}

//! A header whose value each caller has of its own, with the real binary: asked for, sent, deleted.

use serde_json::{Value, json};
use toolcrib_testkit::eventually;
use toolcrib_testkit::http::{HttpServer, Reply, Request};

use crate::serving::GatewayFixture;
use crate::toolcrib::run;

fn answer(request: &Request, reply: &mut Reply<'_>) {
    let message = request.json();
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        _ => json!({"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}),
    };
    reply.json(&[], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
}

async fn operate(gateway: &GatewayFixture, operation: &str, arguments: Value) -> Value {
    let ran = run(gateway.home(), &["api", operation, "--json", &arguments.to_string()], &[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

async fn until_state(gateway: &GatewayFixture, wanted: &str) {
    let reached = async {
        while operate(gateway, "core_mcpserver_get", json!({"name": "tracker"})).await["state"] != wanted {
            tokio::task::yield_now().await;
        }
    };
    eventually(wanted, reached).await;
}

#[tokio::test]
async fn a_value_is_asked_for_sent_and_deleted_and_without_it_nothing_is_sent() {
    let server = HttpServer::start(answer);
    let definition = format!(
        "name: tracker\ntransport: http\nurl: {}\nstart: eager\nheaders: {{X-Key: 'user:tracker'}}\n",
        server.url()
    );
    let gateway = GatewayFixture::start(&[("tracker", &definition)]).await;
    until_state(&gateway, "needs-login").await;
    assert!(server.requests().is_empty(), "without a value nothing is sent");
    let asked = operate(&gateway, "core_auth_login", json!({"server": "tracker"})).await;
    assert_eq!((asked["status"].as_str(), &asked["values"]), (Some("values_required"), &json!(["tracker"])), "{asked}");

    let given = json!({"server": "tracker", "values": {"tracker": "s3cret-value"}});
    assert_eq!(operate(&gateway, "core_auth_login", given).await["status"], "connected");
    until_state(&gateway, "ready").await;
    let requests = server.requests();
    assert!(!requests.is_empty() && requests.iter().all(|it| it.header("x-key") == Some("s3cret-value")));

    let ended = operate(&gateway, "core_auth_logout", json!({"server": "tracker"})).await;
    assert_eq!(ended["status"], "logged_out", "{ended}");
    until_state(&gateway, "needs-login").await;
    gateway.stop().await;
}

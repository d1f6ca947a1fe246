//! Who may come in: hosts, origins, tokens.

use serde_json::json;

use crate::served::{Ask, ServedGateway, TOKEN, stopped};

const PATHS: [&str; 6] = ["/mcp", "/mcp/p/default", "/healthz", "/readyz", "/metrics", "/api/v1/tools"];

#[tokio::test]
async fn hosts_and_origins_of_others_are_403_on_every_path() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"])]).await;
    for path in PATHS {
        let ask = || Ask::modern("tools/list", json!({})).to(path);
        let get = || Ask::get(path);
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "192.0.2.1"] {
            house.ask(ask().with("host", host)).await.problem(403);
            house.ask(get().with("host", host)).await.problem(403);
        }
        for origin in ["http://evil.example", "null", "https://app.example.com.evil", "file://", "chrome-extension://x"]
        {
            let refused = house.ask(get().header("origin", origin)).await.problem(403);
            assert!(refused["hint"].as_str().unwrap().contains("allowed_origins"), "{refused}");
            house.ask(ask().header("origin", origin).admin()).await.problem(403);
        }
        let two = get().header("origin", "http://localhost").header("origin", "http://evil.example");
        house.ask(two).await.problem(403);
    }
    let list = || Ask::modern("tools/list", json!({}));
    for origin in ["http://localhost:3000", "http://127.0.0.1:1", "https://[::1]:2", "https://app.example.com"] {
        house.ask(list().header("origin", origin)).await.result();
    }
    for host in ["localhost", "LOCALHOST:1", "[::1]:80", "tools.example.com"] {
        house.ask(list().with("host", host)).await.result();
    }
}

#[tokio::test]
async fn a_wrong_credential_is_401_even_from_this_machine() {
    let house = ServedGateway::settled(&[]).await;
    for credential in ["Bearer wrong", "Bearer ", "Basic dDBrZW4=", "t0ken", "Bearer t0ken2", "Bearer T0KEN"] {
        for path in PATHS {
            let reply = house.ask(Ask::get(path).header("authorization", credential)).await;
            let body = reply.problem(401);
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
            assert!(!body.to_string().contains(TOKEN));
        }
    }
    let twice = Ask::get("/healthz").admin().header("authorization", "Bearer x");
    house.ask(twice).await.problem(401);
}

#[tokio::test]
async fn only_the_token_administers_by_tool_and_by_route() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"])]).await;
    let call = || Ask::modern("tools/call", json!({"name": "core_profile_list", "arguments": {}}));
    let denied = house.ask(call()).await.result();
    assert_eq!((denied["isError"].clone(), &denied["_meta"]["toolcrib/error"]), (json!(true), &json!("forbidden")));
    let allowed = house.ask(call().admin()).await.result();
    assert!(allowed["structuredContent"]["profiles"].is_array(), "{allowed}");
    for route in ["/profiles", "/audit", "/audit/verify"] {
        let path = format!("/api/v1{route}");
        let refused = house.ask(Ask::get(&path)).await;
        assert_eq!(refused.problem(401)["code"], "unauthenticated");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
        assert_eq!(house.ask(Ask::get(&path).admin()).await.status, 200, "{route}");
    }
}

#[tokio::test]
async fn a_session_belongs_to_who_opened_it() {
    let house = ServedGateway::settled(&[]).await;
    let session = house.session().await;
    house.ask(Ask::legacy(&session, "ping", &json!({}))).await.result();
    house.ask(Ask::legacy(&session, "ping", &json!({})).admin()).await.error(404, -32_602);
}

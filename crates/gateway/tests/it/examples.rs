//! Examples from use: whose are shown to whom, and what never is.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File, TestGateway, profile, server, text_of};

fn files() -> Vec<File> {
    vec![
        server("alpha", &[]),
        profile("default", "examples: recorded"),
        profile("team", "examples: shared\ngroups: [admin]"),
        profile("plain", ""),
        profile("ent", "examples: recorded\ndialect: go-ent"),
    ]
}

async fn examples(client: &Client, tool: &str) -> Value {
    let described = client.call("describe_tool", &json!({"name": tool})).await;
    assert_ne!(described["isError"], true, "{described}");
    described["structuredContent"]["examples"].clone()
}

async fn echo(client: &Client, text: &str) {
    let done = client.call("call_tool", &json!({"name": "alpha/echo", "arguments": {"text": text}})).await;
    assert_ne!(done["isError"], true, "{done}");
}

#[tokio::test]
async fn a_principal_sees_the_own_calls_that_went_well_and_no_one_elses() {
    let house = TestGateway::settled(&files()).await;
    for (ann, bob) in [
        (house.modern_of("ann", "default"), house.modern_of("bob", "default")),
        (house.legacy_of("carl", "default"), house.legacy_of("dora", "default")),
    ] {
        assert_eq!(examples(&ann, "alpha/echo").await, Value::Null);
        echo(&ann, "good morning").await;
        assert_eq!(examples(&ann, "alpha/echo").await, json!([{"text": "good morning"}]));
        assert_eq!(examples(&bob, "alpha/echo").await, Value::Null, "nobody else's");
        echo(&ann, "good night").await;
        assert_eq!(examples(&ann, "alpha/echo").await, json!([{"text": "good night"}]), "the newest of one form");
        let failed = ann.call("call_tool", &json!({"name": "alpha/echo", "arguments": {"text": 7}})).await;
        assert_eq!(failed["isError"], true);
        ann.call("call_tool", &json!({"name": "alpha/fail", "arguments": {}})).await;
        assert_eq!(examples(&ann, "alpha/echo").await, json!([{"text": "good night"}]), "what failed is none");
        assert_eq!(examples(&ann, "alpha/fail").await, Value::Null);
    }
    // The same principal in a profile that wants none.
    let plain = house.modern_of("ann", "plain");
    echo(&plain, "never").await;
    assert_eq!(examples(&plain, "alpha/echo").await, Value::Null);
    house.close().await;
}

#[tokio::test]
async fn a_profile_may_share_them_and_forgets_them_when_told() {
    let house = TestGateway::settled(&files()).await;
    let (ann, bob) = (house.modern_of("ann", "team"), house.modern_of("bob", "team"));
    echo(&ann, "from ann").await;
    assert_eq!(examples(&bob, "alpha/echo").await, json!([{"text": "from ann"}]));
    echo(&bob, "from bob").await;
    assert_eq!(examples(&ann, "alpha/echo").await, json!([{"text": "from bob"}, {"text": "from ann"}]));
    assert_eq!(examples(&house.modern_of("ann", "default"), "alpha/echo").await, Value::Null, "of another profile");

    let reset = ann.clone().admin().call("core_learning_reset", &json!({"profile": "team"})).await;
    assert_ne!(reset["isError"], true, "{reset}");
    assert_eq!(examples(&ann, "alpha/echo").await, Value::Null);

    echo(&ann, "again").await;
    house.apply(&[profile("team", "")]).await;
    assert_eq!(examples(&ann, "alpha/echo").await, Value::Null);
    house.apply(&[profile("team", "examples: shared")]).await;
    assert_eq!(examples(&ann, "alpha/echo").await, Value::Null, "what a profile stopped wanting is gone");
    house.close().await;
}

#[tokio::test]
async fn secrets_never_become_examples() {
    let house = TestGateway::settled(&files()).await;
    let ann = house.modern_of("ann", "default");
    let (ent, long) = (house.modern_of("ann", "ent"), "x".repeat(5_000));
    for secret in
        ["my password is hunter2", "Bearer abc.def.ghi", "sk-0123456789abcdef", "https://u:hunter2@example.com/", &long]
    {
        echo(&ann, secret).await;
        let described = ann.call("describe_tool", &json!({"name": "alpha/echo"})).await.to_string();
        assert!(!described.contains("hunter2") && !described.contains(secret), "{described}");
        echo(&ent, secret).await;
        let described = ent.call("tool_describe", &json!({"name": "alpha/echo"})).await;
        assert!(!described.to_string().contains(secret), "{described}");
    }
    assert_eq!(examples(&ann, "alpha/echo").await, json!([{"text": "****"}]));
    echo(&ent, "plain words").await;
    let described = ent.call("tool_describe", &json!({"name": "alpha/echo"})).await;
    assert!(text_of(&described).contains("**Example:** `{\"text\":\"plain words\"}`"), "{described}");
    house.close().await;
}

#[tokio::test]
async fn one_principal_cannot_push_out_the_examples_of_others() {
    let house = TestGateway::settled(&files()).await;
    let (ann, bob) = (house.modern_of("ann", "default"), house.modern_of("bob", "default"));
    echo(&ann, "stays").await;
    for at in 0..20 {
        echo(&bob, &format!("number {at}")).await;
    }
    assert_eq!(examples(&ann, "alpha/echo").await, json!([{"text": "stays"}]));
    assert_eq!(examples(&bob, "alpha/echo").await, json!([{"text": "number 19"}]), "one of each form");
    house.close().await;
}

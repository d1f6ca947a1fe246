//! The active set: all or nothing, again without harm, bounded; and `require_load`.

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped, strings, text_of};

async fn active(client: &Client) -> Vec<String> {
    let result = client.call("list_active_tools", &json!({})).await;
    let value = &result["structuredContent"];
    let ids = strings(&value["tools"], "id");
    assert_eq!(value["count"], ids.len());
    ids
}

async fn load(client: &Client, names: Value) -> Value {
    client.call("load_tools", &json!({"names": names})).await
}

#[tokio::test]
async fn tools_are_loaded_all_or_none() {
    let house = TestGateway::settled(&[stopped("alpha", &["one", "two", "three"], "")]).await;
    for client in house.both("default") {
        let failed = load(&client, json!(["alpha_one", "alpha_too", "alpha_three"])).await;
        assert_eq!(failed["isError"], true);
        let text = text_of(&failed);
        assert!(text.contains("`alpha_too`") && text.contains("nothing was loaded") && text.contains("`alpha_two`"));
        assert_eq!(active(&client).await, Vec::<String>::new());

        let loaded = load(&client, json!(["alpha_one", "alpha/two", "alpha/one"])).await;
        assert_eq!(loaded["structuredContent"]["count"], 2);
        assert_eq!(active(&client).await, ["alpha/one", "alpha/two"]);
        let again = load(&client, json!(["alpha/one"])).await;
        assert_ne!(again["isError"], true);
        assert_eq!(active(&client).await, ["alpha/one", "alpha/two"]);

        let failed = client.call("unload_tools", &json!({"names": ["alpha_one", "nobody"]})).await;
        assert_eq!(failed["isError"], true);
        assert_eq!(active(&client).await, ["alpha/one", "alpha/two"]);
        let unload = json!({"names": ["alpha_one", "alpha_three"]});
        assert_ne!(client.call("unload_tools", &unload).await["isError"], true, "not loaded is as good as unloaded");
        assert_eq!(active(&client).await, ["alpha/two"]);
    }
}

#[tokio::test]
async fn a_set_is_bounded_and_a_load_over_the_bound_loads_nothing() {
    let names: Vec<String> = (0..250).map(|number| format!("t{number}")).collect();
    let tools: Vec<&str> = names.iter().map(String::as_str).collect();
    let house = TestGateway::settled(&[stopped("alpha", &tools, "")]).await;
    let ids: Vec<String> = names.iter().map(|name| format!("alpha/{name}")).collect();
    for client in house.both("default") {
        load(&client, json!(ids[..150])).await;
        let failed = load(&client, json!(ids[100..210])).await;
        assert_eq!(failed["_meta"]["toolcrib/error"], "busy");
        assert!(text_of(&failed).contains("200"), "{failed}");
        assert_eq!(active(&client).await.len(), 150);
        assert_ne!(load(&client, json!(ids[..200])).await["isError"], true, "the bound itself is allowed");
        assert_eq!(active(&client).await.len(), 200);
    }
}

#[tokio::test]
async fn sets_belong_to_a_session_or_to_a_principal_and_to_a_profile() {
    let house = TestGateway::settled(&[stopped("alpha", &["one"], ""), profile("other", "")]).await;
    let (first, second) = (house.legacy("default"), house.legacy("default"));
    let (modern, same, elsewhere) = (house.modern("default"), house.modern("default"), house.modern("other"));
    load(&first, json!(["alpha/one"])).await;
    for client in [&second, &modern, &elsewhere] {
        assert_eq!(active(client).await, Vec::<String>::new());
    }
    load(&modern, json!(["alpha/one"])).await;
    assert_eq!(active(&same).await, ["alpha/one"], "modern clients have nothing but their principal");
    assert_eq!(active(&second).await, Vec::<String>::new());
    assert_eq!(active(&elsewhere).await, Vec::<String>::new());
}

#[tokio::test]
async fn with_require_load_a_tool_answers_only_once_it_is_loaded() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", "require_load: true")]).await;
    for client in house.both("default") {
        for name in ["alpha_counter", "alpha/counter"] {
            let direct = client.call(name, &json!({})).await;
            let called = client.call("call_tool", &json!({"name": name})).await;
            for refused in [direct, called] {
                assert_eq!(refused["isError"], true);
                let text = text_of(&refused);
                assert!(text.contains("`alpha`") && text.contains("load_tools"), "{text}");
            }
        }
        load(&client, json!(["alpha/pid"])).await;
        client.text("alpha_pid", &json!({})).await;
        client.text("call_tool", &json!({"name": "alpha/pid"})).await;
        assert_eq!(client.call("alpha_counter", &json!({})).await["isError"], true, "another tool is not loaded by it");
        client.call("unload_tools", &json!({"names": ["alpha/pid"]})).await;
        assert_eq!(client.call("alpha_pid", &json!({})).await["isError"], true);
    }
    let open = house.modern("default");
    load(&open, json!(["alpha/counter"])).await;
    assert_eq!(open.text("alpha_counter", &json!({})).await, "1", "no refused call reached the server");
}

#[tokio::test]
async fn a_loaded_tool_that_is_gone_is_not_listed_any_more() {
    let house =
        TestGateway::settled(&[stopped("alpha", &["one", "two"], ""), profile("default", "exposure: dynamic")]).await;
    let client = house.legacy("default");
    load(&client, json!(["alpha/one", "alpha/two"])).await;
    house.apply(&[stopped("alpha", &["two"], "")]).await;
    assert_eq!(active(&client).await, ["alpha/two"]);
    let listed = client.listed().await;
    assert!(listed.contains(&"alpha_two".to_owned()) && !listed.contains(&"alpha_one".to_owned()));
}

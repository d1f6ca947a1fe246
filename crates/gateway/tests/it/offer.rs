//! Resources, templates, prompts and completion, through both eras and the meta-tools.

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile, server, server_with, strings, text_of};

#[tokio::test]
async fn resources_are_listed_and_read_in_every_exposure() {
    let mut files = vec![server("alpha", &[])];
    let exposures = ["meta", "direct", "pinned", "dynamic"];
    files.extend(exposures.map(|exposure| profile(exposure, &format!("exposure: {exposure}"))));
    let house = TestGateway::settled(&files).await;
    for exposure in exposures {
        for client in house.both(exposure) {
            let listed = client.ask("resources/list", &json!({})).await.unwrap();
            assert_eq!(strings(&listed["resources"], "uri"), ["fake://text", "fake://binary"]);
            assert_eq!(listed["resources"][1]["x-unknown"], 1);
            let templates = client.ask("resources/templates/list", &json!({})).await.unwrap();
            assert_eq!(strings(&templates["resourceTemplates"], "uriTemplate"), ["fake://item/{id}"]);
            for (uri, text) in [("fake://text", "embedded"), ("fake://item/7", "item 7")] {
                let read = client.ask("resources/read", &json!({"uri": uri})).await.unwrap();
                assert_eq!((&read["contents"][0]["uri"], &read["contents"][0]["text"]), (&json!(uri), &json!(text)));
            }
            let blob = client.ask("resources/read", &json!({"uri": "fake://binary"})).await.unwrap();
            assert!(blob["contents"][0]["blob"].as_str().unwrap().starts_with("iVBOR"));
        }
    }
}

#[tokio::test]
async fn an_unknown_resource_has_the_code_of_the_client_s_era_and_its_uri_as_data() {
    // One server: it gets every URI and answers itself. Two: nobody is asked.
    let one = TestGateway::settled(&[server("alpha", &[])]).await;
    let two = TestGateway::settled(&[server("alpha", &[]), server("beta", &[])]).await;
    for house in [&one, &two] {
        for (client, code) in house.both("default").into_iter().zip([-32_602, -32_002]) {
            let error = client.ask("resources/read", &json!({"uri": "fake://no-such"})).await.unwrap_err();
            assert_eq!(error.code, code, "{error:?}");
            assert_eq!(error.to_raw().to_value()["data"]["uri"], "fake://no-such");
            for params in [json!({}), json!({"uri": 7})] {
                assert_eq!(client.ask("resources/read", &params).await.unwrap_err().code, -32_602);
            }
        }
    }
}

#[tokio::test]
async fn two_servers_with_the_same_uri_are_both_readable() {
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[])]).await;
    for client in house.both("default") {
        let listed = client.ask("resources/list", &json!({})).await.unwrap();
        let expect = ["fake://text", "fake://binary", "beta+fake://text", "beta+fake://binary"];
        assert_eq!(strings(&listed["resources"], "uri"), expect);
        let templates = client.ask("resources/templates/list", &json!({})).await.unwrap();
        let expect = ["fake://item/{id}", "beta+fake://item/{id}"];
        assert_eq!(strings(&templates["resourceTemplates"], "uriTemplate"), expect);
        for uri in ["beta+fake://text", "beta+fake://item/7"] {
            let read = client.ask("resources/read", &json!({"uri": uri})).await.unwrap();
            assert_eq!(read["contents"].as_array().unwrap().len(), 1, "{uri}");
        }
        let reference = json!({"type": "ref/resource", "uri": "beta+fake://item/{id}"});
        let params = json!({"ref": reference, "argument": {"name": "id", "value": ""}});
        let completed = client.ask("completion/complete", &params).await.unwrap();
        assert_eq!(completed["completion"]["values"], json!(["one", "two"]));
    }
    let targets: Vec<_> = house.audited().await.into_iter().map(|event| event.target).collect();
    let expect = ["beta/fake://text", "beta/fake://item/7", "beta/fake://item/{id}"];
    assert_eq!(targets, [expect, expect].concat(), "each is asked of its own server by its own spelling");
}

#[tokio::test]
async fn prompts_are_listed_and_got_by_their_exposed_names() {
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[])]).await;
    for client in house.both("default") {
        let listed = client.ask("prompts/list", &json!({})).await.unwrap();
        let expect = ["alpha_greet", "alpha_plain", "beta_greet", "beta_plain"];
        assert_eq!(strings(&listed["prompts"], "name"), expect);
        let params = json!({"name": "beta_greet", "arguments": {"who": "you"}});
        let got = client.ask("prompts/get", &params).await.unwrap();
        assert_eq!(got["messages"][0]["content"]["text"], "Greet you.");
        let missing = client.ask("prompts/get", &json!({"name": "beta_greet"})).await.unwrap_err();
        assert_eq!((missing.code, missing.message.as_str()), (-32_602, "`who` is missing"));
        let unknown = client.ask("prompts/get", &json!({"name": "beta_gret"})).await.unwrap_err();
        assert_eq!(unknown.code, -32_602);
        assert!(unknown.message.contains("`beta_greet`"), "{}", unknown.message);
    }
}

#[tokio::test]
async fn operations_list_and_ask_what_clients_do() {
    let house = TestGateway::settled(&[server("alpha", &[]), server("beta", &[])]).await;
    let client = house.modern("default");
    let listed = client.operate("core_resource_list", &json!({})).await.unwrap();
    let expect = ["fake://text", "fake://binary", "beta+fake://text", "beta+fake://binary"];
    assert_eq!(strings(&listed["resources"], "uri"), expect);
    assert_eq!(strings(&listed["resourceTemplates"], "uriTemplate"), ["fake://item/{id}", "beta+fake://item/{id}"]);
    let read = client.operate("core_resource_read", &json!({"uri": "beta+fake://item/7"})).await.unwrap();
    assert_eq!(read["content"][0]["resource"]["text"], "item 7");
    let gone = client.operate("core_resource_read", &json!({"uri": "fake://no-such"})).await.unwrap_err();
    assert!(gone.message.contains("fake://no-such"), "{gone}");

    let listed = client.operate("core_prompt_list", &json!({})).await.unwrap();
    assert_eq!(strings(&listed["prompts"], "name"), ["alpha_greet", "alpha_plain", "beta_greet", "beta_plain"]);
    let got = json!({"name": "beta_greet", "arguments": {"who": "you"}});
    let got = client.operate("core_prompt_get", &got).await.unwrap();
    assert_eq!(got["structuredContent"]["messages"][0]["content"]["text"], "Greet you.");
    let near = client.operate("core_prompt_get", &json!({"name": "beta_gret"})).await.unwrap_err();
    assert!(near.hint.is_some_and(|hint| hint.contains("`beta_greet`")));
    // The record names what was asked of the server, by the door that it was asked through.
    let audited = house.audited().await;
    let asked = |method: &str, target: &str| audited.iter().any(|it| it.method == method && &*it.target == target);
    assert!(asked("resources/read", "beta/fake://item/7") && asked("prompts/get", "beta/greet"), "{audited:?}");
}

#[tokio::test]
async fn completion_is_asked_of_the_server_that_owns_the_reference() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        for reference in [
            json!({"type": "ref/prompt", "name": "alpha_greet"}),
            json!({"type": "ref/resource", "uri": "fake://item/{id}"}),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "who", "value": "o"}});
            let completed = client.ask("completion/complete", &params).await.unwrap();
            assert_eq!(completed["completion"]["values"], json!(["one", "two"]), "{reference}");
        }
        for reference in [json!({}), json!({"type": "ref/prompt", "name": "no"}), json!(7)] {
            let params = json!({"ref": reference, "argument": {"name": "who", "value": "o"}});
            assert_eq!(client.ask("completion/complete", &params).await.unwrap_err().code, -32_602, "{reference}");
        }
    }
}

#[tokio::test]
async fn meta_tools_read_resources_and_get_prompts_by_the_same_path() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        let read = client.call("read_resource", &json!({"uri": "fake://binary"})).await;
        assert_eq!(read["content"][0]["type"], "resource");
        assert!(read["content"][0]["resource"]["blob"].as_str().unwrap().starts_with("iVBOR"));
        let missing = client.call("read_resource", &json!({"uri": "fake://no-such"})).await;
        assert_eq!(missing["isError"], true);
        let got = client.call("get_prompt", &json!({"name": "alpha_greet", "arguments": {"who": "me"}})).await;
        assert_eq!(got["structuredContent"]["messages"][0]["content"]["text"], "Greet me.");
        let listed = client.call("list_prompts", &json!({})).await;
        assert_eq!(strings(&listed["structuredContent"]["prompts"], "name"), ["alpha_greet", "alpha_plain"]);
        let resources = client.call("list_resources", &json!({})).await;
        assert_eq!(strings(&resources["structuredContent"]["resources"], "uri"), ["fake://text", "fake://binary"]);
    }
}

#[tokio::test]
async fn muster_s_forms_of_resources_and_prompts() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("muster", "dialect: muster")]).await;
    let client = house.legacy("muster");
    let listed: Value = serde_json::from_str(&text_of(&client.call("list_resources", &json!({})).await)).unwrap();
    assert_eq!(listed[0]["uri"], "fake://text");
    let got = client.call("get_resource", &json!({"uri": "fake://text"})).await;
    assert_eq!(text_of(&got), "embedded");
    let binary = client.call("get_resource", &json!({"uri": "fake://binary"})).await;
    assert!(text_of(&binary).starts_with("[Binary data: ") && !binary["content"][1]["resource"]["blob"].is_null());
    let prompts: Value = serde_json::from_str(&text_of(&client.call("list_prompts", &json!({})).await)).unwrap();
    let name = prompts[0]["name"].as_str().unwrap();
    assert!(name.starts_with("x_alpha_"), "{prompts}");
    let prompt = client.call("get_prompt", &json!({"name": name, "arguments": {"who": "me"}})).await;
    let messages: Value = serde_json::from_str(&text_of(&prompt)).unwrap();
    assert_eq!(messages[0], json!({"role": "user", "content": "Greet me."}));
}

#[tokio::test]
async fn a_hidden_server_offers_nothing() {
    let house =
        TestGateway::settled(&[server("alpha", &[]), server("beta", &[]), profile("default", "servers: [beta]")]).await;
    for client in house.both("default") {
        assert_eq!(client.ask("resources/list", &json!({})).await.unwrap()["resources"][0]["uri"], "fake://text");
        let prompts = client.ask("prompts/list", &json!({})).await.unwrap();
        assert_eq!(strings(&prompts["prompts"], "name"), ["beta_greet", "beta_plain"]);
        assert!(client.ask("prompts/get", &json!({"name": "alpha_plain"})).await.is_err());
        client.ask("resources/read", &json!({"uri": "fake://text"})).await.unwrap();
    }
    assert!(house.audited().await.iter().all(|event| event.target.starts_with("beta/")));
}

#[tokio::test]
async fn a_foreign_cursor_is_refused_and_lists_are_whole() {
    let files = [server("alpha", &["--page", "2"]), profile("default", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    for client in house.both("default") {
        for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
            let listed = client.ask(method, &json!({})).await.unwrap();
            assert!(listed["nextCursor"].is_null(), "{method}");
            assert!(client.ask(method, &json!({"cursor": null})).await.is_ok());
            let error = client.ask(method, &json!({"cursor": "from-2"})).await.unwrap_err();
            assert_eq!(error.code, -32_602, "{method}");
        }
        assert_eq!(client.listed().await.len(), 15, "all pages of the server");
    }
}

#[tokio::test]
async fn both_eras_learn_what_the_gateway_can_do_in_their_own_way() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("default", "description: For work.")]).await;
    let [modern, legacy] = house.both("default");
    let discovered = modern.ask("server/discover", &json!({})).await.unwrap();
    assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
    assert_eq!((&discovered["resultType"], &discovered["ttlMs"]), (&json!("complete"), &json!(0)));
    assert_eq!(discovered["cacheScope"], "private");
    let instructions = discovered["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("For work.") && instructions.contains("find_tools"), "{instructions}");
    assert_eq!(legacy.ask("server/discover", &json!({})).await.unwrap_err().code, -32_601);
    for method in ["ping", "logging/setLevel"] {
        assert_eq!(legacy.ask(method, &json!({"level": "info"})).await.unwrap(), json!({}));
        assert_eq!(modern.ask(method, &json!({"level": "info"})).await.unwrap_err().code, -32_601, "{method}");
    }
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"] {
        let params = json!({"uri": "fake://text"});
        let result = modern.ask(method, &params).await.unwrap();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")), "{method}");
        let result = legacy.ask(method, &params).await.unwrap();
        assert!(result["ttlMs"].is_null() && result["resultType"].is_null(), "{method}");
    }
}

#[tokio::test]
async fn an_unknown_method_goes_to_the_only_server_and_to_no_one_when_there_are_more() {
    let house = TestGateway::settled(&[
        server("alpha", &[]),
        server_with("beta", &[], "start: manual\n"),
        profile("one", "servers: [alpha]"),
        profile("reads", "servers: [alpha]\nread_only: true"),
        profile("none", "servers: []"),
    ])
    .await;
    for (name, asked) in [("one", 1), ("default", 0), ("none", 0), ("reads", 0)] {
        for client in house.both(name) {
            let before = house.audited().await.iter().filter(|event| event.outcome != "denied").count();
            let error = client.ask("x/unknown", &json!({"a": 1})).await.unwrap_err();
            assert_eq!(error.code, -32_601, "{name}");
            let after = house.audited().await.iter().filter(|event| event.outcome != "denied").count();
            assert_eq!(after - before, asked, "{name}");
            let modern = client.caller.session.is_none();
            let other_era = if modern { "resources/subscribe" } else { "subscriptions/listen" };
            for method in ["initialize", "notifications/x", other_era] {
                assert_eq!(client.ask(method, &json!({})).await.unwrap_err().code, -32_601, "{name}: {method}");
            }
        }
    }
    assert_eq!(house.audited().await.len(), 4, "and two refusals");
}

#[tokio::test]
async fn methods_of_families_that_the_rules_decide_about_are_not_passed_on_unread() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        for method in ["tasks/list", "tasks/result", "tools/hidden", "resources/hidden", "prompts/hidden"] {
            let error = client.ask(method, &json!({})).await.unwrap_err();
            assert_eq!(error.code, -32_601, "{method}: {}", error.message);
        }
    }
}

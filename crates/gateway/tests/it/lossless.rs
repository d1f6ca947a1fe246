//! What a tool answers arrives as it was sent: every kind of content, unknown fields, numbers of any size.

use serde_json::{Value, json};
use toolcrib_protocol::{Answer, Id, Raw};
use toolcrib_testgateway::{Client, TestGateway, server};

/// A result with everything that is easily lost, with its odd spelling.
const ODD: &str = concat!(
    r#"{"content":[{"type":"text","text":"\u00fc\ud83d\ude00 / \/ ","annotations":{"priority":1.0}},"#,
    r#" {"type":"image","data":"AAAA","mimeType":"image/png","x":1e2}, {"type":"audio","data":"","mimeType":"audio/wav"},"#,
    r#"{"type":"resource","resource":{"uri":"a:b","text":"","_meta":{}}},{"type":"resource_link","uri":"a:b","name":"n"},"#,
    r#"{"type":"hologram","z":[1.50,-0,12345678901234567890123,1e400]}, {}],"#,
    r#""structuredContent":{"b":9007199254740993,"a":0.10,"n":null},"isError":false,"#,
    r#""_meta":{"x.example/k":[1]},"unknown":{"nested":{"deep":[[[[]]]]}}}"#
);

/// The result of one call, as the text of the answer that goes out.
async fn answered(client: &Client, name: &str, arguments: &Value) -> String {
    let params = Raw::from_value(&json!({"name": name, "arguments": arguments}));
    let result = client.raw("tools/call", &params).await.unwrap();
    let parts = Answer::ok(Id::from_number(1), result).to_parts();
    String::from_utf8(parts.concat()).unwrap()
}

#[tokio::test]
async fn a_result_reaches_a_legacy_client_byte_for_byte() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.legacy("default");
    let results = [
        ODD,
        r#"{"content":[],"isError":true}"#,
        "{}",
        r#"{"content":"not a list"}"#,
        r#"{ "content" : [ ] }"#,
        r#"{"structuredContent":[1,"a"]}"#,
    ];
    for result in results {
        let expect = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let arguments = json!({"result": result});
        assert_eq!(answered(&client, "alpha_raw", &arguments).await, expect);
        let inner = json!({"name": "alpha/raw", "arguments": arguments});
        assert_eq!(answered(&client, "call_tool", &inner).await, expect);
        assert_eq!(answered(&client, "tool_call", &inner).await, expect);
    }
}

#[tokio::test]
async fn a_result_reaches_a_modern_client_with_nothing_but_the_stamps_added() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern("default");
    let arguments = json!({"result": ODD});
    let inner = json!({"name": "alpha/raw", "arguments": arguments});
    for (name, arguments) in [("alpha_raw", &arguments), ("call_tool", &inner)] {
        let got = answered(&client, name, arguments).await;
        let (content, rest) = ODD.rsplit_once(r#""_meta":{"#).unwrap();
        assert!(got.contains(content.trim_start_matches('{')), "{got}");
        let (_, unknown) = rest.split_once("},").unwrap();
        assert!(got.contains(unknown.strip_suffix('}').unwrap()), "{got}");
        let got: Value = serde_json::from_str(&got.replace("1e400", "1")).unwrap();
        let result = &got["result"];
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"]["x.example/k"], json!([1]));
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolcrib");
        assert_eq!(result["unknown"], json!({"nested": {"deep": [[[[]]]]}}));
    }
}

#[tokio::test]
async fn every_kind_of_content_survives_in_both_eras() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let [modern, legacy] = house.both("default");
    let direct = legacy.call("alpha_mixed", &json!({})).await;
    let kinds: Vec<_> = direct["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource", "resource", "resource_link", "hologram"]);
    assert_eq!(direct["structuredContent"]["big"], 9_007_199_254_740_993_u64);
    assert_eq!(legacy.call("call_tool", &json!({"name": "alpha/mixed"})).await, direct);
    let mut modern = modern.call("alpha_mixed", &json!({})).await;
    assert_eq!(modern["resultType"], "complete");
    modern.as_object_mut().unwrap().remove("resultType");
    modern["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/serverInfo");
    assert_eq!(modern, direct);
}

#[tokio::test]
async fn arguments_reach_the_server_as_they_were_written() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let written = r#"{"z":1,"a":{"b":[1.50,9007199254740993]},"u":"\u00e9"}"#;
    for client in house.both("default") {
        let direct = format!(r#"{{"name":"alpha_received","arguments":{written},"x-unknown":{{"k":1}}}}"#);
        let inner = format!(r#"{{"name":"call_tool","arguments":{{"name":"alpha/received","arguments":{written}}}}}"#);
        for params in [direct.clone(), inner] {
            let raw = Raw::parse(params.clone().into(), toolcrib_protocol::json::Rules::strict(64)).unwrap();
            let result = client.raw("tools/call", &raw).await.unwrap().to_value();
            let received: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(received["name"], "received");
            assert_eq!(received["arguments"], serde_json::from_str::<Value>(written).unwrap());
            if params == direct {
                assert_eq!(received["x-unknown"], json!({"k": 1}));
            }
        }
    }
}

#[tokio::test]
async fn reserved_meta_keys_stay_on_their_hop_and_all_others_go_through() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "spy"},
            "traceparent": "00-abc", "example.com/k": [1],
        });
        let params = json!({"name": "alpha_received", "arguments": {}, "_meta": meta});
        let result = client.ask("tools/call", &params).await.unwrap();
        let received: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(received["_meta"], json!({"traceparent": "00-abc", "example.com/k": [1]}));
    }
}

#[tokio::test]
async fn a_server_s_error_keeps_its_code_and_data_by_direct_name_and_is_a_result_by_call_tool() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        let arguments = json!({"code": -32_050, "message": "the moon is full"});
        let error = client.refused("alpha_rpc_error", &arguments).await;
        assert_eq!((error.code, error.message.as_str()), (-32_050, "the moon is full"));
        let raw = error.to_raw().to_value();
        assert_eq!(raw["data"], json!({"from": "fake-server"}));
        let result = client.call("call_tool", &json!({"name": "alpha/rpc_error", "arguments": arguments})).await;
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("the moon is full"));
    }
}

#[tokio::test]
async fn unknown_fields_of_a_listed_tool_stay() {
    let files = [server("alpha", &["--bad-tool"]), toolcrib_testgateway::profile("default", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    for client in house.both("default") {
        let list = client.ask("tools/list", &json!({})).await.unwrap();
        let tools = list["tools"].as_array().unwrap();
        let odd = tools.iter().find(|tool| tool["name"] == "alpha_no_schema").unwrap();
        assert_eq!(odd["x-unknown"], json!({"kept": true}));
    }
}

#[tokio::test]
async fn a_large_result_passes_whole() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    for client in house.both("default") {
        let text = client.text("alpha_big", &json!({"bytes": 10_000_000})).await;
        assert_eq!(text.len(), 10_000_000);
    }
}

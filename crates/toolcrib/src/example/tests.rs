//! The example servers as a client sees them: the protocol, and what all tables have in common.

use bytes::Bytes;
use serde_json::json;

use super::*;

fn ask(example: &dyn Example, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    request["params"] = params;
    let answer = serve::receive(example, &Bytes::from(request.to_string())).answer.unwrap();
    serde_json::from_slice(&answer.to_bytes()).unwrap()
}

#[test]
fn every_tool_is_described_well() {
    let mut all = 0;
    for name in NAMES {
        let example = named(name).unwrap();
        assert_eq!(example.about().name, name);
        for tool in example.tools() {
            all += 1;
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            for (property, schema) in properties {
                assert!(
                    schema["description"].is_string() && schema["type"].is_string(),
                    "{name}/{} {property}",
                    tool["name"]
                );
            }
            for required in tool["inputSchema"]["required"].as_array().into_iter().flatten() {
                assert!(properties.contains_key(required.as_str().unwrap()), "{name}/{} {required}", tool["name"]);
            }
            assert!(tool["description"].as_str().unwrap().ends_with('.'), "{name}/{}", tool["name"]);
        }
    }
    assert_eq!(all, 36);
    assert!(named("other").is_none());
}

#[test]
fn the_protocol_is_spoken() {
    let clock = named("clock").unwrap();
    let hello = ask(&*clock, "initialize", json!({"protocolVersion": "2025-03-26"}));
    assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
    assert_eq!(hello["result"]["capabilities"], json!({"tools": {}}));
    assert_eq!(ask(&*clock, "initialize", json!({}))["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(ask(&*clock, "ping", json!({}))["result"], json!({}));
    assert_eq!(ask(&*clock, "resources/list", json!({}))["error"]["code"], -32_601);
    assert_eq!(ask(&*clock, "server/discover", json!({}))["error"]["code"], -32_601);
    assert_eq!(ask(&*clock, "tools/call", json!({"name": "x"}))["error"]["code"], -32_602);
    assert_eq!(ask(&*clock, "tools/call", json!({"name": "now", "arguments": 1}))["error"]["code"], -32_602);
    let wrong = ask(&*clock, "tools/call", json!({"name": "weekday", "arguments": {}}));
    assert_eq!(
        (&wrong["result"]["isError"], &wrong["result"]["content"][0]["text"]),
        (&json!(true), &json!("`date` is missing"))
    );
    let told = ask(&*clock, "tools/call", json!({"name": "weekday", "arguments": {"date": "2026-03-01"}}));
    assert_eq!(told["result"]["structuredContent"]["weekday"], "Sunday");
    let basics = named("basics").unwrap();
    let told = ask(&*basics, "tools/call", json!({"name": "echo", "arguments": {"text": ""}}));
    assert_eq!(told["result"], json!({"content": [{"type": "text", "text": ""}]}));
    let told = ask(&*basics, "tools/call", json!({"name": "picture"}));
    assert_eq!(told["result"]["content"][0]["mimeType"], "image/png");
}

#[test]
fn notes_offer_resources_and_prompts() {
    let notes = named("notes").unwrap();
    let capabilities = ask(&*notes, "initialize", json!({}))["result"]["capabilities"].clone();
    assert_eq!(capabilities, json!({"tools": {}, "resources": {"listChanged": true}, "prompts": {}}));
    let add = json!({"name": "add_note", "arguments": {"title": "t", "text": "body"}});
    let request = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": add}).to_string();
    let replies = serve::receive(&*notes, &Bytes::from(request));
    assert_eq!(replies.news.unwrap().method, "notifications/resources/list_changed");
    assert_eq!(ask(&*notes, "resources/list", json!({}))["result"]["resources"][0]["uri"], "note:///1");
    assert_eq!(ask(&*notes, "resources/templates/list", json!({}))["result"]["resourceTemplates"][0]["name"], "note");
    assert_eq!(ask(&*notes, "resources/read", json!({"uri": "note:///1"}))["result"]["contents"][0]["text"], "body");
    assert_eq!(ask(&*notes, "resources/read", json!({"uri": "note:///2"}))["error"]["code"], -32_002);
    assert_eq!(ask(&*notes, "prompts/list", json!({}))["result"]["prompts"][0]["name"], "summarize_notes");
    assert!(ask(&*notes, "prompts/get", json!({"name": "summarize_notes"}))["result"]["messages"].is_array());
    assert_eq!(ask(&*notes, "prompts/get", json!({"name": "x"}))["error"]["code"], -32_602);
}

#[test]
fn lines_are_answered_one_by_one() {
    let input = concat!(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\r\n",
        "not json\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}",
    );
    let long = format!("{}\n{input}", "x".repeat(2 * serve::largest()));
    let mut output = Vec::new();
    stdio::serve(&*named("units").unwrap(), long.as_bytes(), &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{output}");
    assert!(lines[0]["error"]["message"].as_str().unwrap().contains("a line of more than"));
    assert_eq!((&lines[1]["id"], &lines[2]["error"]["code"], &lines[3]["id"]), (&json!(1), &json!(-32_700), &json!(2)));
}

//! What the gateway sends, read by the official SDK: every message is one of the protocol for it, and it understands
//! the same on both sides of the gateway, in all pairings of eras.

#![allow(deprecated, reason = "sampling and roots are deprecated, and spoken for years to come")]

use rmcp::model::{
    CallToolResult, ClientJsonRpcMessage, ClientNotification, ClientRequest, CompleteResult, CreateMessageResult,
    ElicitResult, GetPromptResult, JsonRpcMessage, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListRootsResult, ListToolsResult, ReadResourceResult, ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib_testkit::script::{ReceivedMessage, Say, ScriptedServer, Speaks};

use crate::wire::{Wire, gateway_of};

const ERAS: [Speaks; 2] = [Speaks::Legacy, Speaks::Modern];
const TOOLS: &str = r##"{"tools":[
 {"name":"plain","inputSchema":{"type":"object"}},{"name":"ask","description":"d","inputSchema":{"type":"object"},"x-unknown":1},
 {"name":"rich","title":"T","inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},
  "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"A"},"icons":[{"src":"data:,"}],
  "_meta":{"ui":{"resourceUri":"ui://a"}}}]}"##;
const RESOURCES: &str =
    r#"{"resources":[{"uri":"script:a","name":"a","size":7,"mimeType":"text/plain","annotations":{"priority":0.5}}]}"#;
const TEMPLATES: &str = r#"{"resourceTemplates":[{"uriTemplate":"script:{id}","name":"t","title":"T"}]}"#;
const PROMPTS: &str = r#"{"prompts":[{"name":"p","arguments":[{"name":"a","required":true,"x":1}]}]}"#;
/// What tools answer.
const RESULTS: [&str; 5] = [
    r#"{"content":[{"type":"text","text":"a","annotations":{"audience":["user"],"priority":1},"x":1}],"isError":true}"#,
    r#"{"content":[{"type":"image","data":"AAAA","mimeType":"image/png","_meta":{"k":1}},{"type":"audio","data":"AAAA","mimeType":"audio/wav"}]}"#,
    r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"t","mimeType":"text/plain"}},{"type":"resource","resource":{"uri":"a:b","blob":"AAAA"}}]}"#,
    r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","size":7,"title":"T"}],"_meta":{"example.com/k":[1]},"unknown":{}}"#,
    r#"{"content":[],"structuredContent":{"a":[1,null,"ü"],"b":{"c":9007199254740993}},"isError":false}"#,
];
const READ: &str = r#"{"contents":[{"uri":"script:a","text":"t","x":1},{"uri":"script:b","blob":"AAAA","mimeType":"a/b","_meta":{"k":1}}]}"#;
const PROMPT: &str = r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"t"}},{"role":"assistant","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}]}"#;
const COMPLETION: &str = r#"{"completion":{"values":["a","b"],"total":2,"hasMore":false}}"#;
/// What is asked: method, parameters, the answer.
const QUESTIONS: [(&str, &str, &str); 3] = [
    (
        "elicitation/create",
        r#"{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","title":"A"}},"required":["a"]}}"#,
        r#"{"action":"accept","content":{"a":"b"},"x":1}"#,
    ),
    (
        "sampling/createMessage",
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"t"}}],"maxTokens":7,"systemPrompt":"s"}"#,
        r#"{"role":"assistant","content":{"type":"text","text":"t"},"model":"m","stopReason":"endTurn"}"#,
    ),
    ("roots/list", "{}", r#"{"roots":[{"uri":"file:///a","name":"a"}]}"#),
];

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// As the server of an era says it.
fn said(speaks: Speaks, method: &str, result: &str) -> String {
    let mut result = one_line(result);
    if speaks == Speaks::Modern {
        let cacheable = method.ends_with("/list") || method == "resources/read";
        let hints = if cacheable { r#","ttlMs":5,"cacheScope":"private""# } else { "" };
        result.truncate(result.len() - 1);
        result += &format!(r#","resultType":"complete"{hints}}}"#);
    }
    result
}

fn answer(speaks: Speaks, heard: &ReceivedMessage, say: &mut Say<'_>) {
    let arguments = heard.value()["arguments"].clone();
    let result = match heard.method.as_str() {
        "tools/list" => TOOLS,
        "resources/list" => RESOURCES,
        "resources/templates/list" => TEMPLATES,
        "prompts/list" => PROMPTS,
        "resources/read" => READ,
        "prompts/get" => PROMPT,
        "completion/complete" => COMPLETION,
        "tools/call" => {
            if let Some(number) = arguments["question"].as_u64() {
                let (method, params, _) = QUESTIONS[usize::try_from(number).unwrap()];
                return ask(speaks, heard, say, method, params);
            }
            let token = heard.value()["_meta"]["progressToken"].to_string();
            let progress = format!(r#"{{"progressToken":{token},"progress":0.5,"total":1,"message":"half"}}"#);
            say.notify("notifications/progress", &progress);
            say.notify("notifications/message", r#"{"level":"info","logger":"l","data":{"a":1}}"#);
            RESULTS[usize::try_from(arguments["result"].as_u64().unwrap()).unwrap()]
        }
        _ => return,
    };
    say.result(&said(speaks, &heard.method, result));
}

fn ask(speaks: Speaks, heard: &ReceivedMessage, say: &mut Say<'_>, method: &str, params: &str) {
    if speaks == Speaks::Legacy {
        let asked = say.ask(method, params);
        say.wait_for_answer(&asked);
    } else if !heard.params.contains("inputResponses") {
        let asked = format!(r#"{{"k":{{"method":"{method}","params":{params}}}}}"#);
        return say.result(&format!(r#"{{"resultType":"input_required","inputRequests":{asked},"requestState":"s"}}"#));
    }
    say.result(&said(speaks, "tools/call", RESULTS[0]));
}

/// What the SDK understands of a result, without what the gateway says for itself.
fn understood<T: DeserializeOwned + Serialize>(result: &str) -> Value {
    let read: T = serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: {result}"));
    let mut value = serde_json::to_value(read).unwrap();
    let members = value.as_object_mut().unwrap();
    ["resultType", "ttlMs", "cacheScope"].iter().for_each(|key| drop(members.remove(*key)));
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    value
}

fn of_method(method: &str, result: &str) -> Value {
    match method {
        "tools/list" => understood::<ListToolsResult>(result),
        "resources/list" => understood::<ListResourcesResult>(result),
        "resources/templates/list" => understood::<ListResourceTemplatesResult>(result),
        "prompts/list" => understood::<ListPromptsResult>(result),
        "resources/read" => understood::<ReadResourceResult>(result),
        "prompts/get" => understood::<GetPromptResult>(result),
        "completion/complete" => understood::<CompleteResult>(result),
        "elicitation/create" => understood::<ElicitResult>(result),
        "sampling/createMessage" => understood::<CreateMessageResult>(result),
        "roots/list" => understood::<ListRootsResult>(result),
        _ => understood::<CallToolResult>(result),
    }
}

/// A message to the client, which the SDK must know.
fn known_to_client(message: &str) -> Value {
    let read: ServerJsonRpcMessage = serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {message}"));
    match read {
        JsonRpcMessage::Request(it) => assert!(!matches!(it.request, ServerRequest::CustomRequest(_)), "{message}"),
        JsonRpcMessage::Notification(it) => {
            assert!(!matches!(it.notification, ServerNotification::CustomNotification(_)), "{message}");
        }
        _ => {}
    }
    serde_json::from_str(message).unwrap()
}

/// A message to the server, which the SDK must know; gives what it understands of its parameters.
fn known_to_server(heard: &ReceivedMessage) -> Option<Value> {
    let id = heard.id.as_ref().map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let message = match heard.method.as_str() {
        "" => format!(r#"{{"jsonrpc":"2.0",{id}"result":{}}}"#, heard.params),
        method => format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{}}}"#, heard.params),
    };
    params_of(&message)
}

/// What the SDK understands of a client's request, without `_meta`.
fn params_of(message: &str) -> Option<Value> {
    let read: ClientJsonRpcMessage = serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {message}"));
    match read {
        JsonRpcMessage::Request(it) => {
            assert!(!matches!(it.request, ClientRequest::CustomRequest(_)), "{message}");
            let mut value = serde_json::to_value(it.request).unwrap();
            let params = value["params"].as_object_mut()?;
            params.remove("_meta");
            Some(Value::Object(params.clone()))
        }
        JsonRpcMessage::Notification(it) => {
            assert!(!matches!(it.notification, ClientNotification::CustomNotification(_)), "{message}");
            None
        }
        _ => None,
    }
}

/// What the server asks by a method.
fn asked_in(method: &str) -> Value {
    let (_, params, _) = QUESTIONS.iter().find(|(known, ..)| *known == method).unwrap();
    serde_json::from_str(params).unwrap()
}

/// Makes a request, and reads everything that comes until its answer. Gives what was sent last and the result.
async fn exchange(wire: &mut Wire, method: &str, params: Value, reply: &str) -> (String, String) {
    let mut params = params;
    let mut sent = wire.begin(method, params.clone()).await;
    loop {
        let text = wire.next().await;
        let message = known_to_client(&text);
        if let Some(asked) = message["method"].as_str().filter(|_| !message["id"].is_null()) {
            assert_eq!(message["params"], asked_in(asked), "{text}");
            wire.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{reply}}}"#, message["id"])).await;
        }
        let result = &message["result"];
        if result["resultType"] == "input_required" {
            let (key, asked) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(asked["params"], asked_in(asked["method"].as_str().unwrap()), "{text}");
            let key = key.clone();
            params["requestState"] = result["requestState"].clone();
            params["inputResponses"] = json!({ key: serde_json::from_str::<Value>(reply).unwrap() });
            sent = wire.begin(method, params.clone()).await;
        } else if result.is_object() {
            return (sent, result.to_string());
        }
        assert!(message["error"].is_null(), "{text}");
    }
}

#[tokio::test]
async fn the_official_sdk_understands_the_same_on_both_sides() {
    for (speaks, client, stdio) in
        ERAS.into_iter().flat_map(|s| ERAS.into_iter().flat_map(move |c| [true, false].map(|stdio| (s, c, stdio))))
    {
        let server = ScriptedServer::start(speaks, move |heard, say| answer(speaks, heard, say));
        let gateway = gateway_of(&server, stdio).await;
        let mut wire = Wire::open(&gateway, client, json!({})).await;
        let calls = (0..RESULTS.len()).map(|number| {
            let arguments = json!({"result": number, "big": 9_007_199_254_740_993_u64});
            (
                "tools/call",
                json!({"name": "plain", "arguments": arguments, "_meta": {"progressToken": "t"}}),
                RESULTS[number],
            )
        });
        let others = [
            ("tools/list", json!({}), TOOLS),
            ("resources/list", json!({}), RESOURCES),
            ("resources/templates/list", json!({}), TEMPLATES),
            ("prompts/list", json!({}), PROMPTS),
            ("resources/read", json!({"uri": "script:a"}), READ),
            ("prompts/get", json!({"name": "p", "arguments": {"a": "b"}}), PROMPT),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}),
                COMPLETION,
            ),
        ];
        for (method, params, said) in calls.chain(others) {
            let (sent, result) = exchange(&mut wire, method, params, "{}").await;
            assert_eq!(of_method(method, &result), of_method(method, said), "{speaks:?} {client:?} {method}");
            if !method.ends_with("/list") {
                let got = known_to_server(&server.heard_of(method).pop().unwrap());
                assert_eq!(got, params_of(&sent), "{speaks:?} {client:?} {method}");
            }
        }
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let mut wire = Wire::open(&gateway, client, capabilities).await;
        for (number, (asked, _, reply)) in QUESTIONS.iter().enumerate() {
            let call = json!({"name": "ask", "arguments": {"question": number}});
            let (_, result) = exchange(&mut wire, "tools/call", call, reply).await;
            assert_eq!(of_method("tools/call", &result), of_method("tools/call", RESULTS[0]));
            let got = match speaks {
                Speaks::Legacy => server.heard().iter().rev().find(|it| it.method.is_empty()).unwrap().params.clone(),
                Speaks::Modern | Speaks::Both => {
                    let retry = server.heard_of("tools/call").pop().unwrap().value();
                    assert_eq!(retry["requestState"], "s");
                    retry["inputResponses"]["k"].to_string()
                }
            };
            assert_eq!(of_method(asked, &got), of_method(asked, reply), "{speaks:?} {client:?} {asked}");
        }
        for heard in server.heard() {
            known_to_server(&heard);
        }
    }
}

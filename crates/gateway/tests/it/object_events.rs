//! Events of objects are kept, listed by `core_events`, and sent to the sessions that follow them.

use serde_json::{Value, json};
use toolcrib_call::live_events::Kind as EventKind;
use toolcrib_gateway::ObjectEvent;
use toolcrib_testgateway::{Client, TestGateway, profile, server, stopped, text_of};
use toolcrib_testkit::eventually;
use toolcrib_view::ObjectKind;

fn object_event(kind: ObjectKind, name: &str, reason: &'static str, warning: bool) -> ObjectEvent {
    ObjectEvent { kind, name: name.to_owned(), reason, message: format!("{reason} of {name}"), warning }
}

async fn events(client: &Client, arguments: Value) -> Vec<Value> {
    let result = client.call("core_events", &arguments).await;
    assert_ne!(result["isError"], true, "{result}");
    let list: Vec<Value> = serde_json::from_str(&text_of(&result)).unwrap();
    assert_eq!(result["structuredContent"]["items"], json!(list), "the same as an object");
    list
}

fn reasons(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["reason"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_life_of_a_server_is_told() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.legacy("default").admin();
    let of_alpha = json!({ "resourceType": "mcpserver", "resourceName": "alpha" });
    for arguments in [json!({}), of_alpha.clone()] {
        let told = events(&client, arguments).await;
        let told = reasons(&told);
        for reason in ["MCPServerCreated", "MCPServerStarting", "MCPServerToolsDiscovered", "MCPServerStarted"] {
            assert!(told.contains(&reason), "{reason}: {told:?}");
        }
        assert_eq!(told.last(), Some(&"MCPServerCreated"), "newest first");
    }
    client.call("core_mcpserver_stop", &json!({ "name": "alpha" })).await;
    house.until_status("alpha", |status| status.state == toolcrib_upstream::State::Stopped).await;
    house.apply(&[(String::from("servers/alpha.yaml"), String::new())]).await;
    let told = events(&client, of_alpha).await;
    assert_eq!(told[0]["reason"], "MCPServerDeleted", "{told:?}");
    assert_eq!((&told[0]["type"], &told[0]["namespace"]), (&json!("Normal"), &json!("default")));
}

#[tokio::test]
async fn a_server_that_cannot_start_is_a_warning() {
    let broken = ("servers/broken.yaml".to_owned(), "name: broken\ncommand: no-such-program-here\n".to_owned());
    let house = TestGateway::settled(&[broken]).await;
    let client = house.modern("default").admin();
    let warnings = events(&client, json!({ "eventType": "Warning" })).await;
    assert_eq!(reasons(&warnings), ["MCPServerFailed"]);
    assert!(warnings[0]["message"].as_str().unwrap().contains("no-such-program-here"), "{warnings:?}");
}

#[tokio::test]
async fn events_are_asked_for_by_object_type_and_time_and_every_fault_is_named() {
    let house = TestGateway::settled(&[stopped("alpha", &["a"], "")]).await;
    for (kind, name, warning) in [
        (ObjectKind::Workflow, "w", false),
        (ObjectKind::Workflow, "v", true),
        (ObjectKind::ServiceInstance, "s", false),
    ] {
        house.gateway.happened(object_event(kind, name, "Created", warning));
    }
    let client = house.modern("default").admin();
    let names = async |arguments: Value| {
        let told = events(&client, arguments).await;
        told.iter().map(|event| event["resource_name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(json!({ "resourceType": "Workflow" })).await, ["v", "w"]);
    assert_eq!(names(json!({ "resourceType": "service" })).await, ["s"]);
    assert_eq!(names(json!({ "resourceType": "workflow", "eventType": "warning" })).await, ["v"]);
    assert_eq!(names(json!({ "limit": 1 })).await, ["s"]);
    assert_eq!(names(json!({ "until": "1h" })).await, [""; 0]);
    assert_eq!(names(json!({ "since": "1h", "resourceName": "w" })).await, ["w"]);
    assert_eq!(names(json!({ "since": "2999-01-01" })).await, [""; 0]);
    assert_eq!(names(json!({ "namespace": "other" })).await, [""; 0]);
    assert_eq!(names(json!({ "resourceType": "", "limit": 1, "namespace": "default" })).await, ["s"]);
    for (arguments, words) in [
        (json!({ "since": "soon" }), ["`since`", "`soon`"]),
        (json!({ "limit": 0 }), ["limit", "minimum"]),
        (json!({ "limit": 1_001 }), ["limit", "maximum"]),
        (json!({ "limit": 1.5 }), ["limit", "1.5"]),
        (json!({ "limit": "many" }), ["limit", "number"]),
        (json!({ "follow": "yes" }), ["follow", "boolean"]),
        (json!({ "resourceType": "pod" }), ["`pod`", "MCPServer"]),
        (json!({ "eventType": "bad" }), ["`bad`", "Warning"]),
        (json!({ "resorceType": "pod" }), ["`resorceType`", "`resourceType`"]),
        (json!({ "follow": true }), ["session", "/api/v1/events"]),
    ] {
        let told = client.call("core_events", &arguments).await;
        assert_eq!(told["isError"], true, "{arguments}");
        for word in words {
            assert!(text_of(&told).contains(word), "{arguments}: {word}: {told}");
        }
    }
}

#[tokio::test]
async fn non_admins_read_events_of_what_their_profile_shows_without_errors() {
    let broken = ("servers/broken.yaml".to_owned(), "name: broken\ncommand: m4rker-program\n".to_owned());
    let tight = profile("tight", "servers: [broken]");
    let house = TestGateway::settled(&[broken, stopped("alpha", &["a"], ""), tight]).await;
    for kind in [ObjectKind::Workflow, ObjectKind::ServiceInstance, ObjectKind::ServiceClass] {
        house.gateway.happened(object_event(kind, "m4rker", "Created", false));
    }
    for client in house.both("tight") {
        let told = events(&client, json!({})).await;
        assert!(!json!(told).to_string().contains("m4rker"), "{told:?}");
        assert!(told.iter().all(|event| event["resource_name"] == "broken"), "{told:?}");
        let failed = told.iter().find(|event| event["reason"] == "MCPServerFailed").unwrap();
        assert_eq!(failed["message"], "`broken`: failed");
        assert_eq!(events(&client, json!({ "resourceName": "alpha" })).await, Vec::<Value>::new());
        assert_eq!(events(&client, json!({ "limit": 1 })).await.len(), 1);
    }
    let all = json!(events(&house.modern("tight").admin(), json!({})).await).to_string();
    assert!(all.contains("m4rker-program") && all.contains("alpha"), "{all}");
}

#[tokio::test]
async fn a_session_that_does_not_administer_follows_what_its_profile_shows() {
    let house = TestGateway::settled(&[profile("tight", "servers: [alpha]")]).await;
    let client = house.legacy("tight");
    let mut stream = client.stream();
    let told = client.call("core_events", &json!({ "follow": true })).await;
    assert_ne!(told["isError"], true, "{told}");
    house.gateway.happened(object_event(ObjectKind::McpServer, "beta", "Failed", true));
    house.gateway.happened(object_event(ObjectKind::Workflow, "alpha", "ExecutionFailed", true));
    house.gateway.happened(object_event(ObjectKind::McpServer, "alpha", "Failed", true));
    let heard: Value = serde_json::from_slice(&eventually("an event", stream.recv()).await.unwrap()).unwrap();
    let params = &heard["params"];
    assert_eq!((&params["resource_name"], &params["message"]), (&json!("alpha"), &json!("`alpha`: failed")));
}

#[tokio::test]
async fn a_session_that_follows_is_told_what_it_asked_for() {
    let house = TestGateway::settled(&[profile("muster", "dialect: muster")]).await;
    let client = house.legacy_admin("muster");
    let other = house.legacy_admin("muster");
    let (mut stream, mut quiet) = (client.stream(), other.stream());
    let follow = |arguments: Value| json!({ "name": "core_events", "arguments": arguments });
    client.call("call_tool", &follow(json!({ "follow": true, "resourceType": "Workflow" }))).await;
    house.gateway.happened(object_event(ObjectKind::McpServer, "a", "Started", false));
    house.gateway.happened(object_event(ObjectKind::Workflow, "w", "ExecutionFailed", true));
    let heard = eventually("an event", stream.recv()).await.unwrap();
    let heard: Value = serde_json::from_slice(&heard).unwrap();
    assert_eq!(heard["method"], "notifications/muster/event");
    assert_eq!(heard["params"]["reason"], "WorkflowExecutionFailed");
    assert_eq!(heard["params"]["type"], "Warning");
    assert_eq!(heard["params"]["resource_name"], "w");
    // It asks for no more, and hears the next one that it asks for again.
    client.call("call_tool", &follow(json!({ "follow": false }))).await;
    house.gateway.happened(object_event(ObjectKind::Workflow, "w", "Deleted", false));
    client.call("call_tool", &follow(json!({ "follow": true }))).await;
    house.gateway.happened(object_event(ObjectKind::ServiceClass, "c", "Created", false));
    let heard = eventually("an event", stream.recv()).await.unwrap();
    let heard: Value = serde_json::from_slice(&heard).unwrap();
    assert_eq!(heard["params"]["reason"], "ServiceClassCreated");
    assert!(quiet.try_recv().is_none(), "a session that does not follow hears nothing");
}

#[tokio::test]
async fn listeners_of_the_control_api_hear_events() {
    let house = TestGateway::settled(&[]).await;
    let mut listener = house.gateway.events().listen(vec![EventKind::Event]).unwrap();
    house.gateway.happened(object_event(ObjectKind::ServiceInstance, "db", "Healthy", false));
    let told = eventually("an event", listener.next()).await.unwrap().unwrap();
    assert_eq!(told.what["reason"], "ServiceInstanceHealthy");
}

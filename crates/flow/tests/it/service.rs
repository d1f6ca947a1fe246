//! Service classes and services against a real gateway: what people and agents ask for, and what they are told.

use serde_json::{Value, json};
use toolcrib_base::Kind;
use toolcrib_testgateway::File;
use toolcrib_testkit::{eventually, eventually_finds, eventually_holds};

use crate::service_gateway::{ServiceGateway, server};

/// The arguments of the fake server's tool `raw` that make it answer this value.
fn says(value: &Value) -> Value {
    let result = json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value});
    json!({ "result": result.to_string() })
}

fn config(start: &Value, stop: &Value) -> Value {
    json!({ "lifecycleTools": { "start": start, "stop": stop } })
}

/// Starts and stops with tools of the fake server `fake`, by names of three dialects.
fn working() -> Value {
    config(
        &json!({"tool": "x_fake_raw", "args": says(&json!({"volume": "v-{{ .name }}"})), "outputs": {"id": "volume"}}),
        &json!({"tool": "fake/echo", "args": {"text": "{{ .service.id }}"}}),
    )
}

fn class(name: &str, config: &Value) -> File {
    (format!("service-classes/{name}.yaml"), json!({"name": name, "serviceConfig": config}).to_string())
}

async fn house() -> ServiceGateway {
    ServiceGateway::new(&[server("fake"), class("web", &working())]).await
}

fn states(value: &Value) -> (String, String) {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("health"))
}

#[tokio::test]
async fn a_service_goes_through_its_life() {
    let house = house().await;
    let made = house.must("core_service_create", json!({"serviceClassName": "web", "name": "shop"})).await;
    assert_eq!((made["name"].as_str(), made["serviceClassName"].as_str()), (Some("shop"), Some("web")));
    assert_eq!((&made["outputs"], &made["serviceData"]), (&json!({"id": "v-shop"}), &json!({"id": "v-shop"})));
    let got = house.must("core_service_get", json!({"name": "shop"})).await;
    assert_eq!(states(&got), ("running".to_owned(), "healthy".to_owned()));
    let list = house.must("core_service_list", json!({})).await;
    let names: Vec<_> = list["services"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!((names, &list["total"]), (vec!["mcp-aggregator", "fake", "shop"], &json!(3)));
    for (tool, words, state) in [
        ("core_service_start", "already running", "running"),
        ("core_service_stop", "successfully stopped service 'shop'", "stopped"),
        ("core_service_stop", "already stopped", "stopped"),
        ("core_service_start", "successfully started service 'shop'", "running"),
        ("core_service_restart", "successfully restarted service 'shop'", "running"),
    ] {
        let said = house.must(tool, json!({"name": "shop"})).await;
        assert!(said["message"].as_str().unwrap().contains(words), "{tool}: {said}");
        let status = house.must("core_service_status", json!({"name": "shop"})).await;
        assert_eq!((status["state"].as_str(), status["service_type"].as_str()), (Some(state), Some("web")), "{tool}");
    }
    let gone = house.must("core_service_delete", json!({"name": "shop"})).await;
    assert_eq!(gone["message"], "successfully deleted service 'shop'");
    for tool in ["get", "status", "start", "stop", "restart", "delete"] {
        let tool = format!("core_service_{tool}");
        let problem = house.refused(&tool, json!({"name": "shop"}), &["service `shop` not found"]).await;
        assert_eq!(problem.kind, Kind::NotFound);
    }
}

#[tokio::test]
async fn what_cannot_be_made_is_told_and_leaves_nothing() {
    let house = house().await;
    let failing = config(
        &json!({"tool": "fake/fail", "args": {"message": "underlying tool failed"}}),
        &json!({"tool": "fake/echo"}),
    );
    let missing = config(&json!({"tool": "x_fake_nothing"}), &json!({"tool": "x_fake_echo"}));
    let args = json!({"text": {"type": "string", "required": true}, "count": {"type": "integer", "default": 3}});
    for (name, config, args) in
        [("bad", &failing, json!({})), ("lacking", &missing, json!({})), ("typed", &working(), args)]
    {
        house.must("core_serviceclass_create", json!({"name": name, "serviceConfig": config, "args": args})).await;
    }
    for (class, args, words) in [
        ("nobody", json!({}), &["service class `nobody` not found"][..]),
        ("bad", json!({}), &["Failed to create ServiceClass instance", "underlying tool failed"]),
        ("lacking", json!({}), &["not available", "missing required tools: x_fake_nothing"]),
        ("typed", json!({}), &["missing required argument `text`"]),
        ("typed", json!({"text": 1}), &["invalid type for argument `text`"]),
        ("typed", json!({"text": "a", "cuont": 1}), &["unknown argument `cuont`"]),
    ] {
        for persist in [false, true] {
            let arguments = json!({"serviceClassName": class, "name": "x", "args": args, "persist": persist});
            house.refused("core_service_create", arguments, words).await;
            house.refused("core_service_get", json!({"name": "x"}), &["not found"]).await;
            assert_eq!(house.read("services/x.yaml"), None);
            assert!(house.gateway.store().services().all().unwrap().is_empty());
        }
    }
    let said = house.must("core_service_validate", json!({"serviceClassName": "lacking", "name": "x"})).await;
    assert!(said["message"].as_str().unwrap().contains("cannot be created now"), "{said}");
    let arguments = json!({"serviceClassName": "typed", "name": "x", "args": {"text": "a"}});
    let valid = house.must("core_service_validate", arguments.clone()).await;
    assert_eq!(valid["message"], "Validation successful for service x");
    house.refused("core_service_get", json!({"name": "x"}), &["not found"]).await;
    let made = house.must("core_service_create", arguments.clone()).await;
    assert_eq!(made["args"], json!({"text": "a", "count": 3}));
    for tool in ["core_service_create", "core_service_validate"] {
        house.refused(tool, arguments.clone(), &["service `x` already exists"]).await;
    }
    for name in ["fake", "mcp-aggregator"] {
        let arguments = json!({"serviceClassName": "web", "name": name});
        house.refused("core_service_create", arguments, &["already exists"]).await;
    }
    for name in ["../x", "a/b", ".x", "a b"] {
        let arguments = json!({"serviceClassName": "web", "name": name, "persist": true});
        house.refused("core_service_create", arguments, &["is not a name"]).await;
    }
}

#[tokio::test]
async fn classes_are_written_changed_and_removed() {
    let house = house().await;
    let named = |name: &str| json!({ "name": name });
    let other = json!({
        "name": "other", "description": "Another", "args": {"a": {"type": "string"}}, "serviceConfig": working(),
    });
    let said = house.must("core_serviceclass_create", other.clone()).await;
    assert!(said["message"].as_str().unwrap().contains("created successfully"));
    assert!(house.read("service-classes/other.yaml").unwrap().starts_with("name: other\n"));
    house.refused("core_serviceclass_create", other.clone(), &["already exists"]).await;
    let list = house.must("core_serviceclass_list", json!({})).await;
    assert_eq!((&list["total"], &list["mode"]), (&json!(2), &json!("filesystem")));
    let got = house.must("core_serviceclass_get", named("other")).await;
    assert_eq!((&got["available"], &got["requiredTools"]), (&json!(true), &json!(["x_fake_raw", "fake/echo"])));
    assert_eq!(got["args"], json!({"a": {"type": "string"}}));

    let lacking = config(&json!({"tool": "fake_nothing"}), &json!({"tool": "fake/echo"}));
    house.must("core_serviceclass_update", json!({"name": "other", "serviceConfig": lacking})).await;
    let got = house.must("core_serviceclass_get", named("other")).await;
    assert_eq!((&got["description"], &got["missingTools"]), (&json!("Another"), &json!(["fake_nothing"])));
    assert_eq!((&got["createToolAvailable"], &got["deleteToolAvailable"]), (&json!(false), &json!(true)));
    let available = |name: &str| house.must("core_serviceclass_available", named(name));
    assert_eq!(available("other").await["available"], false);
    assert_eq!(available("web").await["available"], true);
    assert_eq!(available("nobody").await["available"], false);

    house.must("core_service_create", json!({"serviceClassName": "web", "name": "shop"})).await;
    let said = house.must("core_serviceclass_delete", named("web")).await;
    assert!(said["message"].as_str().unwrap().contains("`shop` cannot be started or stopped"), "{said}");
    for tool in ["get", "delete", "update"] {
        let tool = format!("core_serviceclass_{tool}");
        let problem = house.refused(&tool, named("web"), &["service class `web` not found"]).await;
        assert_eq!(problem.kind, Kind::NotFound);
    }
    house.refused("core_service_stop", named("shop"), &["service class `web` not found"]).await;
}

#[tokio::test]
async fn wrong_classes_are_refused_with_words_that_help() {
    let house = house().await;
    let with = |config: Value| json!({"name": "x", "serviceConfig": config});
    let more = |key: &str, value: Value| {
        let mut config = working();
        config[key] = value;
        json!({"name": "x", "serviceConfig": config})
    };
    let echo = json!({"tool": "fake/echo"});
    for (arguments, words) in [
        (json!({"serviceConfig": working()}), &["name", "required"][..]),
        (json!({"name": "", "serviceConfig": working()}), &["name", "required"]),
        (json!({"name": "../x", "serviceConfig": working()}), &["is not a name"]),
        (with(json!("text")), &["cannot unmarshal string", "serviceConfig"]),
        (with(json!(null)), &["lifecycleTools", "is required"]),
        (with(json!({"lifecycleTools": []})), &["cannot unmarshal array"]),
        (with(json!({"lifecycleTools": {"stop": echo}})), &["start.tool", "is required"]),
        (with(json!({"lifecycleTools": {"start": {}, "stop": echo}})), &["start.tool", "is required"]),
        (with(json!({"lifecycleTools": {"start": echo}})), &["stop.tool", "is required"]),
        (
            with(config(&json!({"tool": "a", "args": {"x": "{{ .x"}}), &echo)),
            &["serviceConfig.lifecycleTools.start.args"],
        ),
        (more("timeout", json!({"create": "soon"})), &["serviceConfig.timeout.create", "expected a duration"]),
        (more("dependencies", json!(["x"])), &["dependency cycle: x -> x"]),
        (more("healthChek", json!({})), &["serviceConfig.healthChek", "healthCheck"]),
        (json!({"name": "x", "serviceConfig": working(), "extra": 1}), &["unknown argument `extra`"]),
        (json!({"name": "x", "serviceConfig": working(), "args": {"a": {"type": "text"}}}), &["/args/a/type"]),
    ] {
        for tool in ["core_serviceclass_create", "core_serviceclass_validate"] {
            house.refused(tool, arguments.clone(), words).await;
            assert_eq!(house.read("service-classes/x.yaml"), None, "{tool}");
        }
    }
    let said = house.must("core_serviceclass_validate", with(working())).await;
    assert_eq!(said["message"], "Validation successful for ServiceClass x");
}

#[tokio::test]
async fn servers_and_the_gateway_are_services_too() {
    let house = house().await;
    let named = |name: &str| json!({ "name": name });
    let status = house.must("core_service_status", named("fake")).await;
    assert_eq!((status["service_type"].as_str(), status["state"].as_str()), (Some("MCPServer"), Some("running")));
    assert_eq!(status["metadata"]["type"], "stdio");
    let stopped = house.must("core_service_stop", named("fake")).await;
    assert_eq!(stopped["message"], "successfully stopped service 'fake'");
    assert_eq!(house.must("core_service_get", named("fake")).await["state"], "stopped");
    let again = house.must("core_service_stop", named("fake")).await;
    assert!(again["message"].as_str().unwrap().contains("already stopped"));
    for (tool, words) in [("start", "started"), ("start", "already running"), ("restart", "restarted")] {
        let said = house.must(&format!("core_service_{tool}"), named("fake")).await;
        assert!(said["message"].as_str().unwrap().contains(words), "{said}");
        assert_eq!(said["state"], "running");
    }
    let gateway = house.must("core_service_get", named("mcp-aggregator")).await;
    assert_eq!((&gateway["serviceClassType"], &gateway["state"]), (&json!("Aggregator"), &json!("running")));
    for tool in ["stop", "restart"] {
        let words = ["is the gateway itself"];
        house.refused(&format!("core_service_{tool}"), named("mcp-aggregator"), &words).await;
    }
    for name in ["fake", "mcp-aggregator"] {
        house.refused("core_service_delete", named(name), &["cannot be deleted"]).await;
    }
}

#[tokio::test]
async fn what_is_needed_by_others_is_not_stopped_not_even_a_server() {
    let house = house().await;
    let mut needing = working();
    needing["dependencies"] = json!(["web", "fake"]);
    house.must("core_serviceclass_create", json!({"name": "top", "serviceConfig": needing})).await;
    let create = |class: &str, name: &str| json!({"serviceClassName": class, "name": name});
    let words = ["service `t` needs `web`", "no service of the class `web` exists", "core_service_create"];
    house.refused("core_service_create", create("top", "t"), &words).await;
    house.must("core_service_create", create("web", "w")).await;
    house.must("core_service_stop", json!({"name": "w"})).await;
    house.must("core_service_create", create("top", "t")).await;
    assert_eq!(house.must("core_service_get", json!({"name": "w"})).await["state"], "running");
    for (tool, name) in [("stop", "w"), ("delete", "w"), ("stop", "fake")] {
        let problem =
            house.refused(&format!("core_service_{tool}"), json!({"name": name}), &["services `t` depend on it"]).await;
        assert_eq!(problem.kind, Kind::Conflict);
    }
    house.must("core_service_delete", json!({"name": "t"})).await;
    house.must("core_service_delete", json!({"name": "w"})).await;
}

#[tokio::test]
async fn a_service_whose_stop_tool_fails_can_still_be_deleted_and_that_is_told() {
    let house = house().await;
    let stuck = config(
        &json!({"tool": "fake/echo", "args": {"text": "x"}}),
        &json!({"tool": "fake/fail", "args": {"message": "disk is busy"}}),
    );
    house.must("core_serviceclass_create", json!({"name": "stuck", "serviceConfig": stuck})).await;
    house.must("core_service_create", json!({"serviceClassName": "stuck", "name": "s", "persist": true})).await;
    house.refused("core_service_stop", json!({"name": "s"}), &["failed to stop service 's'", "disk is busy"]).await;
    let status = house.must("core_service_status", json!({"name": "s"})).await;
    assert_eq!(states(&status), ("failed".to_owned(), "unhealthy".to_owned()));
    assert!(status["error"].as_str().unwrap().contains("failed to stop: `fake/fail`: disk is busy"));
    let said = house.must("core_service_delete", json!({"name": "s"})).await;
    assert!(said["message"].as_str().unwrap().contains("but it was not stopped: `fake/fail`: disk is busy"), "{said}");
    assert_eq!(house.read("services/s.yaml"), None);
}

#[tokio::test]
async fn what_persists_is_there_again_and_is_asked_how_it_is() {
    let mut asked = working();
    asked["lifecycleTools"]["status"] = json!({"tool": "fake/echo", "args": {"text": "{{ .start.id }}"}});
    let house = ServiceGateway::new(&[server("fake"), class("asked", &asked), class("web", &working())]).await;
    for (class, name, persist) in [("asked", "a", true), ("web", "b", true), ("asked", "c", false)] {
        let arguments = json!({"serviceClassName": class, "name": name, "persist": persist, "args": {"n": 1}});
        house.must("core_service_create", arguments).await;
    }
    assert!(house.read("services/a.yaml").unwrap().contains("serviceClassName: asked"));
    assert_eq!(house.read("services/c.yaml"), None);
    let house = house.begin_again().await;
    house.refused("core_service_get", json!({"name": "c"}), &["not found"]).await;
    for (name, state) in [("a", "running"), ("b", "unknown")] {
        let got = eventually_finds(name, async || {
            let got = house.must("core_service_get", json!({"name": name})).await;
            let is_settled = got["state"] == state && got["lastError"].is_null() == (state == "running");
            if is_settled { Ok(got) } else { Err(got) }
        });
        let got = got.await;
        assert_eq!((&got["args"], &got["outputs"]), (&json!({"n": 1}), &json!({"id": format!("v-{name}")})));
    }
    house.must("core_service_stop", json!({"name": "b"})).await;
    house.must("core_service_delete", json!({"name": "a"})).await;
    let house = house.begin_again().await;
    house.refused("core_service_get", json!({"name": "a"}), &["not found"]).await;
    assert_eq!(house.must("core_service_get", json!({"name": "b"})).await["state"], "stopped");
}

#[tokio::test]
async fn what_starts_with_the_gateway_does_so_as_who_made_it() {
    let core = config(&json!({"tool": "core_audit_list"}), &json!({"tool": "core_audit_list"}));
    let house = ServiceGateway::new(&[class("core", &core)]).await;
    let arguments = json!({"serviceClassName": "core", "name": "auto", "persist": true, "autoStart": true});
    house.must("core_service_create", arguments).await;
    house.must("core_service_stop", json!({"name": "auto"})).await;
    // Written by hand, and by no one who may administer: its tools are not there for it.
    let text = "name: hand\nserviceClassName: core\nautoStart: true\n".to_owned();
    house.write(&[("services/hand.yaml".to_owned(), text)]);
    let house = house.begin_again().await;
    let until = |name: &'static str, state: &'static str| {
        let house = &house;
        eventually_finds(state, async move || {
            let got = house.must("core_service_get", json!({"name": name})).await;
            if got["state"] == state { Ok(()) } else { Err(got) }
        })
    };
    until("auto", "running").await;
    until("hand", "waiting").await;
    let hand = house.must("core_service_get", json!({"name": "hand"})).await;
    assert_eq!(hand["lastError"], "missing required tools: core_audit_list");
}

#[tokio::test]
async fn the_text_of_a_class_is_checked_by_its_lines_and_written_as_it_is() {
    let house = house().await;
    let text = "# why\nname: kept\nserviceConfig:\n  lifecycleTools:\n    start: {tool: fake/echo}\n    stop: {tool: fake/echo}\n";
    let wrong = text.to_owned() + "  zzz: 1\n";
    let said = house.must("core_serviceclass_validate", json!({"name": "kept", "yaml": wrong})).await;
    let first = &said["problems"][0];
    assert_eq!(
        (&said["valid"], &first["line"], &first["field"]),
        (&json!(false), &json!(7), &json!("serviceConfig.zzz"))
    );
    assert_eq!(house.must("core_serviceclass_validate", json!({"name": "kept", "yaml": text})).await["valid"], true);
    house.must("core_serviceclass_create", json!({"name": "kept", "yaml": text})).await;
    assert_eq!(house.read("service-classes/kept.yaml").as_deref(), Some(text));
    let got = house.must("core_serviceclass_get", json!({"name": "kept"})).await;
    assert_eq!((&got["yaml"], &got["file"]), (&json!(text), &json!("service-classes/kept.yaml")));
    let both = json!({"name": "kept", "yaml": text, "description": "x"});
    house.refused("core_serviceclass_update", both, &["`yaml` and `description` are mutually exclusive"]).await;
    let new = json!({"name": "kept", "yaml": text.replace("why", "because"), "revision": got["revision"]});
    house.must("core_serviceclass_update", new.clone()).await;
    assert!(house.read("service-classes/kept.yaml").unwrap().starts_with("# because\n"));
    house.refused("core_serviceclass_update", new, &["has changed"]).await;
}

#[tokio::test]
async fn only_who_administers_changes_services() {
    let house = house().await;
    let user = house.caller(false);
    house.must("core_service_create", json!({"serviceClassName": "web", "name": "x"})).await;
    for tool in [
        "core_service_create",
        "core_service_delete",
        "core_service_restart",
        "core_service_start",
        "core_service_stop",
        "core_service_validate",
        "core_serviceclass_create",
        "core_serviceclass_delete",
        "core_serviceclass_update",
        "core_serviceclass_validate",
    ] {
        let arguments = json!({"name": "x", "serviceClassName": "web", "serviceConfig": {}});
        let refused = house.call(&user, "call_tool", &json!({"name": tool, "arguments": arguments})).await;
        assert_eq!(refused["_meta"]["toolcrib/error"], "forbidden", "{tool}: {refused}");
    }
    assert_eq!(house.must("core_service_get", json!({"name": "x"})).await["state"], "running");
}

#[tokio::test]
async fn non_admins_call_no_tool_of_a_service_and_see_no_result() {
    let mut watched = working();
    watched["lifecycleTools"]["status"] = json!({"tool": "fake/raw", "args": says(&json!({"health": "degraded"}))});
    let house = ServiceGateway::new(&[server("fake"), class("web", &watched)]).await;
    house.must("core_service_create", json!({"serviceClassName": "web", "name": "shop"})).await;
    let user = house.caller(false);
    let ask = async |tool: &str, name: &str| {
        let by = json!({"name": tool, "arguments": {"name": name}});
        house.call(&user, "call_tool", &by).await["structuredContent"].clone()
    };
    let calls = async || {
        eventually("the audit log", house.gateway.store().audit().flush()).await.unwrap();
        let filter = toolcrib_store::AuditFilter { limit: 100, ..toolcrib_store::AuditFilter::default() };
        let events = house.gateway.store().audit().list(&filter).unwrap();
        events.iter().filter(|event| event.target.starts_with("fake/")).count()
    };
    let before = calls().await;
    for tool in ["core_service_status", "core_service_get"] {
        let shown = ask(tool, "shop").await;
        assert_eq!((&shown["state"], &shown["health"]), (&json!("running"), &json!("healthy")), "{shown}");
        assert!(!shown.to_string().contains("v-shop"), "{shown}");
    }
    let shown = ask("core_serviceclass_get", "web").await;
    assert_eq!(shown["requiredTools"].as_array().unwrap().len(), 3, "{shown}");
    assert!(shown.get("serviceConfig").is_none() && shown.get("args").is_none(), "{shown}");
    assert_eq!(ask("core_service_get", "fake").await["serviceData"]["clientReady"], true);
    assert_eq!(calls().await, before, "nothing was called");
    assert!(house.must("core_service_status", json!({"name": "shop"})).await.to_string().contains("v-shop"));
    assert_eq!(calls().await, before + 1, "the administrator has it asked");
}

#[tokio::test]
async fn each_tool_of_a_lifecycle_leaves_an_audit_event() {
    let house = house().await;
    house.must("core_service_create", json!({"serviceClassName": "web", "name": "shop"})).await;
    house.must("core_service_stop", json!({"name": "shop"})).await;
    eventually("the audit log", house.gateway.store().audit().flush()).await.unwrap();
    let filter = toolcrib_store::AuditFilter {
        order: toolcrib_store::AuditOrder::OldestFirst { after: 0 },
        limit: 100,
        ..toolcrib_store::AuditFilter::default()
    };
    let audited = house.gateway.store().audit().list(&filter).unwrap();
    let seen: Vec<_> = audited.iter().map(|it| (&*it.principal, &*it.target)).collect();
    let expected =
        [("ann", "fake/raw"), ("ann", "core_service_create"), ("ann", "fake/echo"), ("ann", "core_service_stop")];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_dropped_request_leaves_no_half_of_a_service() {
    let slow =
        config(&json!({"tool": "fake/slow", "args": {"ms": 300}}), &json!({"tool": "fake/slow", "args": {"ms": 300}}));
    let house = ServiceGateway::new(&[server("fake"), class("slow", &slow)]).await;
    let drop_after = |tool: &'static str, arguments: Value| {
        let house = &house;
        async move {
            let dropped = tokio::time::timeout(std::time::Duration::from_millis(100), house.operate(tool, arguments));
            assert!(dropped.await.is_err(), "{tool} was too fast");
        }
    };
    let state = || async {
        match house.operate("core_service_get", json!({"name": "s"})).await {
            Ok(got) => got["state"].as_str().unwrap().to_owned(),
            Err(_) => "gone".to_owned(),
        }
    };
    drop_after("core_service_create", json!({"serviceClassName": "slow", "name": "s", "persist": true})).await;
    for expected in ["running", "gone"] {
        eventually_finds(expected, async || {
            let state = state().await;
            if state == expected { Ok(()) } else { Err(state) }
        })
        .await;
        if expected == "running" {
            drop_after("core_service_delete", json!({"name": "s"})).await;
        }
    }
    let is_gone =
        || house.read("services/s.yaml").is_none() && house.gateway.store().services().all().unwrap().is_empty();
    eventually_holds("that the file and the record are gone", is_gone).await;
}

#[tokio::test]
async fn of_two_who_delete_a_service_one_is_told_that_it_is_gone() {
    let house = house().await;
    house.must("core_service_create", json!({"serviceClassName": "web", "name": "s", "persist": true})).await;
    let delete = || house.operate("core_service_delete", json!({"name": "s"}));
    let (one, other) = futures_util::future::join(delete(), delete()).await;
    let told: Vec<_> = [one, other].into_iter().map(|done| done.map_err(|problem| problem.kind)).collect();
    assert_eq!(told.iter().filter(|done| done.is_ok()).count(), 1, "{told:?}");
    assert!(told.contains(&Err(Kind::NotFound)) || told.contains(&Err(Kind::Unavailable)), "{told:?}");
    house.must("core_service_create", json!({"serviceClassName": "web", "name": "s"})).await;
}

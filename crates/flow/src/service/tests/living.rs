//! One service: starting, stopping, templates, deadlines, health.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_service_starts_stops_and_starts_again() {
    let world = World::new(&[("web", PLAIN)]);
    world.add("a", "web");
    world.assert_life("a", "stopped", "unknown");
    assert_eq!(world.start("a").await.unwrap(), OrderOutcome::Carried);
    world.assert_life("a", "running", "healthy");
    assert_eq!(world.start("a").await.unwrap(), OrderOutcome::Already);
    assert_eq!(world.order("a", Order::Stop).await.unwrap(), OrderOutcome::Carried);
    world.assert_life("a", "stopped", "unknown");
    assert_eq!(world.order("a", Order::Stop).await.unwrap(), OrderOutcome::Already);
    assert_eq!(world.order("a", Order::Restart).await.unwrap(), OrderOutcome::Carried);
    assert_eq!(world.order("a", Order::Restart).await.unwrap(), OrderOutcome::Carried);
    assert_eq!(world.called(), ["up", "down", "up", "down", "up"]);
    let reasons = ["Starting", "Started", "Stopping", "Stopped", "Starting", "Started"];
    assert_eq!(world.reasons()[..6], reasons);
}

#[tokio::test(start_paused = true)]
async fn a_restart_tool_is_used_where_there_is_one() {
    let world = World::new(&[("web", &format!("{PLAIN}  restart: {{tool: again, outputs: {{id: id}}}}\n"))]);
    world.add("a", "web");
    world.start("a").await.unwrap();
    world.order("a", Order::Restart).await.unwrap();
    assert_eq!(world.called(), ["up", "again"]);
    assert_eq!(world.table.entry("a").unwrap().life().kept["restart"], json!({"id": "again"}));
}

#[tokio::test(start_paused = true)]
async fn arguments_and_outputs_are_rendered() {
    let config = "lifecycleTools:\n  start:\n    tool: up\n    args: {deep: [\"{{ .app }}-{{ .args.app }}\", \"{{ .size }}\"], of: \"{{ .serviceClassName }}/{{ .name }}\"}\n    outputs: {serviceId: result.id, gone: no.such.path}\n  stop:\n    tool: down\n    args: {id: \"{{ .service.id }}\", meta: \"{{ .service.metadata.serviceId }}\", start: \"{{ .start.serviceId }}\"}\noutputs:\n  url: \"http://{{ .service.id }}/{{ .app }}\"\n";
    let world = World::new(&[("web", config)]);
    world.tool("up", ToolScript::Says(json!({"id": "i-7", "more": 1})));
    let args = json!({"app": "shop", "size": 3});
    world.add_with("a", "web", args.as_object().cloned().unwrap());
    world.start("a").await.unwrap();
    world.order("a", Order::Stop).await.unwrap();
    let called = world.shop.0.called.lock().unwrap().clone();
    assert_eq!(called[0].1, json!({"deep": ["shop-shop", 3], "of": "web/a"}));
    assert_eq!(called[1].1, json!({"id": "i-7", "meta": "i-7", "start": "i-7"}));
    let life = world.table.entry("a").unwrap().life();
    assert_eq!(Value::from(life.outputs.clone()), json!({"serviceId": "i-7", "url": "http://i-7/shop"}));
}

#[tokio::test(start_paused = true)]
async fn a_template_that_asks_for_nothing_there_fails_before_the_tool_is_called() {
    let config = "lifecycleTools:\n  start: {tool: up, args: {x: \"{{ .nonexistent }}\"}}\n  stop: {tool: down}\n";
    let world = World::new(&[("web", config)]);
    world.add("a", "web");
    let problem = world.start("a").await.unwrap_err();
    assert!(problem.message.contains("failed to render arguments of `up`"), "{problem}");
    assert!(problem.message.contains("nonexistent"), "{problem}");
    assert!(world.called().is_empty());
    world.assert_life("a", "failed", "unhealthy");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_true_leaves_the_tool_alone() {
    let config = "lifecycleTools:\n  start: {tool: up}\n  stop: {tool: down, condition: \"{{ .wanted }}\"}\n";
    let world = World::new(&[("web", config)]);
    for (service, wanted, calls) in [("a", json!(false), &["up"][..]), ("b", json!(true), &["up", "down"])] {
        world.add_with(service, "web", Map::from_iter([("wanted".to_owned(), wanted)]));
        world.start(service).await.unwrap();
        world.order(service, Order::Stop).await.unwrap();
        assert_eq!(world.called(), calls);
        world.assert_life(service, "stopped", "unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_says_is_held_against_what_is_expected() {
    for (expect, answer, fault) in [
        ("expect: {jsonPath: {state: up, port: \"80\"}}", json!({"state": "up", "port": 80}), None),
        (
            "expect: {json_path: {state: up}}",
            json!({"state": "down"}),
            Some("expected `state` to be \"up\", got \"down\""),
        ),
        ("expect: {jsonPath: {state: up}}", json!({}), Some("expected `state` to be \"up\", got nothing")),
        (
            "expect_not: {jsonPath: {state: down}}",
            json!({"state": "down"}),
            Some("expected `state` not to be \"down\""),
        ),
        ("expectNot: {jsonPath: {state: down}}", json!({"state": "up"}), None),
        ("expect: {success: false}", json!({}), Some("`up` was expected to fail and did not")),
        ("expectNot: {success: true}", json!({}), Some("`up` was expected not to succeed")),
    ] {
        let config = format!("lifecycleTools:\n  start: {{tool: up, {expect}}}\n  stop: {{tool: down}}\n");
        let world = World::new(&[("web", &config)]);
        world.tool("up", ToolScript::Says(answer));
        world.add("a", "web");
        match (world.start("a").await, fault) {
            (Ok(_), None) => {}
            (Err(problem), Some(fault)) => assert!(problem.message.contains(fault), "{expect}: {problem}"),
            (found, _) => panic!("{expect}: {found:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_tool_has_its_deadline() {
    let config = format!("{PLAIN}  status: {{tool: look}}\ntimeout: {{create: 7s, delete: 5s, healthCheck: 1500ms}}\n");
    let world = World::new(&[("web", &config)]);
    world.add("a", "web");
    let took = |since: tokio::time::Instant| since.elapsed().as_millis();
    world.tool("up", ToolScript::Hangs);
    let since = tokio::time::Instant::now();
    let problem = world.start("a").await.unwrap_err();
    assert_eq!((problem.kind, took(since)), (Kind::Timeout, 7_000));
    assert!(problem.message.contains("`up` did not answer within 7 s"), "{problem}");
    world.assert_life("a", "failed", "unhealthy");
    world.tool("up", ToolScript::Says(json!({})));
    world.start("a").await.unwrap();
    world.tool("down", ToolScript::Hangs);
    world.tool("look", ToolScript::Hangs);
    let since = tokio::time::Instant::now();
    assert_eq!(world.order("a", Order::Stop).await.unwrap_err().kind, Kind::Timeout);
    assert_eq!(took(since), 5_000 + 1_500, "the stop tool, and then the status tool is asked what is left");
    world.assert_life("a", "failed", "unhealthy");
    // It can be stopped once its tool answers again.
    world.tool("down", ToolScript::Says(json!({})));
    world.order("a", Order::Stop).await.unwrap();
    world.assert_life("a", "stopped", "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_stop_tool_fails_is_not_said_to_have_stopped() {
    let world = World::new(&[("bare", PLAIN), ("asked", &format!("{PLAIN}  status: {{tool: look}}\n"))]);
    for (class, state) in [("bare", "failed"), ("asked", "running")] {
        world.tool("down", ToolScript::Fails("disk is busy"));
        world.add(class, class);
        world.start(class).await.unwrap();
        let problem = world.order(class, Order::Stop).await.unwrap_err();
        assert!(problem.message.contains("disk is busy"), "{problem}");
        let (now, _, error) = world.life(class);
        assert_eq!((now.as_str(), error.as_deref()), (state, Some("failed to stop: `down`: disk is busy")));
    }
    assert_eq!(world.order("bare", Order::Restart).await.unwrap_err().kind, Kind::BadServer);
}

const WATCHED: &str = "lifecycleTools:\n  start: {tool: up}\n  stop: {tool: down}\n  healthCheck: {tool: look, expect: {jsonPath: {ok: true}}}\nhealthCheck: {interval: 10s, failureThreshold: 3, successThreshold: 2}\n";

#[tokio::test(start_paused = true)]
async fn health_follows_the_checks_at_the_thresholds() {
    let world = World::new(&[("web", WATCHED)]);
    world.tool("look", ToolScript::Says(json!({"ok": true})));
    world.add("a", "web");
    world.pass(30).await;
    assert!(world.called().is_empty(), "what does not run is not examined");
    world.start("a").await.unwrap();
    world.pass(9).await;
    assert_eq!(world.called(), ["up"]);
    world.pass(22).await;
    assert_eq!(world.called(), ["look"; 3]);
    assert_eq!(world.shop.0.owners.lock().unwrap()[0], ann(), "in the name of whoever made it");
    world.tool("look", ToolScript::Says(json!({"ok": false})));
    for (seconds, health) in [(10, "degraded"), (10, "degraded"), (10, "unhealthy"), (10, "unhealthy")] {
        world.pass(seconds).await;
        world.assert_life("a", "running", health);
    }
    let (_, _, error) = world.life("a");
    assert!(error.unwrap().contains("expected `ok` to be true, got false"));
    world.tool("look", ToolScript::Says(json!({"ok": true})));
    world.pass(10).await;
    world.assert_life("a", "running", "unhealthy");
    world.pass(10).await;
    world.assert_life("a", "running", "healthy");
    let tail: Vec<String> = world.reasons().split_off(2);
    let failed = ["HealthCheckFailed"; 2].into_iter();
    let expected =
        failed.chain(["HealthCheckFailed", "Unhealthy", "HealthCheckFailed", "HealthCheckRecovered", "Healthy"]);
    assert_eq!(tail, expected.collect::<Vec<_>>());
    world.order("a", Order::Stop).await.unwrap();
    world.called();
    world.pass(60).await;
    assert!(world.called().is_empty(), "what was stopped is examined no more");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_counts_as_failed_and_holds_up_no_order_for_long() {
    let world = World::new(&[("web", &format!("{WATCHED}timeout: {{healthCheck: 4s}}\n"))]);
    world.tool("look", ToolScript::Hangs);
    world.add("a", "web");
    world.start("a").await.unwrap();
    world.pass(11).await;
    world.order("a", Order::Stop).await.unwrap();
    world.assert_life("a", "stopped", "unknown");
    assert!(world.reasons().contains(&"HealthCheckFailed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn health_checks_can_be_off() {
    let world = World::new(&[("web", &WATCHED.replace("{interval", "{enabled: false, interval"))]);
    world.add("a", "web");
    world.start("a").await.unwrap();
    world.pass(60).await;
    assert_eq!(world.called(), ["up"]);
}

#[tokio::test(start_paused = true)]
async fn orders_are_bounded() {
    let world = World::new(&[("web", PLAIN)]);
    world.tool("up", ToolScript::Hangs);
    let entry = world.add("a", "web");
    let order = || entry.order(Order::Start, Arc::new(world.shop.clone()));
    let mut all: Vec<_> = (0..super::super::task::ORDERS + 4).map(|_| Box::pin(order())).collect();
    let busy = futures_util::future::join_all(all.iter_mut()).await;
    let refused: Vec<_> =
        busy.iter().filter_map(|done| done.as_ref().err()).filter(|it| it.kind == Kind::Busy).collect();
    assert!(!refused.is_empty() && refused[0].message.contains("requests are waiting"), "{busy:?}");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_gone_is_named() {
    let world = World::new(&[("web", PLAIN)]);
    world.add("a", "web");
    world.start("a").await.unwrap();
    std::fs::remove_file(world.home.path().join("service-classes/web.yaml")).unwrap();
    assert!(world.load().is_empty());
    let problem = world.order("a", Order::Stop).await.unwrap_err();
    assert_eq!(problem.message, "service class `web` not found");
    world.assert_life("a", "running", "healthy");
}

#[tokio::test(start_paused = true)]
async fn a_start_tool_that_starts_its_own_service_ends_at_its_deadline_and_does_not_begin_again() {
    let world = World::new(&[("web", &format!("{PLAIN}timeout: {{create: 5s}}\n"))]);
    let entry = world.add("a", "web");
    world.tool("up", ToolScript::Starts(entry));
    assert_eq!(world.start("a").await.unwrap_err().kind, Kind::Timeout);
    world.pass(20).await;
    assert_eq!(world.called(), ["up"]);
    world.assert_life("a", "failed", "unhealthy");
}

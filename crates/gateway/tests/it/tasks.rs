//! Tasks: those of modern servers by ids of ours, those of legacy servers driven here, and our own.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_call::TaskStart;
use toolcrib_call::own_tasks::TaskQuestionError;
use toolcrib_protocol::{Capabilities, Id, Raw, RpcError, ask::InputRequest, task as wire};
use toolcrib_testgateway::{Client, Setup, TestGateway, profile, server, text_of};
use toolcrib_testkit::eventually;

const DIRECT: &str = "exposure: direct\nprefix: none";

/// `_meta` of a client that knows tasks, and can be asked by forms if `form`.
fn declared(form: bool) -> Value {
    let mut capabilities = json!({ "extensions": { wire::EXTENSION: {} } });
    if form {
        capabilities["elicitation"] = json!({ "form": {} });
    }
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

async fn begin(client: &Client, name: &str, mode: &str) -> Value {
    let params = json!({ "name": name, "arguments": { "mode": mode }, "_meta": declared(true) });
    client.ask("tools/call", &params).await.unwrap()
}

async fn about(client: &Client, method: &str, id: &Value, more: &Value) -> Result<Value, RpcError> {
    let mut params = json!({ "taskId": id, "_meta": declared(true) });
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    client.ask(method, &params).await
}

async fn get(client: &Client, id: &Value) -> Value {
    about(client, "tasks/get", id, &json!({})).await.unwrap()
}

/// Looks until the task has this status.
async fn until(client: &Client, id: &Value, status: &str) -> Value {
    let looking = async {
        loop {
            let task = get(client, id).await;
            if task["status"] == status {
                return task;
            }
            tokio::task::yield_now().await;
        }
    };
    eventually(status, looking).await
}

#[tokio::test]
async fn a_server_s_task_is_followed_by_an_id_of_ours() {
    let files = [server("alpha", &["--modern", "--tasks"]), profile("direct", DIRECT), profile("other", DIRECT)];
    let house = TestGateway::settled(&files).await;
    let client = house.modern("direct");
    let task = begin(&client, "job", "done").await;
    let id = &task["taskId"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&task["ttlMs"], &task["pollIntervalMs"]), (&json!(60_000), &json!(10)));
    assert!(id.as_str().unwrap().len() > 40 && !id.as_str().unwrap().contains("job"), "{id}");
    let done = until(&client, id, "completed").await;
    assert_eq!((&done["taskId"], &done["resultType"]), (id, &json!("complete")));
    assert_eq!(done["result"]["content"][0]["text"], "job-1 is done null");
    assert_eq!(done["result"]["x-unknown"], 1);

    let failing = begin(&client, "job", "fail").await;
    let failed = until(&client, &failing["taskId"], "failed").await;
    assert_eq!(failed["error"]["message"], "the job failed");

    let endless = begin(&client, "job", "endless").await;
    let cancelled = about(&client, "tasks/cancel", &endless["taskId"], &json!({})).await.unwrap();
    assert_eq!(cancelled["resultType"], "complete");
    assert_eq!(get(&client, &endless["taskId"]).await["status"], "cancelled");

    let by_meta = json!({ "name": "call_tool", "arguments": { "name": "job" }, "_meta": declared(false) });
    let by_meta = client.ask("tools/call", &by_meta).await.unwrap();
    until(&client, &by_meta["taskId"], "completed").await;

    // Whose it is not, for them it is not there.
    let (first, rest) = id.as_str().unwrap().split_at(1);
    let tampered = format!("{}{rest}", if first == "A" { "B" } else { "A" });
    let mut refused = Vec::new();
    for (client, id) in [
        (&house.modern_of("somebody", "direct"), id),
        (&house.modern("other"), id),
        (&client, &json!(tampered)),
        (&client, &json!("job-1")),
        (&client, &json!("")),
        (&client, &json!("0123456789abcdef0123456789abcdef")),
    ] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let error = about(client, method, id, &json!({ "inputResponses": {} })).await.unwrap_err();
            assert_eq!(error.code, -32_602, "{method} {id}: {error:?}");
            refused.push(error.message.starts_with("task not found"));
        }
    }
    assert!(refused.iter().all(|same| *same));
    let error = about(&client, "tasks/get", &json!(7), &json!({})).await.unwrap_err();
    assert_eq!(error.code, -32_602);
    let audited = house.audited().await;
    let looks = audited.iter().filter(|event| event.method == "tasks/get" && event.target == "alpha/job").count();
    assert!(looks >= 4, "each look is on record");
    assert_eq!(
        audited.iter().filter(|event| event.method == "tasks/cancel" && event.decision == "deny:unknown-tool").count(),
        6
    );
}

#[tokio::test]
async fn a_task_asks_its_client() {
    let files = [server("alpha", &["--modern", "--tasks"]), server("beta", &[]), profile("direct", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    let client = house.modern("direct");
    let task = begin(&client, "alpha_job", "ask").await;
    let id = &task["taskId"];
    let asking = until(&client, id, "input_required").await;
    let question = &asking["inputRequests"]["name"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "[alpha] Your name?", "people read who asks");
    let mute = json!({ "taskId": id, "_meta": declared(false) });
    let error = client.ask("tasks/get", &mute).await.unwrap_err();
    assert_eq!(error.code, -32_021, "a client that cannot be asked is not asked: {error:?}");
    let answers = json!({ "inputResponses": { "name": { "action": "accept", "content": { "name": "me" } } } });
    let acknowledged = about(&client, "tasks/update", id, &answers).await.unwrap();
    assert_eq!(acknowledged["resultType"], "complete");
    let done = until(&client, id, "completed").await;
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("accept"), "{done}");
}

#[tokio::test]
async fn tasks_are_for_clients_that_declared_them_on_that_request() {
    let house =
        TestGateway::settled(&[server("alpha", &["--modern-only", "--tasks"]), profile("direct", DIRECT)]).await;
    let [modern, legacy] = house.both("direct");
    for client in [&modern, &legacy] {
        assert_eq!(client.text("job", &json!({})).await, "not as a task");
    }
    let task = begin(&modern, "job", "done").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for capabilities in [json!({}), json!({ "extensions": { wire::EXTENSION: null } })] {
            let meta = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
            let params = json!({ "taskId": task["taskId"], "_meta": meta });
            let error = modern.ask(method, &params).await.unwrap_err();
            assert_eq!(error.code, -32_021, "{method}");
            let needed = error.data.unwrap().to_value();
            assert_eq!(needed["requiredCapabilities"]["extensions"][wire::EXTENSION], json!({}));
        }
        let error = legacy.ask(method, &json!({ "taskId": task["taskId"] })).await.unwrap_err();
        assert_eq!(error.code, -32_601, "a legacy client has no tasks of this kind");
    }
}

#[tokio::test]
async fn ids_lead_to_their_tasks_after_a_restart_and_obey_new_rules() {
    let files = [server("alpha", &["--modern", "--tasks"]), profile("direct", DIRECT)];
    let ground = Setup::default();
    let (store, clock) = (ground.store.clone(), Arc::clone(&ground.clock));
    let house = TestGateway::open(&files, ground);
    house.settle().await;
    let task = begin(&house.modern("direct"), "job", "done").await;
    house.apply(&[profile("direct", "exposure: direct\nprefix: none\ntools: {deny: [alpha/job]}")]).await;
    let error = about(&house.modern("direct"), "tasks/get", &task["taskId"], &json!({})).await.unwrap_err();
    assert_eq!(error.code, -32_602, "a denied tool has no tasks: {error:?}");
    assert!(error.message.starts_with("task not found"));
    house.close().await;

    let house = TestGateway::open(&files, Setup { store, clock, ..Setup::default() });
    house.settle().await;
    let client = house.modern("direct");
    let error = about(&client, "tasks/get", &task["taskId"], &json!({})).await.unwrap_err();
    assert_eq!(error.message, "task not found", "asked of the server, whose new process does not know it");
    // The same id of the server's is the same id of ours.
    assert_eq!(begin(&client, "job", "done").await["taskId"], task["taskId"]);
}

#[tokio::test]
async fn a_legacy_tool_that_runs_as_a_task_is_just_called() {
    let house = TestGateway::settled(&[server("alpha", &["--tasks"]), profile("direct", DIRECT)]).await;
    for client in house.both("direct") {
        let result = client.call("job", &json!({})).await;
        assert!(text_of(&result).ends_with("is done null"), "{result}");
        assert_eq!(result["x-unknown"], 1);
        let failed = client.refused("job", &json!({ "mode": "fail" })).await;
        assert_eq!((failed.code, failed.message.as_str()), (-32_603, "the job failed"));
    }
    let listed = house.modern("direct").ask("tools/list", &json!({})).await.unwrap();
    assert!(listed["tools"].as_array().unwrap().iter().all(|tool| tool.get("execution").is_none()));
    let calls = house.audited().await.into_iter().filter(|event| event.target == "alpha/job").count();
    assert_eq!(calls, 4, "one event for each call");
}

/// Verifies the audit log as a task.
async fn verify(client: &Client) -> Value {
    client.ask("tools/call", &json!({ "name": "core_audit_verify", "_meta": declared(false) })).await.unwrap()
}

#[tokio::test]
async fn a_slow_operation_is_a_task_of_our_own() {
    let ground = Setup::default();
    let (store, clock) = (ground.store.clone(), Arc::clone(&ground.clock));
    let house = TestGateway::open(&[server("alpha", &[])], ground);
    house.settle().await;
    let client = house.modern("default").admin();
    let task = verify(&client).await;
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    let done = until(&client, &task["taskId"], "completed").await;
    assert_eq!(done["result"]["structuredContent"]["intact"], true);
    let plain = client.ask("tools/call", &json!({ "name": "core_audit_verify" })).await.unwrap();
    assert_eq!((&plain["resultType"], &plain["structuredContent"]["intact"]), (&json!("complete"), &json!(true)));
    for stranger in [house.modern_of("somebody", "default").admin(), house.modern("default")] {
        let error = about(&stranger, "tasks/get", &task["taskId"], &json!({})).await.unwrap_err();
        assert_eq!(error.code, -32_602, "another principal, and one that may not administer");
        assert!(error.message.starts_with("task not found"));
    }
    for method in ["tasks/cancel", "tasks/update"] {
        let late = about(&client, method, &task["taskId"], &json!({ "inputResponses": {} })).await.unwrap();
        assert_eq!(late["resultType"], "complete", "what comes too late is acknowledged");
    }
    house.close().await;
    let house = TestGateway::open(&[], Setup { store, clock, ..Setup::default() });
    let kept = get(&house.modern("default").admin(), &task["taskId"]).await;
    assert_eq!(kept["result"], done["result"], "its result survives a restart");
}

#[tokio::test]
async fn who_listens_to_a_task_hears_how_it_goes_on() {
    let house = TestGateway::open(&[], Setup::default());
    let (client, scope) = (house.modern("default"), toolcrib_base::task::Scope::new());
    let begin = TaskStart { target: "workflow_test", capabilities: Arc::default() };
    let (go, going) = tokio::sync::oneshot::channel::<()>();
    let handle =
        house.gateway.path.tasks.run(house.gateway.servers().scope(), &client.caller, begin, move |_| async move {
            going.await.unwrap();
            Ok(Raw::from_value(&json!({ "content": [] })))
        });
    let id = handle.await.unwrap().to_value()["taskId"].clone();
    let wanted = json!({ "notifications": { "taskIds": [id, "somebody's"] }, "_meta": declared(false) });
    let (sender, mut queue) = tokio::sync::mpsc::channel(8);
    let listener = client.clone();
    scope.spawn(async move {
        let number = toolcrib_protocol::Id::from_number(5);
        listener.with_id(number, "subscriptions/listen", Raw::from_value(&wanted), Some(sender)).await
    });
    let mut next =
        async || -> Value { serde_json::from_slice(&eventually("a message", queue.recv()).await.unwrap()).unwrap() };
    let acknowledged = next().await;
    assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [id] }), "others' do not exist");
    go.send(()).unwrap();
    let heard = next().await;
    assert_eq!(heard["method"], "notifications/tasks");
    assert_eq!((&heard["params"]["taskId"], &heard["params"]["status"]), (&id, &json!("completed")));
    assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
}

#[tokio::test]
async fn our_tasks_ask_end_and_are_bounded() {
    let ground = Setup::default();
    let (store, clock) = (ground.store.clone(), Arc::clone(&ground.clock));
    let house = TestGateway::open(&[], ground);
    let client = house.modern("default");
    let caller = client.caller.clone();
    let form = Arc::new(Capabilities { form: true, ..Capabilities::NONE });
    let params = Raw::from_value(&json!({ "message": "Really?", "requestedSchema": { "type": "object" } }));
    let asked = InputRequest { method: "elicitation/create".into(), params };
    let begin = |capabilities| TaskStart { target: "workflow_test", capabilities };

    let question = asked.clone();
    let handle = house.gateway.path.tasks.run(
        house.gateway.servers().scope(),
        &caller,
        begin(Arc::clone(&form)),
        move |task| async move {
            task.set_message("asking");
            let answer = task.ask(&question).await.unwrap();
            Ok(Raw::from_value(&json!({ "content": [], "answer": answer.to_value() })))
        },
    );
    let handle = handle.await.unwrap().to_value();
    let id = &handle["taskId"];
    let mut notifications = house.gateway.path.tasks.watch(&caller, id.as_str().unwrap()).unwrap();
    let asking = until(&client, id, "input_required").await;
    assert_eq!(asking["statusMessage"], "asking");
    let wrong = about(&client, "tasks/update", id, &json!({ "inputResponses": 7 })).await.unwrap_err();
    assert_eq!(wrong.code, -32_602);
    let answers = json!({ "inputResponses": { "question-1": { "action": "decline" }, "question-9": {} } });
    about(&client, "tasks/update", id, &answers).await.unwrap();
    let done = until(&client, id, "completed").await;
    assert_eq!(done["result"]["answer"], json!({ "action": "decline" }));
    assert!(
        notifications.has_changed().is_err() || *notifications.borrow_and_update() > 0,
        "whoever listens heard of it"
    );

    let mute = house.gateway.path.tasks.run(
        house.gateway.servers().scope(),
        &caller,
        begin(Arc::default()),
        move |task| async move {
            assert_eq!(task.ask(&asked).await, Err(TaskQuestionError::NotOffered("elicitation")));
            Err(RpcError::new(-32_603, "nobody to ask"))
        },
    );
    let mute = mute.await.unwrap().to_value();
    let failed = until(&client, &mute["taskId"], "failed").await;
    assert_eq!((&failed["error"]["code"], &failed["statusMessage"]), (&json!(-32_603), &json!("nobody to ask")));

    let endless = || {
        house
            .gateway
            .path
            .tasks
            .run(house.gateway.servers().scope(), &caller, begin(Arc::default()), |_| std::future::pending())
    };
    let mut running = Vec::new();
    let full = loop {
        match endless().await {
            Ok(handle) => running.push(handle.to_value()["taskId"].clone()),
            Err(problem) => break problem,
        }
        assert!(running.len() < 100, "there is a bound");
    };
    assert_eq!(full.kind.name(), "busy");
    about(&client, "tasks/cancel", &running[0], &json!({})).await.unwrap();
    assert_eq!(get(&client, &running[0]).await["status"], "cancelled");
    house.close().await;

    let house = TestGateway::open(&[], Setup { store, clock, ..Setup::default() });
    let client = house.modern("default");
    let interrupted = get(&client, &running[1]).await;
    assert_eq!(interrupted["status"], "failed");
    assert!(interrupted["error"]["message"].as_str().unwrap().contains("restarted"), "{interrupted}");
    assert_eq!(get(&client, &running[0]).await["status"], "cancelled");
}

#[tokio::test]
async fn subscriptions_tell_of_tasks_by_the_ids_of_their_clients() {
    let files = [server("alpha", &[]), server("beta", &["--modern", "--tasks"]), profile("direct", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    let client = house.modern("direct");
    let task = begin(&client, "beta_job", "ask").await;
    let id = &task["taskId"];
    until(&client, id, "input_required").await;

    let undeclared = Raw::from_value(&json!({ "notifications": { "taskIds": [id] } }));
    let (sender, _queue) = mpsc::channel(8);
    let refused = client.with_id(Id::from_number(1_000), "subscriptions/listen", undeclared, Some(sender)).await;
    assert_eq!(refused.unwrap().unwrap_err().code, -32_021);

    let foreign = begin(&house.modern_of("somebody", "direct"), "beta_job", "ask").await["taskId"].clone();
    let wanted = json!({ "notifications": { "taskIds": [id, foreign, "job-1"] }, "_meta": declared(true) });
    let (sender, mut queue) = mpsc::channel(8);
    let (listener, scope) = (client.clone(), Scope::new());
    scope.spawn(async move {
        let params = Raw::from_value(&wanted);
        listener.with_id(Id::from_number(1_001), "subscriptions/listen", params, Some(sender)).await
    });
    let mut next = async || -> Value {
        let message = eventually("a message", queue.recv()).await.unwrap();
        serde_json::from_slice(&message).unwrap()
    };
    let acknowledged = next().await;
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]), "others' tasks are nobody's");
    let answers = json!({ "inputResponses": { "name": { "action": "decline" } } });
    about(&client, "tasks/update", id, &answers).await.unwrap();
    let told = next().await;
    assert_eq!((&told["method"], &told["params"]["taskId"]), (&json!("notifications/tasks"), id));
    assert_eq!(told["params"]["status"], "completed");
    let link = &told["params"]["result"]["content"][1]["uri"];
    assert_eq!(link, "beta+fake://text", "URIs are those of this profile here too");
    scope.close(std::time::Duration::ZERO).await;
}

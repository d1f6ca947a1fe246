//! What runs ask people, by the doors of agents: a form of a server of either era, and a confirmation.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testgateway::{File, profile, server};
use toolcrib_testkit::eventually;

use crate::keys::{key, with};
use crate::served::{Ask, Events, ServedGateway};

/// A gateway whose agent calls one tool and says the end.
async fn house(tool: &str, arguments: &Value, more: &[File]) -> ServedGateway {
    let said = json!({"turns": [{"calls": [{"name": tool, "arguments": arguments}]}, {"say": "It is done."}]});
    let model = json!({"name": "said", "wire": "script", "script": said}).to_string();
    let agent = json!({"name": "helper", "models": ["said"], "tools_shown": "all"}).to_string();
    let mut files = vec![
        server("old", &["--asks"]),
        server("new", &["--asks", "--modern-only"]),
        ("models/said.yaml".to_owned(), model),
        ("agents/helper.yaml".to_owned(), agent),
    ];
    files.extend_from_slice(more);
    ServedGateway::settled(&files).await
}

fn post(path: &str, body: &Value) -> Ask {
    Ask::new(Method::POST, path, body.to_string()).admin()
}

async fn run_of(house: &ServedGateway, run: &str) -> Value {
    house.ask(Ask::get(&format!("/api/v1/runs/{run}")).admin()).await.json()
}

async fn until(house: &ServedGateway, run: &str, status: &str) -> Value {
    let reached = async {
        loop {
            let shown = run_of(house, run).await;
            if shown["status"] == status {
                return shown;
            }
        }
    };
    eventually(&format!("a run that is {status}"), reached).await
}

/// The text of the run's one result.
async fn result(house: &ServedGateway, run: &str) -> String {
    let entries = house.ask(Ask::get(&format!("/api/v1/runs/{run}/entries")).admin()).await.json();
    let results = entries["entries"].as_array().unwrap().iter().filter(|entry| entry["event"] == "result");
    let texts: Vec<&str> = results.map(|entry| entry["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 1, "{entries}");
    texts[0].to_owned()
}

#[tokio::test]
async fn a_form_of_a_server_of_either_era_is_accepted_with_what_is_asked_and_answered() {
    for tool in ["old_ask", "new_ask"] {
        let house = house(tool, &json!({}), &[]).await;
        let message = || post("/api/v1/agents/helper/message", &json!({"content": "ask"}));
        let reply = house.ask(message()).await;
        let body = reply.json();
        assert_eq!((reply.status.as_u16(), &body["status"]), (202, &json!("waiting")), "{tool}: {body}");
        let (run, wait) = (body["run_id"].as_str().unwrap(), &body["waits"][0]);
        assert_eq!((&wait["for"], &wait["what"]), (&json!("person"), &json!("1.1")), "{body}");
        let asked = wait["questions"].as_object().unwrap().values().next().unwrap();
        assert!(asked["params"]["message"].as_str().unwrap().contains("Your name?"), "{body}");
        assert!(wait["next"].as_str().unwrap().contains("--answer '{\"name\":\"…\"}'"), "{body}");
        let resume = format!("/api/v1/runs/{run}/resume");
        // What does not fit is not passed on, and the run still waits.
        house.ask(post(&resume, &json!({"answer": {"name": 7}}))).await.problem(400);
        house.ask(post(&resume, &json!({"answer": {"name": "Ann"}, "to": "9.9"}))).await.problem(409);
        assert_eq!(run_of(&house, run).await["status"], "waiting");
        let answered = house.ask(post(&resume, &json!({"answer": {"name": "Ann"}}))).await;
        assert_eq!(answered.status, 200, "{:?}", answered.body);
        let shown = until(&house, run, "ended").await;
        assert_eq!((&shown["end"], &shown["calls"]), (&json!("done"), &json!(1)), "{shown}");
        let text = result(&house, run).await;
        assert!(text.contains("accept") && text.contains("Ann"), "{tool}: {text}");
        house.ask(post(&resume, &json!({"answer": {"name": "Ann"}}))).await.problem(409);

        // Who declines tells the server so, and the run goes on with what that gives.
        let body = house.ask(message()).await.json();
        let run = body["run_id"].as_str().unwrap();
        let resume = format!("/api/v1/runs/{run}/resume");
        assert_eq!(house.ask(post(&resume, &json!({"answer": {"action": "decline"}}))).await.status, 200);
        assert_eq!(until(&house, run, "ended").await["end"], "done");
        assert!(result(&house, run).await.contains("decline"), "{tool}");
    }
}

async fn rest(events: &mut Events) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(event) = eventually("an event", events.event()).await {
        all.push(serde_json::from_slice(&event.data).unwrap());
    }
    all
}

#[tokio::test]
async fn a_form_interrupts_a_run_of_ag_ui_and_its_fields_are_the_payload() {
    let house = house("old_ask", &json!({}), &[]).await;
    let input = |run: &str, resume: Value| {
        let messages = json!([{"id": "m1", "role": "user", "content": "ask"}]);
        post(
            "/api/v1/agents/helper/ag-ui",
            &json!({
                "threadId": "t1", "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
                "messages": messages, "resume": resume,
            }),
        )
    };
    let mut events = house.events(input("r1", json!([]))).await;
    let finished = rest(&mut events).await.pop().unwrap();
    let interrupt = &finished["outcome"]["interrupts"][0];
    assert_eq!(interrupt["reason"], "input_required", "{finished}");
    assert_eq!(interrupt["responseSchema"]["required"], json!(["name"]), "{finished}");
    assert!(interrupt["message"].as_str().unwrap().contains("Your name?"), "{finished}");
    let answer = json!([{"interruptId": interrupt["id"], "status": "resolved", "payload": {"name": "Ann"}}]);
    let mut events = house.events(input("r2", answer)).await;
    let all = rest(&mut events).await;
    let result = all.iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert!(result["content"].as_str().unwrap().contains("Ann"), "{all:?}");
    assert_eq!(all.last().unwrap()["outcome"]["type"], "success", "{all:?}");
}

#[tokio::test]
async fn a_confirmation_is_asked_of_the_runs_own_person_and_of_no_one_else() {
    let rules = profile("default", "tools: {confirm: [old/echo]}\n");
    let house = house("old_echo", &json!({"text": "hello"}), &[rules]).await;
    for (says, expected) in [(true, "hello"), (false, "not approved")] {
        let body = house.ask(post("/api/v1/agents/helper/message", &json!({"content": "ask"}))).await.json();
        let (run, wait) = (body["run_id"].as_str().unwrap(), &body["waits"][0]);
        assert_eq!((&wait["for"], &wait["what"]), (&json!("approval"), &body["approval_id"]), "{body}");
        let message = wait["questions"]["confirm"]["params"]["message"].as_str().unwrap();
        assert!(message.contains("old/echo") && message.contains("hello"), "{message}");
        let resume = format!("/api/v1/runs/{run}/resume");
        house.ask(post(&resume, &json!({"answer": {"confirm": "yes"}}))).await.problem(400);
        // A model does not confirm for its person, whoever's it is.
        let tool = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "core_run_resume", "arguments": {"run": run, "answer": {"confirm": true}},
        }});
        let by_mcp = house.ask(post("/mcp", &tool).header("accept", "application/json, text/event-stream")).await;
        assert!(!String::from_utf8_lossy(&by_mcp.body).contains("\"status\":\"ended\""), "{:?}", by_mcp.body);
        assert_eq!(run_of(&house, run).await["status"], "waiting");
        assert_eq!(house.ask(post(&resume, &json!({"answer": {"confirm": says}}))).await.status, 200);
        assert_eq!(until(&house, run, "ended").await["end"], "done");
        let entries = house.ask(Ask::get(&format!("/api/v1/runs/{run}/export?format=markdown")).admin()).await.json();
        assert!(entries["text"].as_str().unwrap().contains(expected) || !says, "{entries}");
        let asked = entries["text"].as_str().unwrap();
        assert!(says || asked.contains("denied"), "{asked}");
    }
}

#[tokio::test]
async fn a_run_that_is_paused_begins_nothing_until_it_is_resumed() {
    let house = house("old_slow", &json!({"ms": 2_000}), &[]).await;
    let started = house.ask(post("/api/v1/runs", &json!({"agent": "helper", "task": "wait"}))).await.json();
    let run = started["run"].as_str().unwrap();
    let paused = house.ask(post(&format!("/api/v1/runs/{run}/pause"), &json!({}))).await;
    assert_eq!(paused.status, 200, "{:?}", paused.body);
    let shown = until(&house, run, "paused").await;
    assert_eq!(shown["waits"][0]["for"], "resume", "{shown}");
    let rounds = shown["rounds"].as_u64().unwrap();
    assert!(rounds <= 1, "{shown}");
    let list = house.ask(Ask::get("/api/v1/runs?status=paused").admin()).await.json();
    assert_eq!(list["total"], 1, "{list}");
    let resumed = house.ask(post(&format!("/api/v1/runs/{run}/resume"), &json!({}))).await;
    assert_eq!(resumed.status, 200, "{:?}", resumed.body);
    let shown = until(&house, run, "ended").await;
    assert_eq!((&shown["end"], &shown["calls"]), (&json!("done"), &json!(1)), "{shown}");
    house.ask(post(&format!("/api/v1/runs/{run}/pause"), &json!({}))).await.problem(409);
}

#[tokio::test]
async fn no_one_answers_for_another_person() {
    let ann = key("ann");
    let house = house("old_ask", &json!({}), &[profile("work", &format!("keys:\n{}", ann.line))]).await;
    let by_ann = |path: &str, body: &Value| {
        with(Ask::new(Method::POST, &format!("{path}?profile=work"), body.to_string()), &ann)
    };
    let body = house.ask(by_ann("/api/v1/agents/helper/message", &json!({"content": "ask"}))).await.json();
    let resume = format!("/api/v1/runs/{}/resume", body["run_id"].as_str().unwrap());
    let answer = json!({"answer": {"name": "Ann"}});
    house.ask(post(&resume, &answer)).await.problem(403);
    assert_eq!(house.ask(by_ann(&resume, &answer)).await.status, 200);
}

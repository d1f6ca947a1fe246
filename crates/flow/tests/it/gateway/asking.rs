//! Runs of agents that wait for people: asked in the dialog of the client that called, by its session, by results or in a
//! task, and ended by a halt.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::PrincipalId;
use toolcrib_call::{HaltCause, HaltSubject};
use toolcrib_protocol::{Answer, Id, Raw};
use toolcrib_testgateway::{Client, File, profile, server, text_of};
use toolcrib_testkit::eventually_finds;

use super::{Mill, asked};

fn files(tool: &str, arguments: &Value) -> Vec<File> {
    let agent = json!({"name": "helper", "models": ["said"], "tools_shown": "all"}).to_string();
    vec![
        server("old", &["--asks"]),
        server("new", &["--asks", "--modern-only"]),
        profile("default", "exposure: direct\ntools: {confirm: [old/echo]}\n"),
        profile("other", "exposure: direct\n"),
        calling(&[(tool, arguments.clone())]),
        ("agents/helper.yaml".to_owned(), agent),
    ]
}

/// Calls the agent and answers each question with one of these, in their order. Gives the result and what was asked.
async fn dialog(client: &Client, answers: &[Value]) -> (Value, Vec<String>) {
    let (sender, mut heard) = mpsc::channel(64);
    let params = Raw::from_value(&json!({"name": "agent_helper", "arguments": {"task": "Do it."}}));
    let calling = client.with_id(Id::from_number(77), "tools/call", params, Some(sender));
    let session = client.caller.session.clone().unwrap();
    let answering = async move {
        let mut asked = Vec::new();
        while asked.len() < answers.len() {
            let Some(bytes) = heard.recv().await else { break };
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            if message["method"] == "elicitation/create" {
                let answer = Raw::from_value(&answers[asked.len()]);
                asked.push(message["params"]["message"].as_str().unwrap().to_owned());
                session.answer(Answer::ok(Id::from_raw(Raw::from_value(&message["id"])).unwrap(), answer));
            }
        }
        asked
    };
    let (outcome, asked) = tokio::join!(calling, answering);
    (outcome.unwrap().unwrap().to_value(), asked)
}

#[tokio::test]
async fn the_person_of_the_client_is_asked_in_its_dialog_and_the_call_gives_the_result() {
    let capabilities = json!({"elicitation": {"form": {}}});
    let name = json!({"action": "accept", "content": {"name": "Ann"}});
    for (tool, arguments, answer, part) in [
        ("old_ask", json!({}), name.clone(), "Your name?"),
        ("new_ask", json!({}), name, "Your name?"),
        (
            "old_echo",
            json!({"text": "hi"}),
            json!({"action": "accept", "content": {"confirm": true}}),
            "make this call?",
        ),
        ("old_echo", json!({"text": "hi"}), json!({"action": "decline"}), "make this call?"),
    ] {
        let mill = Mill::whole(&files(tool, &arguments)).await;
        let client = mill.house.legacy_asked("default", &capabilities);
        let (result, questions) = dialog(&client, std::slice::from_ref(&answer)).await;
        assert!(questions.len() == 1 && questions[0].contains(part), "{tool}: {questions:?}");
        assert_eq!((text_of(&result).as_str(), &result["isError"]), ("It is done.", &json!(false)), "{tool}: {result}");
        let run = result["_meta"]["toolcrib/run"].as_str().unwrap();
        let text =
            asked(&mill.admin(), "core_run_export", &json!({"run": run, "format": "markdown"})).await["text"].clone();
        let told = if answer["action"] == "decline" {
            "denied by"
        } else if tool == "old_echo" {
            "hi"
        } else {
            "Ann"
        };
        assert!(text.as_str().unwrap().contains(told), "{tool}: {text}");
    }
}

fn declared(tasks: bool) -> Value {
    let mut capabilities = json!({"elicitation": {"form": {}}});
    if tasks {
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    json!({"io.modelcontextprotocol/clientCapabilities": capabilities})
}

/// Calls the agent as a modern client does that can be asked.
async fn helped(client: &Client, task: &str, more: Value) -> Value {
    let mut params = json!({"name": "agent_helper", "arguments": {"task": task}, "_meta": declared(false)});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.ask("tools/call", &params).await.unwrap()
}

#[tokio::test]
async fn a_modern_client_is_asked_by_the_result_and_makes_the_call_again_with_the_answers() {
    let name = json!({"action": "accept", "content": {"name": "Ann"}});
    let confirm = json!({"action": "accept", "content": {"confirm": true}});
    for (tool, arguments, answer, part, told) in [
        ("old_ask", json!({}), name.clone(), "Your name?", "Ann"),
        ("new_ask", json!({}), name.clone(), "Your name?", "Ann"),
        ("new_ask", json!({}), json!({"action": "decline"}), "Your name?", "decline"),
        ("old_echo", json!({"text": "hi"}), confirm, "make this call?", "hi"),
        ("old_echo", json!({"text": "hi"}), json!({"action": "decline"}), "make this call?", "denied by"),
    ] {
        let mill = Mill::whole(&files(tool, &arguments)).await;
        let client = mill.house.modern("default");
        let asked = helped(&client, "Do it.", json!({})).await;
        assert_eq!(asked["resultType"], "input_required", "{tool}: {asked}");
        let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert!(question["params"]["message"].as_str().unwrap().contains(part), "{tool}: {question}");
        // Who comes back without answers is asked once more, by the same run.
        let state = &asked["requestState"];
        assert_eq!(helped(&client, "Do it.", json!({"requestState": state})).await, asked);
        let answers = json!({"requestState": state, "inputResponses": {key: answer}});
        let result = helped(&client, "Do it.", answers.clone()).await;
        assert_eq!((text_of(&result).as_str(), &result["isError"]), ("It is done.", &json!(false)), "{tool}: {result}");
        let run = &result["_meta"]["toolcrib/run"];
        let text = asked_text(&mill, run).await;
        assert!(text.contains(told), "{tool}: {text}");
        assert_eq!(asked_by(&mill).await["total"], 1, "one run was begun");
        // Made once more it gives what came of it.
        assert_eq!(helped(&client, "Do it.", answers).await, result);
    }
}

async fn asked_text(mill: &Mill, run: &Value) -> String {
    let export = asked(&mill.admin(), "core_run_export", &json!({"run": run, "format": "markdown"})).await;
    export["text"].as_str().unwrap().to_owned()
}

async fn asked_by(mill: &Mill) -> Value {
    asked(&mill.admin(), "core_run_list", &json!({})).await
}

#[tokio::test]
async fn what_leads_back_to_a_run_is_of_use_to_its_own_caller_and_task_alone() {
    let mill = Mill::whole(&files("old_ask", &json!({}))).await;
    let client = mill.house.modern("default");
    let asked = helped(&client, "Do it.", json!({})).await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answer = json!({"action": "accept", "content": {"name": "Eve"}});
    let more = json!({"requestState": asked["requestState"], "inputResponses": {key: answer}});
    let stranger = mill.house.modern_of("user:acme/eve", "default");
    let forged = json!({"requestState": "gone gone 1.1", "inputResponses": {}});
    for (client, task, more) in [
        (&stranger, "Do it.", more.clone()),
        (&client, "Do another thing.", more.clone()),
        (&client, "Do it.", forged),
        (&client, "Do it.", json!({"requestState": "x"})),
    ] {
        let refused = helped(client, task, more).await;
        assert!(refused["isError"] == true && text_of(&refused).contains("leads to no run"), "{refused}");
    }
    let misfit = json!({"action": "accept", "content": {"name": 7}});
    let more = json!({"requestState": asked["requestState"], "inputResponses": {key: misfit}});
    let refused = helped(&client, "Do it.", more).await;
    assert!(refused["isError"] == true && text_of(&refused).contains("does not fit"), "{refused}");
    // Who closes the window leaves the run waiting.
    let closed = json!({"requestState": asked["requestState"], "inputResponses": {key: {"action": "cancel"}}});
    let waits = helped(&client, "Do it.", closed).await;
    assert!(text_of(&waits).contains("waits for a person"), "{waits}");
    let runs = asked_by(&mill).await;
    assert_eq!((&runs["total"], &runs["runs"][0]["status"]), (&json!(1), &json!("waiting")), "{runs}");
}

/// The id of the task that a call of the agent becomes.
async fn task_of_agent(client: &Client) -> Value {
    let params = json!({"name": "agent_helper", "arguments": {"task": "Do it."}, "_meta": declared(true)});
    client.ask("tools/call", &params).await.unwrap()["taskId"].clone()
}

/// What a request about a task answers.
async fn about_task(client: &Client, task: &Value, method: &str, more: Value) -> Value {
    let mut params = json!({"taskId": task, "_meta": declared(true)});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.ask(method, &params).await.unwrap()
}

#[tokio::test]
async fn the_task_that_a_call_of_an_agent_became_asks_its_client() {
    let mill = Mill::whole(&files("old_ask", &json!({}))).await;
    let client = mill.house.modern("default");
    let task = task_of_agent(&client).await;
    let about = async |method: &str, more: Value| about_task(&client, &task, method, more).await;
    let until = async |status: &str| {
        eventually_finds(&format!("a task that is {status}"), async || {
            let task = about("tasks/get", json!({})).await;
            if task["status"] == *status { Ok(task) } else { Err(task) }
        })
        .await
    };
    let asking = until("input_required").await;
    let (key, question) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(question["params"]["message"].as_str().unwrap().contains("Your name?"), "{asking}");
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    about("tasks/update", json!({"inputResponses": {key: answer}})).await;
    let done = until("completed").await;
    assert_eq!(text_of(&done["result"]), "It is done.", "{done}");
}

/// A model that calls these tools one after the other.
fn calling(calls: &[(&str, Value)]) -> File {
    let turns = calls.iter().map(|(tool, arguments)| json!({"calls": [{"name": tool, "arguments": arguments}]}));
    let turns: Vec<Value> = turns.chain([json!({"say": "It is done."})]).collect();
    let model = json!({"name": "said", "wire": "script", "script": {"turns": turns}});
    ("models/said.yaml".to_owned(), model.to_string())
}

#[tokio::test]
async fn a_question_of_a_task_is_closed_when_it_is_answered_elsewhere() {
    let mut files = files("old_ask", &json!({}));
    files.push(calling(&[("old_ask", json!({})), ("old_echo", json!({"text": "hi"}))]));
    let mill = Mill::whole(&files).await;
    let client = mill.house.modern("default");
    let task = task_of_agent(&client).await;
    let about = async |method: &str, more: Value| about_task(&client, &task, method, more).await;
    let asks = async |part: &str| {
        eventually_finds(&format!("a task that asks `{part}` alone"), async || {
            let task = about("tasks/get", json!({})).await;
            let asked = task["inputRequests"].as_object().cloned().unwrap_or_default();
            let only =
                asked.len() == 1 && asked.values().all(|it| it["params"]["message"].as_str().unwrap().contains(part));
            if only { Ok(asked.keys().next().unwrap().clone()) } else { Err(task) }
        })
        .await
    };
    let first = asks("Your name?").await;
    let run = asked_by(&mill).await["runs"][0]["run"].clone();
    client.operate("core_run_resume", &json!({"run": run, "answer": {"name": "Ann"}})).await.unwrap();
    // The next question stands alone: the first one is closed.
    let second = asks("make this call?").await;
    assert_ne!(first, second);
    let late = json!({"action": "accept", "content": {"name": "Eve"}});
    about("tasks/update", json!({"inputResponses": {first: late}})).await;
    let confirm = json!({"action": "accept", "content": {"confirm": true}});
    about("tasks/update", json!({"inputResponses": {second: confirm}})).await;
    let done = eventually_finds("the end of the task", async || {
        let task = about("tasks/get", json!({})).await;
        if task["status"] == "completed" { Ok(task) } else { Err(task) }
    })
    .await;
    assert_eq!(text_of(&done["result"]), "It is done.", "{done}");
    let text = asked_text(&mill, &run).await;
    assert!(text.contains("Ann") && !text.contains("Eve"), "{text}");
}

#[tokio::test]
async fn a_client_that_could_not_be_asked_first_is_asked_later_in_the_same_call() {
    let mut files = files("old_ask", &json!({}));
    files.push(profile("default", "exposure: direct\ntools: {approve: [old/echo]}\n"));
    files.push(calling(&[("old_echo", json!({"text": "hi"})), ("old_ask", json!({}))]));
    let mill = Mill::whole(&files).await;
    let client = mill.house.legacy_asked("default", &json!({"elicitation": {"form": {}}}));
    let name = json!({"action": "accept", "content": {"name": "Ann"}});
    // The first call waits for another person, whom this client cannot ask.
    let approving = async {
        let id = eventually_finds("an open approval", async || {
            let open = mill.store().call_approvals().list(Some(toolcrib_store::ApprovalState::Open)).unwrap();
            open.first().map(|it| it.id.clone()).ok_or(())
        })
        .await;
        let mut operator = mill.house.modern_of("user:acme/olga", "default");
        operator.caller.principal.role = toolcrib_base::Role::Operator;
        operator.operate("core_approval_approve", &json!({"id": id})).await.unwrap();
    };
    let ((result, questions), ()) = tokio::join!(dialog(&client, std::slice::from_ref(&name)), approving);
    assert!(questions.len() == 1 && questions[0].contains("Your name?"), "{questions:?}");
    assert_eq!((text_of(&result).as_str(), &result["isError"]), ("It is done.", &json!(false)), "{result}");
    assert_eq!(asked_by(&mill).await["total"], 1);
}

#[tokio::test]
async fn a_halt_of_an_agent_that_runs_as_itself_ends_its_run_that_waits() {
    let mut files = files("old_ask", &json!({}));
    let agent =
        json!({"name": "helper", "models": ["said"], "tools_shown": "all", "profile": "default", "runs_as": "agent"});
    files.push(("agents/helper.yaml".to_owned(), agent.to_string()));
    for (kind, name) in [("principal", "service:agent/helper"), ("profile", "default")] {
        let mill = Mill::whole(&files).await;
        let client = mill.house.modern_of("user:acme/ann", "other");
        let reader = mill.house.modern("other").admin();
        let started = asked(&client, "core_run_start", &json!({"agent": "helper", "task": "Do it."})).await;
        let is = async |status: &str| {
            eventually_finds(&format!("a run that is {status}"), async || {
                let run = asked(&reader, "core_run_get", &json!({"run": started["run"]})).await;
                if run["status"] == *status { Ok(run) } else { Err(run) }
            })
            .await
        };
        is("waiting").await;
        let subject = HaltSubject::new(kind, name).unwrap();
        let cause = HaltCause { reason: "a test".to_owned(), canary: None, by: PrincipalId::new("admin") };
        let halt = Arc::clone(&mill.house.gateway).path.halts.add(subject, cause).unwrap().0.id.to_string();
        let ended = is("ended").await;
        assert!(ended["output"].as_str().unwrap().contains(&halt), "{kind}: {ended}");
    }
}

#[tokio::test]
async fn a_window_that_is_closed_leaves_the_run_waiting_and_a_halt_ends_it_there() {
    let mill = Mill::whole(&files("old_ask", &json!({}))).await;
    let client = mill.house.legacy_asked("default", &json!({"elicitation": {"form": {}}}));
    let started = asked(&mill.admin(), "core_run_start", &json!({"agent": "helper", "task": "Do it."})).await;
    let run = started["run"].as_str().unwrap().to_owned();
    let shown = async || asked(&mill.admin(), "core_run_get", &json!({"run": run})).await;
    let is = async |status: &str| {
        eventually_finds(&format!("a run that is {status}"), async || {
            let run = shown().await;
            if run["status"] == *status { Ok(run) } else { Err(run) }
        })
        .await
    };
    assert_eq!(is("waiting").await["waits"][0]["for"], "person");
    // A model that is asked to answer for its person is refused.
    let answer = json!({"run": run, "answer": {"name": "Ann"}});
    let refused = client.clone().admin().call("core_run_resume", &answer).await;
    assert!(refused["isError"] == true && text_of(&refused).contains("not answered by MCP"), "{refused}");
    let subject = HaltSubject::new("run", &run).unwrap();
    let cause = HaltCause { reason: "a test".to_owned(), canary: None, by: PrincipalId::new("admin") };
    let gateway = Arc::clone(&mill.house.gateway);
    let halt = gateway.path.halts.add(subject, cause).unwrap().0.id.to_string();
    let ended = is("ended").await;
    assert_eq!(ended["end"], "cancelled", "{ended}");
    assert!(ended["output"].as_str().unwrap().contains(&halt), "{ended}");
}

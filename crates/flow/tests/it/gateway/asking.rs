//! Runs of agents that wait for people: asked in the dialog of the client that called, and ended by a halt.

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
    let said = json!({"turns": [{"calls": [{"name": tool, "arguments": arguments}]}, {"say": "It is done."}]});
    let model = json!({"name": "said", "wire": "script", "script": said}).to_string();
    let agent = json!({"name": "helper", "models": ["said"], "tools_shown": "all"}).to_string();
    vec![
        server("old", &["--asks"]),
        server("new", &["--asks", "--modern-only"]),
        profile("default", "exposure: direct\ntools: {confirm: [old/echo]}\n"),
        ("models/said.yaml".to_owned(), model),
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

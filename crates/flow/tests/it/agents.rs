//! Agents in a real gateway with scripted models: as steps of workflows, below each other, in profiles of their own, and
//! as principals of their own.

mod itself;
mod nested;
mod rights;

use serde_json::{Value, json};
use toolcrib_testgateway::{Client, File};
use toolcrib_testkit::eventually_finds;

use crate::gateway::Mill;

/// A model that answers by these turns.
fn model(name: &str, turns: &Value) -> File {
    let definition = json!({"name": name, "wire": "script", "script": {"turns": turns}});
    (format!("models/{name}.yaml"), definition.to_string())
}

/// An agent that asks the model of its name, and sees all of its tools.
fn agent(name: &str, more: &Value) -> File {
    let mut definition = json!({"name": name, "model": name, "tools_shown": "all"});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    (format!("agents/{name}.yaml"), definition.to_string())
}

/// Both, where the model makes these calls, one a turn, and then says something.
fn caller(name: &str, calls: &[(&str, Value)], more: &Value) -> [File; 2] {
    let calls = calls.iter().map(|(tool, arguments)| json!({"calls": [{"name": tool, "arguments": arguments}]}));
    let turns: Vec<Value> = calls.chain([json!({"say": format!("{name} is done.")})]).collect();
    [model(name, &turns.into()), agent(name, more)]
}

/// Starts a run of an agent and waits until it has ended or waits for a person.
async fn run(client: &Client, agent: &str) -> Value {
    client.operate("core_run_start", &json!({"agent": agent, "task": "Do it."})).await.unwrap()
}

/// Starts one and waits for its end.
async fn ended(client: &Client, agent: &str) -> Value {
    let id = run(client, agent).await["run"].as_str().unwrap().to_owned();
    until(client, &id, "ended").await
}

async fn until(client: &Client, run: &str, status: &str) -> Value {
    eventually_finds("the state of a run", async || {
        let shown = client.operate("core_run_get", &json!({"run": run})).await.unwrap();
        if shown["status"] == status { Ok(shown) } else { Err(shown) }
    })
    .await
}

/// The entries of a run of these kinds.
async fn entries(client: &Client, run: &Value, kind: &str) -> Vec<Value> {
    let all = client.operate("core_run_entries", &json!({"run": run["run"], "limit": 1000})).await.unwrap();
    let all = all["entries"].as_array().unwrap().iter();
    all.filter(|entry| entry["event"] == kind).cloned().collect()
}

/// What the calls of a run gave, or why they were refused, in order.
async fn results(client: &Client, run: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in entries(client, run, "decided").await {
        texts.extend(entry["why"].as_str().map(str::to_owned));
    }
    let results = entries(client, run, "result").await;
    texts.extend(results.iter().filter_map(|entry| entry["text"].as_str()).map(str::to_owned));
    texts
}

async fn whole(files: &[&[File]]) -> Mill {
    Mill::whole(&files.concat()).await
}

//! Steps of workflows that give tasks to agents, and agents below agents.

use serde_json::{Value, json};
use toolcrib_testgateway::{File, profile, server, text_of};

use super::{agent, caller, ended, entries, model, results, until, whole};
use crate::gateway::{asked, failed};

fn direct() -> File {
    profile("default", "exposure: direct\ngroups: [admin]\n")
}

const GUIDE: &str = "args: {what: {type: string, required: true}}
steps:
- {id: ask, agent: guide, task: \"Where is {{ .input.what }}?\"}
- {id: say, tool: fake/echo, args: {text: \"{{ .results.ask.city }} {{ .results.ask.km }}\"}, store: true}
";

fn workflow(name: &str, text: &str) -> File {
    (format!("workflows/{name}.yaml"), format!("name: {name}\n{text}"))
}

#[tokio::test]
async fn an_agent_is_a_step_whose_output_later_steps_read() {
    let turns = json!([{"say": "{\"city\": \"Bern\", \"km\": 12}"}]);
    let output = json!({"type": "object", "properties": {"city": {"type": "string"}, "km": {"type": "integer"}}});
    let files = [
        server("fake", &[]),
        direct(),
        model("guide", &turns),
        agent("guide", &json!({"output": output})),
        workflow("way", GUIDE),
    ];
    let mill = whole(&[&files]).await;
    assert_eq!(mill.house.gateway.loaded().problems, []);
    for client in mill.house.both("default") {
        let ran = asked(&client, "workflow_way", &json!({"what": "the bear"})).await;
        assert_eq!((&ran["status"], &ran["steps"][1]["result"]), (&json!("completed"), &json!("Bern 12")), "{ran}");
        assert_eq!(ran["steps"][0]["tool"], "agent/guide");
        let execution = ran["execution_id"].as_str().unwrap();
        let runs = client.operate("core_run_list", &json!({"agent": "guide"})).await.unwrap();
        let own: Vec<&Value> = runs["runs"].as_array().unwrap().iter().collect();
        let run = own.iter().find(|run| run["run"].as_str().unwrap().starts_with(execution)).expect("its run");
        assert_eq!((&run["task"], &run["end"]), (&json!("Where is the bear?"), &json!("done")));
    }
}

#[tokio::test]
async fn a_step_for_an_agent_that_is_not_there_is_reported_and_its_workflow_not_available() {
    let files = [
        vec![server("fake", &[]), direct(), workflow("way", &GUIDE.replace("guide", "giude"))],
        caller("guide", &[], &json!({})).to_vec(),
    ];
    let mill = whole(&[&files[0], &files[1]]).await;
    let problems: Vec<String> = mill.house.gateway.loaded().problems.iter().map(ToString::to_string).collect();
    assert!(problems.is_empty() || problems.iter().any(|it| it.contains("giude")), "{problems:?}");
    let admin = mill.admin();
    failed(&admin, "workflow_way", &json!({"what": "x"}), &["missing required tools: agent/giude"]).await;
    let step = |agent: &str| json!([{"id": "ask", "agent": agent, "task": "Look."}]);
    let warned = json!({"name": "new", "args": {}, "steps": step("guied")});
    let said = admin.operate("core_workflow_validate", &warned).await.unwrap();
    assert!(
        said["warnings"][0].as_str().unwrap().contains("agent `guied` does not exist (did you mean `guide`?)"),
        "{said}"
    );
    let wrong = json!({"name": "new", "args": {}, "steps": [{"id": "ask", "agent": "guide"}]});
    let refused = admin.operate("core_workflow_validate", &wrong).await.unwrap_err();
    assert!(refused.message.contains("task is required"), "{refused:?}");
    let fine = json!({"name": "new", "args": {}, "steps": step("guide")});
    let said = admin.operate("core_workflow_validate", &fine).await.unwrap();
    assert!(said["warnings"].is_null(), "{said}");
}

#[tokio::test]
async fn a_step_is_tried_again_with_a_run_of_its_own_and_fails_with_the_words_of_the_agent() {
    let refuse = json!([{"say": "I will not.", "finish": "refusal"}]);
    let files = [
        server("fake", &[]),
        direct(),
        model("mule", &refuse),
        agent("mule", &json!({})),
        workflow("try", "args: {}\nsteps: [{id: ask, agent: mule, task: Go., retry: {count: 1, delay: 1ms}}]\n"),
    ];
    let mill = whole(&[&files]).await;
    let admin = mill.admin();
    let result = admin.call("workflow_try", &json!({})).await;
    assert!(result["isError"] == true && text_of(&result).contains("The run ended: refus"), "{result}");
    let runs = admin.operate("core_run_list", &json!({"agent": "mule"})).await.unwrap();
    assert_eq!(runs["total"], 2, "each try is a run: {runs}");
}

/// `a` gives a task to `b`, `b` to `c`, and so on.
fn chain() -> Vec<File> {
    let none = json!({});
    let task = json!({"task": "Go on."});
    let mut files = vec![server("fake", &[]), direct()];
    for (name, next) in [("a", "agent_b"), ("b", "agent_c"), ("c", "agent_d"), ("d", "agent_e")] {
        files.extend(caller(name, &[(next, task.clone())], &none));
    }
    files.extend(caller("e", &[], &none));
    files
}

#[tokio::test]
async fn agents_call_agents_three_deep_and_spend_what_the_first_one_has() {
    let mill = whole(&[&chain()]).await;
    let admin = mill.admin();
    let first = ended(&admin, "a").await;
    assert_eq!(first["end"], "done", "{first}");
    let mut id = first["run"].as_str().unwrap().to_owned();
    let mut tokens = vec![first["tokens"].as_u64().unwrap()];
    for parent in ["a", "b", "c"] {
        let below = until(&admin, &format!("{id}-1.1"), "ended").await;
        assert_eq!((&below["parent"], below["principal"].as_str()), (&json!(id), Some("local")), "below {parent}");
        tokens.push(below["tokens"].as_u64().unwrap());
        id = below["run"].as_str().unwrap().to_owned();
    }
    // Each has spent what those below it have, and something of its own.
    assert!(tokens.windows(2).all(|pair| pair[0] > pair[1]) && tokens[3] > 0, "{tokens:?}");
    let last = until(&admin, &id, "ended").await;
    assert!(results(&admin, &last).await.concat().contains("more than 3 deep"), "{last}");
    let all = admin.operate("core_run_list", &json!({})).await.unwrap();
    assert_eq!(all["total"], 4, "the fifth never began: {all}");
}

#[tokio::test]
async fn a_sub_agent_has_no_more_than_is_left_of_its_parents_tokens() {
    let task = json!({"task": "Go on."});
    let files = [
        vec![server("fake", &[]), direct()],
        caller("a", &[("agent_b", task)], &json!({"limits": {"tokens": 100_000}})).to_vec(),
        caller("b", &[], &json!({})).to_vec(),
    ];
    let mill = whole(&[&files.concat()]).await;
    let admin = mill.admin();
    let first = ended(&admin, "a").await;
    let id = format!("{}-1.1", first["run"].as_str().unwrap());
    let journal = admin.operate("core_run_export", &json!({"run": id})).await.unwrap();
    let limit = journal["journal"].to_string();
    let start = journal["journal"].as_array().unwrap()[0].to_string();
    let tokens: u64 =
        start.split("\"tokens\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap().parse().unwrap();
    assert!(tokens < 100_000 && tokens > 50_000, "{limit}");
}

#[tokio::test]
async fn agents_stand_in_no_circle_also_through_a_workflow() {
    let (task, none) = (json!({"task": "Go on."}), json!({}));
    let files = [
        vec![server("fake", &[]), direct(), workflow("back", "args: {}\nsteps: [{id: ask, agent: y, task: Go on.}]\n")],
        caller("x", &[("agent_y", task.clone()), ("workflow_back", none.clone())], &none).to_vec(),
        caller("y", &[("agent_x", task)], &none).to_vec(),
        caller("z", &[("workflow_loop", none.clone())], &none).to_vec(),
        vec![workflow("loop", "args: {}\nsteps: [{id: ask, agent: z, task: Go on.}]\n")],
    ];
    let mill = whole(&[&files.concat()]).await;
    let admin = mill.admin();
    let first = ended(&admin, "x").await;
    let below = until(&admin, &format!("{}-1.1", first["run"].as_str().unwrap()), "ended").await;
    let told = results(&admin, &below).await.concat();
    assert!(told.contains("agents call each other in a circle: x → y → x"), "{told}");
    // The run of a step stands below the run that has called the workflow, and is spent by it.
    let runs = admin.operate("core_run_list", &json!({"agent": "y"})).await.unwrap();
    let all: Vec<&Value> = runs["runs"].as_array().unwrap().iter().collect();
    assert!(all.len() == 2 && all.iter().all(|run| run["parent"] == first["run"]), "{runs}");
    let spent: u64 = all.iter().map(|run| run["tokens"].as_u64().unwrap()).sum();
    let own: u64 =
        entries(&admin, &first, "answered").await.iter().map(|it| it["spent"]["tokens"].as_u64().unwrap()).sum();
    assert_eq!(first["tokens"].as_u64().unwrap(), own + spent, "{first}");

    let looped = ended(&admin, "z").await;
    let told = results(&admin, &looped).await.concat();
    assert!(told.contains("in a circle: z → z"), "{told}");
}

#[tokio::test]
async fn what_sub_agents_and_workflows_have_read_decides_the_later_calls_of_a_run() {
    let policies = r#"@id("seen") forbid (principal, action, resource in Server::"fake") when { context.labels.contains("data=secret") };"#;
    let labelled = |name: &str, more: &str| {
        let (file, text) = server(name, &[]);
        (file, text + more)
    };
    let (task, echo, none) = (json!({"task": "Look."}), json!({"text": "out"}), json!({}));
    let then_echo = |agent: &'static str| [(agent, task.clone()), ("fake_echo", echo.clone())];
    let mut files = vec![
        server("fake", &[]),
        labelled("vault", "\nlabels: {data: secret}\n"),
        direct(),
        ("policies/team.cedar".to_owned(), policies.to_owned()),
        workflow("pass", "args: {}\nsteps: [{id: ask, agent: reads, task: Look.}]\n"),
        workflow("fetch", "args: {}\nsteps: [{id: get, tool: vault/echo, args: {text: secret}}]\n"),
        workflow("outer", "args: {}\nsteps: [{id: get, tool: workflow_fetch}]\n"),
    ];
    files.extend(caller("reads", &[("vault_echo", json!({"text": "secret"}))], &none));
    files.extend(caller("clean", &[], &none));
    // One that reads by another one below it.
    files.extend(caller("between", &[("agent_reads", task.clone())], &none));
    files.extend(caller("near", &then_echo("agent_reads"), &none));
    files.extend(caller("far", &then_echo("agent_between"), &none));
    files.extend(caller("free", &then_echo("agent_clean"), &none));
    for (agent, tool) in [("flow", "workflow_pass"), ("direct", "workflow_fetch"), ("deep", "workflow_outer")] {
        files.extend(caller(agent, &[(tool, none.clone()), ("fake_echo", echo.clone())], &none));
    }
    let mill = whole(&[&files]).await;
    assert_eq!(mill.house.gateway.loaded().problems, []);
    let admin = mill.admin();
    for (agent, is_refused) in
        [("near", true), ("far", true), ("flow", true), ("direct", true), ("deep", true), ("free", false)]
    {
        let run = ended(&admin, agent).await;
        assert_eq!(run["end"], "done", "{agent}: {run}");
        let given = results(&admin, &run).await;
        let refused = given.iter().any(|text| text.contains("policy `seen` forbids it"));
        assert_eq!(refused, is_refused, "{agent}: {given:?}");
        // What decides stands in the journal, so it is the same after a restart.
        let journal = admin.operate("core_run_export", &json!({"run": run["run"]})).await.unwrap()["journal"].clone();
        assert_eq!(journal.to_string().contains("vault/echo\"]"), is_refused, "{agent}: {journal}");
    }
}

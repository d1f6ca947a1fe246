//! Access tokens that are bound to a run, with the real program: they count while the run is under way, and not a moment
//! longer, however it ends.

use serde_json::{Value, json};
use toolcrib_testkit::eventually_finds;

use crate::authorization::{House, Reply, ask, encoded, parameter};
use crate::serving::fake_server;
use crate::toolcrib::{run, run_with_stdin};

/// A house with the client `worker`, which may exchange tokens, and the workflow `wait`, which does not end by itself.
async fn house(secret: &tempfile::NamedTempFile) -> House {
    let worker = format!(
        "[[identity.server.client]]\nid = 'worker'\nname = 'Worker'\nexchange = true\nclient_secret = 'file:{}'\n",
        secret.path().display()
    );
    let slow = format!("name: slow\ncommand: {}\ntimeouts: {{call: 1h}}\nstart: eager\n", fake_server().display());
    let house = House::start_with(&worker, &[("slow", slow)], &["serve"]).await;
    let workflow = "name: wait\nsteps: [{id: a, tool: slow/slow, args: {ms: 3000000}}]\n";
    let made = run_with_stdin(house.home.path(), &["create", "workflow", "-f", "-"], &[], workflow).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    house
}

/// Begins a run in the name of the bearer, and gives its id.
async fn begun(house: &House, token: &str) -> String {
    eventually_finds("the run", async || {
        let said = house.call_tool(token, "workflow_wait", &json!({"_detach": true}));
        let text = said.json()["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        answer["execution_id"].as_str().map(str::to_owned).ok_or(said.body)
    })
    .await
}

fn exchanged(house: &House, subject: &str, run: &str) -> Reply {
    let form = encoded(&[
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("client_id", "worker"),
        ("client_secret", "s3cret"),
        ("subject_token", subject),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("resource", &format!("{}/mcp/p/work", house.url)),
        ("run", run),
    ]);
    ask("POST", &format!("{}/oauth/token", house.url), &[], &form)
}

fn token(reply: &Reply) -> String {
    reply.json()["access_token"].as_str().unwrap_or_else(|| panic!("{}", reply.body)).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_run_ends_with_it_by_a_cancellation_a_halt_or_a_kill() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret").unwrap();
    let mut house = house(&secret).await;
    let code = parameter(&house.allowed(&house.page()).await, "code");
    let own = token(&house.redeemed(&code));
    assert_eq!(exchanged(&house, &own, "no-such-run").status, 400);

    for (index, command) in [&["api", "core_workflow_execution_cancel"][..], &["halt", "add", "run"]].iter().enumerate()
    {
        let id = begun(&house, &own).await;
        let bound = token(&exchanged(&house, &own, &id));
        assert_eq!(house.call(&bound), 200);
        let named = if index == 0 { format!("execution_id={id}") } else { id.clone() };
        let mut arguments = [command, &[named.as_str()][..]].concat();
        if index == 1 {
            arguments.extend(["--reason", "a test"]);
        }
        let ended = run(house.home.path(), &arguments, &[]).await;
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        // The next request, without waiting for anything.
        assert_eq!(house.call(&bound), 401, "{arguments:?}");
        assert_eq!(exchanged(&house, &own, &id).status, 400);
    }

    let id = begun(&house, &own).await;
    let bound = token(&exchanged(&house, &own, &id));
    assert_eq!(house.call(&bound), 200);
    house.killed().await;
    assert_eq!(house.call(&bound), 401, "nothing of it was written down");
    assert_eq!(house.call(&own), 200, "the caller's own counts as before");
    // The run goes on, and who works for it gets another one.
    let again = eventually_finds("the run that goes on", async || {
        let reply = exchanged(&house, &own, &id);
        if reply.status == 200 { Ok(token(&reply)) } else { Err(reply.body) }
    })
    .await;
    assert_eq!(house.call(&again), 200);
    run(house.home.path(), &["api", "core_workflow_execution_cancel", &format!("execution_id={id}")], &[]).await;
    house.gateway.stop().await;
}

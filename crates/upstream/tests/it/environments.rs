//! What a profile adds to a server's environment: its own process, which ends with it.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{ProfileName, Secret};
use toolcrib_protocol::Raw;
use toolcrib_testkit::eventually_holds;
use toolcrib_upstream::Call;
use toolcrib_upstream::{CallError, Client, Conversation, Endpoint, Environment, Nature, ServerConfig, SessionPolicy};

use crate::world::{World, fake, shell};

fn environment(profile: &str, variables: &[(&str, &str)]) -> Arc<Environment> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
    Arc::new(Environment::new(ProfileName::new(profile).unwrap(), variables.collect()))
}

fn within(environment: &Arc<Environment>) -> Client {
    Client { environment: Some(Arc::clone(environment)), ..Client::default() }
}

/// The server with `OWN=server` and `BOTH=server` of its definition.
fn with_own(mut config: ServerConfig) -> ServerConfig {
    let Endpoint::Stdio { env, .. } = &mut config.endpoint else { panic!("a program") };
    *env = ["OWN", "BOTH"].map(|name| (name.to_owned(), Secret::new("server"))).to_vec();
    config
}

async fn call(world: &World, client: Client, tool: &str, arguments: Value) -> Result<String, CallError> {
    let params = Raw::from_value(&json!({"name": tool, "arguments": arguments}));
    let result = world.server.call("tools/call", &params, Call { client, ..Call::default() }).await?.unwrap();
    Ok(result.to_value()["content"][0]["text"].as_str().unwrap().to_owned())
}

async fn variable(world: &World, client: Client, name: &str) -> String {
    call(world, client, "env", json!({"name": name})).await.unwrap()
}

async fn check(config: ServerConfig) {
    let world = World::ready(with_own(config)).await;
    let (work, home) =
        (environment("work", &[("BOTH", "work")]), environment("home", &[("BOTH", "home"), ("MORE", "1")]));
    for (name, of_none, of_work, of_home) in
        [("OWN", "server", "server", "server"), ("BOTH", "server", "work", "home"), ("MORE", "(unset)", "(unset)", "1")]
    {
        assert_eq!(variable(&world, Client::default(), name).await, of_none, "{name}");
        assert_eq!(variable(&world, within(&work), name).await, of_work, "{name}");
        assert_eq!(variable(&world, within(&home), name).await, of_home, "{name}");
    }
    assert_eq!((world.processes().len(), world.server.extra_connections()), (3, 2));
    world.server.retire_environment(&work);
    eventually_holds("its process has ended", || world.processes().len() == 2).await;
    assert_eq!(variable(&world, within(&home), "BOTH").await, "home");
}

#[tokio::test]
async fn each_environment_has_a_process_of_its_own() {
    check(ServerConfig { session: SessionPolicy::Shared, ..fake(&[]) }).await;
    check(ServerConfig { session: SessionPolicy::Principal, ..fake(&[]) }).await;
}

#[tokio::test]
async fn so_it_is_with_a_modern_server_known_as_such_or_not() {
    check(ServerConfig { nature: Nature::default(), ..fake(&["--modern"]) }).await;
    let world = World::new(ServerConfig { nature: Nature::default(), ..fake(&["--modern"]) });
    let work = environment("work", &[("BOTH", "work")]);
    assert_eq!(variable(&world, within(&work), "BOTH").await, "work", "before the main connection is there");
}

#[tokio::test]
async fn a_call_that_runs_ends_before_its_outdated_process_does() {
    let world = World::ready(fake(&[])).await;
    let work = environment("work", &[("KEY", "old")]);
    assert_eq!(variable(&world, within(&work), "KEY").await, "old");
    let mut running = Box::pin(call(&world, within(&work), "slow", json!({"ms": 600_000})));
    tokio::select! {
        _ = &mut running => panic!("it is slow"),
        () = eventually_holds("it runs", || world.server.running() == 1) => {}
    }
    world.server.retire_environment(&work);
    let new = environment("work", &[("KEY", "new")]);
    assert_eq!(variable(&world, within(&new), "KEY").await, "new");
    assert_eq!((world.processes().len(), world.server.extra_connections()), (3, 2));
    drop(running);
    eventually_holds("the old process has ended", || world.processes().len() == 2).await;
    assert_eq!(world.server.extra_connections(), 1);
}

#[tokio::test]
async fn a_conversation_stays_in_its_environment_or_ends() {
    let world = World::ready(ServerConfig { session: SessionPolicy::Handle, ..fake(&[]) }).await;
    let (work, home) = (environment("work", &[("BOTH", "work")]), environment("home", &[("BOTH", "home")]));
    let conversation = Conversation::new(Arc::default());
    let of = |environment| Client { conversation: Some(Arc::clone(&conversation)), ..within(environment) };
    assert_eq!(variable(&world, of(&work), "BOTH").await, "work");
    let elsewhere = call(&world, of(&home), "counter", json!({})).await;
    assert!(matches!(elsewhere, Err(CallError::Ended(_))), "{elsewhere:?}");
    world.server.retire_environment(&work);
    let after = call(&world, of(&work), "counter", json!({})).await;
    assert!(matches!(after, Err(CallError::Ended(_))), "{after:?}");
}

#[tokio::test]
async fn a_profile_s_secret_does_not_stand_in_why_it_failed() {
    let script = r#"if [ -n "$KEY" ]; then echo "bad key $KEY" >&2; exit 3; fi; exec cat"#;
    let world = World::new(shell(script));
    let failed = call(&world, within(&environment("work", &[("KEY", "sk-123456")])), "echo", json!({})).await;
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("bad key ****") && !text.contains("sk-1"), "{text}");
}

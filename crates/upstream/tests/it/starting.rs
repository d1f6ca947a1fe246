//! When a server is started, and that it is started once.

use std::collections::HashSet;

use serde_json::json;
use toolcrib_upstream::Call;
use toolcrib_upstream::{CallError, Endpoint, Event, Inventory, Start, State};

use crate::world::{World, config, fake, known, with};

#[tokio::test]
async fn an_eager_server_starts_by_itself_and_tells_each_step() {
    let mut world = World::new(fake(&["--instructions", "Be kind."]));
    let status = world.until(State::Ready).await;
    assert!(status.listed && status.last_error.is_none() && status.restarts == 0);
    assert!(world.tools().contains(&"echo".to_owned()));
    let inventory = world.server.inventory();
    assert_eq!((inventory.resources.len(), inventory.templates.len(), inventory.prompts.len()), (2, 1, 2));
    assert_eq!(inventory.instructions.as_deref(), Some("Be kind."));
    assert!(inventory.has_capability("prompts") && inventory.server_info.is_some());
    let told: Vec<_> = world
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Status { status, .. } => status.state.as_str(),
            Event::Inventory { .. } => "inventory",
            Event::Nature { .. } => "nature",
            Event::ResourceUpdated { .. } => "resource",
            Event::TaskChanged { .. } => "task",
            Event::Own { .. } => "own",
        })
        .collect();
    assert_eq!(told, ["starting", "inventory", "ready"]);
}

#[tokio::test]
async fn a_lazy_server_serves_what_is_known_and_starts_at_the_first_call() {
    let world = World::knowing(with(Start::Lazy, fake(&[])), Some(known()));
    tokio::task::yield_now().await;
    assert_eq!((world.server.status().state, world.tools()), (State::Idle, vec!["known".to_owned()]));
    assert_eq!(world.processes(), [0_i32; 0]);
    world.echo().await;
    world.until(State::Ready).await;
    assert!(!world.tools().contains(&"known".to_owned()), "the real list has replaced the known one");
}

#[tokio::test]
async fn a_lazy_server_of_which_nothing_is_known_is_listed_in_the_background() {
    let world = World::ready(with(Start::Lazy, fake(&[]))).await;
    assert!(world.tools().contains(&"echo".to_owned()));
}

#[tokio::test]
async fn a_manual_server_waits_for_an_order() {
    let world = World::new(with(Start::Manual, fake(&[])));
    let error = world.tool("echo", json!({})).await.unwrap_err();
    let CallError::Unavailable(away) = error else { panic!("{error}") };
    assert_eq!(away.status.state, State::Stopped);
    assert_eq!(world.processes(), [0_i32; 0]);
    world.server.order_start();
    world.until(State::Ready).await;
    world.echo().await;
}

#[tokio::test]
async fn fifty_first_calls_start_one_process() {
    let world = World::knowing(with(Start::Lazy, fake(&[])), Some(known()));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let server = world.server.clone();
            world.scope.spawn(async move {
                let params = toolcrib_protocol::Raw::from_value(&json!({"name": "pid"}));
                server.call("tools/call", &params, Call::default()).await.unwrap().unwrap()
            })
        })
        .collect();
    let mut answers = HashSet::new();
    for call in calls {
        answers.insert(call.await.unwrap().as_str().to_owned());
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(world.processes().len(), 1);
    assert_eq!(world.server.status().restarts, 0);
}

#[tokio::test]
async fn what_is_known_is_served_while_the_server_fails() {
    let world = World::knowing(fake(&["--exit-at-start"]), Some(known()));
    world.until(State::Failed).await;
    assert_eq!(world.tools(), ["known"]);
}

#[tokio::test]
async fn an_inventory_of_everything_survives_being_written() {
    let world = World::ready(fake(&["--bad-tool", "--asks", "--instructions", "\"\\ \u{7f}"])).await;
    let inventory = (*world.server.inventory()).clone();
    let again = Inventory::from_json(&inventory.to_json()).unwrap();
    assert_eq!(again, Inventory { warnings: Vec::new(), ..inventory });
}

#[tokio::test]
async fn a_definition_that_cannot_be_used_says_why() {
    let world = World::new(config(Endpoint::Unusable { reason: "the variable `KEY` is not set".into() }));
    let status = world.until(State::Failed).await;
    assert_eq!(status.last_error.as_deref(), Some("the variable `KEY` is not set"));
    let error = world.tool("echo", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("server `fake` is failed since 20"), "{error}");
    assert!(error.to_string().contains("`KEY` is not set, next attempt at 20"), "{error}");
}

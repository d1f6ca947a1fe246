//! Servers that speak both eras: each client is served in its own, on a connection beside the main one where need be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;
use toolcrib_base::SessionName;
use toolcrib_protocol::{Capabilities, Era, Raw};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::Call;
use toolcrib_upstream::{
    CallError, Client, Conversation, Event, IDLE, Nature, ServerConfig, SessionPolicy, Start, State,
};

use crate::mcp::{self, answer_to, count, method, text};
use crate::world::{World, fake, hold_time, kill, known, with};

const FORM: Capabilities = Capabilities { form: true, ..Capabilities::NONE };

/// A server of which nothing is known.
fn unknown(config: ServerConfig) -> ServerConfig {
    ServerConfig { nature: Nature::default(), ..config }
}

fn of(era: Era) -> Client {
    Client { era: Some(era), ..Client::default() }
}

async fn call(world: &World, client: Client, name: &str) -> Result<String, CallError> {
    let params = Raw::from_value(&json!({"name": name, "arguments": {}}));
    let result = world.server.call("tools/call", &params, Call { client, ..Call::default() }).await?.unwrap();
    Ok(result.to_value()["content"][0]["text"].as_str().unwrap().to_owned())
}

async fn pid(world: &World, client: Client) -> String {
    call(world, client, "pid").await.unwrap()
}

/// What was told of its nature, one after the other.
fn natures(world: &mut World) -> Vec<Option<bool>> {
    let nature = |event| match event {
        Event::Nature { nature, .. } => Some(nature.also_legacy),
        _ => None,
    };
    world.events().into_iter().filter_map(nature).collect()
}

#[tokio::test]
async fn each_client_of_a_program_is_served_in_its_own_era_by_a_process_of_its_own() {
    let mut world = World::ready(unknown(fake(&["--modern"]))).await;
    assert!(world.server.speaks(Era::Modern) && !world.server.speaks(Era::Legacy), "nobody has tried");
    let modern = pid(&world, of(Era::Modern)).await;
    let legacy = pid(&world, of(Era::Legacy)).await;
    assert_ne!(modern, legacy);
    assert!(world.server.speaks(Era::Legacy));
    for _ in 0..2 {
        assert_eq!(pid(&world, of(Era::Modern)).await, modern);
        assert_eq!(pid(&world, of(Era::Legacy)).await, legacy);
        assert_eq!(pid(&world, Client::default()).await, modern, "who does not care gets what is there");
    }
    assert_eq!((world.processes().len(), world.server.extra_connections()), (2, 1));
    assert_eq!(natures(&mut world), [None, Some(true)], "told once each");
    world.server.order_stop();
    eventually_holds("all have ended", || world.processes().is_empty()).await;
}

#[tokio::test]
async fn one_that_only_legacy_clients_use_says_that_it_is_ready_and_stops_when_it_idles() {
    let idle = Duration::from_millis(300);
    let nature = Nature { era: Some(Era::Modern), also_legacy: Some(true), asks: false };
    let config = ServerConfig { nature, idle: Some(idle), start: Start::Lazy, ..fake(&["--modern"]) };
    let mut world = World::ready(config).await;
    for _ in 0..2 {
        eventually_holds("it idles", || world.server.status().state == State::Idle).await;
        eventually_holds("no process is left", || world.processes().is_empty()).await;
        world.events();
        let before = world.server.status().since;
        pid(&world, of(Era::Legacy)).await;
        eventually_holds("it has ended", || world.processes().is_empty()).await;
        eventually_holds("it is forgotten", || world.server.extra_connections() == 0).await;
        let told = world.events().into_iter().filter_map(|event| match event {
            Event::Status { status, .. } => Some((status.state, status.since >= before)),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert!(told.contains(&(State::Ready, true)), "{told:?}");
    }
}

#[tokio::test]
async fn a_program_that_takes_no_initialize_is_asked_once_and_bridged() {
    let mut world = World::ready(unknown(fake(&["--modern-only"]))).await;
    let main = pid(&world, of(Era::Modern)).await;
    assert_eq!(pid(&world, of(Era::Legacy)).await, main);
    eventually_holds("the attempt has ended", || world.processes().len() == 1).await;
    eventually_holds("it is forgotten", || world.server.extra_connections() == 0).await;
    assert_eq!(world.server.era_for(Era::Legacy), Some(Era::Modern));
    assert_eq!(pid(&world, of(Era::Legacy)).await, main);
    assert_eq!(world.server.extra_connections(), 0, "it is not asked again");
    assert_eq!(natures(&mut world), [None, Some(false)]);
}

#[tokio::test]
async fn what_is_remembered_is_not_asked_again() {
    let nature = Nature { era: Some(Era::Modern), also_legacy: Some(true), asks: false };
    let config = with(Start::Lazy, ServerConfig { nature, ..fake(&["--modern"]) });
    let world = World::knowing(config, Some(known()));
    pid(&world, of(Era::Legacy)).await;
    assert_eq!(world.processes().len(), 1, "a legacy client alone needs no modern connection");
    let nature = Nature { also_legacy: Some(false), ..nature };
    let world = World::ready(ServerConfig { nature, ..fake(&["--modern"]) }).await;
    assert_eq!(pid(&world, of(Era::Legacy)).await, pid(&world, of(Era::Modern)).await);
}

#[tokio::test]
async fn a_definition_may_say_which_era_it_is() {
    let world = World::ready(ServerConfig { only: Some(Era::Modern), ..unknown(fake(&["--modern"])) }).await;
    assert_eq!(pid(&world, of(Era::Legacy)).await, pid(&world, of(Era::Modern)).await);
    assert_eq!((world.server.listing_era(), world.processes().len()), (Some(Era::Modern), 1));
    let world = World::ready(ServerConfig { only: Some(Era::Legacy), ..unknown(fake(&["--modern"])) }).await;
    assert_eq!(pid(&world, of(Era::Legacy)).await, pid(&world, of(Era::Modern)).await);
    assert_eq!((world.server.listing_era(), world.processes().len()), (Some(Era::Legacy), 1));
    let world = World::new(ServerConfig { only: Some(Era::Modern), ..unknown(fake(&[])) });
    let failed = world.until(State::Failed).await.last_error.unwrap();
    assert!(failed.contains("does not speak 2026-07-28") && failed.contains("`era: auto`"), "{failed}");
}

#[tokio::test]
async fn legacy_clients_share_by_the_policy_of_the_server() {
    let named = Conversation::new(Arc::default());
    let clients = || {
        let of = |principal: Option<&str>, session: &str, offered: &Capabilities| Client {
            principal: principal.map(Into::into),
            session: Some(SessionName::new(session)),
            capabilities: Arc::new(offered.clone()),
            ..of(Era::Legacy)
        };
        let none = Capabilities::NONE;
        [
            of(None, "1", &none),
            of(None, "2", &none),
            of(Some("p"), "3", &none),
            of(None, "4", &FORM),
            of(None, "5", &FORM),
            Client { conversation: Some(Arc::clone(&named)), ..of(None, "6", &none) },
        ]
    };
    for (session, expect) in [
        (SessionPolicy::Shared, [0, 0, 0, 1, 1, 0]),
        (SessionPolicy::Principal, [0, 0, 1, 2, 3, 0]),
        (SessionPolicy::Handle, [0, 0, 1, 2, 3, 4]),
    ] {
        let world = World::ready(ServerConfig { session, ..unknown(fake(&["--modern"])) }).await;
        let main = pid(&world, of(Era::Modern)).await;
        let mut pids = Vec::new();
        for (client, place) in clients().into_iter().zip(expect) {
            let pid = pid(&world, client).await;
            assert_ne!(pid, main, "{session:?}");
            if place == pids.len() {
                assert!(!pids.contains(&pid), "{session:?}");
                pids.push(pid);
            } else {
                assert_eq!(pids[place], pid, "{session:?}");
            }
        }
        assert_eq!(world.processes().len(), 1 + pids.len());
    }
    let world = World::ready(ServerConfig { session: SessionPolicy::Request, ..unknown(fake(&["--modern"])) }).await;
    let (first, second) = (pid(&world, of(Era::Legacy)).await, pid(&world, of(Era::Legacy)).await);
    assert_ne!(first, second, "one for each call");
    let main = pid(&world, of(Era::Modern)).await;
    assert_eq!(pid(&world, of(Era::Modern)).await, main, "a modern request is complete by itself");
    eventually_holds("those of the calls have ended", || world.processes().len() == 1).await;
}

#[tokio::test]
async fn a_restart_and_the_death_of_a_process_leave_nothing_behind() {
    let world = World::ready(unknown(fake(&["--modern"]))).await;
    let before = [pid(&world, of(Era::Modern)).await, pid(&world, of(Era::Legacy)).await];
    world.server.order_restart();
    eventually_holds("it restarts", || world.server.status().restarts == 1).await;
    world.until(State::Ready).await;
    let after = [pid(&world, of(Era::Modern)).await, pid(&world, of(Era::Legacy)).await];
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} {after:?}");
    eventually_holds("the others have ended", || world.processes().len() == 2).await;
    kill(&after[1]);
    eventually_holds("it is noticed", || world.server.extra_connections() == 0).await;
    let third = pid(&world, of(Era::Legacy)).await;
    assert_eq!((world.server.status().restarts, pid(&world, of(Era::Modern)).await), (1, after[0].clone()));
    assert_ne!(third, after[1]);
    assert!(world.server.speaks(Era::Legacy), "a program that ends once has not changed");
}

#[tokio::test(start_paused = true)]
async fn it_is_not_stopped_for_idling_while_a_legacy_connection_is_open() {
    let mut config = with(Start::Lazy, unknown(fake(&["--modern"])));
    config.idle = Some(Duration::from_secs(60));
    config.timeouts.list = IDLE * 10;
    let world = World::new(config);
    hold_time(&world.scope);
    world.until(State::Ready).await;
    pid(&world, of(Era::Legacy)).await;
    for _ in 0..3 {
        advance(Duration::from_secs(90)).await;
        pid(&world, of(Era::Legacy)).await;
        assert_eq!((world.server.status().state, world.processes().len()), (State::Ready, 2));
    }
    while world.server.status().state != State::Idle {
        advance(IDLE).await;
        tokio::task::yield_now().await;
    }
    eventually_holds("no process is left", || world.processes().is_empty()).await;
}

/// A server over HTTP that says that it speaks both; whether it takes `initialize` can be changed.
fn claiming(takes: &Arc<AtomicBool>, status: u16) -> HttpServer {
    let takes = Arc::clone(takes);
    HttpServer::start(move |request: &Request, reply: &mut Reply<'_>| {
        let is_modern = request.header("mcp-protocol-version") == Some("2026-07-28");
        let era = if is_modern { "modern" } else { "legacy" };
        let complete = |mut result: Value| {
            result["resultType"] = "complete".into();
            answer_to(request, &result)
        };
        match method(request).as_str() {
            "server/discover" => {
                let result = json!({"supportedVersions": ["2026-07-28", "2025-11-25"], "capabilities": {"tools": {}}});
                reply.json(&[], &complete(result));
            }
            "initialize" if !takes.load(Ordering::SeqCst) => reply.full(status, &[], "no"),
            "tools/call" if !is_modern && !takes.load(Ordering::SeqCst) => reply.full(404, &[], "no such session"),
            "tools/call" => reply.json(&[], &complete(text(era))),
            _ => mcp::answer(request, reply),
        }
    })
}

#[tokio::test]
async fn a_server_that_loses_the_legacy_era_is_bridged_in_the_course_of_one_call() {
    let takes = Arc::new(AtomicBool::new(true));
    let server = claiming(&takes, 400);
    let mut world = World::ready(unknown(mcp::config(&server))).await;
    for _ in 0..2 {
        assert_eq!(call(&world, of(Era::Legacy), "echo").await.unwrap(), "legacy");
        assert_eq!(call(&world, of(Era::Modern), "echo").await.unwrap(), "modern");
    }
    assert_eq!(count(&server, "initialize"), 1, "nothing is asked twice");
    takes.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(call(&world, of(Era::Legacy), "echo").await.unwrap(), "modern");
    }
    assert_eq!(count(&server, "initialize"), 2, "a refusal is remembered");
    assert_eq!(natures(&mut world), [None, Some(true), Some(false)]);
    // A new start of the server may bring it back.
    takes.store(true, Ordering::SeqCst);
    world.server.order_restart();
    eventually_holds("it restarts", || world.server.status().restarts == 1).await;
    world.until(State::Ready).await;
    assert_eq!(call(&world, of(Era::Legacy), "echo").await.unwrap(), "legacy");
}

#[tokio::test]
async fn a_server_that_cannot_take_initialize_for_now_is_bridged_until_it_was_known_to() {
    let takes = Arc::new(AtomicBool::new(false));
    let server = claiming(&takes, 503);
    let world = World::ready(unknown(mcp::config(&server))).await;
    for _ in 0..3 {
        assert_eq!(call(&world, of(Era::Legacy), "echo").await.unwrap(), "modern");
    }
    assert_eq!(count(&server, "initialize"), 1, "it is left alone for a while");
    // One that has spoken it keeps the client's era: what the session remembers must not be lost without a word.
    takes.store(true, Ordering::SeqCst);
    world.server.order_restart();
    eventually_holds("it restarts", || world.server.status().restarts == 1).await;
    world.until(State::Ready).await;
    assert_eq!(call(&world, of(Era::Legacy), "echo").await.unwrap(), "legacy");
    takes.store(false, Ordering::SeqCst);
    let error = call(&world, of(Era::Legacy), "echo").await.unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!(call(&world, of(Era::Modern), "echo").await.unwrap(), "modern", "other clients are unaffected");
}

#[tokio::test]
async fn another_version_of_a_legacy_server_is_asked_for_its_eras_again() {
    let updated = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&updated);
    let server = HttpServer::start(move |request, reply| {
        let version = if seen.load(Ordering::SeqCst) { "2" } else { "1" };
        let capabilities = json!({"tools": {}});
        match method(request).as_str() {
            "server/discover" if version == "2" => {
                let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities});
                reply.json(&[], &answer_to(request, &result));
            }
            "server/discover" => reply.full(400, &[], "no session"),
            "initialize" => {
                let info = json!({"name": "a", "version": version});
                let result = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info});
                reply.json(&[mcp::SESSION], &answer_to(request, &result));
            }
            _ => mcp::answer(request, reply),
        }
    });
    let world = World::ready(unknown(mcp::config(&server))).await;
    assert_eq!(world.server.listing_era(), Some(Era::Legacy));
    for (version, era) in [("1", Era::Legacy), ("2", Era::Modern), ("2", Era::Modern)] {
        updated.store(version == "2", Ordering::SeqCst);
        let before = world.server.status().restarts;
        world.server.order_restart();
        eventually_holds("it restarts", || world.server.status().restarts > before).await;
        eventually_holds("it is ready in its era", || {
            world.server.status().state == State::Ready && world.server.listing_era() == Some(era)
        })
        .await;
        let probes = count(&server, "server/discover");
        assert_eq!(probes > 1, era == Era::Modern, "the same version is not asked again");
    }
}

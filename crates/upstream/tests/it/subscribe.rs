//! Subscriptions in both eras: taken, refused, changed without a gap, taken again on a new connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_protocol::Era;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::{Event, Nature, ServerConfig, State};

use crate::mcp::{self, answer_to, count, event, method, stream};
use crate::world::{World, fake};

const SOON: Duration = Duration::from_secs(60);
const KEY: &str = "io.modelcontextprotocol/subscriptionId";

fn modern(config: ServerConfig) -> ServerConfig {
    ServerConfig { nature: Nature { era: Some(Era::Modern), ..Nature::default() }, ..config }
}

/// The resources of which an update was told since the last look.
fn updates(world: &mut World) -> Vec<String> {
    let of = |event| match event {
        Event::ResourceUpdated { uri, .. } => Some(uri),
        _ => None,
    };
    world.events().into_iter().filter_map(of).collect()
}

async fn until_updated(world: &mut World, wanted: &str) {
    let mut seen = Vec::new();
    eventually_holds("an update", || {
        seen.extend(updates(world));
        seen.iter().any(|uri| uri == wanted)
    })
    .await;
    assert!(seen.iter().all(|uri| uri == wanted), "{seen:?}");
}

/// A legacy server that refuses `a:none`, and tells what it is given on its stream at each release.
fn legacy_server(told: impl Fn(usize) -> Vec<Value> + Send + Sync + 'static) -> HttpServer {
    HttpServer::start(move |request, reply| match method(request).as_str() {
        "initialize" => {
            let capabilities = json!({"tools": {}, "resources": {"subscribe": true}});
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities});
            reply.json(&[mcp::SESSION], &answer_to(request, &result));
        }
        "resources/list" => reply.json(&[], &answer_to(request, &json!({"resources": []}))),
        "resources/subscribe" if request.json()["params"]["uri"] == "a:none" => {
            let error = json!({"code": -32_002, "message": "no such resource"});
            reply.json(&[], &json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}));
        }
        "GET" => {
            stream(reply);
            for release in 1..10 {
                reply.wait_for_release(release);
                told(release).iter().for_each(|message| reply.chunk(event(message)));
            }
            reply.hang();
        }
        _ => mcp::answer(request, reply),
    })
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

#[tokio::test]
async fn a_legacy_server_is_subscribed_to_once_and_told_the_end() {
    let server = legacy_server(|_| vec![updated("b:other"), updated("a:1/part"), updated("a:1/part")]);
    let mut world = World::ready(mcp::config(&server)).await;
    let (first, second) = (world.server.subscribe(None, "a:1"), world.server.subscribe(None, "a:1"));
    let refused = world.server.subscribe(None, "a:none");
    assert!(first.accepted(SOON).await && second.accepted(SOON).await);
    assert!(!refused.accepted(SOON).await);
    assert_eq!(refused.refusal().map(|error| error.code), Some(-32_002));
    assert!(!world.server.watch_task(None, "t").accepted(SOON).await, "there are no tasks in this era");
    assert_eq!(count(&server, "resources/subscribe"), 2);
    eventually_holds("the stream is open", || count(&server, "GET") == 1).await;
    server.release();
    until_updated(&mut world, "a:1/part").await;
    drop(first);
    drop(refused);
    world.echo().await;
    assert_eq!(count(&server, "resources/unsubscribe"), 0);
    drop(second);
    eventually_holds("it is unsubscribed", || count(&server, "resources/unsubscribe") == 1).await;
}

#[tokio::test]
async fn a_flood_of_updates_is_merged() {
    let server = legacy_server(|_| {
        let parts = (0..5_000).map(|number| updated(&format!("a:1/{number}")));
        parts.chain((0..5_000).map(|_| updated("a:2"))).collect()
    });
    let mut world = World::ready(mcp::config(&server)).await;
    let held = [world.server.subscribe(None, "a:1"), world.server.subscribe(None, "a:2")];
    assert!(held[0].accepted(SOON).await && held[1].accepted(SOON).await);
    eventually_holds("the stream is open", || count(&server, "GET") == 1).await;
    server.release();
    let mut seen = Vec::new();
    eventually_holds("the last update", || {
        seen.extend(updates(&mut world));
        seen.iter().any(|uri| uri == "a:2")
    })
    .await;
    assert!(seen.len() < 5_000, "{}", seen.len());
    world.echo().await;
}

#[tokio::test]
async fn a_server_without_subscriptions_is_not_asked() {
    let server = HttpServer::start(mcp::answer);
    let world = World::ready(mcp::config(&server)).await;
    assert!(!world.server.subscribe(None, "a:1").accepted(SOON).await);
    assert_eq!(count(&server, "resources/subscribe"), 0);
}

#[tokio::test]
async fn a_program_that_is_started_again_is_subscribed_to_again() {
    for config in [fake(&[]), modern(fake(&["--modern"]))] {
        let mut world = World::ready(config).await;
        let held = world.server.subscribe(None, "fake://text");
        assert!(held.accepted(SOON).await);
        assert_eq!(updates(&mut world), [""; 0]);
        let pid = world.tool("pid", json!({})).await.unwrap();
        crate::world::kill(&pid);
        // What happened in the meantime is unknown, so it may have changed.
        until_updated(&mut world, "fake://text").await;
        world.until(State::Ready).await;
        assert!(held.accepted(SOON).await);
    }
}

#[tokio::test]
async fn a_subscription_starts_a_server_that_idles() {
    let world =
        World::knowing(crate::world::with(toolcrib_upstream::Start::Lazy, fake(&[])), Some(crate::world::known()));
    assert_eq!(world.server.status().state, State::Idle);
    assert!(world.server.subscribe(None, "fake://text").accepted(SOON).await);
}

/// What a modern server does with one `subscriptions/listen`.
type Listen = dyn Fn(usize, &Request, &mut Reply<'_>) + Send + Sync;

fn modern_server(lists: bool, listen: impl Fn(usize, &Request, &mut Reply<'_>) + Send + Sync + 'static) -> HttpServer {
    let (number, listen): (AtomicUsize, Box<Listen>) = (AtomicUsize::new(0), Box::new(listen));
    HttpServer::start(move |request, reply| match method(request).as_str() {
        "server/discover" => {
            let capabilities = json!({"tools": {"listChanged": lists}});
            let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities});
            reply.json(&[], &answer_to(request, &result));
        }
        "subscriptions/listen" => listen(number.fetch_add(1, Ordering::SeqCst) + 1, request, reply),
        _ => mcp::answer(request, reply),
    })
}

fn filter(request: &Request) -> Value {
    request.json()["params"]["notifications"].clone()
}

fn tagged(request: &Request, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({KEY: request.json()["id"]});
    event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

fn acknowledge(request: &Request, reply: &mut Reply<'_>, granted: &Value) {
    stream(reply);
    reply.chunk(tagged(request, "notifications/subscriptions/acknowledged", json!({"notifications": granted})));
}

fn listens(server: &HttpServer) -> Vec<Value> {
    server.requests().iter().filter(|request| method(request) == "subscriptions/listen").map(filter).collect()
}

#[tokio::test]
async fn a_modern_server_is_listened_to_and_its_filter_changes_without_a_gap() {
    let open = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&open);
    let server = modern_server(true, move |number, request, reply| {
        if number == 2 {
            // Until the second is acknowledged, the first must be there.
            reply.wait_for_release(1);
        }
        acknowledge(request, reply, &filter(request));
        seen.lock().unwrap().push(number);
        if number == 1 {
            reply.wait_for_release(1);
            reply.chunk(tagged(request, "notifications/resources/updated", json!({"uri": "a:1"})));
        }
        reply.hang();
        seen.lock().unwrap().retain(|other| *other != number);
    });
    let mut world = World::ready(modern(mcp::config(&server))).await;
    assert_eq!(listens(&server), [json!({"toolsListChanged": true})]);
    assert_eq!(count(&server, "tools/list"), 1, "acknowledged before it was listed");
    let held = world.server.subscribe(None, "a:1");
    eventually_holds("another stream is asked for", || listens(&server).len() == 2).await;
    assert_eq!(listens(&server)[1], json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1"]}));
    assert_eq!(*open.lock().unwrap(), [1]);
    server.release();
    assert!(held.accepted(SOON).await);
    eventually_holds("the first is closed", || *open.lock().unwrap() == [2]).await;
    drop(held);
    eventually_holds("the filter is as before", || listens(&server).len() == 3).await;
    eventually_holds("one stream is open", || *open.lock().unwrap() == [3]).await;
    assert_eq!(updates(&mut world), [""; 0], "the first stream may not tell what it was not asked for");
    assert_eq!(count(&server, "tools/list"), 1);
}

#[tokio::test]
async fn only_what_a_server_acknowledges_of_what_it_was_asked_counts() {
    let server = modern_server(false, |_, request, reply| {
        let granted =
            json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1", "a:3", "b:"], "taskIds": ["t"]});
        acknowledge(request, reply, &granted);
        let more = json!({"notifications": {"resourceSubscriptions": ["a:2"]}});
        reply.chunk(tagged(request, "notifications/subscriptions/acknowledged", more));
        for (method, params) in [
            ("notifications/resources/updated", json!({"uri": "b:1"})),
            ("notifications/resources/updated", json!({"uri": 7})),
            ("notifications/tools/list_changed", json!({})),
            ("notifications/tasks", json!({"taskId": "u"})),
            ("notifications/tasks", json!({"taskId": "t", "status": "working"})),
            ("notifications/resources/updated", json!({"uri": "a:1"})),
        ] {
            reply.chunk(tagged(request, method, params));
        }
        reply.hang();
    });
    let mut world = World::ready(modern(mcp::config(&server))).await;
    assert_eq!(listens(&server).len(), 0, "there is nothing to listen for");
    let (first, second, task) =
        (world.server.subscribe(None, "a:1"), world.server.subscribe(None, "a:2"), world.server.watch_task(None, "t"));
    assert!(first.accepted(SOON).await && task.accepted(SOON).await);
    assert!(!second.accepted(SOON).await);
    let mut told = Vec::new();
    eventually_holds("the last of them", || {
        told.extend(world.events());
        told.iter().any(|event| matches!(event, Event::ResourceUpdated { uri, .. } if uri == "a:1"))
    })
    .await;
    assert!(!told.iter().any(|event| matches!(event, Event::ResourceUpdated { uri, .. } if uri != "a:1")));
    let tasks: Vec<_> = told
        .iter()
        .filter_map(|event| match event {
            Event::TaskChanged { params, .. } => Some(params.to_value()["taskId"].clone()),
            _ => None,
        })
        .collect();
    assert_eq!(tasks, [json!("t")]);
    assert_eq!(count(&server, "tools/list"), 1, "nobody asked for changes of lists");
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again_and_what_was_missed_is_read() {
    let server = modern_server(true, |number, request, reply| {
        acknowledge(request, reply, &filter(request));
        if number == 2 {
            reply.wait_for_release(1);
            return reply.end();
        }
        reply.hang();
    });
    let mut world = World::ready(modern(mcp::config(&server))).await;
    let held = world.server.subscribe(None, "a:1");
    assert!(held.accepted(SOON).await);
    assert_eq!((listens(&server).len(), count(&server, "tools/list")), (2, 1));
    server.release();
    until_updated(&mut world, "a:1").await;
    eventually_holds("the lists are read again", || count(&server, "tools/list") == 2).await;
    assert_eq!(listens(&server).len(), 3);
    assert!(held.accepted(SOON).await);
    world.echo().await;
}

#[tokio::test]
async fn a_server_that_knows_no_listen_is_asked_once() {
    let server = modern_server(true, |_, request, reply| {
        let error = json!({"code": -32_601, "message": "unknown method"});
        let answer = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error});
        reply.full(404, &["content-type: application/json"], answer.to_string());
    });
    let world = World::ready(modern(mcp::config(&server))).await;
    assert!(!world.server.subscribe(None, "a:1").accepted(SOON).await);
    assert!(!world.server.watch_task(None, "t").accepted(SOON).await);
    assert_eq!(listens(&server).len(), 1);
    world.echo().await;
}

#[tokio::test]
async fn a_larger_filter_that_is_refused_leaves_the_smaller_one() {
    let server = modern_server(true, |_, request, reply| {
        if filter(request).get("resourceSubscriptions").is_some() {
            let error = json!({"code": -32_602, "message": "no"});
            return reply.json(&[], &json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}));
        }
        acknowledge(request, reply, &filter(request));
        reply.wait_for_release(1);
        reply.chunk(tagged(request, "notifications/tools/list_changed", json!({})));
        reply.hang();
    });
    let world = World::ready(modern(mcp::config(&server))).await;
    let held = world.server.subscribe(None, "a:1");
    assert!(!held.accepted(SOON).await);
    assert_eq!(held.refusal().map(|error| error.code), Some(-32_602));
    server.release();
    eventually_holds("the lists are read again", || count(&server, "tools/list") == 2).await;
}

//! Whose calls share a connection: the session policies, counted in processes and in sessions over HTTP.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;
use toolcrib_base::{Kind, SessionName};
use toolcrib_protocol::{Answer, Capabilities, Era, Notification, Raw, Request};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_upstream::Call;
use toolcrib_upstream::{
    CallError, CallHandler, Client, Conversation, IDLE, Nature, Reply, ServerConfig, SessionPolicy, State,
};

use crate::mcp::{self, answer_to, count, method, text};
use crate::world::{World, fake, hold_time, kill};

const FORM: Capabilities = Capabilities { form: true, ..Capabilities::NONE };

fn policy(session: SessionPolicy, config: ServerConfig) -> ServerConfig {
    ServerConfig { session, ..config }
}

fn client(principal: &str, capabilities: Capabilities) -> Client {
    let principal = (principal != "owner").then(|| principal.into());
    Client { principal, capabilities: Arc::new(capabilities), ..Client::default() }
}

fn within(conversation: &Arc<Conversation>) -> Client {
    Client { conversation: Some(Arc::clone(conversation)), ..client("p", Capabilities::NONE) }
}

async fn call(world: &World, client: Client, name: &str, arguments: Value) -> Result<String, CallError> {
    let params = Raw::from_value(&json!({"name": name, "arguments": arguments}));
    let result = world.server.call("tools/call", &params, Call { client, ..Call::default() }).await?.unwrap();
    Ok(result.to_value()["content"][0]["text"].as_str().unwrap().to_owned())
}

async fn counted(world: &World, client: Client) -> String {
    call(world, client, "counter", json!({})).await.unwrap()
}

/// How many processes there are in the end.
async fn left(world: &World, processes: usize) {
    eventually_holds("the others have ended", || world.processes().len() == processes).await;
}

#[tokio::test]
async fn a_principal_has_a_connection_of_its_own() {
    let world = World::ready(policy(SessionPolicy::Principal, fake(&[]))).await;
    for expect in ["1", "2"] {
        for principal in ["owner", "a", "b"] {
            assert_eq!(counted(&world, client(principal, Capabilities::NONE)).await, expect, "{principal}");
        }
    }
    assert_eq!((world.processes().len(), world.server.extra_connections()), (3, 2));
}

#[tokio::test]
async fn a_shared_server_has_one_connection_for_all_that_offer_the_same() {
    let world = World::ready(policy(SessionPolicy::Shared, fake(&[]))).await;
    for expect in ["1", "2", "3"] {
        assert_eq!(counted(&world, client(expect, Capabilities::NONE)).await, expect);
    }
    for expect in ["1", "2"] {
        assert_eq!(counted(&world, client(expect, FORM)).await, expect);
    }
    assert_eq!((world.processes().len(), world.server.extra_connections()), (2, 1));
}

#[tokio::test]
async fn a_process_for_each_call_ends_with_it() {
    let world = World::ready(policy(SessionPolicy::Request, fake(&[]))).await;
    for _ in 0..3 {
        assert_eq!(counted(&world, client("owner", Capabilities::NONE)).await, "1");
    }
    left(&world, 1).await;
    let running = Box::pin(call(&world, client("a", Capabilities::NONE), "slow", json!({"ms": 600_000})));
    tokio::select! {
        _ = running => panic!("it is slow"),
        () = eventually_holds("its process runs", || world.processes().len() == 2) => {}
    }
    left(&world, 1).await;
    eventually_holds("none is left", || world.server.extra_connections() == 0).await;
}

/// A server that numbers its sessions and notes how many are open.
struct NumberedServer {
    server: HttpServer,
    open: Arc<Mutex<(HashSet<String>, usize)>>,
}

/// `fails` says which `initialize` is refused, `forgets` which session is unknown to calls.
fn numbered(fails: &'static [usize], forgets: &'static [&'static str]) -> NumberedServer {
    let open: Arc<Mutex<(HashSet<String>, usize)>> = Arc::default();
    let (seen, opened) = (Arc::clone(&open), AtomicUsize::new(0));
    let server = HttpServer::start(move |request, reply| {
        let session = request.header("mcp-session-id").unwrap_or_default().to_owned();
        match method(request).as_str() {
            "initialize" => {
                let number = opened.fetch_add(1, Ordering::SeqCst) + 1;
                if fails.contains(&number) {
                    return reply.full(500, &[], "not now");
                }
                let session = format!("s-{number}");
                {
                    let mut open = seen.lock().unwrap();
                    open.0.insert(session.clone());
                    open.1 = open.1.max(open.0.len());
                }
                let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}});
                reply.json(&[&format!("mcp-session-id: {session}")], &answer_to(request, &result));
            }
            "DELETE" => {
                seen.lock().unwrap().0.remove(&session);
                reply.full(200, &[], "");
            }
            "tools/call" if forgets.contains(&&*session) => reply.full(404, &[], "no such session"),
            "tools/call" => reply.json(&[], &answer_to(request, &text(&session))),
            _ => mcp::answer(request, reply),
        }
    });
    NumberedServer { server, open }
}

#[tokio::test]
async fn a_session_for_each_call_is_deleted_after_it() {
    let NumberedServer { server, open } = numbered(&[], &[]);
    let world = World::ready(policy(SessionPolicy::Request, mcp::config(&server))).await;
    for number in 2..5 {
        let session = call(&world, client("owner", Capabilities::NONE), "echo", json!({})).await.unwrap();
        assert_eq!(session, format!("s-{number}"));
    }
    eventually_holds("they are deleted", || count(&server, "DELETE") == 3).await;
    assert_eq!(open.lock().unwrap().0, HashSet::from(["s-1".to_owned()]));
}

#[tokio::test]
async fn a_connection_for_one_call_that_cannot_be_opened_leaves_nothing() {
    let NumberedServer { server, .. } = numbered(&[2], &[]);
    let world = World::ready(policy(SessionPolicy::Request, mcp::config(&server))).await;
    let error = call(&world, client("owner", Capabilities::NONE), "echo", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
    eventually_holds("it is given up", || world.server.extra_connections() == 0).await;
    assert_eq!(call(&world, client("owner", Capabilities::NONE), "echo", json!({})).await.unwrap(), "s-3");
}

#[tokio::test]
async fn more_calls_than_there_may_be_connections_wait_for_their_turn() {
    let NumberedServer { server, open } = numbered(&[], &[]);
    let world = World::ready(policy(SessionPolicy::Request, mcp::config(&server))).await;
    let calls = (0..150).map(|_| call(&world, client("owner", Capabilities::NONE), "echo", json!({})));
    let sessions: Result<HashSet<String>, CallError> =
        futures_util::future::join_all(calls).await.into_iter().collect();
    assert_eq!(sessions.unwrap().len(), 150);
    let most = open.lock().unwrap().1;
    assert!((2..=65).contains(&most), "{most}");
}

#[tokio::test]
async fn a_conversation_is_one_connection_for_all_clients_of_its_principal() {
    let world = World::ready(policy(SessionPolicy::Handle, fake(&[]))).await;
    let [one, other] = [(); 2].map(|()| Conversation::new(Arc::default()));
    assert_ne!(one.handle(), other.handle());
    let asked = Client { capabilities: Arc::new(FORM), session: Some(SessionName::new("s")), ..within(&one) };
    assert!(!one.is_begun());
    for (client, expect) in [(within(&one), "1"), (asked, "2"), (within(&other), "1"), (within(&one), "3")] {
        assert_eq!(counted(&world, client).await, expect);
    }
    assert!(one.is_begun());
    for principal in ["owner", "p"] {
        assert_eq!(counted(&world, client(principal, Capabilities::NONE)).await, "1", "the ordinary one");
    }
    assert_eq!(world.processes().len(), 4);
    world.server.end(&one);
    left(&world, 3).await;
    check_ended(&world, &one).await;
    assert_eq!(counted(&world, within(&other)).await, "2", "the other one goes on");
    assert_eq!(world.processes().len(), 3, "and nothing was started");
}

async fn check_ended(world: &World, conversation: &Arc<Conversation>) {
    let error = call(world, within(conversation), "counter", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Ended(_)), "{error}");
    assert!(conversation.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_idles_is_closed_and_a_conversation_is_over_then() {
    for session in [SessionPolicy::Handle, SessionPolicy::Principal] {
        let mut config = policy(session, fake(&[]));
        // A ping that is on its way when time leaps must not be taken for one that is not answered.
        config.timeouts.list = IDLE * 10;
        let world = World::new(config);
        hold_time(&world.scope);
        world.until(State::Ready).await;
        let conversation = Conversation::new(Arc::default());
        counted(&world, within(&conversation)).await;
        advance(IDLE - Duration::from_secs(1)).await;
        assert_eq!(counted(&world, within(&conversation)).await, "2", "a call in time keeps it");
        // The connection's task must have seen the end of that call before time continues.
        eventually_holds("the call has ended", || world.server.running() == 0).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        advance(IDLE + Duration::from_secs(1)).await;
        eventually_holds("it is closed", || world.server.extra_connections() == 0).await;
        left(&world, 1).await;
        if session == SessionPolicy::Handle {
            check_ended(&world, &conversation).await;
        } else {
            assert_eq!(counted(&world, within(&conversation)).await, "1", "a principal just gets another one");
        }
    }
}

#[tokio::test]
async fn a_restart_ends_what_has_begun() {
    let world = World::ready(policy(SessionPolicy::Handle, fake(&[]))).await;
    let [begun, new] = [(); 2].map(|()| Conversation::new(Arc::default()));
    counted(&world, within(&begun)).await;
    world.server.order_restart();
    eventually_holds("it restarts", || world.server.status().restarts == 1).await;
    world.until(State::Ready).await;
    check_ended(&world, &begun).await;
    assert_eq!(counted(&world, within(&new)).await, "1", "one that had nothing to lose goes on");
    left(&world, 2).await;
}

#[tokio::test]
async fn a_process_that_dies_takes_its_conversation_with_it() {
    let world = World::ready(policy(SessionPolicy::Handle, fake(&[]))).await;
    let conversation = Conversation::new(Arc::default());
    let pid = call(&world, within(&conversation), "pid", json!({})).await.unwrap();
    kill(&pid);
    eventually_holds("it is noticed", || conversation.has_ended()).await;
    check_ended(&world, &conversation).await;
    assert_eq!(world.server.status().restarts, 0, "the main connection is none of its");
}

#[tokio::test]
async fn conversations_leave_room_for_others_and_ending_one_makes_room() {
    let NumberedServer { server, .. } = numbered(&[], &[]);
    let world = World::ready(policy(SessionPolicy::Handle, mcp::config(&server))).await;
    let many: Vec<_> = (0..49).map(|_| Conversation::new(Arc::default())).collect();
    for conversation in &many[..48] {
        call(&world, within(conversation), "echo", json!({})).await.unwrap();
    }
    let error = call(&world, within(&many[48]), "echo", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("the limit of 48 sessions with it"), "{error}");
    call(&world, client("somebody", Capabilities::NONE), "echo", json!({})).await.unwrap();
    assert!(many[..48].iter().all(|it| it.is_begun()), "none is ended to make room");
    world.server.end(&many[0]);
    call(&world, within(&many[48]), "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_conversation_whose_session_is_forgotten_is_over_and_never_reopened() {
    let NumberedServer { server, .. } = numbered(&[], &["s-2"]);
    let world = World::ready(policy(SessionPolicy::Handle, mcp::config(&server))).await;
    let conversation = Conversation::new(Arc::default());
    check_ended(&world, &conversation).await;
    assert_eq!((count(&server, "initialize"), count(&server, "tools/call")), (2, 1));
}

#[tokio::test]
async fn a_conversation_that_could_not_begin_may_be_tried_again() {
    let NumberedServer { server, .. } = numbered(&[2], &[]);
    let world = World::ready(policy(SessionPolicy::Handle, mcp::config(&server))).await;
    let conversation = Conversation::new(Arc::default());
    let error = call(&world, within(&conversation), "echo", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
    eventually_holds("it is given up", || world.server.extra_connections() == 0).await;
    assert_eq!(call(&world, within(&conversation), "echo", json!({})).await.unwrap(), "s-3");
}

/// Answers every question with its name.
struct NamedResponder(&'static str);

impl CallHandler for NamedResponder {
    fn notification(&self, _: Notification) {}
    fn request(&self, request: Request, reply: Reply) {
        reply.send(Answer::ok(request.id, Raw::from_value(&json!({"action": self.0}))));
    }
}

#[tokio::test]
async fn calls_of_a_conversation_with_a_server_that_asks_come_one_after_the_other() {
    let nature = Nature { era: Some(Era::Legacy), asks: true, ..Nature::default() };
    let config = ServerConfig { nature, ..policy(SessionPolicy::Handle, fake(&["--asks"])) };
    let world = World::ready(config).await;
    let conversation = Conversation::new(Arc::new(FORM));
    let ask = async |name: &'static str| {
        let client = Client { capabilities: Arc::new(FORM), ..within(&conversation) };
        let call = Call { client, handler: Some(Arc::new(NamedResponder(name))), ..Call::default() };
        let params = Raw::from_value(&json!({"name": "ask", "arguments": {"kind": "elicitation"}}));
        let result = world.server.call("tools/call", &params, call).await.unwrap().unwrap().to_value();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let (a, b, c) = tokio::join!(ask("a"), ask("b"), ask("c"));
    assert_eq!([a, b, c], ["a", "b", "c"].map(|name| json!({"action": name}).to_string()));
    assert_eq!(world.processes().len(), 2);
}

#[tokio::test]
async fn a_session_for_which_there_is_no_room_is_told_so() {
    let NumberedServer { server, .. } = numbered(&[], &[]);
    let world = World::ready(policy(SessionPolicy::Handle, mcp::config(&server))).await;
    // Which number is the limit is not for this test to say.
    let mut open = Vec::new();
    let error = loop {
        let conversation = Conversation::new(Arc::default());
        match call(&world, within(&conversation), "echo", json!({})).await {
            Ok(_) => open.push(conversation),
            Err(error) => break error,
        }
        assert!(open.len() < 1_000, "there is a limit");
    };
    assert_eq!(error.kind(), Kind::Busy);
    assert_eq!(error.to_string(), format!("server `fake`: the limit of {} sessions with it is reached", open.len()));
    assert!(call(&world, within(&open[0]), "echo", json!({})).await.is_ok(), "those that are open go on");
}

//! Ordered connections: calls matched by id, what the other side asks, and the end, seen from memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Notification, Raw};
use toolcrib_transport::peer::Peer;
use toolcrib_transport::process::{self, Edges, Line};
use toolcrib_transport::{CallOptions, Inbox, Link, LinkError, Reply};

use crate::http::{Notes, RecordedCall};
use crate::running::shell;

const LONG: Duration = Duration::from_secs(60);

struct Memory {
    peer: Arc<Peer>,
    link: Link,
    sent: mpsc::Receiver<Bytes>,
    notes: Arc<Notes>,
}

impl Memory {
    fn new() -> Self {
        let notes = Arc::new(Notes::default());
        let (peer, sent) = Peer::in_memory(Arc::<Notes>::clone(&notes), 8);
        Self { link: Link::Peer(Arc::clone(&peer)), peer, sent, notes }
    }

    fn receive(&self, message: &Value) {
        self.peer.message(&message.to_string().into());
    }

    async fn sent(&mut self) -> Value {
        serde_json::from_slice(&self.sent.recv().await.unwrap()).unwrap()
    }
}

async fn call(link: &Link) -> Result<String, LinkError> {
    let outcome = link.call(link.next_id(), "m", Raw::empty_object(), CallOptions::within(LONG)).await?;
    Ok(outcome.map_or_else(|error| error.message, |raw| raw.as_str().to_owned()))
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let memory = Memory::new();
    let (first, second, ()) = tokio::join!(call(&memory.link), call(&memory.link), async {
        memory.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"second": true}}));
        memory.receive(&json!({"jsonrpc": "2.0", "id": "7.x", "result": {}}));
        memory.receive(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "first"}}));
        memory.receive(&json!({"jsonrpc": "2.0", "id": 1, "result": {"again": true}}));
    });
    assert_eq!((first.unwrap().as_str(), second.unwrap().as_str()), ("first", r#"{"second":true}"#));
    let notes = memory.notes.all();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.starts_with("oddity an answer with the id")), "{notes:?}");
}

#[tokio::test]
async fn what_the_other_side_asks_is_answered_and_never_blocks() {
    let mut memory = Memory::new();
    memory.receive(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(memory.sent().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    memory.receive(&json!({"jsonrpc": "2.0", "id": 1.0, "method": "sampling/createMessage"}));
    let refused = memory.sent().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1.0), &json!(-32_601)));
    // Nobody reads the answers: they are dropped, the reader goes on.
    for _ in 0..10_000 {
        memory.receive(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    }
    memory.receive(&json!({"jsonrpc": "2.0", "method": "last"}));
    assert_eq!(memory.notes.all().last().unwrap(), "notification last");
}

#[tokio::test]
async fn odd_lines_are_reported_and_cut_short() {
    let memory = Memory::new();
    for line in ["", "INFO hello", "[]", "null", "{\"jsonrpc\":\"2.0\",\"id\":null}", "\u{fffd}"] {
        memory.peer.message(&Bytes::from(line));
    }
    memory.peer.message(&Bytes::from_static(b"\xff\xfe"));
    memory.peer.message(&Bytes::from("ü".repeat(100_000)));
    memory.peer.line(Line::TooLong { bytes: 99, edges: Edges::default() });
    let notes = memory.notes.all();
    assert_eq!(notes.len(), 9);
    assert!(notes.iter().all(|note| note.starts_with("oddity") && note.len() < 400), "{notes:?}");
}

#[tokio::test]
async fn progress_goes_to_its_call_only() {
    let memory = Memory::new();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let mut options = CallOptions::within(LONG);
    options.handler =
        Some(Arc::new(move |progress: Notification| seen.lock().unwrap().push(progress.params.to_value())));
    let id = memory.link.next_id();
    let (outcome, ()) = tokio::join!(memory.link.call(id, "m", Raw::empty_object(), options), async {
        for token in [json!(id), json!(id + 1), json!("x"), json!(null)] {
            let params = json!({"progressToken": token, "progress": 1});
            memory.receive(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        memory.receive(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    });
    assert!(outcome.is_ok());
    assert_eq!(*steps.lock().unwrap(), [json!({"progressToken": id, "progress": 1})]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_a_call_that_waits_for_ever_and_hears_what_is_tagged_with_its_id() {
    let mut memory = Memory::new();
    let heard = Arc::new(RecordedCall::default());
    let options =
        CallOptions { handler: Some(Arc::<RecordedCall>::clone(&heard)), ..CallOptions::within(Duration::MAX) };
    let tagged = |id: Value, method: &str| {
        let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "progressToken": 1});
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    };
    let mut other = Box::pin(call(&memory.link));
    assert!(
        tokio::time::timeout(Duration::from_millis(1), &mut other).await.is_err(),
        "call 1 waits, without a handler"
    );
    let mut listening =
        Box::pin(memory.link.call(memory.link.next_id(), "subscriptions/listen", Raw::empty_object(), options));
    tokio::select! {
        biased;
        _ = &mut listening => panic!("it has no answer"),
        () = toolcrib_testkit::pass(LONG * 60 * 24 * 365) => {}
    }
    for (id, method) in [(json!(2), "a"), (json!("2"), "b"), (json!(2.0), "c")] {
        memory.receive(&tagged(id, method));
    }
    for (id, method) in [(json!(1), "d"), (json!(3), "e"), (json!("x"), "f"), (json!(null), "g"), (json!({}), "h")] {
        memory.receive(&tagged(id, method));
    }
    assert_eq!(heard.all(), ["notification a", "notification b", "notification c"]);
    let others = ["d", "e", "f", "g", "h"].map(|method| format!("notification {method}"));
    assert_eq!(memory.notes.all(), others);
    drop(listening);
    memory.receive(&tagged(json!(2), "late"));
    assert_eq!((heard.all().len(), memory.notes.all().len()), (3, 6));
    drop(other);
    let sent = [memory.sent().await, memory.sent().await, memory.sent().await, memory.sent().await];
    assert_eq!(
        sent.map(|message| message["method"].clone()),
        ["m", "subscriptions/listen", "notifications/cancelled", "notifications/cancelled"]
    );
}

#[tokio::test]
async fn ids_are_ours_however_the_other_side_writes_them() {
    let memory = Memory::new();
    for written in [json!(1), json!("2"), json!(3.0), json!("4.0")] {
        let (answered, ()) = tokio::join!(call(&memory.link), async {
            memory.receive(&json!({"jsonrpc": "2.0", "id": written, "result": {}}));
        });
        assert_eq!(answered.unwrap(), "{}", "{written}");
    }
    let (answered, ()) = tokio::join!(call(&memory.link), async {
        memory.receive(&json!([
            {"jsonrpc": "2.0", "method": "first"},
            7,
            {"jsonrpc": "2.0", "id": 5, "result": {}},
            {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "again"}},
        ]));
    });
    assert_eq!(answered.unwrap(), "{}");
    let notes = memory.notes.all();
    assert_eq!((notes.len(), notes[0].as_str()), (3, "notification first"), "{notes:?}");
    assert!(notes[1].contains("expected an object") && notes[2].contains("the id 5, which no running call has"));
}

/// Keeps every question.
#[derive(Debug, Default)]
struct QuestionInbox(Mutex<Vec<(toolcrib_protocol::Request, Reply)>>, Notes);

impl Inbox for QuestionInbox {
    fn notification(&self, notification: Notification) {
        self.1.notification(notification);
    }

    fn request(&self, request: toolcrib_protocol::Request, reply: Reply) {
        self.0.lock().unwrap().push((request, reply));
    }

    fn oddity(&self, what: &str) {
        self.1.oddity(what);
    }

    fn closed(&self) {}
}

#[tokio::test]
async fn questions_that_wait_are_bounded_and_those_beyond_are_refused() {
    let parking = Arc::new(QuestionInbox::default());
    let (peer, mut sent) = Peer::in_memory(Arc::<QuestionInbox>::clone(&parking), 8);
    let ask = |id: u64| {
        let question = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create"});
        peer.message(&question.to_string().into());
    };
    (0..66).for_each(ask);
    assert_eq!(parking.0.lock().unwrap().len(), 64);
    let mut next = async || -> Value { serde_json::from_slice(&sent.recv().await.unwrap()).unwrap() };
    for id in [64, 65] {
        let refused = next().await;
        assert_eq!((&refused["id"], &refused["error"]["data"]["kind"]), (&json!(id), &json!("busy")));
    }
    assert!(parking.1.all().iter().all(|note| note.contains("beyond 64 at a time")));
    let (question, reply) = parking.0.lock().unwrap().remove(0);
    reply.send_default(&question);
    assert_eq!(next().await["id"], 0);
    drop(parking.0.lock().unwrap().remove(0));
    (66..70).for_each(ask);
    assert_eq!(parking.0.lock().unwrap().len(), 64, "an answered one and a forgotten one make room");
    assert_eq!(next().await["id"], 68);
    // What the other side takes back is told as anything else.
    peer.message(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}).to_string().into(),
    );
    assert_eq!(parking.1.all().last().unwrap(), "notification notifications/cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_by_its_deadline_is_cancelled_and_its_late_answer_is_odd() {
    let mut memory = Memory::new();
    assert_eq!(call(&memory.link).await, Err(LinkError::Timeout(LONG)));
    assert_eq!(memory.sent().await["method"], "m");
    assert_eq!(memory.sent().await["params"], json!({"requestId": 1}));
    memory.receive(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(memory.notes.all(), ["oddity an answer with the id 1, which no running call has"]);
}

#[tokio::test]
async fn the_end_fails_every_call_at_once_and_is_reported_once() {
    let memory = Memory::new();
    let (first, second, ()) = tokio::join!(call(&memory.link), call(&memory.link), async {
        memory.peer.line(Line::End);
        memory.peer.line(Line::End);
    });
    assert_eq!((first, second), (Err(LinkError::Closed), Err(LinkError::Closed)));
    assert_eq!(call(&memory.link).await, Err(LinkError::Closed));
    assert_eq!(memory.notes.all(), ["closed"]);
}

#[tokio::test]
async fn a_program_that_ends_before_its_peer_is_there_is_seen_to_have_ended() {
    let (scope, notes) = (Scope::new(), Arc::new(Notes::default()));
    let peer = Peer::over_process(Arc::<Notes>::clone(&notes), 8, |mut on_line| {
        on_line(Line::Text(r#"{"jsonrpc":"2.0","method":"early"}"#.into()));
        on_line(Line::End);
        process::spawn(&shell("exec sleep 1000"), &scope, on_line)
    });
    let link = Link::Peer(peer.unwrap());
    assert_eq!(notes.all(), ["notification early", "closed"]);
    assert_eq!(call(&link).await, Err(LinkError::Closed));
    scope.close(Duration::ZERO).await;
}

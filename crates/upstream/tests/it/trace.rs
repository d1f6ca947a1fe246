//! The trace that a program is started in.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::Secret;
use toolcrib_protocol::wire::{WireMessage, WireObserver};
use toolcrib_protocol::{Notification, Raw, RequestTrace, TraceContext};
use toolcrib_upstream::{Call, CallHandler};
use toolcrib_upstream::{Endpoint, ServerConfig, Start};

use crate::world::{World, fake, known, with};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What the variable says in a program that is started for a call in this trace.
async fn told(config: ServerConfig, context: Option<&str>, is_recorded: bool) -> String {
    let world = World::knowing(with(Start::Lazy, config), Some(known()));
    let context = context.map(|text| Arc::new(TraceContext::of_text(text).unwrap()));
    let call = Call { trace: RequestTrace { context, is_recorded, ..RequestTrace::default() }, ..Call::default() };
    let params = Raw::from_value(&json!({"name": "env", "arguments": {"name": "TRACEPARENT"}}));
    let result = world.server.call("tools/call", &params, call).await.unwrap().unwrap();
    result.to_value()["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_program_that_is_started_for_a_call_is_told_its_trace() {
    assert_eq!(told(fake(&[]), None, false).await, "(unset)");
    assert_eq!(told(fake(&[]), Some(PARENT), false).await, PARENT, "nothing is recorded in between");
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(std::io::sink).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let child = told(fake(&[]), Some(PARENT), true).await;
    assert!(child.starts_with(&PARENT[..36]) && child.ends_with("-01") && child != PARENT, "{child}");
    let mut own = fake(&[]);
    if let Endpoint::Stdio { env, .. } = &mut own.endpoint {
        env.push(("TRACEPARENT".to_owned(), Secret::new("own".to_owned())));
    }
    assert_eq!(told(own, Some(PARENT), true).await, "own", "what the definition says wins");
}

/// Keeps what it sees: whether it was received, and the text.
#[derive(Debug, Default)]
struct SeenMessages(std::sync::Mutex<Vec<(bool, String)>>);

impl WireObserver for SeenMessages {
    fn observe(&self, message: WireMessage<'_>) {
        self.0.lock().unwrap().push((message.is_received, message.text.to_owned()));
    }
}

#[tokio::test]
async fn the_messages_of_an_observed_call_are_shown_in_their_order() {
    let world = World::knowing(with(Start::Lazy, fake(&[])), Some(known()));
    let seen = Arc::new(SeenMessages::default());
    let observer: Arc<dyn WireObserver> = Arc::<SeenMessages>::clone(&seen);
    let trace = RequestTrace { wire: Some(observer), ..RequestTrace::default() };
    let handler: Arc<dyn CallHandler> = Arc::new(|_: Notification| {});
    let call = Call { trace, wants_progress: true, handler: Some(handler), ..Call::default() };
    let params = Raw::from_value(&json!({"name": "progress", "arguments": {"steps": 2}}));
    world.server.call("tools/call", &params, call).await.unwrap().unwrap();
    // Another call is not.
    let params = Raw::from_value(&json!({"name": "pid", "arguments": {}}));
    world.server.call("tools/call", &params, Call::default()).await.unwrap().unwrap();
    let seen = seen.0.lock().unwrap();
    let first = &seen[0].1;
    assert!(!seen[0].0 && first.contains("\"method\":\"tools/call\"") && first.contains("progressToken"), "{seen:?}");
    assert!(seen[1].0 && seen[1].1.contains("notifications/progress"), "{seen:?}");
    let (is_received, last) = seen.last().unwrap();
    assert!(*is_received && last.contains("\"result\"") && last.contains("\"jsonrpc\""), "{seen:?}");
    assert_eq!(seen.iter().filter(|(is_received, _)| !is_received).count(), 1, "{seen:?}");
}

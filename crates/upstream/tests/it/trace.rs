//! The trace that a program is started in.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::Secret;
use toolcrib_protocol::{Raw, RequestTrace, TraceContext};
use toolcrib_upstream::Call;
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

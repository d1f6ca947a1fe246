//! Servers that say what they should not: a warning in the log, and the calls beside it succeed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::Kind;
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::{Notification, Raw};
use toolcrib_upstream::Call;
use tracing_subscriber::fmt::MakeWriter;

use crate::world::{World, fake};

/// What was logged in this thread, in which the whole test runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone());
        (log, tracing_subscriber::util::SubscriberInitExt::set_default(subscriber))
    }

    fn check(&self, part: &str) {
        let text = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        assert!(text.lines().any(|line| line.contains("WARN") && line.contains(part)), "no `{part}` in:\n{text}");
    }
}

#[tokio::test]
async fn garbage_on_stdout_is_a_warning() {
    let (log, _guard) = Log::start();
    let world = World::ready(fake(&["--garbage"])).await;
    for _ in 0..20 {
        world.echo().await;
    }
    log.check("a line that is not a message");
    log.check("INFO starting up {");
}

#[tokio::test]
async fn an_answer_with_a_wrong_id_is_a_warning() {
    let (log, _guard) = Log::start();
    let mut config = fake(&["--wrong-id"]);
    config.timeouts.call = Duration::from_millis(1_000);
    let world = World::ready(config).await;
    let (lost, beside) =
        tokio::join!(world.tool("echo", json!({})), world.request("prompts/get", json!({"name": "plain"})));
    assert_eq!(lost.unwrap_err().kind(), Kind::Timeout);
    assert_eq!(beside.unwrap()["description"], "A prompt");
    log.check("an answer with the id 999999, which no running call has");
}

#[tokio::test]
async fn a_line_of_50_mib_is_a_warning() {
    const SIZE: usize = 50 * 1024 * 1024;
    let (log, _guard) = Log::start();
    let world = World::ready(fake(&["--long-line", &SIZE.to_string()])).await;
    world.echo().await;
    log.check("a line of 52428800 bytes was thrown away");
}

#[tokio::test]
async fn a_flood_of_stderr_holds_no_one_up() {
    World::ready(fake(&["--flood-stderr", "20000000"])).await.echo().await;
}

#[tokio::test]
async fn what_the_client_never_offered_is_refused_as_an_unknown_method() {
    let world = World::ready(fake(&["--asks"])).await;
    for kind in ["sampling", "elicitation", "roots"] {
        let answer = world.tool("ask", json!({"kind": kind})).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["code"], METHOD_NOT_FOUND);
        assert!(answer["message"].as_str().unwrap().contains(kind), "{answer}");
    }
}

#[tokio::test]
async fn results_come_back_byte_for_byte() {
    let world = World::ready(fake(&[])).await;
    let result = r#"{"content":[],"x":1.10,"big":12345678901234567890123,"e":"\u00e9","_meta":{"a":1e2}}"#;
    let params = Raw::from_value(&json!({"name": "raw", "arguments": {"result": result}}));
    let answer = world.server.call("tools/call", &params, Call::default()).await.unwrap().unwrap();
    assert_eq!(answer.as_str(), result);
    let error = world.request("tools/call", json!({"name": "rpc_error", "arguments": {"code": -7}})).await.unwrap();
    assert_eq!(error["code"], -7);
}

#[tokio::test]
async fn reserved_keys_do_not_reach_the_server_and_progress_comes_back() {
    let world = World::ready(fake(&[])).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": "theirs", "k": 1});
    let received = world
        .request("tools/call", json!({"name": "received", "_meta": meta}))
        .await
        .map(|result| serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap());
    assert_eq!(received.unwrap()["_meta"], json!({"k": 1}));
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let call = Call {
        handler: Some(Arc::new(move |progress: Notification| {
            seen.lock().unwrap().push(progress.params.to_value()["progress"].clone());
        })),
        wants_progress: true,
        ..Call::default()
    };
    let params = Raw::from_value(&json!({"name": "progress", "arguments": {"steps": 3}}));
    world.server.call("tools/call", &params, call).await.unwrap().unwrap();
    assert_eq!(*steps.lock().unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_only_when_that_is_wanted() {
    let world = World::ready(fake(&[])).await;
    for wanted in [false, true] {
        let params = Raw::from_value(&json!({"name": "slow", "arguments": {"ms": 3_600_000}}));
        let call = Call::default();
        call.cancel_on_drop.store(wanted, std::sync::atomic::Ordering::Relaxed);
        let running = world.server.call("tools/call", &params, call);
        tokio::select! {
            biased;
            _ = running => panic!("it takes an hour"),
            () = world.echo() => {}
        }
        let cancelled = world.tool("cancelled", json!({})).await.unwrap();
        assert_eq!(cancelled != "[]", wanted);
    }
}

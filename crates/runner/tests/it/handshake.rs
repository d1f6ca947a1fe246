//! Who is let in, and what is said to who is not.

use std::time::Duration;

use serde_json::json;
use toolcrib_base::Secret;
use toolcrib_runner::frame::{FRAME_BYTES, FrameError};
use toolcrib_runner::{ConnectionError, Frame, FrameType, HostConfig, RunnerDescription, SharedSecret, VERSION};

use crate::wire::{Cut, Wire, connect, ready};
use crate::world::{World, secret};

fn value(frame: &Frame) -> serde_json::Value {
    serde_json::from_str(frame.payload.get()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_proves_itself_gets_each_version_of_the_configuration() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    let described = |config| RunnerDescription { name: "one".to_owned(), runs: 0, stops: false, config };
    assert_eq!(host.runners(), [described(1)]);
    host.configure(HostConfig { runs: 7, ..HostConfig::default() });
    host.configure(HostConfig { runs: 7, ..HostConfig::default() });
    while host.runners() != [described(2)] {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_was_recorded_is_refused() {
    let (world, host) = World::new();
    let (mut first, _serving) = Wire::to(&world, &host);
    let challenge = value(&first.find(FrameType::Challenge).await);
    let said = toolcrib_runner::proof::Transcript {
        version: VERSION,
        gateway_nonce: challenge["nonce"].as_str().unwrap(),
        runner_nonce: "mine",
        name: "r",
    };
    let proof = said.prove(toolcrib_runner::proof::Side::Runner, &secret());
    let hello = json!({"version": VERSION, "name": "r", "nonce": "mine", "proof": proof});
    first.send(FrameType::Hello, "", hello.clone()).await;
    first.find(FrameType::Welcome).await;

    let (mut second, serving) = Wire::to(&world, &host);
    second.find(FrameType::Challenge).await;
    second.send(FrameType::Hello, "", hello).await;
    assert_eq!(serving.await.unwrap(), ConnectionError::Unproven("runner"));
    let error = value(&second.find(FrameType::Error).await);
    assert_eq!(error["code"], "unproven");
    assert_eq!(error["message"], "the runner does not prove that it knows the secret: give both sides the same one");
    assert!(second.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_runner_with_another_secret_or_version_is_refused() {
    let other = SharedSecret::new(&Secret::new("x".repeat(40))).unwrap();
    for (version, secret, code) in [(VERSION, &other, "unproven"), (VERSION + 1, &secret(), "version")] {
        let (world, host) = World::new();
        let (mut wire, serving) = Wire::to(&world, &host);
        wire.hello(version, secret).await;
        assert_eq!(serving.await.unwrap().code(), code);
        assert_eq!(value(&wire.find(FrameType::Error).await)["code"], code);
        assert!(host.runners().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_proves_nothing_may_say_hello_and_no_more() {
    let long = Frame::new(FrameType::Hello, "", &"x".repeat(4_096)).encode(FRAME_BYTES).unwrap();
    let early = Frame::new(FrameType::ToolCall, "1", &json!({"lease": 1, "call": "1.1", "attempt": 1}));
    let http = b"POST /mcp HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
    let strange = Frame::new(FrameType::Hello, "", &json!({"version": "1"})).encode(FRAME_BYTES).unwrap();
    for (bytes, code) in [
        (long, "frame_too_long"),
        (early.encode(FRAME_BYTES).unwrap(), "misplaced_frame"),
        (http, "frame_too_long"),
        (strange, "invalid_payload"),
    ] {
        let (world, host) = World::new();
        let (mut wire, serving) = Wire::to(&world, &host);
        wire.bytes(&bytes).await;
        assert_eq!(serving.await.unwrap().code(), code);
        assert_eq!(value(&wire.find(FrameType::Error).await)["code"], code);
    }
}

#[tokio::test(start_paused = true)]
async fn what_says_nothing_is_let_go() {
    let (world, host) = World::new();
    let (_wire, serving) = Wire::to(&world, &host);
    assert_eq!(serving.await.unwrap(), ConnectionError::Silent(Duration::from_secs(10)));
    // One that drips bytes holds no place either.
    let (mut wire, serving) = Wire::to(&world, &host);
    let began = tokio::time::Instant::now();
    for byte in [0, 0, 1, 0, b'{', b'{', b'{'] {
        wire.bytes(&[byte]).await;
        toolcrib_testkit::pass(Duration::from_secs(2)).await;
    }
    assert_eq!(serving.await.unwrap().code(), "silent");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_stops_to_speak_is_lost() {
    let (world, host) = World::new();
    let (mut wire, serving) = Wire::to(&world, &host);
    wire.introduce().await;
    assert_eq!(serving.await.unwrap(), ConnectionError::Silent(Duration::from_secs(30)));
    assert!(host.runners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_not_acknowledged_ends_the_connection() {
    let (world, host) = World::new();
    let (mut wire, serving) = Wire::to(&world, &host);
    wire.hello(VERSION, &secret()).await;
    wire.find(FrameType::ConfigUpdate).await;
    assert_eq!(serving.await.unwrap(), ConnectionError::Unconfigured(1));
    let (mut wire, serving) = Wire::to(&world, &host);
    wire.hello(VERSION, &secret()).await;
    wire.find(FrameType::ConfigUpdate).await;
    wire.send(FrameType::ConfigAck, "1", json!({"version": 1, "applied": false})).await;
    assert_eq!(serving.await.unwrap(), ConnectionError::Unconfigured(1));
}

#[tokio::test(start_paused = true)]
async fn unknown_and_foreign_frames_end_a_proven_connection() {
    let raw = |json: &str| [&u32::try_from(json.len()).unwrap().to_be_bytes()[..], json.as_bytes()].concat();
    for (bytes, expected) in [
        (raw(r#"{"type":"teleport"}"#), FrameError::Unknown("teleport".to_owned()).code()),
        (raw(r#"{"type":"session_halt","payload":{"reason":"x"}}"#), "foreign_report"),
        (raw(r#"{"type":"news","payload":{}}"#), "misplaced_frame"),
        (raw(r#"{"type":"tool_call","payload":{"lease":"x"}}"#), "invalid_payload"),
        (vec![0x7f, 0xff, 0xff, 0xff], "frame_too_long"),
    ] {
        let (world, host) = World::new();
        let (mut wire, serving) = Wire::to(&world, &host);
        wire.introduce().await;
        wire.bytes(&bytes).await;
        assert_eq!(serving.await.unwrap().code(), expected);
        assert_eq!(value(&wire.find(FrameType::Error).await)["code"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_believes_no_gateway_without_the_secret() {
    let (world, _host) = World::new();
    let (mut wire, serving) = Wire::to_runner(&world);
    wire.send(FrameType::Challenge, "", json!({"version": VERSION, "nonce": "yours"})).await;
    let hello = value(&wire.find(FrameType::Hello).await);
    assert!(!hello.to_string().contains("0123456789abcdef"));
    // Its own proof, sent back.
    wire.send(FrameType::Welcome, "", json!({"proof": hello["proof"]})).await;
    assert_eq!(serving.await.unwrap(), ConnectionError::Unproven("gateway"));

    let (mut wire, serving) = Wire::to_runner(&world);
    wire.send(FrameType::Challenge, "", json!({"version": 9, "nonce": "yours"})).await;
    let words = "the other side speaks version 9 of the protocol, and this one speaks 3: update the older one";
    assert_eq!(serving.await.unwrap().to_string(), words);
}

#[tokio::test(start_paused = true)]
async fn a_runner_takes_no_run_before_a_configuration_and_no_older_one() {
    let (world, _host) = World::new();
    let welcomed = async || {
        let (mut wire, serving) = Wire::to_runner(&world);
        wire.send(FrameType::Challenge, "", json!({"version": VERSION, "nonce": "yours"})).await;
        let hello = value(&wire.find(FrameType::Hello).await);
        let said = toolcrib_runner::proof::Transcript {
            version: VERSION,
            gateway_nonce: "yours",
            runner_nonce: hello["nonce"].as_str().unwrap(),
            name: "r",
        };
        let proof = said.prove(toolcrib_runner::proof::Side::Gateway, &secret());
        wire.send(FrameType::Welcome, "", json!({"proof": proof})).await;
        (wire, serving)
    };
    let (mut wire, serving) = welcomed().await;
    wire.send(FrameType::Message, "", json!({"lease": 1, "run": "run_1"})).await;
    assert_eq!(
        serving.await.unwrap(),
        ConnectionError::Misplaced { frame: "message", why: "came before `config_update`" }
    );
    let (mut wire, serving) = welcomed().await;
    let config = |version: u64| json!({"version": version, "now": 5, "config": {"runs": 1, "heartbeat_ms": 10_000, "silence_ms": 30_000}});
    wire.send(FrameType::ConfigUpdate, "8", config(8)).await;
    assert_eq!(value(&wire.find(FrameType::ConfigAck).await), json!({"version": 8, "applied": true}));
    wire.send(FrameType::ConfigUpdate, "7", config(7)).await;
    assert_eq!(serving.await.unwrap(), ConnectionError::OldConfiguration(7));
}

//! A runner in wrong hands, which knows the secret: it can do what its run's journal says and nothing else.

use serde_json::{Value, json};
use toolcrib_agent::Event;
use toolcrib_agent::driver::{DriveRuns, Rest};
use toolcrib_runner::{Frame, FrameType};

use crate::wire::Wire;
use crate::world::{World, start};

/// A run that a hostile runner has: it resumed it and asked its model, which answered with three calls.
struct Hostile {
    world: std::sync::Arc<World>,
    wire: Wire,
    serving: tokio::task::JoinHandle<toolcrib_runner::ConnectionError>,
    lease: u64,
    now: i64,
}

fn value(frame: &Frame) -> Value {
    serde_json::from_str(frame.payload.get()).unwrap()
}

impl Hostile {
    async fn new() -> Self {
        let (world, host) = World::new();
        let (mut wire, serving) = Wire::to(&world, &host);
        wire.introduce().await;
        crate::wire::ready(&host, 1).await;
        host.start(start("run_1")).await.unwrap();
        let lease = value(&wire.find(FrameType::Message).await)["lease"].as_u64().unwrap();
        let now = world.entries("run_1")[0].at.0;
        Self { world, wire, serving, lease, now }
    }

    async fn append(&mut self, events: &[Value]) {
        let entries: Vec<_> = events.iter().map(|event| json!({"at": self.now, "event": event})).collect();
        let payload = json!({"lease": self.lease, "entries": entries, "sync": false});
        self.wire.send(FrameType::JournalAppend, "", payload).await;
    }

    /// The loop's own next request, as an entry.
    fn asked(&self) -> Value {
        let entries = self.world.entries("run_1");
        let actions = toolcrib_agent::next(&entries).unwrap();
        let [toolcrib_agent::Action::Ask(ask)] = actions.as_slice() else { panic!("{actions:?}") };
        json!({"asked": ask.request})
    }

    /// Up to the answer with the three calls, which it writes as it came.
    async fn asks(&mut self) -> Value {
        self.append(&[json!("resumed")]).await;
        self.world.sees("run_1", |event| matches!(event, Event::Resumed)).await;
        let asked = self.asked();
        self.append(&[asked]).await;
        self.wire.send(FrameType::ModelCall, "7", json!({"lease": self.lease, "number": 1})).await;
        let answer = value(&self.wire.find(FrameType::Result).await);
        json!({"answered": {"number": 1, "answer": answer["answer"]}})
    }

    /// What it did ends its connection by this name, and the run goes on in the gateway without it.
    async fn ends_by_name(mut self, problem: &str) {
        let error = self.serving.await.unwrap();
        assert_eq!(error.code(), "forged", "{error}");
        assert!(error.to_string().contains("run `run_1`") && error.to_string().contains(problem), "{error}");
        assert_eq!(value(&self.wire.find(FrameType::Error).await)["code"], "forged");
        assert!(matches!(self.world.rest("run_1").await, Ok(Rest::Waiting(_))));
        let calls: Vec<_> =
            self.world.executed("run_1").into_iter().map(|(call, count)| format!("{call}x{count}")).collect();
        assert_eq!(calls, ["1.1x1", "1.2x1", "1.3x1"]);
        assert_eq!(self.world.faults(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn it_makes_no_call_that_the_journal_does_not_announce() {
    let mut hostile = Hostile::new().await;
    let answered = hostile.asks().await;
    hostile.append(&[answered]).await;
    let lease = hostile.lease;
    hostile.wire.send(FrameType::ToolCall, "8", json!({"lease": lease, "call": "1.3", "attempt": 1})).await;
    hostile.ends_by_name("call 1.3 is not in the journal, or left already").await;
}

#[tokio::test(start_paused = true)]
async fn it_asks_no_model_twice_for_one_entry() {
    let mut hostile = Hostile::new().await;
    hostile.asks().await;
    let lease = hostile.lease;
    hostile.wire.send(FrameType::ModelCall, "8", json!({"lease": lease, "number": 1})).await;
    hostile.ends_by_name("request 1 to a model is not in the journal, or left already").await;
}

#[tokio::test(start_paused = true)]
async fn it_changes_no_answer_of_a_model() {
    let mut hostile = Hostile::new().await;
    let mut answered = hostile.asks().await;
    answered["answered"]["answer"]["calls"][2]["arguments"] = json!("{\"id\": \"other\"}");
    hostile.append(&[answered]).await;
    hostile.ends_by_name("an entry `answered` that the loop would not write").await;
}

#[tokio::test(start_paused = true)]
async fn it_claims_no_cost_that_a_model_did_not_have() {
    let mut hostile = Hostile::new().await;
    hostile.asks().await;
    let failure = json!({"kind": "cut", "message": "", "spent": {"tokens": 0, "money": 0}});
    hostile.append(&[json!({"ask_failed": {"number": 1, "failure": failure}})]).await;
    hostile.ends_by_name("an entry `ask_failed`").await;
}

#[tokio::test(start_paused = true)]
async fn it_decides_and_approves_nothing_itself() {
    for event in [
        json!({"decided": {"call": "1.3", "decision": "allowed"}}),
        json!({"approval": {"approval": "apr_2.1", "granted": true, "note": "local"}}),
        json!({"settled": {"call": "1.3", "settlement": "repeat", "by": "local"}}),
        json!({"cancelled": {"by": "local"}}),
        json!({"result": {"call": "1.3", "result": {"text": "done"}}}),
        json!({"ended": {"done": "nothing"}}),
        json!({"intent": {"call": "1.3", "attempt": 1}}),
        json!({"forked": {"from": "run_0", "run": "run_1", "round": 1}}),
        json!("resumed"),
        json!({"raised": toolcrib_agent::RunLimits { rounds: 1_000, ..toolcrib_agent::RunLimits::default() }}),
    ] {
        let mut hostile = Hostile::new().await;
        let answered = hostile.asks().await;
        hostile.append(&[answered]).await;
        hostile.append(std::slice::from_ref(&event)).await;
        let name =
            event.as_str().map_or_else(|| event.as_object().unwrap().keys().next().unwrap().clone(), str::to_owned);
        hostile.ends_by_name(&format!("an entry `{name}` that the loop would not write")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_turn_the_clock() {
    for wrong in [-61_000, 61_000] {
        let mut hostile = Hostile::new().await;
        hostile.now += wrong;
        hostile.append(&[json!("resumed")]).await;
        hostile.ends_by_name("an entry of ").await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_reaches_no_run_of_another_lease() {
    let mut hostile = Hostile::new().await;
    let lease = hostile.lease + 1;
    let append =
        json!({"lease": lease, "entries": [{"at": hostile.now, "event": {"ended": {"done": ""}}}], "sync": false});
    hostile.wire.send(FrameType::JournalAppend, "", append).await;
    hostile.wire.send(FrameType::JournalRead, "9", json!({"lease": lease, "from": 0})).await;
    hostile.wire.send(FrameType::Ping, "10", json!({})).await;
    // The ping is answered, what came before it is not.
    assert_eq!(hostile.wire.next().await.map(|frame| (frame.kind, frame.id)), Some((FrameType::Pong, "10".to_owned())));
    assert_eq!(hostile.world.entries("run_1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_says_that_a_run_rests_and_the_run_goes_on_elsewhere() {
    let mut hostile = Hostile::new().await;
    let lease = hostile.lease;
    hostile.wire.send(FrameType::Rest, "", json!({"lease": lease, "problem": "I do not want to"})).await;
    assert!(matches!(hostile.world.rest("run_1").await, Ok(Rest::Waiting(_))));
    assert!(!hostile.serving.is_finished());
}

#[tokio::test(start_paused = true)]
async fn it_floods_no_one() {
    let mut hostile = Hostile::new().await;
    hostile.world.hang("model");
    let lease = hostile.lease;
    // A lease that cannot keep up: its disk hangs.
    hostile.world.hang("disk");
    hostile.append(&[json!("resumed")]).await;
    let frame = Frame::new(FrameType::NewsAck, "1", &json!({"lease": lease}));
    let bytes = frame.encode(toolcrib_runner::frame::FRAME_BYTES).unwrap().repeat(1_100);
    hostile.wire.bytes(&bytes).await;
    assert_eq!((&mut hostile.serving).await.unwrap().code(), "flood");
    hostile.world.go_on("disk");
    hostile.world.go_on("model");
    assert!(matches!(hostile.world.rest("run_1").await, Ok(Rest::Waiting(_))));
}

//! What a call costs more in a runner than in the gateway: `cargo run --release -p toolcrib-runner --example call_speed`.
//!
//! The same run, whose model asks for one call after the other, is executed here and by a runner behind a Unix socket.
//! Tools, model and journal are in memory and take no time, so what differs is the way.

#![allow(clippy::print_stdout, reason = "the figure is what it is run for")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;
use toolcrib_agent::driver::{
    AppendError, AskModel, CallOutcome, CallTool, CheckOutput, DriveError, DriveRuns, Journal, Observe, Rest,
    Surroundings,
};
use toolcrib_agent::{
    Answer, Ask, Call, CallResult, Cost, Decision, Entry, Failure, Finish, ModelCall, OpenCall, Part, Start,
};
use toolcrib_base::task::Scope;
use toolcrib_base::{Problem, Secret, SystemClock};
use toolcrib_runner::{Address, Dialer, HostConfig, Listener, Runner, RunnerHost, SharedSecret, TcpProtection, Trust};

/// Calls of one run, each in an answer of its own.
const CALLS: u32 = 500;
/// The bound of a call's surplus.
const BOUND: Duration = Duration::from_micros(150);
const RUNS: usize = 7;

#[derive(Debug)]
struct World {
    journals: Mutex<HashMap<String, Vec<Entry>>>,
    rests: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl AskModel for World {
    async fn ask(&self, _: &str, ask: &Ask, _: &dyn Observe) -> Result<Answer, Failure> {
        let answers = ask.conversation.parts().iter().filter(|part| matches!(***part, Part::Answer { .. })).count();
        let arguments = format!("{{\"number\": {answers}}}");
        let call = ModelCall { id: answers.to_string(), name: "send".to_owned(), arguments };
        let calls = if answers < CALLS as usize { vec![call] } else { Vec::new() };
        let text = if calls.is_empty() { "done" } else { "" };
        let raw = to_raw_value(text).expect("a text is JSON").into();
        Ok(Answer { raw, text: text.to_owned(), calls, finish: Finish::Stop, context: 9, spent: Cost::default() })
    }
}

#[async_trait]
impl CallTool for World {
    async fn decide(&self, _: &str, _: &OpenCall) -> Decision {
        Decision::Allowed
    }

    async fn call(&self, _: &str, call: &Call) -> CallOutcome {
        CallOutcome::Result(CallResult { text: format!("result of {}", call.id), ..CallResult::default() })
    }
}

#[async_trait]
impl Journal for World {
    async fn append(&self, run: &str, entries: &[Entry], _: bool) -> Result<(), AppendError> {
        let mut journals = self.journals.lock().expect("no holder panics");
        journals.entry(run.to_owned()).or_default().extend_from_slice(entries);
        Ok(())
    }

    async fn read(&self, run: &str) -> Result<Option<Vec<Entry>>, Problem> {
        Ok(self.journals.lock().expect("no holder panics").get(run).cloned())
    }
}

#[async_trait]
impl CheckOutput for World {
    async fn check(&self, _: &RawValue, _: &str) -> Option<String> {
        None
    }
}

impl Observe for World {
    fn delta(&self, _: &str, _: &str) {}

    fn entry(&self, _: &str, _: &Entry) {}

    fn rest(&self, _: &str, rest: &Result<Rest, DriveError>) {
        assert!(matches!(rest, Ok(Rest::Ended(_))), "{rest:?}");
        let _ = self.rests.send(());
    }
}

fn start(run: &str) -> Start {
    let start = json!({
        "run": run,
        "agent": "clerk",
        "task": "Do the work.",
        "models": [{"name": "one", "max_output": 300}],
        "tools": [{"name": "send", "schema": {"type": "object"}}],
        "limits": {"rounds": CALLS + 1, "calls": CALLS},
    });
    serde_json::from_str(&start.to_string()).expect("it is a start")
}

/// The shortest time of a call, of several runs.
async fn of_a_call(host: &RunnerHost, rests: &mut mpsc::UnboundedReceiver<()>, name: &str) -> Duration {
    let mut best = Duration::MAX;
    for number in 0..RUNS {
        let began = Instant::now();
        host.start(start(&format!("{name}_{number}"))).await.expect("it starts");
        rests.recv().await.expect("it ends");
        best = best.min(began.elapsed() / CALLS);
    }
    best
}

#[tokio::main]
async fn main() {
    let (sender, mut rests) = mpsc::unbounded_channel();
    let world = Arc::new(World { journals: Mutex::default(), rests: sender });
    let around = Surroundings {
        models: world.clone(),
        tools: world.clone(),
        journal: world.clone(),
        outputs: world.clone(),
        observer: world,
        clock: Arc::new(SystemClock),
    };
    let scope = Scope::new();
    let host = RunnerHost::new(around, scope.clone(), HostConfig::default());
    let here = of_a_call(&host, &mut rests, "here").await;

    let secret = Secret::new("0123456789abcdef0123456789abcdef");
    let trust = Trust::Secret(SharedSecret::new(&secret).expect("it is long enough"));
    let address = Address::Unix(std::env::temp_dir().join(format!("toolcrib-speed-{}.sock", std::process::id())));
    let listener = Listener::bind(address.clone(), TcpProtection::None).await.expect("it listens");
    let (serving, of_host) = (host.clone(), trust.clone());
    scope.spawn(async move {
        let (stream, _) = listener.accept().await.expect("it comes").open().await.expect("it opens");
        serving.serve(stream, of_host).await
    });
    let stream = Dialer::new(address, TcpProtection::None).connect().await.expect("it connects");
    let stop = scope.stop_signal();
    // As in `toolcrib runner`: it has a thread of its own.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
        runtime.block_on(Runner::new("speed", trust).serve(stream, stop))
    });
    while host.runners().iter().all(|runner| runner.config == 0) {
        tokio::task::yield_now().await;
    }
    let there = of_a_call(&host, &mut rests, "there").await;
    let surplus = there.saturating_sub(here);
    println!("a call with its answer, in the gateway: {here:?}");
    println!("a call with its answer, in a runner:    {there:?}");
    println!("more: {surplus:?} (bound {BOUND:?})");
    assert!(surplus <= BOUND, "a call costs {surplus:?} more in a runner");
    scope.close(Duration::ZERO).await;
}

//! A server with its surroundings: a clock, a reader of events, a tag to find its processes by.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, ServerName, Timestamp};
use toolcrib_protocol::{Capabilities, Era, Raw};
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::Call;
use toolcrib_upstream::{
    CallError, Endpoint, Event, Inventory, Server, ServerConfig, ServerDeps, Start, State, Status, Timeouts,
};
use toolcrib_upstream::{Credentials, Nature, PlaceLimits, SessionPolicy, StartPlaces};

/// The longest that anything here may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// No one reads events while a test waits for something else, so all of a test must fit.
const EVENTS: usize = 4_096;

/// A wall clock that follows tokio's time, also when that is paused.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) scope: Scope,
    events: mpsc::Receiver<Event>,
}

/// A tag that no other test and no other run uses.
fn new_tag() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("tag-{}-{}-end", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The fake server with these flags, started at once.
pub(crate) fn fake(flags: &[&str]) -> ServerConfig {
    let args = flags.iter().map(ToString::to_string).chain(["--tag".to_owned(), new_tag()]).collect();
    stdio(toolcrib_testkit::fake_server().to_str().unwrap(), args)
}

/// The fake server with these flags; every line that it is sent is also written into `log`.
pub(crate) fn logged(flags: &[&str], log: &Path) -> ServerConfig {
    // The server takes the shell's place, so that its end is seen as it is. `tee` writes to its stdout, the log, first.
    let script = r#"
        rm -f "$0.fifo"; mkfifo "$0.fifo"
        exec 3<&0; tee "$0.fifo" <&3 >>"$0" &
        exec 3<&- "$@" <"$0.fifo"
    "#;
    let mut args = vec!["-c".to_owned(), script.to_owned()];
    args.push(log.to_str().unwrap().to_owned());
    args.push(toolcrib_testkit::fake_server().to_str().unwrap().to_owned());
    args.extend(flags.iter().map(ToString::to_string));
    stdio("sh", args)
}

pub(crate) fn shell(script: &str) -> ServerConfig {
    stdio("sh", vec!["-c".to_owned(), script.to_owned()])
}

pub(crate) fn program(program: &str) -> ServerConfig {
    stdio(program, Vec::new())
}

fn stdio(program: &str, args: Vec<String>) -> ServerConfig {
    config(Endpoint::Stdio { program: program.to_owned(), args, env: Vec::new(), inherit: Vec::new(), cwd: None })
}

pub(crate) fn config(endpoint: Endpoint) -> ServerConfig {
    let timeouts = Timeouts { connect: DEADLINE, list: DEADLINE, call: DEADLINE };
    ServerConfig {
        name: ServerName::new("fake").unwrap(),
        endpoint,
        start: Start::Eager,
        idle: None,
        timeouts,
        places: PlaceLimits::default(),
        session: SessionPolicy::Principal,
        declares: Capabilities::NONE,
        // How the era is detected has its own tests.
        only: None,
        nature: Nature { era: Some(Era::Legacy), ..Nature::default() },
        installs: None,
        wants_login: false,
    }
}

pub(crate) fn with(start: Start, config: ServerConfig) -> ServerConfig {
    ServerConfig { start, ..config }
}

/// An inventory of one tool, `known`.
pub(crate) fn known() -> Inventory {
    let text = r#"{"tools":[{"name":"known"}],"resources":[],"templates":[],"prompts":[]}"#;
    Inventory::from_json(text).unwrap()
}

impl World {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self::knowing(config, None)
    }

    pub(crate) fn knowing(config: ServerConfig, known: Option<Inventory>) -> Self {
        Self::proving(config, known, None)
    }

    pub(crate) fn proving(
        config: ServerConfig,
        known: Option<Inventory>,
        credentials: Option<Arc<dyn Credentials>>,
    ) -> Self {
        Self::of(config, known, credentials, StartPlaces::default())
    }

    /// One of several that share places to start in.
    pub(crate) fn among(config: ServerConfig, places: StartPlaces) -> Self {
        Self::of(config, None, None, places)
    }

    fn of(
        config: ServerConfig,
        known: Option<Inventory>,
        credentials: Option<Arc<dyn Credentials>>,
        places: StartPlaces,
    ) -> Self {
        let (sender, events) = mpsc::channel(EVENTS);
        let scope = Scope::new();
        let deps = ServerDeps {
            client: HttpClient::new().unwrap(),
            clock: Arc::new(TokioClock(Instant::now())),
            events: sender,
            guard: None,
            credentials,
            limits: Limits::default(),
            grace: Duration::from_secs(2),
            starts: places,
        };
        Self { server: Server::start(config, deps, known, &scope), scope, events }
    }

    pub(crate) async fn ready(config: ServerConfig) -> Self {
        let world = Self::new(config);
        world.until(State::Ready).await;
        world
    }

    pub(crate) async fn until(&self, state: State) -> Status {
        eventually_holds(&format!("the state `{}`", state.as_str()), || self.server.status().state == state).await;
        self.server.status()
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let outcome = self.server.call(method, &Raw::from_value(&params), Call::default()).await?;
        Ok(outcome.map_or_else(|error| json!({"code": error.code, "message": error.message}), |raw| raw.to_value()))
    }

    /// The text of a tool's answer.
    pub(crate) async fn tool(&self, name: &str, arguments: Value) -> Result<String, CallError> {
        let result = self.request("tools/call", json!({"name": name, "arguments": arguments})).await?;
        Ok(result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {result}")).to_owned())
    }

    pub(crate) async fn echo(&self) {
        assert_eq!(self.tool("echo", json!({"text": "ü"})).await.unwrap(), "ü");
    }

    /// Calls `slow` in its own task and returns when the server has it.
    pub(crate) async fn call_slow(&self, millis: u64) -> tokio::task::JoinHandle<Result<(), CallError>> {
        let server = self.server.clone();
        let params = Raw::from_value(&json!({"name": "slow", "arguments": {"ms": millis}}));
        let mut call = Box::pin(async move { server.call("tools/call", &params, Call::default()).await.map(drop) });
        // Sent first; the server reads in order.
        tokio::select! {
            biased;
            outcome = &mut call => panic!("{outcome:?} although it is slow"),
            () = self.echo() => {}
        }
        self.scope.spawn(call)
    }

    pub(crate) fn tools(&self) -> Vec<String> {
        self.server.inventory().tools.iter().map(|tool| tool.key.clone()).collect()
    }

    /// The events since the last look.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// How many times a new inventory was told since the last look.
    pub(crate) fn inventories(&mut self) -> usize {
        self.events().iter().filter(|event| matches!(event, Event::Inventory { .. })).count()
    }

    /// The processes of the server.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let Endpoint::Stdio { args, .. } = &self.server.config().endpoint else { return Vec::new() };
        let tag = args.last().unwrap().as_bytes();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                line.split(|byte| *byte == 0).any(|arg| arg == tag).then_some(pid)
            })
            .collect()
    }
}

pub(crate) fn kill(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Keeps a paused time from running ahead while real programs are waited for: it then only moves by `advance`.
pub(crate) fn hold_time(scope: &Scope) {
    let stop = scope.stop_signal();
    scope.spawn(async move {
        while !stop.is_stopped() {
            tokio::task::yield_now().await;
        }
    });
}

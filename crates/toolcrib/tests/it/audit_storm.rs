//! A stream of calls into a gateway with a file, a syslog receiver and a collector, all of which fail in their ways: killed,
//! slow, refusing, with a full disk, and the gateway ended in the middle. Nothing is lost or reordered, and the chain of
//! what arrived is whole. `TOOLCRIB_STORM_CALLS` makes it longer.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib_base::task::Scope;
use toolcrib_testkit::http::{HttpServer, Reply};
use toolcrib_testkit::launch::{Launch, Program, write};
use toolcrib_testkit::{eventually_finds, eventually_holds};
use toolcrib_transport::http::client::HttpClient;

use crate::liar::metrics;
use crate::toolcrib::run;

/// How many calls are under way at a time.
const CALLERS: usize = 16;
/// How many messages the syslog receiver reads before it is killed.
const READ: usize = 40;

/// How many requests the collector answers in odd ways, or takes between them.
const HABITS: usize = 6;

/// The rows that arrived somewhere, in the order of their arrival.
type EventSequence = Arc<Mutex<Vec<Value>>>;

/// Calls of tools with names of their own, so that each is found in what was recorded.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    scope: Scope,
    client: HttpClient,
    url: Arc<Mutex<Uri>>,
    next: Arc<AtomicUsize>,
    answered: Arc<Mutex<BTreeSet<usize>>>,
}

impl Calls {
    /// Calls of the gateway at a URL.
    pub(crate) fn to(url: &str) -> Self {
        let url = Arc::new(Mutex::new(url.parse().unwrap()));
        let client = HttpClient::new().unwrap();
        Self { scope: Scope::new(), client, url, next: Arc::default(), answered: Arc::default() }
    }

    /// One call; whether it was answered.
    async fn make(&self) -> bool {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "call_tool", "arguments": {"name": format!("storm/{number}")}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).to_string();
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "call_tool"),
        ];
        let headers = headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let url = self.url.lock().unwrap().clone();
        let sent = self.client.send(Method::POST, &url, HeaderMap::from_iter(headers), Bytes::from(body)).await;
        let Ok(response) = sent else { return false };
        let status = response.status.as_u16();
        let Ok(body) = response.body.collect(1 << 20).await else { return false };
        let body = String::from_utf8_lossy(&body).into_owned();
        // One that the gateway no longer takes, because it ends, is no answer.
        let is_answered = status == 200 && body.contains("tool not found");
        if is_answered {
            self.answered.lock().unwrap().insert(number);
        }
        is_answered
    }

    /// What the gateway says of its readiness.
    async fn ready(&self) -> String {
        let url = Uri::try_from(self.url.lock().unwrap().to_string().replace("/mcp", "/readyz")).unwrap();
        let response = self.client.send(Method::GET, &url, HeaderMap::new(), Bytes::new()).await.unwrap();
        String::from_utf8(response.body.collect(1 << 20).await.unwrap().to_vec()).unwrap()
    }

    fn count(&self) -> usize {
        self.answered.lock().unwrap().len()
    }

    /// So many calls, or until one is not answered; gives how many were.
    async fn storm(&self, count: usize) -> usize {
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let calls = self.clone();
            callers.spawn(async move {
                let wanted = count.div_ceil(CALLERS);
                for number in 0..wanted {
                    if !calls.make().await {
                        return number;
                    }
                }
                wanted
            });
        }
        callers.join_all().await.iter().sum()
    }

    /// So many calls, all of which are answered.
    pub(crate) async fn all(&self, count: usize) {
        assert_eq!(self.storm(count).await, count.div_ceil(CALLERS) * CALLERS, "no sink delays a call");
    }
}

async fn start(home: &Path, calls: &Calls) -> Program {
    let script = "trap '' XFSZ; exec \"$0\" serve --listen 127.0.0.1:0";
    let launch = Launch::new("/bin/sh", &["-c", script, env!("CARGO_BIN_EXE_toolcrib")]).home(home);
    let mut gateway = launch.env("TOOLCRIB_LOG", "info").start();
    let line = gateway.logs("serving url=").await;
    let url = line.split("serving url=").nth(1).unwrap().split_whitespace().next().unwrap();
    *calls.url.lock().unwrap() = url.parse().unwrap();
    gateway
}

/// A collector that refuses, hangs and breaks connections; nothing of that counts as taken.
fn collector() -> (HttpServer, EventSequence) {
    let (arrived, number) = (EventSequence::default(), AtomicUsize::new(0));
    let kept = Arc::clone(&arrived);
    let server = HttpServer::start(move |request, reply: &mut Reply<'_>| {
        // It says nothing while the first calls are made.
        reply.wait_for_release(1);
        let answer = match number.fetch_add(1, Ordering::SeqCst) {
            0 => return reply.full(503, &["retry-after: 1"], ""),
            2 => return reply.full(429, &[], ""),
            4 => return reply.close(),
            // It has them, and says that it rejects one, which is not sent again.
            5 => json!({"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "too old"}}),
            _ => json!({}),
        };
        let logs = request.json();
        let records = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().clone();
        let rows =
            records.iter().map(row_of_record).filter(|row| row["hash"].is_string() && row["prev_hash"].is_string());
        kept.lock().unwrap().extend(rows);
        reply.json(&[], &answer);
    });
    (server, arrived)
}

/// What a record says of the chain.
fn row_of_record(record: &Value) -> Value {
    let of = |name: &str| {
        let found = record["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == name);
        found.map(|attribute| attribute["value"].clone()).unwrap_or_default()
    };
    let seq: u64 = of("toolcrib.seq")["intValue"].as_str().unwrap().parse().unwrap();
    let (hash, prev) = (of("toolcrib.hash"), of("toolcrib.prev_hash"));
    json!({"seq": seq, "hash": hash["stringValue"], "prev_hash": prev["stringValue"]})
}

/// A receiver of syslog at this address, which is killed on its first connection with something unread.
fn syslog(address: SocketAddr) -> EventSequence {
    let arrived = EventSequence::default();
    let (kept, listener) = (Arc::clone(&arrived), TcpListener::bind(address).unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || receive(&stream, (number == 0).then_some(READ), &kept));
        }
    });
    arrived
}

fn receive(stream: &TcpStream, most: Option<usize>, kept: &EventSequence) -> Option<()> {
    let mut reader = BufReader::new(stream);
    for count in 1.. {
        let mut length = Vec::new();
        reader.read_until(b' ', &mut length).ok()?;
        let mut message = vec![0; std::str::from_utf8(&length).ok()?.trim_end().parse().ok()?];
        reader.read_exact(&mut message).ok()?;
        let message = String::from_utf8(message).unwrap();
        let row: Value = serde_json::from_str(&message[message.find("] {").unwrap() + 2..]).unwrap();
        if row["number"].is_null() {
            kept.lock().unwrap().push(row);
        }
        if most == Some(count) {
            // The kernel of a process that is killed with something unread sends a reset.
            let _ = set_socket_linger(stream, Some(Duration::ZERO));
            return None;
        }
    }
    None
}

/// The rows of a file; whole lines only, and no checkpoints.
fn file(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(|row| row["number"].is_null()).collect()
}

fn seq(row: &Value) -> u64 {
    row["seq"].as_u64().unwrap()
}

fn last(rows: &[Value]) -> u64 {
    rows.iter().map(seq).max().unwrap_or_default()
}

/// The hash of each row: none came before its predecessor, and each names the one before by its hash.
#[track_caller]
fn chain(rows: &[Value]) -> BTreeMap<u64, String> {
    let mut hashes = BTreeMap::<u64, String>::new();
    for row in rows {
        let (seq, hash) = (seq(row), row["hash"].as_str().unwrap());
        let known = hashes.len() as u64;
        assert!(seq <= known + 1, "event {seq} came after {known}");
        if let Some(before) = hashes.get(&(seq - 1)) {
            assert_eq!(row["prev_hash"], before.as_str(), "event {seq}");
        }
        let same = hashes.insert(seq, hash.to_owned());
        assert!(same.is_none_or(|same| same == hash), "event {seq} came twice, as two");
    }
    hashes
}

async fn sinks(home: &Path) -> BTreeMap<String, Value> {
    let status = run(home, &["status", "--json"], &[]).await.stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    let sinks = status["audit"]["sinks"].as_array().unwrap();
    sinks.iter().map(|sink| (sink["name"].as_str().unwrap().to_owned(), sink.clone())).collect()
}

/// While the disk is full calls wait, and are answered once there is room.
async fn fill_the_disk(gateway: &mut Program, calls: &Calls) {
    let room = prlimit(Some(gateway.pid()), Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
    let waiting = calls.clone();
    let storm = calls.scope.spawn(async move { waiting.all(CALLERS).await });
    gateway.logs("cannot write the audit log").await;
    // The line comes a moment before calls wait.
    let waits = async || match calls.ready().await {
        body if body.contains("\"recording\":false") => Ok(()),
        body => Err(body),
    };
    eventually_finds("calls to wait", waits).await;
    let late = calls.clone();
    let late = calls.scope.spawn(async move { late.make().await });
    assert!(waits().await.is_ok() && !late.is_finished());
    prlimit(Some(gateway.pid()), Resource::Fsize, room).unwrap();
    assert!(late.await.unwrap(), "it was answered once there was room");
    storm.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_reordered_in_a_storm_of_calls_whatever_happens_to_receivers() {
    let count = std::env::var("TOOLCRIB_STORM_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(400_usize);
    let home = tempfile::tempdir().unwrap();
    let (server, collected) = collector();
    // A port that no one listens on yet.
    let siem = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = format!(
        "[[audit.sink]]\nname = 'archive'\ntype = 'file'\npath = 'audit.jsonl'\n\
         [[audit.sink]]\nname = 'siem'\ntype = 'syslog'\naddress = 'tcp://{siem}'\nmessage = 'json'\n\
         [[audit.sink]]\nname = 'collector'\ntype = 'otlp'\nurl = 'http://{}/v1/logs'\n",
        server.address()
    );
    write(home.path(), "config.toml", &settings);
    let path = home.path().join("audit.jsonl").to_str().unwrap().to_owned();
    let calls = Calls::to("http://127.0.0.1/mcp");
    let mut gateway = start(home.path(), &calls).await;

    // One receiver is dead and one says nothing: every call is answered.
    calls.all(count / 4).await;
    gateway.logs("cannot deliver audit events").await;
    let status = eventually_finds("all of it behind both", async || {
        let status = sinks(home.path()).await;
        let lags = ["siem", "collector"].map(|name| status[name]["lag"].as_u64().unwrap());
        if lags.iter().all(|lag| *lag >= (count / 4) as u64) { Ok(status) } else { Err(status) }
    })
    .await;
    assert!(collected.lock().unwrap().is_empty(), "{status:?}");
    assert!(status["siem"]["failingSince"].is_string(), "{status:?}");
    let url = calls.url.lock().unwrap().to_string();
    let metrics = metrics(&url, home.path()).await;
    assert!(metrics.contains("toolcrib_audit_sink_failing{sink=\"siem\"} 1\n"), "{metrics}");

    // They come back, and fail in other ways, while calls go on.
    server.release();
    let logged = syslog(siem);
    calls.all(count / 4).await;
    fill_the_disk(&mut gateway, &calls).await;
    calls.all(count / 4).await;
    eventually_holds("messages of a receiver that was killed", || logged.lock().unwrap().len() >= READ).await;

    eventually_finds("every habit of the collector", async || {
        calls.make().await;
        let seen = server.requests().len();
        if seen > HABITS { Ok(()) } else { Err(seen) }
    })
    .await;

    // The gateway is ended in the middle of it.
    let (ending, before) = (calls.clone(), calls.count());
    let storm = calls.scope.spawn(async move { ending.storm(usize::MAX / 2).await });
    eventually_holds("calls under way", || calls.count() >= before + CALLERS).await;
    gateway.signal(Signal::TERM);
    storm.await.unwrap();
    assert!(gateway.end().await.success(), "it waits for every call and records it");

    // The next one continues: everything arrives, and what the sinks have speaks for the log.
    let mut gateway = start(home.path(), &calls).await;
    calls.all(CALLERS).await;
    let key = run(home.path(), &["audit", "key"], &[]).await.stdout;
    eventually_holds("checkpoints in the file", || fs::read_to_string(&path).unwrap().contains("\"number\":")).await;
    let verified = run(home.path(), &["audit", "verify", "--key", key.trim(), "--against", &path], &[]).await;
    assert_eq!(verified.code, 0, "{}", verified.stderr);
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
    let rows = file(&path);
    eventually_holds("every event everywhere", || {
        [&logged, &collected].iter().all(|arrived| last(&arrived.lock().unwrap()) == last(&rows))
    })
    .await;
    assert_eq!(rows.iter().map(seq).collect::<Vec<_>>(), (1..=rows.len() as u64).collect::<Vec<_>>(), "each once");
    let chained = chain(&rows);
    assert_eq!(chain(&logged.lock().unwrap()), chained);
    assert_eq!(chain(&collected.lock().unwrap()), chained);
    let targets: BTreeSet<&str> = rows.iter().filter_map(|row| row["target"].as_str()).collect();
    let answered = calls.answered.lock().unwrap();
    assert!(
        answered.iter().all(|number| targets.contains(format!("storm/{number}").as_str())),
        "each call is recorded"
    );
    println!("{} calls were answered, {} events arrived at each of three receivers", answered.len(), rows.len());
}

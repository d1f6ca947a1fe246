//! The audit log of many calls, delivered to a file, to syslog and to a collector that fail in turn, by the real binary
//! that is ended and killed amid them.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolcrib_base::task::Scope;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::HttpServer;
use toolcrib_testkit::launch::{Launch, write};

use crate::toolcrib::run;

/// How many calls each life of the gateway gets; `TOOLCRIB_AUDIT_CALLS=N` makes it more.
const CALLS: usize = 1_000;
const CLIENTS: usize = 8;

/// The events that a receiver has, as JSON, in the order of their arrival.
type ReceivedEvents = Arc<Mutex<Vec<Value>>>;

/// A receiver of syslog that is killed after every few hundred messages on its first connections.
fn syslog() -> (SocketAddr, ReceivedEvents) {
    const KILLED: usize = 4;
    const AFTER: usize = 300;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, received) = (listener.local_addr().unwrap(), ReceivedEvents::default());
    let kept = Arc::clone(&received);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                for count in 1.. {
                    let mut length = Vec::new();
                    // A sender that breaks the connection, or ends it, has no more to say.
                    let read = reader.read_until(b' ', &mut length);
                    let Some(length) = read.ok().and_then(|_| String::from_utf8(length).ok()?.trim_end().parse().ok())
                    else {
                        return;
                    };
                    let mut message = vec![0_u8; length];
                    if reader.read_exact(&mut message).is_err() {
                        return;
                    }
                    let message = String::from_utf8(message).unwrap();
                    let event = &message[message.find('{').expect("the event as JSON")..];
                    kept.lock().unwrap().push(serde_json::from_str(event).unwrap());
                    if number < KILLED && count == AFTER {
                        // The kernel of a process that is killed with something unread sends a reset.
                        return set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                    }
                }
            });
        }
    });
    (address, received)
}

/// A collector that is away, overloaded, or breaks off by turns. What it has answered with success it has.
fn collector() -> (HttpServer, ReceivedEvents) {
    let received = ReceivedEvents::default();
    let (kept, asked) = (Arc::clone(&received), Mutex::new(0_usize));
    let server = HttpServer::start(move |request, reply| {
        let number = {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let take = || {
            let body = request.json();
            let records = body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap();
            let values = records.iter().map(|record| record["attributes"].clone());
            kept.lock().unwrap().extend(values);
        };
        match number {
            1 => reply.full(503, &["Retry-After: 0"], ""),
            2 => reply.full(429, &["Retry-After: 0"], ""),
            3 => reply.close(),
            4 => {
                // It has them and dies before it says so.
                take();
                reply.close();
            }
            _ => {
                take();
                reply.json(&[], &json!({}));
            }
        }
    });
    (server, received)
}

/// Calls in parallel, each of which must be answered.
async fn calls(address: &str, count: usize) {
    let scope = Scope::new();
    let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client(address.to_owned(), count / CLIENTS))).collect();
    for client in clients {
        client.await.unwrap();
    }
}

async fn client(address: String, count: usize) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "many", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "no_such", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: no_such\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let mut answer = Vec::new();
    for _ in 0..count {
        stream.write_all(request.as_bytes()).await.unwrap();
        answer.clear();
        let text = loop {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "the connection ended");
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                break text;
            }
        };
        assert!(text.contains("tool not found") || text.contains("no_such"), "{text}");
    }
}

fn sinks(home: &Path, syslog: SocketAddr, collector: &HttpServer) {
    let settings = format!(
        "[[audit.sink]]\nname = 'archive'\ntype = 'file'\npath = 'logs/audit.jsonl'\n\
         [[audit.sink]]\nname = 'siem'\ntype = 'syslog'\naddress = 'tcp://{syslog}'\nmessage = 'json'\n\
         [[audit.sink]]\nname = 'collector'\ntype = 'otlp'\nurl = 'http://{}/v1/logs'\n",
        collector.address()
    );
    write(home, "config.toml", &settings);
}

/// The numbers of the events, each where it came first; checkpoints have numbers of their own.
fn first_seqs(events: &[Value], seq: impl Fn(&Value) -> Option<u64>) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    events.iter().filter_map(seq).filter(|seq| seen.insert(*seq)).collect()
}

fn seq_of_json(event: &Value) -> Option<u64> {
    if event.get("number").is_some() {
        return None;
    }
    event["seq"].as_u64()
}

fn seq_of_attributes(attributes: &Value) -> Option<u64> {
    let seq = attributes.as_array().unwrap().iter().find(|attribute| attribute["key"] == "toolcrib.seq")?;
    seq["value"]["intValue"].as_str().unwrap().parse().ok()
}

fn in_file(home: &Path) -> Vec<u64> {
    let text = fs::read_to_string(home.join("logs/audit.jsonl")).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.filter_map(|line| seq_of_json(&serde_json::from_str(line).unwrap())).collect()
}

#[tokio::test]
async fn many_calls_arrive_everywhere_and_in_order_through_failures_an_end_and_a_kill() {
    let count = std::env::var("TOOLCRIB_AUDIT_CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(CALLS);
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let ((address, at_syslog), (server, at_collector)) = (syslog(), collector());
    sinks(home, address, &server);
    let launch = || Launch::new(env!("CARGO_BIN_EXE_toolcrib"), &["serve"]).home(home);

    // Ended with what the sinks have not had.
    let gateway = launch().serve().await;
    calls(gateway.address(), count).await;
    gateway.stop().await;
    // Killed with it.
    let mut gateway = launch().serve().await;
    calls(gateway.address(), count).await;
    gateway.program().signal(Signal::KILL);
    gateway.program().end().await;

    let gateway = launch().serve().await;
    calls(gateway.address(), count).await;
    let syslog_has = || first_seqs(&at_syslog.lock().unwrap(), seq_of_json);
    let collector_has = || first_seqs(&at_collector.lock().unwrap(), seq_of_attributes);
    // The calls of this life and all of the first one; a kill may take what was not on the disk.
    eventually_holds("the sinks have everything", || {
        let last = in_file(home).last().copied().unwrap_or_default();
        let least = 2 * u64::try_from(count / CLIENTS * CLIENTS).unwrap();
        last >= least && syslog_has().last() == Some(&last) && collector_has().last() == Some(&last)
    })
    .await;
    let against = home.join("logs/audit.jsonl");
    let verified = run(home, &["audit", "verify", "--against", against.to_str().unwrap()], &[]).await;
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    gateway.stop().await;

    let archived = in_file(home);
    assert_eq!(archived, (1..=archived.len() as u64).collect::<Vec<_>>(), "each once, without a gap");
    assert_eq!(syslog_has(), archived, "the syslog receiver");
    assert_eq!(collector_has(), archived, "the collector");
}

//! The beginning and the end of a gateway whose servers, or whose disk, do not play along.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::launch::{Launch, Program, write};

use crate::serving::fake_server;
use crate::toolcrib::{CommandOutput, run, toolcrib};

/// How long something may take that must come.
const TIMEOUT: Duration = Duration::from_secs(120);
/// So long that a test fails before it has passed.
const GRACE: &str = "30m";

/// A gateway with its own home, and what it logs.
struct Gateway {
    home: tempfile::TempDir,
    program: Program,
}

impl Gateway {
    /// Starts one with these servers, which waits long for everything that is to end.
    fn start(servers: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (name, rest) in servers {
            let text = format!("name: {name}\ncommand: {}\n{rest}\n", json!(fake_server()));
            write(home.path(), &format!("servers/{name}.yaml"), &text);
        }
        Self::over(home)
    }

    fn over(home: tempfile::TempDir) -> Self {
        // A program whose disk is full is told so, instead of being ended for it.
        let script =
            format!("trap '' XFSZ; exec \"$0\" serve --listen 127.0.0.1:0 --grace {GRACE} --ready-file \"$1\"");
        let ready = home.path().join("ready.json");
        let arguments = ["-c", &script, env!("CARGO_BIN_EXE_toolcrib"), ready.to_str().unwrap()];
        let launch = Launch::new("/bin/sh", &arguments).home(home.path()).env("TOOLCRIB_LOG", "info");
        Self { program: launch.start(), home }
    }

    fn pid(&self) -> Pid {
        self.program.pid()
    }

    /// Waits for a line of the log with this part.
    async fn logs(&mut self, part: &str) -> String {
        self.program.logs(part).await
    }

    /// Where it listens, once it says so.
    fn address(&self) -> String {
        let url = self.json("state/serve.json")["url"].as_str().unwrap().to_owned();
        url.trim_start_matches("http://").split('/').next().unwrap().to_owned()
    }

    /// How many bytes of it are in memory.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    }

    fn file(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file(path)).unwrap()).unwrap()
    }

    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(self.home.path(), arguments, &[]).await
    }

    fn background(&self, arguments: &[&str]) -> Program {
        toolcrib(self.home.path(), arguments).start()
    }

    /// Limits how far files may grow; `Some(0)` is a full disk.
    fn set_room(&self, bytes: Option<u64>) {
        prlimit(Some(self.pid()), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    }

    /// Ends it by SIGTERM, which must not take the grace; gives the exit code and what it logged.
    async fn end(mut self) -> (tempfile::TempDir, Option<i32>, String) {
        self.program.signal(Signal::TERM);
        let status = self.program.end().await;
        (self.home, status.code(), self.program.log())
    }
}

#[tokio::test]
async fn an_idle_gateway_ends_at_once_whatever_its_grace() {
    let mut gateway = Gateway::start(&[("try", "start: eager")]);
    gateway.logs("ready servers=1").await;
    gateway.run(&["call", "try/echo", "text=a"]).await.prints("a\n");
    let (home, code, log) = gateway.end().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(!home.path().join("state/serve.json").exists());
}

#[tokio::test]
async fn a_service_manager_hears_when_the_gateway_is_ready_and_when_it_stops() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("notify");
    let manager = tokio::net::UnixDatagram::bind(&socket).unwrap();
    let text = format!("name: try\ncommand: {}\nstart: eager\n", json!(fake_server()));
    write(home.path(), "servers/try.yaml", &text);
    let launch = toolcrib(home.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let mut program = launch.env("NOTIFY_SOCKET", &socket).env("TOOLCRIB_LOG", "info").start();
    let hears = async |expected: &str| {
        let mut notice = [0; 64];
        let length = timeout(TIMEOUT, manager.recv(&mut notice)).await.unwrap().unwrap();
        assert_eq!(&notice[..length], expected.as_bytes());
    };
    hears("READY=1").await;
    assert!(program.log().contains("serving url="), "{}", program.log());
    let servers = children_of(program.pid().as_raw_nonzero().get());
    assert!(!servers.is_empty(), "the server's program runs");
    for pid in servers {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
        assert!(!String::from_utf8_lossy(&environment).contains("NOTIFY_SOCKET"), "it is the gateway's alone");
    }
    program.signal(Signal::TERM);
    hears("STOPPING=1").await;
    assert!(program.end().await.success());
}

#[tokio::test]
async fn a_server_that_was_stopped_does_not_hold_up_the_end() {
    let mut gateway = Gateway::start(&[("try", "start: eager")]);
    gateway.logs("ready servers=1").await;
    let programs = children_of(gateway.pid().as_raw_nonzero().get());
    assert!(!programs.is_empty());
    for pid in &programs {
        kill_process(Pid::from_raw(*pid).unwrap(), Signal::STOP).unwrap();
    }
    let (_, code, log) = gateway.end().await;
    assert_eq!(code, Some(0), "{log}");
}

#[cfg(target_env = "gnu")]
#[tokio::test]
async fn memory_goes_back_after_a_flood_of_bodies() {
    const CLIENTS: usize = 40;
    const BODY: usize = 4 * 1024 * 1024;
    const MEGABYTE: u64 = 1024 * 1024;
    let mut gateway = Gateway::start(&[]);
    gateway.logs("serving url=").await;
    let address = gateway.address();
    let before = gateway.resident();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n"
    );
    // Twice: what glibc learns from the first time is what kept the memory of the second.
    for _ in 0..2 {
        let mut held = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(&address).await.unwrap();
            // Those for which there is no room are refused.
            if client.write_all(head.as_bytes()).await.is_ok() && client.write_all(&vec![b' '; BODY - 1]).await.is_ok()
            {
                held.push(client);
            }
        }
        eventually_holds("the bodies are held", || gateway.resident() > before + 50 * MEGABYTE).await;
        drop(held);
        eventually_holds("their memory has gone back", || gateway.resident() < before + 25 * MEGABYTE).await;
    }
    let (_, code, log) = gateway.end().await;
    assert_eq!(code, Some(0), "{log}");
}

/// The programs below the guards of a gateway.
fn children_of(gateway: i32) -> Vec<i32> {
    let parent_of = |pid: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let all: Vec<i32> =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let below = |parents: &[i32]| -> Vec<i32> {
        all.iter().copied().filter(|pid| parent_of(*pid).is_some_and(|parent| parents.contains(&parent))).collect()
    };
    below(&below(&[gateway]))
}

#[tokio::test]
async fn a_server_that_hangs_at_its_start_hides_neither_the_gateway_nor_the_others() {
    let slow = "args: [--slow-start, \"3600000\"]\nstart: eager\ntimeouts: {connect: 1h}";
    let mut gateway = Gateway::start(&[("slow", slow), ("try", "start: eager")]);
    gateway.logs("serving url=").await;
    assert_eq!(gateway.json("state/serve.json")["url"].as_str().unwrap().rsplit('/').next(), Some("mcp"));
    // Commands find it, and the server that is there, while the other one hangs.
    let called = gateway.run(&["call", "try/echo", "text=a"]).await;
    assert_eq!(called.stdout, "a\n", "{}", called.stderr);
    assert!(!gateway.file("ready.json").exists(), "it still waits for the other");
    let line = gateway.logs("unlisted=").await;
    assert!(line.contains("slow") && line.contains("toolcrib status"), "{line}");
    let ready = gateway.json("ready.json");
    assert_eq!(ready["unlisted"], json!(["slow"]));
    assert_eq!(
        (&ready["url"], &ready["token_file"]),
        (&gateway.json("state/serve.json")["url"], &gateway.json("state/serve.json")["token_file"])
    );
    let (_, code, log) = gateway.end().await;
    assert_eq!(code, Some(0), "{log}");
}

#[tokio::test]
async fn a_disk_that_fills_empties_and_fills_loses_nothing_and_what_is_lost_is_counted() {
    let mut gateway = Gateway::start(&[("try", "start: eager")]);
    gateway.logs("ready servers=1").await;
    let call = ["call", "try/echo", "text=a"];
    for _ in 0..2 {
        gateway.run(&call).await.prints("a\n");
        gateway.set_room(Some(0));
        // What is recorded of it is what the gateway notices the full disk by.
        let first = gateway.background(&call);
        let line = gateway.logs("cannot write the audit log").await;
        assert!(line.contains("calls wait"), "{line}");
        let mut second = gateway.background(&call);
        assert_eq!(gateway_ready(&gateway).await["audit"]["recording"], false);
        assert!(second.ended().is_none(), "a call was answered that cannot be recorded");
        gateway.set_room(None);
        for waiting in [first, second] {
            waiting.finish().await.prints("a\n");
        }
        gateway.logs("is writable again").await;
        assert_eq!(gateway_ready(&gateway).await["audit"]["recording"], true);
    }
    assert_eq!(recorded(&gateway).await, 6, "nothing is lost");
    gateway.set_room(Some(0));
    let _lost = gateway.background(&call);
    gateway.logs("cannot write the audit log").await;
    let (home, code, log) = gateway.end().await;
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("audit events could not be written and are lost"), "{log}");
    assert!(log.contains("free space on the disk"), "{log}");

    let mut again = Gateway::over(home);
    again.logs("ready servers=1").await;
    let verified = again.run(&["audit", "verify"]).await;
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    assert_eq!(recorded(&again).await, 6, "and no call was answered without its record");
    assert_eq!(again.end().await.1, Some(0));
}

/// How many calls the log shows.
async fn recorded(gateway: &Gateway) -> usize {
    let listed = gateway.run(&["audit", "list", "--target", "try/echo", "--output", "json"]).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    listed.stdout.matches("\"try/echo\"").count()
}

/// What `/readyz` says.
async fn gateway_ready(gateway: &Gateway) -> Value {
    let address = gateway.address();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let ask = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

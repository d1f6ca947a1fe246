//! A started program with its lines collected, with or without a guard.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_transport::process::{self, GuardCommand, Line, Process, Spec};

/// The longest wait for a line on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct RunningProcess {
    pub(crate) process: Process,
    pub(crate) scope: Scope,
    lines: mpsc::UnboundedReceiver<Line>,
}

pub(crate) fn guard() -> Option<GuardCommand> {
    Some(GuardCommand { program: env!("CARGO_BIN_EXE_test-gateway").into(), args: vec!["guard".into()] })
}

/// The fake server with a guard and these flags.
pub(crate) fn fake(flags: &[&str]) -> Spec {
    let program = toolcrib_testkit::fake_server();
    Spec { guard: guard(), ..Spec::new(program.to_str().unwrap(), flags.iter().copied()) }
}

/// A shell script.
pub(crate) fn shell(script: &str) -> Spec {
    Spec::new("sh", ["-c", script])
}

/// The same program with and without a guard: what the one does, the other does.
pub(crate) fn both(spec: Spec) -> [Spec; 2] {
    let guarded = Spec { guard: guard(), ..spec.clone() };
    [Spec { guard: None, ..spec }, guarded]
}

impl RunningProcess {
    pub(crate) fn start(spec: &Spec) -> Self {
        let scope = Scope::new();
        let (sender, lines) = mpsc::unbounded_channel();
        let process = process::spawn(spec, &scope, move |line| {
            let _ = sender.send(line);
        });
        Self { process: process.unwrap(), scope, lines }
    }

    pub(crate) async fn line(&mut self) -> Line {
        tokio::time::timeout(DEADLINE, self.lines.recv()).await.expect("a line in time").expect("a line before the end")
    }

    pub(crate) async fn text(&mut self) -> String {
        match self.line().await {
            Line::Text(line) => String::from_utf8(line.to_vec()).unwrap(),
            other => panic!("{other:?} instead of a line"),
        }
    }

    /// All lines up to the end.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.line().await {
                Line::Text(line) => lines.push(String::from_utf8_lossy(&line).into_owned()),
                Line::TooLong { bytes, .. } => lines.push(format!("{bytes} bytes")),
                Line::End => return lines,
            }
        }
    }

    pub(crate) async fn send(&self, message: &Value) {
        self.process.sender().send(Bytes::from(message.to_string())).await.unwrap();
    }

    /// Sends a request and gives the answer with its id, past all other lines.
    pub(crate) async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            if let Line::Text(line) = self.line().await
                && let Ok(answer) = serde_json::from_slice::<Value>(&line)
                && answer["id"] == id
            {
                return answer;
            }
        }
    }

    /// Waits until the fake server serves.
    pub(crate) async fn initialize(&mut self) {
        let answer = self.request(0, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    }
}

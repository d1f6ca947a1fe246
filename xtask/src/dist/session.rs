//! A client in a root: it starts a program that speaks MCP over stdin and stdout, as an agent's host does, and calls
//! tools.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::dist::root::{Root, RootUser};

/// How long an answer may take. A machine may be busy with other things.
const DEADLINE: Duration = Duration::from_secs(120);
/// Lines that may wait to be read.
const LINES: usize = 1024;

/// An open session.
#[derive(Debug)]
pub struct ClientSession {
    child: Child,
    requests: ChildStdin,
    lines: Receiver<String>,
    id: u64,
}

impl ClientSession {
    /// Starts `command` as a person of the root and initializes a session.
    pub fn open(root: &Root, person: &str, command: &str) -> Result<Self> {
        let mut program = root.command(RootUser::Person(person), &format!("exec {command}"));
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = program.spawn().with_context(|| format!("failed to start `{command}`"))?;
        let requests = child.stdin.take().context("the client has no stdin")?;
        let answers = child.stdout.take().context("the client has no stdout")?;
        let (sender, lines) = sync_channel(LINES);
        std::thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut session = Self { child, requests, lines, id: 0 };
        let client = json!({ "name": "trial", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        session.ask("initialize", &hello)?;
        session.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(session)
    }

    /// Calls a tool of a server through the gateway; the text of its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let call = json!({ "name": "call_tool", "arguments": { "name": tool, "arguments": arguments } });
        let result = self.ask("tools/call", &call)?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        ensure!(result["isError"] != true, "`{tool}` failed: {text}");
        Ok(text)
    }

    /// The same until it succeeds: a server that was just defined is seen after a moment.
    pub fn call_in_the_end(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let end = std::time::Instant::now() + DEADLINE;
        loop {
            match self.call(tool, arguments) {
                Err(error) if std::time::Instant::now() > end => return Err(error),
                Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
                called => return called,
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.id += 1;
        let id = self.id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let line = self.lines.recv_timeout(DEADLINE).with_context(|| format!("no answer to `{method}`"))?;
            let message: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
            if message["id"] != id {
                continue;
            }
            if message["error"].is_object() {
                bail!("`{method}` was answered with {}", message["error"]);
            }
            return Ok(message["result"].clone());
        }
    }

    fn write(&mut self, message: &Value) -> Result<()> {
        writeln!(self.requests, "{message}").context("the client's program has ended")
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        // Only what enters the root ends here; what runs in it ends with the root.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

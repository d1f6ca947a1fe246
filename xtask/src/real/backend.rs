//! The servers behind the gateway that run over HTTP: each is its own program with its own port, started
//! before the gateway and killed with this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::need::AcceptancePrograms;
use crate::process::{self, RunningProgram};

const READY_DEADLINE: Duration = Duration::from_secs(90);
const ATTEMPTS: u32 = 3;

/// The folders that the programs come from.
#[derive(Debug)]
pub struct Places<'a> {
    pub installed: &'a AcceptancePrograms,
    /// `acceptance/` of the workspace.
    pub suites: PathBuf,
    /// The fixture on the official Rust SDK.
    pub fixture: PathBuf,
}

/// A server over HTTP that runs.
#[derive(Debug)]
pub struct Backend {
    pub name: &'static str,
    /// Its definition: `url` and `transport`.
    pub definition: Value,
    _running: RunningProgram,
}

/// One row per server: its name, its program, the path of its endpoint and its transport. A new one is also named in
/// `acceptance/scripts.json`, with what is done with it.
struct Row {
    name: &'static str,
    program: Program,
    path: &'static str,
    transport: &'static str,
}

/// Every program reads its port from the variable `PORT`, except the fixture.
enum Program {
    /// Below `node_modules`, or beside it.
    Node(&'static str, &'static [&'static str]),
    Python(&'static str, &'static [&'static str]),
    OldPython(&'static str),
    Fixture(&'static str),
}

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
const ROWS: [Row; 10] = [
    row("everything-http", Program::Node(EVERYTHING, &["streamableHttp"]), "mcp", "http"),
    row("everything-asks-sse", Program::Node(EVERYTHING, &["sse"]), "sse", "sse"),
    row(
        "everything-2025-08-http",
        Program::Node("node_modules/everything-2025-08/dist/index.js", &["streamableHttp"]),
        "mcp",
        "http",
    ),
    row(
        "everything-2025-08-sse",
        Program::Node("node_modules/everything-2025-08/dist/index.js", &["sse"]),
        "sse",
        "sse",
    ),
    row("typescript-http", Program::Node("modern_server.mjs", &["http"]), "mcp", "http"),
    row("python-http", Program::Python("modern_server.py", &["http"]), "mcp", "http"),
    row("python-old-http", Program::OldPython("http"), "mcp", "http"),
    row("python-old-sse", Program::OldPython("sse"), "sse", "sse"),
    row("rust-legacy-http", Program::Fixture("legacy"), "mcp", "http"),
    row("rust-modern-http", Program::Fixture("modern"), "mcp", "http"),
];

const fn row(name: &'static str, program: Program, path: &'static str, transport: &'static str) -> Row {
    Row { name, program, path, transport }
}

/// Starts all of them and waits until each listens.
pub fn start(places: &Places<'_>, logs: &Path) -> Result<Vec<Backend>> {
    fs::create_dir_all(logs)?;
    let ports = process::free_ports(ROWS.len())?;
    let starting: Vec<_> = ROWS
        .iter()
        .zip(ports)
        .map(|(row, port)| Ok((row, port, row.start(places, port, logs)?)))
        .collect::<Result<_>>()?;
    starting.into_iter().map(|(row, port, running)| row.ready(places, port, running, logs)).collect()
}

// === impl Row ===

impl Row {
    fn start(&self, places: &Places<'_>, port: u16, logs: &Path) -> Result<RunningProgram> {
        let mut command = self.program.command(places, port);
        command.env("PORT", port.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
        RunningProgram::start(self.name, &mut command, &logs.join(format!("{}.log", self.name)))
    }

    /// Waits until it listens. Someone else may have taken the port before the server did: then it gets another one.
    fn ready(&self, places: &Places<'_>, mut port: u16, mut running: RunningProgram, logs: &Path) -> Result<Backend> {
        let mut attempt = 1;
        while let Err(error) = running.wait_for(READY_DEADLINE, || process::listens(port).then_some(())) {
            if attempt == ATTEMPTS {
                return Err(error.context(format!("`{}` does not listen", self.name)));
            }
            attempt += 1;
            port = process::free_port()?;
            running = self.start(places, port, logs)?;
        }
        let url = format!("http://127.0.0.1:{port}/{}", self.path);
        let definition = json!({"transport": self.transport, "url": url});
        Ok(Backend { name: self.name, definition, _running: running })
    }
}

// === impl Program ===

impl Program {
    fn command(&self, places: &Places<'_>, port: u16) -> Command {
        match self {
            Self::Node(program, arguments) => {
                let mut command = Command::new(&places.installed.node);
                command.arg(places.installed.node_folder.join(program)).args(*arguments);
                command
            }
            Self::Python(program, arguments) => {
                let mut command = Command::new(places.installed.python_bin.join("python"));
                command.arg(places.suites.join("python").join(program)).args(*arguments);
                command
            }
            Self::OldPython(door) => {
                let mut command = Command::new(places.installed.old_python_bin.join("python"));
                command.arg(places.suites.join("python-old/old_server.py")).arg(door);
                command
            }
            Self::Fixture(pin) => {
                let mut command = Command::new(&places.fixture);
                command.args(["--http", &format!("127.0.0.1:{port}"), "--pin", pin]);
                command
            }
        }
    }
}

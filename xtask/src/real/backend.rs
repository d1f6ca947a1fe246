//! The servers behind the gateway that run over HTTP: each is a program of its own with a port of its own, started
//! before the gateway and killed with this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::need::Installed;
use crate::process::{self, Running};

const READY_DEADLINE: Duration = Duration::from_secs(90);

/// The folders that the programs come from.
#[derive(Debug)]
pub struct Places<'a> {
    pub installed: &'a Installed,
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
    _running: Running,
}

/// One row per server: its name, its program, the path of its endpoint and its transport.
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
    let mut starting = Vec::new();
    for row in &ROWS {
        let port = process::free_port()?;
        let mut command = row.program.command(places, port);
        command.env("PORT", port.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
        let running = Running::start(row.name, &mut command, &logs.join(format!("{}.log", row.name)))?;
        starting.push((row, port, running));
    }
    let mut backends = Vec::new();
    for (row, port, mut running) in starting {
        running
            .wait_for(READY_DEADLINE, || process::listens(port).then_some(()))
            .with_context(|| format!("`{}` does not listen", row.name))?;
        let url = format!("http://127.0.0.1:{port}/{}", row.path);
        let definition = json!({"transport": row.transport, "url": url});
        backends.push(Backend { name: row.name, definition, _running: running });
    }
    Ok(backends)
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

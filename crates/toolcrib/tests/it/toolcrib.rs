//! Runs the binary.

use std::path::Path;

use serde_json::Value;
pub(crate) use toolcrib_testkit::launch::CommandOutput;
use toolcrib_testkit::launch::{Launch, Program};

/// The binary with nothing in its environment but its home.
pub(crate) fn toolcrib(home: &Path, arguments: &[&str]) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_toolcrib"), arguments).home(home)
}

/// Runs `toolcrib` with nothing in its environment but what is given here.
pub(crate) async fn run(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    run_with_stdin(home, arguments, variables, "").await
}

/// The same with something on stdin.
pub(crate) async fn run_with_stdin(
    home: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    stdin: &str,
) -> CommandOutput {
    let launch = toolcrib(home, arguments);
    variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value)).run(stdin).await
}

/// A command that speaks MCP over its stdin and stdout.
pub(crate) struct Talk(Program);

impl Talk {
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Self {
        Self(toolcrib(home, arguments).env("PATH", "/usr/bin:/bin").start())
    }

    /// One message, and the line that comes back.
    pub(crate) async fn ask(&mut self, line: &str) -> Value {
        self.0.types(line).await;
        serde_json::from_str(&self.0.line().await).unwrap()
    }
}

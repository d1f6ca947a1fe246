//! The fake MCP server over stdio; `--help` lists what it can do and how it can misbehave.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolcrib_testkit::fake::run(std::env::args().skip(1))
}

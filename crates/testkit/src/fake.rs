//! A minimal MCP server over stdio with every misbehaviour that a gateway must bear. Synchronous; a thread per slow
//! call.
//!
//! To add a tool, add it to `fake/tools.rs`; to add a misbehaviour, add a flag to `fake/options.rs`.

mod content;
mod jobs;
mod misbehave;
mod options;
mod relay;
mod server;
mod tools;

use std::io::Write;
use std::process::ExitCode;

/// Runs the server with these flags until its stdin is closed.
pub fn run(args: impl Iterator<Item = String>) -> ExitCode {
    match options::parse(args) {
        Ok(Some(options)) => {
            misbehave::watchdog();
            server::serve(options)
        }
        Ok(None) => {
            let _ = std::io::stdout().write_all(options::help().as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "fake-server: {message}");
            ExitCode::from(2)
        }
    }
}

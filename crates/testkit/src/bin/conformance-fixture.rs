//! The server that the conformance suite is run against, on the official SDK; `--help` lists its flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolcrib_testkit::fixture::run(std::env::args().skip(1))
}

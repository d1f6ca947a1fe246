//! The client that the conformance suite starts: a gateway in front of the suite's server, used by the official SDK.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolcrib_testkit::driver::run(std::env::args().skip(1))
}

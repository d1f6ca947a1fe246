//! The commands, one file each.
//!
//! To add one, write a file with `Arguments` and `run`, and add it to [`Command`] and [`run`].

mod demo;
mod serve;
mod stdio;
mod version;

use std::future::Future;
use std::process::ExitCode;

use anyhow::Context;

use crate::config::Config;
use crate::home::Environment;
use crate::telemetry;

/// What the exit codes mean; a part of the help.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    error
  2    authentication is required
  3    forbidden, or authentication failed
  64   wrong use of the command line
  130  interrupted";

/// The exit code for a wrong command line (`EX_USAGE` of sysexits), because 2 means something else here.
pub(crate) const USAGE: u8 = 64;

#[derive(Debug, clap::Parser)]
#[command(name = "toolcrib", version, about, after_help = EXIT_CODES, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the gateway
    Serve(serve::Arguments),
    /// Run the gateway over stdin and stdout, for clients that cannot do HTTP
    Stdio(stdio::Arguments),
    /// Show what the gateway does with its built-in example servers
    Demo(demo::Arguments),
    /// Print the version
    Version,
}

/// Runs the command that was given.
pub(crate) fn run(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    let done = |(): ()| ExitCode::SUCCESS;
    match cli.command {
        Command::Serve(arguments) => serve::run(arguments, environment).map(done),
        Command::Stdio(arguments) => stdio::run(arguments, environment).map(done),
        Command::Demo(arguments) => demo::run(&arguments, environment).map(done),
        Command::Version => version::run().map(done),
    }
}

/// Runs a gateway with telemetry on a runtime of all cores.
fn run_gateway<F>(config: &Config, gateway: impl FnOnce() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let logs = telemetry::init(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(gateway());
    drop(runtime);
    logs.finish();
    outcome
}

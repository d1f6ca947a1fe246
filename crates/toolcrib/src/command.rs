//! The commands, one file each.
//!
//! To add one, write a file with `Arguments` and `run`, and add it to [`Command`] and [`run`].

mod audit;
mod call;
mod decide;
mod demo;
mod describe;
mod doctor;
mod example;
mod explain;
mod find;
mod list;
mod serve;
mod stdio;
mod verify;
mod version;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use self::decide::Decision;
use crate::client::{Client, ClientFlags};
use crate::config::Config;
use crate::home::Environment;
use crate::output::Output;
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

/// The exit code after Ctrl-C, as shells give it (128 and the number of SIGINT).
const INTERRUPTED: u8 = 130;

/// How long the runtime waits at the end for what cannot be cancelled.
const LAST_TASKS: Duration = Duration::from_secs(2);

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
    /// List tools, servers, profiles, resources or prompts
    List(list::Arguments),
    /// Find tools for a purpose told in plain words
    Find(find::Arguments),
    /// Describe a tool and its parameters
    Describe(describe::Arguments),
    /// Call a tool
    Call(call::Arguments),
    /// Start a server beside what runs and show what differs from what was approved
    Verify(verify::Arguments),
    /// Approve what differs, so that profiles that hold it show it
    Approve(decide::Arguments),
    /// Turn down what differs; it stays held
    Reject(decide::Arguments),
    /// Explain why a tool is there or not
    Explain(explain::Arguments),
    /// Tell how servers are, what failed and what to do
    Doctor(doctor::Arguments),
    /// Read or verify the audit log
    Audit(audit::Arguments),
    /// Print the version
    Version,
    /// Run an example server of the demo over stdin and stdout
    #[command(hide = true)]
    Example(example::Arguments),
}

/// Runs the command that was given.
pub(crate) fn run(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(arguments) => serve::run(arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Stdio(arguments) => stdio::run(arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Demo(arguments) => demo::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::List(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            list::run(&arguments, client, output).await
        }),
        Command::Find(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            find::run(&arguments, client, output).await
        }),
        Command::Describe(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            describe::run(&arguments, client, output).await
        }),
        Command::Call(arguments) => {
            let given = arguments.gather()?;
            with_gateway(&arguments.client, environment, async |client, output| {
                call::run(&arguments, &given, client, output).await
            })
        }
        Command::Verify(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            verify::run(&arguments, client, output).await
        }),
        Command::Approve(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            decide::run(Decision::Approve, &arguments, client, output).await
        }),
        Command::Reject(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            decide::run(Decision::Reject, &arguments, client, output).await
        }),
        Command::Explain(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            explain::run(&arguments, client, output).await
        }),
        Command::Doctor(arguments) => with_gateway(&arguments.client, environment, async |client, output| {
            doctor::run(&arguments, client, output).await
        }),
        Command::Audit(arguments) => match &arguments.action {
            audit::Action::List(action) => with_gateway(&action.client, environment, async |client, output| {
                audit::list(action, client, output).await
            }),
            audit::Action::Verify(action) => {
                with_gateway(&action.client, environment, async |client, output| audit::verify(client, output).await)
            }
        },
        Command::Version => version::run().map(|()| ExitCode::SUCCESS),
        Command::Example(arguments) => example::run(&arguments).map(|()| ExitCode::SUCCESS),
    }
}

/// Runs a command that speaks to a gateway, in a session of its own; Ctrl-C takes back what is under way.
fn with_gateway(
    flags: &ClientFlags,
    environment: &Environment,
    command: impl AsyncFnOnce(&Client, Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(async {
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        let client = tokio::select! {
            opened = Client::open(flags, environment) => opened?,
            _ = &mut interrupted => return Ok(ExitCode::from(INTERRUPTED)),
        };
        let outcome = tokio::select! {
            outcome = command(&client, flags.output()) => Some(outcome),
            _ = &mut interrupted => None,
        };
        match outcome {
            Some(outcome) => {
                client.close().await;
                outcome.map(|()| ExitCode::SUCCESS)
            }
            None => {
                client.abandon().await;
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    });
    // The system may still look up a name that nobody waits for any more.
    runtime.shutdown_background();
    outcome
}

/// Runs a gateway with telemetry on a runtime of all cores.
fn run_gateway<F>(config: &Config, gateway: impl FnOnce() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let logs = telemetry::init(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(gateway());
    // A thread that still waits for stdin or the disk must not keep the process.
    runtime.shutdown_timeout(LAST_TASKS);
    logs.finish();
    outcome
}

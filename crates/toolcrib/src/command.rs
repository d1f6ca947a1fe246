//! The commands, one file each.
//!
//! To add one, write a file with `Arguments` and `run`, and add it where it belongs: [`verbs`] fit every kind of thing,
//! [`remote`] has what else is asked of a running gateway, [`local`] what needs none; what serves is in [`Command`]
//! itself.

mod agent;
mod api;
mod apply;
mod approval;
mod audit;
mod auth;
mod bridge;
mod call;
mod canary;
mod check;
pub(crate) mod completion;
mod connect;
mod connector;
mod context;
mod create;
mod decide;
mod delete;
mod demo;
mod describe;
mod disconnect;
mod doctor;
mod embedding;
mod eval;
mod events;
mod example;
mod explain;
mod figures;
mod find;
mod get;
mod halt;
mod help;
mod home_gateway;
mod import;
mod init;
mod learning;
mod list;
mod local;
mod login;
mod logout;
mod logs;
mod man;
mod model;
mod policy;
mod profile;
mod prompt;
mod registry;
mod remote;
mod repl;
mod run;
mod runner;
mod secret;
mod self_update;
mod serve;
mod server;
mod service;
mod start;
mod status;
mod test;
mod tokens;
mod ui;
mod verbs;
mod verify;
mod version;
mod workflow;

use std::ffi::OsString;
use std::fs::Permissions;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use toolcrib_base::Problem;
use toolcrib_call::LiveEvents;

use crate::client::{Answer, Client, ClientFlags, Rest, for_a_shell};
use crate::config::Config;
use crate::home::Environment;
use crate::output::{Output, report};
use crate::telemetry::Telemetry;

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
#[command(
    name = "toolcrib",
    version,
    about,
    after_help = EXIT_CODES,
    max_term_width = 120,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the gateway over HTTP
    Serve(serve::Serve),
    /// Run a gateway over stdin and stdout for one client
    Stdio(serve::Stdio),
    /// Run a gateway over HTTP that also serves one client over stdin and stdout
    Standalone(serve::Stdio),
    /// Proxy a stdio-only client to a gateway over HTTP
    Bridge(bridge::Arguments),
    /// Execute the loops of a gateway's agent runs in this process
    Runner(runner::Arguments),
    /// Print changes as they happen; with a flag, run the REPL or the bridge
    Agent(agent::Arguments),
    /// Show the gateway at work with built-in example servers
    Demo(demo::Arguments),
    #[command(flatten)]
    Verbs(verbs::Verbs),
    #[command(flatten)]
    Ask(remote::RemoteCommand),
    #[command(flatten)]
    Here(local::LocalCommand),
}

/// The whole command line.
pub(crate) fn definition() -> clap::Command {
    help::with_headings(<Cli as clap::CommandFactory>::command())
}

/// Parses a command line, the program's name first, and runs its command; what fails is on stderr when it returns.
pub(crate) fn parse_and_run(words: Vec<OsString>, environment: &Environment) -> ExitCode {
    let parsed = definition().try_get_matches_from(words);
    match parsed.and_then(|matches| <Cli as clap::FromArgMatches>::from_arg_matches(&matches)) {
        Ok(cli) => run(cli, environment).unwrap_or_else(|error| report(&error)),
        Err(error) => {
            // A terminal that is gone shows no error.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
        }
    }
}

/// Runs the command that was given.
fn run(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(arguments) => serve::serve(arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Stdio(arguments) => serve::stdio(arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Standalone(arguments) => serve::standalone(arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Bridge(arguments) => bridge::run(arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Runner(arguments) => runner::run(arguments, environment),
        Command::Agent(arguments) => agent::run(arguments, environment),
        Command::Demo(arguments) => demo::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Verbs(verb) => verbs::run(verb, environment),
        Command::Ask(command) => remote::run(command, environment),
        Command::Here(command) => local::run(command, environment),
    }
}

/// Runs a command that speaks to a gateway, in its own session; Ctrl-C cancels what is under way.
fn with_gateway(
    flags: &ClientFlags,
    environment: &Environment,
    command: impl AsyncFnOnce(&Client, Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    with_session(flags, environment, None, command)
}

/// The same where `person` answers what servers ask.
fn with_session(
    flags: &ClientFlags,
    environment: &Environment,
    person: Option<Arc<dyn Answer>>,
    command: impl AsyncFnOnce(&Client, Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let output = flags.output(environment)?;
    on_this_thread(async {
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        let opening = async {
            match person {
                Some(person) => Client::open_answering(flags, environment, person).await,
                None => Client::open(flags, environment).await,
            }
        };
        let client = tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            opened = opening => opened?,
        };
        let outcome = tokio::select! {
            outcome = command(&client, output) => Some(outcome),
            _ = &mut interrupted => None,
        };
        match outcome {
            Some(outcome) => {
                client.close().await;
                outcome.map(|()| ExitCode::SUCCESS).map_err(in_terms_of_commands)
            }
            None => {
                client.abandon().await;
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

/// The error with our commands instead of the gateway's meta-tools.
fn in_terms_of_commands(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Problem>() {
        Ok(problem) => Problem { message: for_a_shell(&problem.message), ..problem }.into(),
        Err(error) => error,
    }
}

/// Runs a command that speaks to the control API of a gateway.
fn with_rest(
    flags: &ClientFlags,
    environment: &Environment,
    command: impl AsyncFnOnce(&Rest, Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let output = flags.output(environment)?;
    until_interrupted(async {
        let rest = Rest::open(flags, environment)?;
        command(&rest, output).await
    })
}

/// The same where the command itself hears Ctrl-C while it follows something; before that, Ctrl-C ends it.
fn with_own_interrupts(
    flags: &ClientFlags,
    environment: &Environment,
    command: impl AsyncFnOnce(&Rest, Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let output = flags.output(environment)?;
    on_this_thread(async {
        let rest = Rest::open(flags, environment)?;
        command(&rest, output).await.map(|()| ExitCode::SUCCESS)
    })
}

/// Runs a command until it ends or Ctrl-C, which is listened to before the command starts: hence the order.
fn until_interrupted(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    on_this_thread(async {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
            outcome = work => outcome.map(|()| ExitCode::SUCCESS),
        }
    })
}

/// Runs `work` on this thread. What then still waits on another one, such as the look-up of a name or a read from
/// stdin, is abandoned.
fn on_this_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

/// A home that lasts as long as a command. Only its owner may read it: a token is in it.
fn temporary_home(prefix: &str) -> anyhow::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
    builder.tempdir().map_err(|error| {
        let folder = std::env::temp_dir();
        let message = format!("cannot create a temporary home in `{}`: {error}", folder.display());
        let hint = "Set TMPDIR to a folder that can be written.";
        toolcrib_base::Problem::new(toolcrib_base::Kind::Unavailable, message).hint(hint).into()
    })
}

/// Some of the servers do not work; which and why is already printed.
fn not_working(number: usize, of: usize) -> toolcrib_base::Problem {
    let verb = if number == 1 { "does" } else { "do" };
    let message = format!("{number} of {of} servers {verb} not work");
    toolcrib_base::Problem::new(toolcrib_base::Kind::Unavailable, message)
}

/// Runs a gateway with telemetry on a runtime of all cores.
fn run_gateway<F, T>(config: &Config, gateway: impl FnOnce(LiveEvents) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    // Before anything is opened: each client is a connection, and many systems allow 1,024 unless asked.
    toolcrib_transport::process::raise_file_limit();
    let events = LiveEvents::default();
    let mut telemetry = Telemetry::start(config, events.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(telemetry.run_beside(gateway(events)));
    // A thread that still waits for stdin or the disk must not keep the process.
    runtime.shutdown_timeout(LAST_TASKS);
    telemetry.finish();
    outcome
}

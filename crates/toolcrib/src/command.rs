//! The commands, one file each.
//!
//! To add one, write a file with `Arguments` and `run`, and add it to [`Command`] and [`run`].

mod api;
mod audit;
mod bridge;
mod call;
mod connect;
mod decide;
mod demo;
mod describe;
mod disconnect;
mod doctor;
mod eval;
mod example;
mod explain;
mod find;
mod import;
mod init;
mod learning;
mod list;
mod model;
mod profile;
mod registry;
mod secret;
mod serve;
mod server;
mod status;
mod stdio;
mod test;
mod tokens;
mod verify;
mod version;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use toolcrib_gateway::Events;

use self::decide::Decision;
use crate::client::{Client, ClientFlags, Rest};
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
    /// Lead a client that only speaks stdio to a gateway over HTTP
    Bridge(bridge::Arguments),
    /// Show what the gateway does with its built-in example servers
    Demo(demo::Arguments),
    /// Show how the gateway and its servers are, and what to do
    Status(status::Arguments),
    /// List tools, servers, profiles, resources or prompts
    List(list::Arguments),
    /// Find tools for a purpose told in plain words
    Find(find::Arguments),
    /// Describe a tool and its parameters
    Describe(describe::Arguments),
    /// Call a tool
    Call(call::Arguments),
    /// Set everything up: take servers over, verify them, connect clients
    Init(init::Arguments),
    /// Take over the servers of other clients
    Import(import::Arguments),
    /// Write Toolcrib into the settings of a client
    Connect(connect::Arguments),
    /// Take Toolcrib out of the settings of a client
    Disconnect(disconnect::Arguments),
    /// See what could become a server, make one of it, and check definitions
    Registry(registry::Arguments),
    /// Add, show, start and stop servers
    Server(server::Arguments),
    /// Add, show and use profiles; make and revoke their keys
    Profile(profile::Arguments),
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
    /// Count what the tools cost a model in tokens
    Tokens(tokens::Arguments),
    /// Show, forget or export what searches learned from use
    Learning(learning::Arguments),
    /// Measure the search on queries with known answers
    Eval(eval::Arguments),
    /// Read or verify the audit log
    Audit(audit::Arguments),
    /// Do any operation of the control API
    Api(api::Arguments),
    /// Set, list and remove secrets of the vault
    Secret(secret::Arguments),
    /// Add, show and remove a local model that helps to find tools
    Model(model::Arguments),
    /// Run behaviour tests, each against a gateway of its own
    Test(Box<test::Arguments>),
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
        Command::Bridge(arguments) => bridge::run(arguments, environment).map(|()| ExitCode::SUCCESS),
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
        Command::Verify(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| verify::run(&arguments, rest, output).await)
        }
        Command::Approve(arguments) => with_rest(&arguments.client, environment, async |rest, output| {
            decide::run(Decision::Approve, &arguments, rest, output).await
        }),
        Command::Reject(arguments) => with_rest(&arguments.client, environment, async |rest, output| {
            decide::run(Decision::Reject, &arguments, rest, output).await
        }),
        Command::Explain(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| explain::run(&arguments, rest, output).await)
        }
        Command::Doctor(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| doctor::run(&arguments, rest, output).await)
        }
        Command::Tokens(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| tokens::run(rest, output).await)
        }
        Command::Audit(arguments) => match &arguments.action {
            audit::Action::List(action) => with_gateway(&action.client, environment, async |client, output| {
                audit::list(action, client, output).await
            }),
            audit::Action::Verify(action) => {
                with_gateway(&action.client, environment, async |client, output| audit::verify(client, output).await)
            }
        },
        Command::Learning(arguments) => with_rest(arguments.client(), environment, async |rest, output| {
            learning::run(&arguments, rest, output).await
        }),
        Command::Eval(arguments) => eval::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Init(arguments) => init::run(&arguments, environment),
        Command::Import(arguments) => import::run(&arguments, environment),
        Command::Connect(arguments) => connect::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Disconnect(arguments) => disconnect::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Registry(arguments) => match &arguments.action {
            registry::Action::Local(action) => registry::run(action, environment).map(|()| ExitCode::SUCCESS),
            registry::Action::Add(add) => {
                let request = add.request()?;
                with_rest(&add.client, environment, async |rest, output| {
                    registry::add::run(&request, rest, output).await
                })
            }
        },
        Command::Api(arguments) => {
            let given = arguments.gather()?;
            with_rest(&arguments.client, environment, async |rest, output| {
                api::run(&arguments, &given, rest, output).await
            })
        }
        Command::Status(arguments) => {
            with_rest(&arguments.client, environment, async |rest, output| status::run(&arguments, rest, output).await)
        }
        Command::Server(arguments) => {
            let request = arguments.request()?;
            with_rest(arguments.client(), environment, async |rest, output| {
                server::run(&arguments, &request, rest, output).await
            })
        }
        Command::Profile(arguments) => match &arguments.action {
            profile::Action::Key(action) => profile::key::run(action, environment).map(|()| ExitCode::SUCCESS),
            profile::Action::Export(action) => profile::bundle::export(action, environment),
            profile::Action::Import(action) => profile::bundle::import(action, environment),
            profile::Action::Wire(action) => {
                let request = action.request()?;
                with_rest(action.client(), environment, async |rest, output| {
                    profile::run(action, &request, rest, output).await
                })
            }
        },
        Command::Secret(arguments) => secret::run(&arguments, environment),
        Command::Model(arguments) => model::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Command::Test(arguments) => test::run(&arguments),
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

/// Runs a command that speaks to the control API of a gateway.
fn with_rest(
    flags: &ClientFlags,
    environment: &Environment,
    command: impl AsyncFnOnce(&Rest, Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(async {
        let rest = Rest::open(flags, environment)?;
        tokio::select! {
            outcome = command(&rest, flags.output()) => outcome.map(|()| ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
        }
    });
    // The system may still look up a name that nobody waits for any more.
    runtime.shutdown_background();
    outcome
}

/// Runs a gateway with telemetry on a runtime of all cores.
fn run_gateway<F, T>(config: &Config, gateway: impl FnOnce(Events) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let events = Events::default();
    let logs = telemetry::init(config, events.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(gateway(events));
    // A thread that still waits for stdin or the disk must not keep the process.
    runtime.shutdown_timeout(LAST_TASKS);
    logs.finish();
    outcome
}

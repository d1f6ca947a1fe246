//! The commands that need no running gateway: they work in the home folder, at clients' settings or on the terminal.
//!
//! To add one: a file with `Arguments` and `run`, and a line in [`Here`] and in [`run`].

use std::process::ExitCode;

use super::{
    completion, connect, context, disconnect, eval, example, import, init, logs, man, model, repl, secret, self_update,
    service, test, workflow,
};
use crate::home::Environment;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Here {
    /// Set everything up: take servers over, verify them, connect clients
    Init(init::Arguments),
    /// Take over the servers of other clients
    Import(import::Arguments),
    /// Write Toolcrib into the settings of a client
    Connect(connect::Arguments),
    /// Take Toolcrib out of the settings of a client
    Disconnect(disconnect::Arguments),
    /// Have the gateway run with your session: install, look at and remove its service
    Service(service::Arguments),
    /// Print what a server said: the log that the gateway keeps of it
    Logs(logs::Arguments),
    /// List, show and run workflows
    Workflow(workflow::Arguments),
    /// Name gateways and choose between them
    Context(context::Arguments),
    /// Type commands one after the other, with completion and news
    Repl(repl::Arguments),
    /// Set, list and remove secrets of the vault
    Secret(secret::Arguments),
    /// Add, show and remove a local model that helps to find tools
    Model(model::Arguments),
    /// Measure the search on queries with known answers
    Eval(eval::Arguments),
    /// Run behaviour tests, each against a gateway of its own
    Test(Box<test::Arguments>),
    /// Print the lines that make a shell complete commands and names
    Completion(completion::Arguments),
    /// Write manual pages
    Man(man::Arguments),
    /// Tell how this copy was installed and how to update it
    SelfUpdate(self_update::Arguments),
    /// Run a small server to try things with, over stdin and stdout or over HTTP
    Example(example::Arguments),
}

pub(super) fn run(command: Here, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        Here::Init(arguments) => init::run(&arguments, environment),
        Here::Import(arguments) => import::run(&arguments, environment),
        Here::Connect(arguments) => connect::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Here::Disconnect(arguments) => disconnect::run(&arguments, environment),
        Here::Service(arguments) => service::run(&arguments, environment),
        Here::Logs(arguments) => logs::run(&arguments, environment),
        Here::Workflow(arguments) => workflow::run(arguments, environment),
        Here::Context(arguments) => context::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Here::Repl(arguments) => repl::run(&arguments, environment),
        Here::Secret(arguments) => secret::run(&arguments, environment),
        Here::Model(arguments) => model::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Here::Eval(arguments) => eval::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Here::Test(arguments) => test::run(&arguments),
        Here::Completion(arguments) => completion::run(&arguments).map(|()| ExitCode::SUCCESS),
        Here::Man(arguments) => man::run(&arguments).map(|()| ExitCode::SUCCESS),
        Here::SelfUpdate(arguments) => self_update::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        Here::Example(arguments) => example::run(arguments),
    }
}

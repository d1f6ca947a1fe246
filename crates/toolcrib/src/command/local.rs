//! The commands that need no running gateway: they work in the home folder, at clients' settings or on the terminal.
//!
//! To add one: a file with `Arguments` and `run`, and a line in [`LocalCommand`] and in [`run`].

use std::process::ExitCode;

use super::{
    completion, connect, connector, context, disconnect, embedding, eval, example, help, import, init, logs, man,
    model, repl, secret, self_update, service, test, workflow,
};
use crate::home::Environment;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum LocalCommand {
    /// Set up everything: import servers, verify them, connect clients
    Init(init::Arguments),
    /// Import servers from the settings of MCP clients
    Import(import::Arguments),
    /// Add Toolcrib to the settings of a client
    Connect(connect::Arguments),
    /// Remove Toolcrib from the settings of a client
    Disconnect(disconnect::Arguments),
    /// Run the gateway in the background: install, check or remove its service
    Service(service::Arguments),
    /// Print the log of a server
    Logs(logs::Arguments),
    /// List, show and run workflows
    Workflow(workflow::Arguments),
    /// Name gateways and switch between them
    Context(context::Arguments),
    /// Type commands at a prompt, with completion and notifications
    Repl(repl::Arguments),
    /// Set, list and remove secrets in the vault
    Secret(secret::Arguments),
    /// Add and test models that agents ask; find those of local servers
    Model(model::Arguments),
    /// Test a connector, and replace its secret
    Connector(connector::Arguments),
    /// Add, show or remove a local model that improves search
    Embedding(embedding::Arguments),
    /// Measure search on known answers, and agents on tasks with assertions
    Eval(eval::Arguments),
    /// Run behaviour tests, each against its own gateway
    Test(Box<test::Arguments>),
    /// Print the script that makes a shell complete commands and names
    Completion(completion::Arguments),
    /// Write manual pages
    Man(man::Arguments),
    /// Update a copy from an archive, or show what updates this one
    SelfUpdate(self_update::Arguments),
    /// Run a small example server over stdin and stdout or HTTP
    Example(example::Arguments),
    /// Print the help of a command, or of all with `--all`
    Help(help::Arguments),
}

pub(super) fn run(command: LocalCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        LocalCommand::Init(arguments) => init::run(&arguments, environment),
        LocalCommand::Import(arguments) => import::run(&arguments, environment),
        LocalCommand::Connect(arguments) => connect::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        LocalCommand::Disconnect(arguments) => disconnect::run(&arguments, environment),
        LocalCommand::Service(arguments) => service::run(&arguments, environment),
        LocalCommand::Logs(arguments) => logs::run(&arguments, environment),
        LocalCommand::Workflow(arguments) => workflow::run(arguments, environment),
        LocalCommand::Context(arguments) => context::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        LocalCommand::Repl(arguments) => repl::run(&arguments, environment),
        LocalCommand::Secret(arguments) => secret::run(&arguments, environment),
        LocalCommand::Model(arguments) => model::run(&arguments, environment),
        LocalCommand::Connector(arguments) => connector::run(&arguments, environment),
        LocalCommand::Embedding(arguments) => embedding::run(&arguments, environment).map(|()| ExitCode::SUCCESS),
        LocalCommand::Eval(arguments) => eval::run(&arguments, environment),
        LocalCommand::Test(arguments) => test::run(&arguments),
        LocalCommand::Completion(arguments) => completion::run(&arguments).map(|()| ExitCode::SUCCESS),
        LocalCommand::Man(arguments) => man::run(&arguments).map(|()| ExitCode::SUCCESS),
        LocalCommand::SelfUpdate(arguments) => self_update::run(&arguments, environment),
        LocalCommand::Example(arguments) => example::run(arguments),
        LocalCommand::Help(arguments) => help::run(arguments, environment),
    }
}

//! `toolcrib model`: the language models that agents ask. `add` writes the definition of one, and finds those of servers
//! on this machine; it works on the home's own files, whether a gateway runs or not. `test` asks a running gateway.

mod add;
mod engine;
mod test;

use std::process::ExitCode;

use crate::home::Environment;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Define a model; without a name, find the models of local servers
    Add(add::Arguments),
    /// Ask a model a few small questions and say what works: tools, schemas, cache, the true window
    Test(test::Arguments),
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Add(arguments) => add::run(arguments, environment).map(|()| ExitCode::SUCCESS),
        Action::Test(arguments) => super::with_rest(&arguments.client, environment, async |rest, output| {
            test::run(arguments, rest, output).await
        }),
    }
}

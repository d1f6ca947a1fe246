//! `toolcrib repl`: commands typed one after the other.

use std::process::ExitCode;

use crate::client::ClientFlags;
use crate::home::Environment;
use crate::repl::{self, CommandLine};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    client: ClientFlags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    start(&arguments.client, environment)
}

/// Starts the REPL, whose lines are commands of this command line.
pub(super) fn start(flags: &ClientFlags, environment: &Environment) -> anyhow::Result<ExitCode> {
    let command_line = CommandLine { definition: super::definition, run: super::parse_and_run };
    repl::run(command_line, flags, environment)
}

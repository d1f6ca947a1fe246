//! `toolcrib repl`: commands typed one after the other.

use std::process::ExitCode;

use crate::client::ClientFlags;
use crate::home::Environment;
use crate::repl;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    client: ClientFlags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    repl::run(&arguments.client, environment)
}

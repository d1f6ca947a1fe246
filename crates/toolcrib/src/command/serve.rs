//! `toolcrib serve`: the gateway over HTTP.

use std::path::PathBuf;

use crate::compose;
use crate::config::{Config, Low};
use crate::home::Environment;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write `{"pid", "url", "token_file"}` to this file once clients can be served
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Live on when whoever starts this ends
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    settings: Low,
}

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<()> {
    if arguments.detached {
        toolcrib_transport::process::beside::leave_session();
    }
    let config = Config::load(&arguments.settings, environment)?;
    config.check_listen()?;
    super::run_gateway(&config.clone(), |events| compose::serve(config, events, arguments.ready_file))
}

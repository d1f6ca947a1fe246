//! `toolcrib demo`: the gateway with its embedded example servers, after a short walk through find, describe and call.

use crate::compose;
use crate::config::{Config, Low};
use crate::home::Environment;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// End after the walk
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    settings: Low,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let config = Config::load(&arguments.settings, environment)?;
    config.check_listen()?;
    super::run_gateway(&config.clone(), || compose::demo(config, arguments.once))
}

//! `toolcrib stdio`: the gateway itself over stdin and stdout, for clients that cannot do HTTP.

use toolcrib_base::ProfileName;

use crate::compose;
use crate::config::{Config, Low};
use crate::home::Environment;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The profile that the client sees
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    pub(super) profile: ProfileName,
    #[command(flatten)]
    pub(super) settings: Low,
}

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<()> {
    let config = Config::load(&arguments.settings, environment)?;
    super::run_gateway(&config.clone(), |events| compose::stdio(config, events, arguments.profile))
}

//! `toolcrib standalone`: a gateway over HTTP and, in the same process, one client over stdin and stdout.

use toolcrib_base::ProfileName;

use crate::compose;
use crate::config::{Config, Low};
use crate::home::Environment;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The profile that the client sees
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    profile: ProfileName,
    #[command(flatten)]
    settings: Low,
}

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<()> {
    let config = Config::load(&arguments.settings, environment)?;
    super::run_gateway(&config.clone(), |events| compose::standalone(config, events, arguments.profile))
}

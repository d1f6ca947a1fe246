//! `toolcrib standalone`: a gateway over HTTP and, in the same process, one client over stdin and stdout.

use crate::compose;
use crate::config::Config;
use crate::home::Environment;

/// It is told the same: which profile the client sees, and the settings.
pub(crate) use super::stdio::Arguments;

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<()> {
    let config = Config::load(&arguments.settings, environment)?;
    super::run_gateway(&config.clone(), |events| compose::standalone(config, events, arguments.profile))
}

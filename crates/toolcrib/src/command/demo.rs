//! `toolcrib demo`: the gateway with its embedded example servers, after a short walk through find, describe and call.

use std::path::Path;

use anyhow::Context;

use crate::compose;
use crate::config::Config;
use crate::home::Environment;

/// What is logged by default: the tour should not drown in it.
const LOG: &str = "warn";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Exit after the tour
    #[arg(long)]
    once: bool,
    /// Address to listen on [default: any free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Log filter for stderr [env: TOOLCRIB_LOG] [default: warn]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let home = super::temporary_home("toolcrib-demo-")?;
    let config = arguments.config(home.path(), environment)?;
    config.check_listen()?;
    let outcome = super::run_gateway(&config.clone(), |events| compose::demo(config, events, arguments.once));
    let removed = home.close().context("remove the temporary home of the demo");
    outcome.and(removed)
}

impl Arguments {
    /// The settings, independent of the person's own home and gateway.
    fn config(&self, home: &Path, environment: &Environment) -> anyhow::Result<Config> {
        let flags = [("listen", &self.listen), ("log", &self.log)];
        let flags = flags.into_iter().filter_map(|(name, value)| Some((name, value.clone()?.into())));
        Ok(Config::for_a_command(home, LOG, flags, environment)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: Option<&str>, variables: &[(&str, &str)]) -> anyhow::Result<Config> {
        let arguments = Arguments { once: true, listen: listen.map(str::to_owned), log: None };
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        arguments.config(Path::new("/nowhere"), &environment)
    }

    #[test]
    fn the_demo_keeps_away_from_the_persons_own_gateway() {
        let own = [("TOOLCRIB_HOME", "/own"), ("TOOLCRIB_LISTEN", "127.0.0.1:8700"), ("TOOLCRIB_LOG", "debug")];
        let settings = config(None, &own).unwrap();
        assert_eq!((settings.listen.to_string().as_str(), settings.log.as_str()), ("127.0.0.1:0", "debug"));
        assert_eq!(settings.home.path(), Path::new("/nowhere"));
        let settings = config(Some("127.0.0.1:9"), &[]).unwrap();
        assert_eq!((settings.listen.to_string().as_str(), settings.log.as_str()), ("127.0.0.1:9", "warn"));
        assert!(config(Some("here"), &[]).unwrap_err().to_string().contains("flag `--listen`"));
    }
}

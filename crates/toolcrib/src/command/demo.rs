//! `toolcrib demo`: the gateway with its embedded example servers, after a short walk through find, describe and call.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use crate::compose;
use crate::config::{Config, SettingFlags};
use crate::home::Environment;

/// Only the person who runs the demo may look into its home: a token lies there.
const FOLDER_MODE: u32 = 0o700;
/// What is logged by default: the walk should not drown in it.
const LOG: &str = "warn";
/// What the system chooses the port for.
const LISTEN: &str = "127.0.0.1:0";

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
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("toolcrib-demo-").permissions(Permissions::from_mode(FOLDER_MODE));
    let home = builder.tempdir().context("make a temporary home for the demo")?;
    let config = arguments.config(home.path(), environment)?;
    config.check_listen()?;
    let outcome = super::run_gateway(&config.clone(), |events| compose::demo(config, events, arguments.once));
    let removed = home.close().context("remove the temporary home of the demo");
    outcome.and(removed)
}

impl Arguments {
    /// The settings: neither the person's own home nor the address of a gateway that may run there has a say.
    fn config(&self, home: &Path, environment: &Environment) -> anyhow::Result<Config> {
        let listen = self.listen.as_deref().unwrap_or(LISTEN);
        let mut flags = BTreeMap::from([("listen", toml::Value::from(listen))]);
        let named = environment.get("TOOLCRIB_LOG").is_some();
        if let Some(log) = self.log.as_deref().or((!named).then_some(LOG)) {
            flags.insert("log", toml::Value::from(log));
        }
        Ok(Config::load(&SettingFlags { home: Some(home.to_owned()), flags }, environment)?)
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

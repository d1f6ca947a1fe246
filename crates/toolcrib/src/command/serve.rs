//! `toolcrib serve`, `stdio` and `standalone`: a gateway in this process. They differ only in how clients reach it.

use std::path::PathBuf;

use toolcrib_base::ProfileName;

use crate::compose::{self, Entry};
use crate::config::{Config, SettingFlags};
use crate::home::Environment;

/// Of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Write `{"pid", "url", "token_file"}` to this file when the gateway is ready
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Keep running when the parent process exits
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Of `stdio` and `standalone`.
#[derive(Debug, clap::Args)]
pub(crate) struct Stdio {
    /// The client's profile
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    profile: ProfileName,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(crate) fn serve(arguments: Serve, environment: &Environment) -> anyhow::Result<()> {
    if arguments.detached {
        toolcrib_transport::process::beside::leave_session();
    }
    run(&arguments.settings, environment, Entry::Http { ready_file: arguments.ready_file })
}

pub(crate) fn stdio(arguments: Stdio, environment: &Environment) -> anyhow::Result<()> {
    run(&arguments.settings, environment, Entry::Stdio { profile: arguments.profile })
}

pub(crate) fn standalone(arguments: Stdio, environment: &Environment) -> anyhow::Result<()> {
    run(&arguments.settings, environment, Entry::HttpAndStdio { profile: arguments.profile })
}

fn run(settings: &SettingFlags, environment: &Environment, entry: Entry) -> anyhow::Result<()> {
    let config = Config::load(settings, environment)?;
    if !matches!(entry, Entry::Stdio { .. }) {
        config.check_listen()?;
    }
    super::run_gateway(&config.clone(), |events| compose::run(config, events, entry))
}

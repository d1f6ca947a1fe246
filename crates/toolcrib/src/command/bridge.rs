//! `toolcrib bridge`: stdio on one side, Streamable HTTP on the other, for clients that only speak stdio.

use std::path::PathBuf;

use toolcrib_base::ProfileName;

use super::login;
use crate::bridge;
use crate::client::ClientFlags;
use crate::endpoint_login::LoginOptions;
use crate::home::Environment;

/// The variable that forbids starting a gateway, for clients whose arguments cannot be changed.
const NO_START_VARIABLE: &str = "TOOLCRIB_NO_START";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The gateway's URL [env: TOOLCRIB_ENDPOINT] [default: the running gateway of the home folder]
    url: Option<String>,
    /// The client's profile [default: the URL's]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// A file with the token [env: TOOLCRIB_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Send no token, like other HTTP clients: can use tools, cannot administer
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
    /// Open no browser for a login: the client gets the link
    #[arg(long)]
    no_browser: bool,
    /// Log in even if the provider has a private address
    #[arg(long)]
    private: bool,
    /// Log in as this client, which is registered at the provider by hand
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Do not start a gateway if none is running [env: TOOLCRIB_NO_START]
    #[arg(long)]
    no_start: bool,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<()> {
    let Arguments { url, profile, token_file, no_token, no_browser, private, client_id, no_start, home } = arguments;
    let flags = ClientFlags::of_bridge(url, profile, token_file, home);
    let starts = !no_start && environment.get(NO_START_VARIABLE).is_none();
    let opens_browser = !no_browser && login::opens_browser(environment)?;
    let options = LoginOptions { opens_browser, private, client_id, ..LoginOptions::default() };
    proxy(if no_token { flags.without_token() } else { flags }, environment, starts, options)
}

/// Proxies the client at stdin and stdout to the gateway, which it `starts` if none is running.
pub(super) fn proxy(
    flags: ClientFlags,
    environment: &Environment,
    starts: bool,
    options: LoginOptions,
) -> anyhow::Result<()> {
    super::on_this_thread(bridge::run(flags, environment.clone(), starts, options))
}

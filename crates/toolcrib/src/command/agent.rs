//! `toolcrib agent`, by the name that people of muster know: the bridge, the REPL, or a list that continues with what
//! changes.

use std::process::ExitCode;

use crate::client::ClientFlags;
use crate::endpoint_login::LoginOptions;
use crate::home::Environment;
use crate::repl::changes;

/// What muster calls the tool that begins a login.
const LOGIN_TOOL: &str = "authenticate_muster";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Proxy a stdio-only client to the gateway, like `toolcrib bridge`
    #[arg(long, conflicts_with = "repl")]
    mcp_server: bool,
    /// Type commands at a prompt, like `toolcrib repl`
    #[arg(long)]
    repl: bool,
    #[command(flatten)]
    client: ClientFlags,
}

pub(crate) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    if arguments.mcp_server {
        let opens_browser = super::login::opens_browser(environment)?;
        let options = LoginOptions { tool: LOGIN_TOOL, opens_browser, ..LoginOptions::default() };
        return super::bridge::proxy(arguments.client, environment, false, options).map(|()| ExitCode::SUCCESS);
    }
    if arguments.repl {
        return super::repl::start(&arguments.client, environment);
    }
    super::with_gateway(&arguments.client, environment, async |client, output| {
        changes::watch(&arguments.client, client, environment, output).await
    })
}

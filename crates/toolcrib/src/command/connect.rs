//! `toolcrib connect`: writes Toolcrib into the settings of a client, and nothing else.

use toolcrib_base::ProfileName;
use toolcrib_catalog::clients::Client;

use crate::clients::join::{self, ConnectRequest, Plan};
use crate::clients::{Flags, confirm, named};
use crate::home::Environment;
use crate::{output, text};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The client, such as `cursor` or `claude-code`
    #[arg(value_parser = named)]
    client: &'static Client,
    /// The client's profile
    #[arg(long, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// The gateway's URL [default: the address in the settings]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Let the client start its own gateway with `toolcrib stdio` instead of sharing one
    #[arg(long, conflicts_with = "endpoint")]
    stdio: bool,
    /// Remove servers from the client that Toolcrib provides; `disconnect` restores them
    #[arg(long = "move", conflicts_with_all = ["endpoint", "stdio"])]
    moves: bool,
    /// Create the file and its folder if missing
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    flags: Flags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let Arguments { client, flags, .. } = arguments;
    let request = ConnectRequest {
        profile: arguments.profile.as_ref(),
        endpoint: arguments.endpoint.as_deref(),
        own_gateway: arguments.stdio,
        create: arguments.create,
        moves: arguments.moves,
    };
    let joining = match join::plan(client, &request, flags, environment)? {
        Plan::Already(way) => {
            return Ok(output::print(&format!("{} is already connected, {way}\n", client.title))?);
        }
        Plan::New(joining) => joining,
    };
    output::print(&text::block(&joining.preview()))?;
    if flags.preview || !confirm(flags, "Write this?")? {
        return Ok(output::print("Nothing was written.\n")?);
    }
    Ok(output::print(&text::block(&joining.write()?.text))?)
}

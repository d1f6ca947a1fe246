//! `toolcrib example`: a small server over stdin and stdout or over HTTP, for trying the gateway without installing
//! another program. The demo and the guides use it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser};
use tokio::net::TcpListener;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, random};
use toolcrib_web::Guard;

use super::until_interrupted;
use crate::example::{self, Example, ToolSubset};

#[derive(Debug, clap::Args)]
#[command(after_help = DEFINITION)]
pub(crate) struct Arguments {
    /// The server
    #[arg(value_parser = names())]
    name: String,
    /// Offer only these tools
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    tools: Vec<String>,
    /// Fail to start unless this environment variable is set, like servers that need an API key
    #[arg(long, value_name = "VARIABLE")]
    require: Option<String>,
    /// Serve over HTTP on this loopback address, such as `127.0.0.1:8701`, instead of stdin and stdout
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

const DEFINITION: &str = "\
A definition of such a server, `servers/units.yaml` in the home folder:

  name: units
  command: toolcrib
  args: [example, units]

Its data is in memory only. It ends when stdin closes; with `--listen`, on Ctrl-C.";

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(example::NAMES.map(|name| {
        let about = example::named(name).expect("every name has its server").about();
        PossibleValue::new(name).help(about.purpose())
    }))
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut server = example::named(&arguments.name).expect("clap has checked the name");
    if let Some(variable) = arguments.require.filter(|variable| std::env::var_os(variable).is_none()) {
        let message = format!("cannot start: environment variable `{variable}` is not set");
        let hint = format!("set it in `env` of the server's definition, such as `env: {{{variable}: abc}}`");
        return Err(Problem::new(Kind::Unavailable, message).hint(hint).into());
    }
    if !arguments.tools.is_empty() {
        server = Arc::new(ToolSubset::new(server, arguments.tools)?);
    }
    if let Some(address) = arguments.listen {
        return listen(server, address);
    }
    example::stdio::serve(&*server, io::stdin().lock(), io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// Serves over HTTP until Ctrl-C.
fn listen(server: Arc<dyn Example>, address: SocketAddr) -> anyhow::Result<ExitCode> {
    if !address.ip().is_loopback() {
        let problem = Problem::new(
            Kind::InvalidParams,
            format!("refusing to listen on `{address}`: this server has no authentication"),
        );
        return Err(problem.hint(format!("listen on `127.0.0.1:{}`", address.port())).into());
    }
    until_interrupted(async move {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listen on `{address}`"))?;
        let url = format!("http://{}{}", listener.local_addr().context("read the address")?, example::http::PATH);
        // The token is never printed: every client of this machine is served alike.
        let guard = Guard::new(random::token(), Vec::new(), Vec::new());
        writeln!(io::stderr().lock(), "serving url={url}").context("tell the address")?;
        example::http::serve(listener, server, guard, Scope::new()).await;
        Ok(())
    })
}

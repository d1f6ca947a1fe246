//! `toolcrib example`: a small server over stdin and stdout, for trying the gateway without installing another program.
//! The demo and the guides use it.

use std::io;
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser};
use toolcrib_base::{Kind, Problem};

use crate::example::{self, Chosen};

#[derive(Debug, clap::Args)]
#[command(after_help = DEFINITION)]
pub(crate) struct Arguments {
    /// Which server
    #[arg(value_parser = names())]
    name: String,
    /// Offer only these of its tools
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    tools: Vec<String>,
    /// Refuse to start unless this environment variable is set, as servers do that need a key
    #[arg(long, value_name = "VARIABLE")]
    require: Option<String>,
}

const DEFINITION: &str = "\
A definition of such a server, `servers/units.yaml` in the home folder:

  name: units
  command: toolcrib
  args: [example, units]

What it keeps is in memory only. It ends when stdin is closed.";

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(example::NAMES.map(|name| {
        let about = example::named(name).expect("every name has its server").about();
        PossibleValue::new(name).help(about.purpose())
    }))
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut server = example::named(&arguments.name).expect("clap has checked the name");
    if let Some(variable) = arguments.require.filter(|variable| std::env::var_os(variable).is_none()) {
        let message = format!("cannot start: environment variable `{variable}` is not set");
        let hint = format!("name it in `env` of the server's definition, such as `env: {{{variable}: abc}}`");
        return Err(Problem::new(Kind::Unavailable, message).hint(hint).into());
    }
    if !arguments.tools.is_empty() {
        server = Arc::new(Chosen::new(server, arguments.tools)?);
    }
    example::stdio::serve(&*server, io::stdin().lock(), io::stdout().lock())?;
    Ok(())
}

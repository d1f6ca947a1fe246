//! `toolcrib example`: one of the demo's servers over stdin and stdout. Not shown in the help; the demo starts it.

use std::io;

use crate::example;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which one
    #[arg(value_parser = example::NAMES)]
    name: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let server = example::named(&arguments.name).expect("clap has checked the name");
    example::stdio::serve(&*server, io::stdin().lock(), io::stdout().lock())?;
    Ok(())
}

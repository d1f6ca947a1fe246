//! `toolcrib man`: the manual pages, made from the same words as the help.

use std::path::PathBuf;

use anyhow::Context;

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder to write them to, a page for each command; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = &arguments.dir;
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder `{}`", folder.display()))?;
    clap_mangen::generate_to(super::definition(), folder)
        .with_context(|| format!("write manual pages to `{}`", folder.display()))?;
    let pages = std::fs::read_dir(folder)?.flatten().filter(|file| file.file_name().to_string_lossy().ends_with(".1"));
    Ok(output::print(&format!("{} manual pages in `{}`\n", pages.count(), folder.display()))?)
}

//! `toolcrib man`: the manual pages, made from the same words as the help.

use std::path::PathBuf;

use anyhow::Context;

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder for the pages, one for each command; created if missing
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = &arguments.dir;
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder `{}`", folder.display()))?;
    clap_mangen::generate_to(super::definition(), folder)
        .with_context(|| format!("write manual pages to `{}`", folder.display()))?;
    let files = std::fs::read_dir(folder)?.flatten().map(|file| file.path());
    let pages: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "1")).collect();
    for page in &pages {
        let rewritten = std::fs::read_to_string(page).and_then(|text| std::fs::write(page, in_ascii(&text)));
        rewritten.with_context(|| format!("write the manual page `{}`", page.display()))?;
    }
    Ok(output::print(&format!("{} manual pages in `{}`\n", pages.len(), folder.display()))?)
}

/// troff reads bytes; what is beyond ASCII has a name there.
fn in_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() { out.push(c) } else { out.push_str(&format!("\\[u{:04X}]", u32::from(c))) }
    }
    out
}

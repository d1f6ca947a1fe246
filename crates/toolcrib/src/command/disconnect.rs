//! `toolcrib disconnect`: takes Toolcrib out of the settings of a client again.

use toolcrib_catalog::clients::{self as catalog, Client, SettingsFile, preview};

use crate::clients::{Flags, confirm, failed, named, record, replace, target, wrong};
use crate::home::{Environment, Home};
use crate::{output, text};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The client, such as `cursor` or `claude-code`
    #[arg(value_parser = named)]
    client: &'static Client,
    #[command(flatten)]
    flags: Flags,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<()> {
    let Arguments { client, flags } = arguments;
    let home = Home::find(flags.home.as_deref(), environment)?;
    let (source, path) = target(client, flags, environment)?;
    let file = SettingsFile::read(&path).map_err(|error| failed(&error))?;
    let record = record::read(&home, client, &path);
    let undo = record.as_ref().map(|record| (&record.splices, record.made_container));
    let before = file.text().map_err(|error| failed(&error))?;
    let back = catalog::disconnect(client, source, before, undo).map_err(|error| wrong(&path, &error))?;
    let Some(back) = back else {
        if record.is_some() && !flags.preview {
            // Somebody took it out by hand; a record that stays would be no harm either.
            let _ = record::write(&home, client, &path, None);
        }
        return Ok(output::print(&format!("{} is not connected: nothing to do\n", client.title))?);
    };
    // A file that came with us and holds nothing else goes with us.
    let goes = back.trim().is_empty() && record.is_some_and(|record| record.made_file);
    let what = if goes { " (the file goes)" } else { "" };
    output::print(&text::block(&format!("{}{what}:\n{}", path.display(), preview(before, &back))))?;
    if flags.preview || !confirm(flags, "Write this?")? {
        return Ok(output::print("Nothing was written.\n")?);
    }
    let copy = replace(&home, client, &file, (!goes).then_some(back.as_str()))?;
    let mut told = format!("{} is not connected any more\n", client.title);
    if let Some(copy) = copy {
        told.push_str(&format!("The file as it was: {}\n", copy.display()));
    }
    if let Err(error) = record::write(&home, client, &path, None) {
        told.push_str(&format!("The note of what was changed could not be removed ({error}); it does no harm.\n"));
    }
    Ok(output::print(&text::block(&told))?)
}

//! The settings of other makers' clients, as the commands `import`, `connect` and `disconnect` and the operations on
//! clients (`edit`) come to them. What is in them and how they are changed is `toolcrib_catalog::clients`.

pub(crate) mod edit;
pub(crate) mod folders;
mod imported;
pub(crate) mod join;
pub(crate) mod keep;
pub(crate) mod leave;
pub(crate) mod record;
pub(crate) mod take;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use toolcrib_base::{Clock, Kind, Problem, Secret, SystemClock};
use toolcrib_catalog::clients::{
    Answer, CLIENTS, Client, FileError, Places, Platform, SettingsError, SettingsFile, Source, VariableOf, client,
    file_stamp, write_all_and_sync,
};
use toolcrib_catalog::is_secret_name;

use crate::home::{Environment, Home};

/// How many copies of one client's settings are kept.
const BACKUPS: usize = 20;

/// Answers for placeholders: `NAME=VALUE`.
pub(crate) fn answer(text: &str) -> Result<(String, Answer), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected `NAME=VALUE`")?;
    // Whatever is named on a command line is known to everyone who may look at the processes.
    Ok((name.to_owned(), Answer { value: Secret::new(value), is_secret: is_secret_name(name) }))
}

/// What the commands that write take.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Flags {
    /// Show what would be written, write nothing
    #[arg(long, visible_alias = "dry-run")]
    pub(crate) preview: bool,
    /// Skip the confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The client's settings file [default: its usual place]
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
}

/// What came of a change of a settings file.
#[derive(Debug)]
pub(crate) struct EditOutcome {
    /// What to report, a sentence a line.
    pub(crate) text: String,
    /// The copy of the file as it was.
    pub(crate) backup: Option<PathBuf>,
}

impl VariableOf for Environment {
    fn variable(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }
}

/// The person's folders.
pub(crate) fn places(environment: &Environment) -> Places<'_> {
    Places::new(Platform::here(), environment)
}

/// A client as it is named on the command line.
pub(crate) fn named(text: &str) -> Result<&'static Client, String> {
    client(text).ok_or_else(|| {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        format!("unknown client; known clients: {}", names.join(", "))
    })
}

/// The file of a client that is written.
pub(crate) fn target(
    client: &Client,
    flags: &Flags,
    environment: &Environment,
) -> Result<(&'static Source, PathBuf), Problem> {
    let usual = client.file_to_write(&places(environment));
    let source = client.sources.iter().find(|source| source.is_written).ok_or_else(|| {
        let message = format!("Toolcrib only reads the settings of {}, it does not write them", client.title);
        Problem::new(Kind::InvalidParams, message)
            .hint(format!("import its servers with `toolcrib import {}`", client.name))
    })?;
    if let Some(path) = &flags.file {
        return Ok((source, absolute(path)?));
    }
    usual.ok_or_else(|| {
        Problem::new(Kind::NotFound, format!("cannot find the settings of {}: `HOME` is not set", client.title))
            .hint("name the file with `--file PATH`")
    })
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Problem> {
    std::path::absolute(path)
        .map_err(|error| Problem::new(Kind::InvalidParams, format!("cannot use `{}`: {error}", path.display())))
}

/// What is wrong with the text of a file.
pub(crate) fn wrong(path: &Path, error: &SettingsError) -> Problem {
    let colon = if matches!(error, SettingsError::Wrong { .. }) { ":" } else { ": " };
    Problem::new(Kind::Definition, format!("{}{colon}{error}", path.display()))
        .hint("nothing was changed; fix the file and try again")
}

/// What is wrong with a file.
pub(crate) fn failed(error: &FileError) -> Problem {
    let hint = match error {
        FileError::Changed { .. } => "nothing was written; close the client and try again",
        FileError::NotText { .. } => "save the file as UTF-8",
        FileError::Unwritable { .. } | FileError::NoBackup { .. } => "the file is unchanged",
        FileError::Unreadable { .. } | FileError::NotAFile { .. } | FileError::TooLarge { .. } => {
            "name another file with `--file PATH`"
        }
    };
    Problem::new(Kind::Internal, error.to_string()).hint(hint)
}

/// Asks on the terminal; without one someone must have said yes before.
pub(crate) fn confirm(flags: &Flags, question: &str) -> anyhow::Result<bool> {
    if flags.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        let problem = Problem::new(Kind::InvalidParams, "nothing was written: confirmation needs a terminal");
        return Err(problem.hint("check with `--preview`, then repeat with `--yes`").into());
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Replaces a settings file after a copy of it was kept; the copy's path.
pub(crate) fn replace(
    home: &Home,
    client: &Client,
    file: &SettingsFile,
    text: Option<&str>,
) -> Result<Option<PathBuf>, Problem> {
    let folder = backups(home, client);
    let stamp = file_stamp(SystemClock.now());
    let copy = file.back_up(&folder, &stamp, &write_all_and_sync).map_err(|error| failed(&error))?;
    match text {
        Some(text) => file.replace(text, &write_all_and_sync),
        None => file.remove(),
    }
    .map_err(|error| failed(&error))?;
    forget_old(&folder);
    Ok(copy)
}

/// Where copies of a client's settings are kept, for their owner only.
pub(crate) fn backups(home: &Home, client: &Client) -> PathBuf {
    home.state().join("backups").join(client.name)
}

/// Copies are named by their moment, so the oldest come first. One that cannot be removed does no harm.
fn forget_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut copies: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    copies.sort();
    for old in copies.iter().rev().skip(BACKUPS) {
        let _ = fs::remove_file(old);
    }
}

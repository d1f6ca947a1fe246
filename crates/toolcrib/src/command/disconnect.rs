//! `toolcrib disconnect`: takes Toolcrib out of the settings of clients again, and puts back what it had taken out.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::{self as catalog, CLIENTS, Client, SettingsError, SettingsFile, Source, preview};

use crate::clients::record::{self, Record};
use crate::clients::{Flags, backups, confirm, failed, named, replace, target, wrong};
use crate::home::{Environment, Home};
use crate::{output, text};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The client, such as `cursor` or `claude-code`
    #[arg(value_parser = named, required_unless_present = "all", conflicts_with = "all")]
    client: Option<&'static Client>,
    /// Every connected client
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// Keep the backups of the file, even when it is restored exactly
    #[arg(long)]
    keep_copies: bool,
    #[command(flatten)]
    flags: Flags,
}

/// The outcome of one client's settings.
struct Disconnection {
    client: &'static Client,
    path: PathBuf,
    file: SettingsFile,
    record: Option<Record>,
    back: String,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let Arguments { client, flags, .. } = arguments;
    let home = Home::find(flags.home.as_deref(), environment)?;
    let Some(client) = client else { return all(arguments, &home, environment) };
    let (source, path) = target(client, flags, environment)?;
    let Some(leaving) = plan(client, source, path, &home, flags)? else {
        output::print(&format!("{} is not connected: nothing to do\n", client.title))?;
        return Ok(ExitCode::SUCCESS);
    };
    output::print(&text::block(&leaving.preview()))?;
    if flags.preview || !confirm(flags, "Write this?")? {
        output::print("Nothing was written.\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&text::block(&leaving.write(&home, arguments.keep_copies)?))?;
    Ok(ExitCode::SUCCESS)
}

/// One that cannot be disconnected does not stop the others.
fn all(arguments: &Arguments, home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    let flags = &arguments.flags;
    let mut code = ExitCode::SUCCESS;
    let mut complain = |problem: &Problem| {
        code = ExitCode::FAILURE;
        let hint = problem.hint.iter().map(|hint| format!("hint: {hint}\n")).collect::<String>();
        let _ = std::io::Write::write_all(
            &mut std::io::stderr().lock(),
            text::block(&format!("error: {}\n{hint}", problem.message)).as_bytes(),
        );
    };
    let mut leaving = Vec::new();
    for client in CLIENTS.iter().filter(|client| client.is_written()) {
        let Ok((source, path)) = target(client, flags, environment) else { continue };
        let mut paths = record::files(home, client);
        if !paths.contains(&path) {
            paths.push(path);
        }
        for path in paths {
            match plan(client, source, path, home, flags) {
                Ok(one) => leaving.extend(one),
                Err(problem) => complain(&problem),
            }
        }
    }
    if leaving.is_empty() {
        output::print("No client is connected: nothing to do\n")?;
        return Ok(code);
    }
    leaving.iter().try_for_each(|one| output::print(&text::block(&one.preview())))?;
    if flags.preview || !confirm(flags, "Write this?")? {
        output::print("Nothing was written.\n")?;
        return Ok(code);
    }
    for one in leaving {
        match one.write(home, arguments.keep_copies) {
            Ok(told) => output::print(&text::block(&told))?,
            Err(problem) => complain(&problem),
        }
    }
    Ok(code)
}

fn plan(
    client: &'static Client,
    source: &Source,
    path: PathBuf,
    home: &Home,
    flags: &Flags,
) -> Result<Option<Disconnection>, Problem> {
    let file = SettingsFile::read(&path).map_err(|error| failed(&error))?;
    let record = record::read(home, client, &path);
    let before = file.text().map_err(|error| failed(&error))?;
    let back = match catalog::restore(client, source, before, record.as_ref().map(Record::undo)) {
        Ok(back) => back,
        Err(SettingsError::Conflict { key }) => {
            return Err(conflict(client, &path, &key, before, record.as_ref()));
        }
        Err(error) => return Err(wrong(&path, &error)),
    };
    let Some(back) = back.filter(|back| back != before) else {
        if record.is_some() && !flags.preview {
            // Someone took it out by hand; a record that stays would be no harm either.
            let _ = record::write(home, client, &path, None);
        }
        return Ok(None);
    };
    Ok(Some(Disconnection { client, path, file, record, back }))
}

/// Both sides of what cannot be merged, secrets as `****`.
fn conflict(client: &Client, path: &std::path::Path, key: &str, now: &str, record: Option<&Record>) -> Problem {
    let moved = record.into_iter().flat_map(|record| &record.moved).find(|(moved, _)| moved == key);
    let then = moved.map(|(key, entry)| format!("{:#}", serde_json::json!({ key: entry }))).unwrap_or_default();
    let there = catalog::find_entry(client, now, key).map(|entry| format!("{:#}", serde_json::json!({ key: entry })));
    let message = format!(
        "`{key}` was removed from {} and has since been added with different content:\n{}",
        path.display(),
        preview(&then, &there.unwrap_or_default())
    );
    Problem::new(Kind::InvalidParams, message).hint(format!(
        "nothing was changed: rename or remove `{key}` there, then `toolcrib disconnect {}`",
        client.name
    ))
}

// === impl Disconnection ===

impl Disconnection {
    /// A file that came with us and holds nothing else goes with us.
    fn goes(&self) -> bool {
        self.back.trim().is_empty() && self.record.as_ref().is_some_and(|record| record.made_file)
    }

    fn preview(&self) -> String {
        let what = if self.goes() { " (the file is deleted)" } else { "" };
        // It was read when this was planned.
        let before = self.file.text().unwrap_or_default();
        format!("{}{what}:\n{}", self.path.display(), preview(before, &self.back))
    }

    /// Writes it; gives what to report.
    fn write(&self, home: &Home, keep_copies: bool) -> Result<String, Problem> {
        let client = self.client;
        let copy = replace(home, client, &self.file, (!self.goes()).then_some(self.back.as_str()))?;
        let mut told = format!("{} is disconnected\n", client.title);
        let moved = self.record.iter().flat_map(|record| &record.moved);
        let moved: Vec<&str> = moved.map(|(key, _)| key.as_str()).collect();
        if !moved.is_empty() {
            told.push_str(&format!("Restored: {}\n", moved.join(", ")));
        }
        if let Err(error) = record::write(home, client, &self.path, None) {
            told.push_str(&format!("Could not remove the record of the changes ({error}); this is harmless.\n"));
        }
        let folder = backups(home, client);
        let is_as_it_was = self.goes() || has_copy(&folder, self.back.as_bytes());
        match copy {
            // They hold what the file holds, secrets as well, and are of no more use.
            Some(_) if is_as_it_was && !keep_copies && record::files(home, client).is_empty() => {
                if let Err(error) = fs::remove_dir_all(&folder) {
                    told.push_str(&format!("Could not remove its backups ({error}): {}\n", folder.display()));
                } else {
                    told.push_str("The file is as it was before, so its backups were removed.\n");
                }
            }
            Some(copy) => told.push_str(&format!(
                "Backup of the file, with its secrets: {}\nTo remove all backups:\n  rm -r '{}'\n",
                copy.display(),
                folder.display()
            )),
            None => {}
        }
        Ok(told)
    }
}

/// Whether one of the copies holds just this.
fn has_copy(folder: &std::path::Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| fs::read(entry.path()).is_ok_and(|copy| copy == bytes))
}

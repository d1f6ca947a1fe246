//! Taking Toolcrib out of the settings of one client: first the plan, at which a person may look, then the writing.
//! Either our entry goes and what else was changed since stays, or the file becomes what it was, byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::{
    self as catalog, Client, OURS, SettingsError, SettingsFile, Source, digest, find_entry, preview,
};

use super::record::{self, Record};
use super::{EditOutcome, backups, failed, replace, wrong};
use crate::home::Home;

/// The outcome of one client's settings; nothing is written yet.
#[derive(Debug)]
pub(crate) struct Disconnection {
    client: &'static Client,
    path: PathBuf,
    file: SettingsFile,
    record: Option<Record>,
    back: String,
}

/// The settings file of a client.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) client: &'static Client,
    pub(crate) source: &'a Source,
    pub(crate) path: PathBuf,
    pub(crate) home: &'a Home,
}

/// Sees what is to be written so that our entry is gone; `None` where it is not there. Unless this is only a `preview`,
/// the record of an entry that a person took out is removed.
pub(crate) fn plan(place: Place<'_>, is_preview: bool) -> Result<Option<Disconnection>, Problem> {
    let Place { client, source, path, home } = place;
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
        if record.is_some() && !is_preview {
            // Someone took it out by hand; a record that stays would be no harm either.
            let _ = record::write(home, client, &path, None);
        }
        return Ok(None);
    };
    Ok(Some(Disconnection { client, path, file, record, back }))
}

/// Sees what is to be written so that the file is what it was before it was connected, byte for byte.
///
/// # Errors
/// It is not known what it was, or the file was changed since: both differences are named then.
pub(crate) fn plan_undo(place: Place<'_>) -> Result<Disconnection, Problem> {
    let Place { client, path, home, .. } = place;
    let file = SettingsFile::read(&path).map_err(|error| failed(&error))?;
    let now = file.text().map_err(|error| failed(&error))?;
    let disconnect = format!("`toolcrib disconnect {}` takes Toolcrib out and keeps other changes", client.name);
    let Some(record) = record::read(home, client, &path) else {
        let is_there = find_entry(client, now, OURS).is_some();
        let message = match is_there {
            true => format!("it is not known what `{}` was before {} was connected", path.display(), client.title),
            false => format!("{} is not connected: there is nothing to undo", client.title),
        };
        let problem = Problem::new(Kind::Conflict, message);
        return Err(if is_there { problem.hint(disconnect) } else { problem });
    };
    let is_as_written = file.exists() && record.after.as_deref() == Some(&digest(now.as_bytes()));
    match record.splices.inverse().apply(now).filter(|_| is_as_written) {
        Some(back) => Ok(Disconnection { client, path, file, record: Some(record), back }),
        None => Err(changed_since(&Place { client, source: place.source, path, home }, now, &record).hint(disconnect)),
    }
}

/// What a person changed since, and what undoing it would change now.
fn changed_since(place: &Place<'_>, now: &str, record: &Record) -> Problem {
    let Place { client, path, home, source } = place;
    let mut message = format!("`{}` was changed since {} was connected", path.display(), client.title);
    if let Some((before, after)) = texts_of(&backups(home, client), record) {
        message.push_str(&format!(
            "\nchanged since then:\n{}\nundoing would restore the file from before and lose that:\n{}",
            preview(&after, now),
            preview(now, &before)
        ));
    } else if let Ok(Some(back)) = catalog::restore(client, source, now, Some(record.undo())) {
        message.push_str(&format!("\ndisconnecting would change now:\n{}", preview(now, &back)));
    }
    Problem::new(Kind::Stale, message)
}

/// The texts from before and after the client was connected, where the one from before is still kept.
fn texts_of(folder: &Path, record: &Record) -> Option<(String, String)> {
    let wanted = record.after.as_deref()?;
    let copies = fs::read_dir(folder).into_iter().flatten().flatten();
    let copies = copies.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let made = record.made_file.then(String::new);
    made.into_iter().chain(copies).find_map(|before| {
        let after = record.splices.apply(&before)?;
        (digest(after.as_bytes()) == wanted).then_some((before, after))
    })
}

/// Both sides of what cannot be merged, secrets as `****`.
fn conflict(client: &Client, path: &Path, key: &str, now: &str, record: Option<&Record>) -> Problem {
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
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which file was looked at.
    pub(crate) fn revision(&self) -> String {
        self.file.revision()
    }

    /// A file that came with us and holds nothing else goes with us.
    pub(crate) fn goes(&self) -> bool {
        self.back.trim().is_empty() && self.record.as_ref().is_some_and(|record| record.made_file)
    }

    /// The lines that change, secrets as `****`.
    pub(crate) fn difference(&self) -> String {
        // It was read when this was planned.
        preview(self.file.text().unwrap_or_default(), &self.back)
    }

    /// The same for a terminal.
    pub(crate) fn preview(&self) -> String {
        let what = if self.goes() { " (the file is deleted)" } else { "" };
        format!("{}{what}:\n{}", self.path.display(), self.difference())
    }

    /// Writes it; gives what to report.
    pub(crate) fn write(&self, home: &Home, keep_copies: bool) -> Result<EditOutcome, Problem> {
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
        let mut backup = None;
        match copy {
            // They hold what the file holds, secrets as well, and are of no more use.
            Some(_) if is_as_it_was && !keep_copies && record::files(home, client).is_empty() => {
                if let Err(error) = fs::remove_dir_all(&folder) {
                    told.push_str(&format!("Could not remove its backups ({error}): {}\n", folder.display()));
                } else {
                    told.push_str("The file is as it was before, so its backups were removed.\n");
                }
            }
            Some(copy) => {
                told.push_str(&format!(
                    "Backup of the file, with its secrets: {}\nTo remove all backups:\n  rm -r '{}'\n",
                    copy.display(),
                    folder.display()
                ));
                backup = Some(copy);
            }
            None => {}
        }
        Ok(EditOutcome { text: told, backup })
    }
}

/// Whether one of the copies holds just this.
fn has_copy(folder: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| fs::read(entry.path()).is_ok_and(|copy| copy == bytes))
}

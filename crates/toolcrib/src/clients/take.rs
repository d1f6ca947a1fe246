//! Taking over the servers of other clients: what their settings hold, what becomes of each server, and the writing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_auth::KeyWish;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::clients::{
    Client, Draft, Format, ITSELF, Outcome, SettingsFile, Settled, Source, Surroundings, Wanted, find, settle,
    translate,
};

use super::imported::Imported;
use super::keep::{self, Keep};
use super::{absolute, failed, places, wrong};
use crate::config::{Config, Low};
use crate::home::{Environment, Home};
use crate::output::table::{Column, field};
use crate::output::{Format as Layout, Output};

/// How many files of a folder are read.
const FILES_MAX: usize = 1_000;
/// The folder of definitions.
const FOLDER: &str = "servers";

const COLUMNS: &[Column] = &[
    Column::new("NAME", |row| field(row, "name")),
    Column::new("FROM", |row| field(row, "from")),
    Column::new("TRANSPORT", |row| field(row, "transport")),
    Column::new("STATE", |row| field(row, "state")),
];

/// What the files gave.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) drafts: Vec<Draft>,
    /// A row for each server that is left out.
    left_out: Vec<Value>,
    pub(crate) problems: Vec<Problem>,
    /// The files that were read, with how many servers they hold.
    pub(crate) files: Vec<(&'static Client, PathBuf, usize)>,
}

/// What becomes of the servers; nothing is written yet.
pub(crate) struct Taking {
    settled: Vec<Settled>,
    left_out: Vec<Value>,
    keep: Keep,
    imported: Imported,
    folder: PathBuf,
}

/// Reads every file that is meant: `file`, else the usual ones of `clients`. One that is wrong does not stop the others.
pub(crate) fn gather(
    clients: &[&'static Client],
    file: Option<&Path>,
    home: &Home,
    environment: &Environment,
) -> Result<Gathered, Problem> {
    let places = places(environment);
    let variable = |name: &str| environment.get(name)?.to_str().map(str::to_owned);
    let low = Low { home: Some(home.path().to_owned()), ..Low::default() };
    // Wrong settings of ours are no reason not to import.
    let own_authority = Config::load(&low, environment).ok().map(|config| config.listen.to_string());
    let around = Surroundings { home: places.home(), variable: &variable, own_authority };
    let mut gathered = Gathered::default();
    if let Some(path) = file {
        let [client] = clients else {
            let problem = Problem::new(Kind::InvalidParams, "`--file` needs the one client whose form the file has");
            return Err(problem.hint("such as `toolcrib import cursor --file .cursor/mcp.json`"));
        };
        let path = absolute(path)?;
        if !path.exists() {
            return Err(Problem::new(Kind::NotFound, format!("`{}` does not exist", path.display())));
        }
        // A file of any name may be any of them, so what it has counts.
        client.sources.iter().for_each(|source| gathered.add(client, source, &path, &around));
        return Ok(gathered);
    }
    for client in clients {
        for (source, path) in client.files(&places) {
            if path.exists() {
                gathered.add(client, source, &path, &around);
            }
        }
    }
    Ok(gathered)
}

// === impl Gathered ===

impl Gathered {
    fn add(&mut self, client: &'static Client, source: &Source, path: &Path, around: &Surroundings<'_>) {
        let files = match client.format {
            Format::YamlFolder if path.is_dir() => yaml_files(path),
            _ => vec![path.to_owned()],
        };
        for file in files {
            if let Err(problem) = self.add_file(client, source, &file, around)
                && !self.problems.contains(&problem)
            {
                self.problems.push(problem);
            }
        }
    }

    fn add_file(
        &mut self,
        client: &'static Client,
        source: &Source,
        path: &Path,
        around: &Surroundings<'_>,
    ) -> Result<(), Problem> {
        let file = SettingsFile::read(path).map_err(|error| failed(&error))?;
        let text = file.text().map_err(|error| failed(&error))?;
        let found = find(client, source, text).map_err(|error| wrong(path, &error))?;
        self.files.push((client, path.to_owned(), found.len()));
        for found in found {
            match translate(client, path.to_owned(), &found, around) {
                Ok(draft) => self.drafts.push(draft),
                Err(reason) => self.left_out.push(json!({
                    "name": found.key, "from": client.title, "transport": "", "state": format!("left out: {reason}")
                })),
            }
        }
        Ok(())
    }
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_yaml).collect();
    files.sort();
    files.truncate(FILES_MAX);
    files
}

// === impl Taking ===

impl Taking {
    /// Settles names, so that nothing that is there is overwritten.
    pub(crate) fn plan(
        gathered: Gathered,
        home: &Home,
        environment: &Environment,
        wish: KeyWish,
    ) -> Result<Self, Problem> {
        let loaded = toolcrib_catalog::load(home.path());
        let folder = home.path().join(FOLDER);
        let is_taken = |name: &ServerName| ["yaml", "yml", "json"].iter().any(|end| exists(&folder, name, end));
        let imported = Imported::read(home);
        let mut settled = Vec::new();
        let mut drafts = Vec::new();
        for draft in gathered.drafts {
            // What a person mended since is theirs, and one that was removed may come anew.
            match imported.name_of(&draft).filter(is_taken) {
                Some(name) => settled.push(Settled { draft, outcome: Outcome::Present { name } }),
                None => drafts.push(draft),
            }
        }
        let needs = drafts.iter().any(|draft| !draft.secrets(&draft.name).is_empty());
        let keep = Keep::open(home, environment, needs, wish)?;
        let stored = |server: &ServerName, name: &str| keep.stored(server, name);
        settled.extend(settle(drafts, &loaded.servers, &is_taken, &keep::reference, &stored));
        Ok(Self { settled, left_out: gathered.left_out, keep, imported, folder })
    }

    /// The names of what is to be written.
    pub(crate) fn new_names(&self) -> Vec<&ServerName> {
        let new = self.settled.iter().filter_map(|settled| match &settled.outcome {
            Outcome::New { name, .. } => Some(name),
            Outcome::Present { .. } | Outcome::Impossible { .. } => None,
        });
        new.collect()
    }

    /// How many are there already.
    pub(crate) fn present(&self) -> usize {
        self.settled.iter().filter(|settled| matches!(settled.outcome, Outcome::Present { .. })).count()
    }

    /// Whether there is one that cannot be taken over, for another reason than that it is Toolcrib itself.
    pub(crate) fn has_left_out(&self) -> bool {
        let is_impossible = |settled: &Settled| matches!(settled.outcome, Outcome::Impossible { .. });
        let is_other = |row: &Value| row["state"].as_str().is_some_and(|state| !state.ends_with(ITSELF));
        self.settled.iter().any(is_impossible) || self.left_out.iter().any(is_other)
    }

    /// The folder of definitions.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A table of what was found, then what a person should know of each.
    pub(crate) fn show(&self, with_texts: bool) -> anyhow::Result<()> {
        let mut rows = Vec::new();
        let mut notes = BTreeMap::new();
        let mut texts = String::new();
        for Settled { draft, outcome } in &self.settled {
            let (name, state) = match outcome {
                Outcome::New { name, text, secrets } => {
                    let lines: &mut Vec<String> = notes.entry(name.to_string()).or_default();
                    lines.extend(draft.notes.iter().cloned());
                    lines.extend(secrets.iter().filter_map(|secret| self.missing(name, secret)));
                    texts.push_str(&format!("--- {FOLDER}/{name}.yaml\n{text}"));
                    (name.to_string(), "new".to_owned())
                }
                Outcome::Present { name } => (name.to_string(), "there already".to_owned()),
                Outcome::Impossible { problems } => {
                    let why = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
                    (draft.name.to_string(), format!("left out: {why}"))
                }
            };
            let transport = draft.transport().as_str();
            rows.push(json!({ "name": name, "from": draft.origin.title, "transport": transport, "state": state }));
        }
        rows.extend_from_slice(&self.left_out);
        let output = Output { format: Layout::Table, headers: true, quiet: false };
        output.rows("servers", COLUMNS, &rows)?;
        for (name, lines) in notes {
            lines.iter().try_for_each(|note| output.text(&format!("{name}: {note}")))?;
        }
        if with_texts && !texts.is_empty() {
            output.text(&texts)?;
        }
        Ok(())
    }

    /// What to tell of a secret that is neither in the client's settings nor kept here.
    fn missing(&self, server: &ServerName, secret: &Wanted) -> Option<String> {
        let is_missing = secret.value.is_none() && self.keep.stored(server, &secret.name).is_none();
        let how = || keep::how_to_give(server, &secret.name);
        is_missing.then(|| format!("the secret for `{}` is missing: {}", secret.of, how()))
    }

    /// Writes the secrets, all in one step, then the definitions; a file that came there in the meantime stays.
    pub(crate) fn write(&mut self) -> anyhow::Result<()> {
        let new = || {
            self.settled.iter().filter_map(|settled| match &settled.outcome {
                Outcome::New { name, text, secrets } => Some((name, text, secrets)),
                Outcome::Present { .. } | Outcome::Impossible { .. } => None,
            })
        };
        let wanted: Vec<_> = new().flat_map(|(name, _, all)| all.iter().map(move |secret| (name, secret))).collect();
        self.keep.keep(&wanted)?;
        new().try_for_each(|(name, text, _)| write_definition(&self.folder, name, text))?;
        for Settled { draft, outcome } in &self.settled {
            if let Outcome::New { name, .. } | Outcome::Present { name } = outcome {
                self.imported.note(draft, name);
            }
        }
        self.imported.write().context("note what was taken over")
    }
}

fn exists(servers: &Path, name: &ServerName, end: &str) -> bool {
    fs::symlink_metadata(servers.join(format!("{name}.{end}"))).is_ok()
}

/// Writes a definition in one step where there is none.
pub(crate) fn write_definition(servers: &Path, name: &ServerName, text: &str) -> anyhow::Result<()> {
    let path = servers.join(format!("{name}.yaml"));
    let place = || format!("write `{}`", path.display());
    fs::create_dir_all(servers).with_context(place)?;
    let mut file = tempfile::NamedTempFile::new_in(servers).with_context(place)?;
    file.write_all(text.as_bytes()).with_context(place)?;
    file.as_file().sync_all().with_context(place)?;
    file.persist_noclobber(&path).with_context(place)?;
    Ok(())
}

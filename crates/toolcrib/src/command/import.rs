//! `toolcrib import`: the servers of other clients as definitions of ours.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::clients::{
    CLIENTS, Client, Draft, Format, Outcome, SettingsFile, Settled, Source, Surroundings, Wanted, find, settle,
    translate,
};

use crate::clients::{Flags, absolute, confirm, failed, keep, named, places, wrong};
use crate::config::{Config, Low};
use crate::home::{Environment, Home};
use crate::output::table::{Column, field};
use crate::output::{Format as Layout, Output, print};
use crate::text;

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

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Whose servers, such as `cursor` [default: of every client that is found]
    #[arg(value_parser = named, value_name = "CLIENT")]
    clients: Vec<&'static Client>,
    #[command(flatten)]
    flags: Flags,
}

/// What the files gave.
#[derive(Default)]
struct Gathered {
    drafts: Vec<Draft>,
    /// A row for each server that is left out.
    left_out: Vec<Value>,
    problems: Vec<Problem>,
    files: usize,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let flags = &arguments.flags;
    let home = Home::find(flags.home.as_deref(), environment)?;
    let gathered = gather(arguments, &home, environment)?;
    if gathered.files == 0 {
        return Err(nothing_read(gathered.problems).into());
    }
    let loaded = toolcrib_catalog::load(home.path());
    let servers = home.path().join(FOLDER);
    let is_taken = |name: &ServerName| ["yaml", "yml", "json"].iter().any(|end| exists(&servers, name, end));
    let stored = |name: &str| keep::stored(&home, name);
    let settled = settle(gathered.drafts, &loaded.servers, &is_taken, &keep::reference, &stored);
    show(&settled, &gathered.left_out, &home, flags.preview)?;
    let code = if gathered.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    for problem in &gathered.problems {
        let _ = writeln!(std::io::stderr().lock(), "error: {}", text::block(&problem.message));
    }
    let new = settled.iter().filter(|settled| matches!(settled.outcome, Outcome::New { .. })).count();
    if new == 0 {
        print("Nothing new to import.\n")?;
        return Ok(code);
    }
    let definitions = if new == 1 { "definition" } else { "definitions" };
    if flags.preview || !confirm(flags, &format!("Write {new} {definitions}?"))? {
        print("Nothing was written.\n")?;
        return Ok(code);
    }
    for settled in &settled {
        if let Outcome::New { name, text, secrets } = &settled.outcome {
            write(&home, &servers, name, text, secrets)?;
        }
    }
    print(&format!("Wrote {new} {definitions} to {}\n", text::line(&servers.to_string_lossy())))?;
    Ok(code)
}

/// What to tell when no file could be read.
fn nothing_read(problems: Vec<Problem>) -> Problem {
    let mut problems = problems.into_iter();
    let Some(mut first) = problems.next() else {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.title).collect();
        let hint = format!("looked for {}; name a file with `--file PATH`", names.join(", "));
        return Problem::new(Kind::NotFound, "no settings of a client were found").hint(hint);
    };
    first.message.extend(problems.map(|problem| format!("\n{}", problem.message)));
    first
}

fn exists(servers: &Path, name: &ServerName, end: &str) -> bool {
    fs::symlink_metadata(servers.join(format!("{name}.{end}"))).is_ok()
}

/// Reads every file that is meant. One that is wrong does not stop the others.
fn gather(arguments: &Arguments, home: &Home, environment: &Environment) -> Result<Gathered, Problem> {
    let places = places(environment);
    let variable = |name: &str| environment.get(name)?.to_str().map(str::to_owned);
    let low = Low { home: Some(home.path().to_owned()), ..Low::default() };
    // Wrong settings of ours are no reason not to import.
    let own_authority = Config::load(&low, environment).ok().map(|config| config.listen.to_string());
    let around = Surroundings { home: places.home(), variable: &variable, own_authority };
    let mut gathered = Gathered::default();
    if let Some(path) = &arguments.flags.file {
        let [client] = arguments.clients.as_slice() else {
            let problem = Problem::new(Kind::InvalidParams, "`--file` needs the one client whose form the file has");
            return Err(problem.hint("such as `toolcrib import cursor --file .cursor/mcp.json`"));
        };
        let path = absolute(path)?;
        if !path.exists() {
            return Err(Problem::new(Kind::NotFound, format!("`{}` does not exist", path.display())));
        }
        // A file of any name may be any of them, so what it has counts.
        client.sources.iter().for_each(|source| gathered.add(client, source, &path, &around));
        gathered.files = gathered.files.min(1);
        return Ok(gathered);
    }
    let chosen: Vec<&'static Client> =
        if arguments.clients.is_empty() { CLIENTS.iter().collect() } else { arguments.clients.clone() };
    for client in chosen {
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
        self.files += 1;
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

/// A table of what was found, then what a person should know of each.
fn show(settled: &[Settled], left_out: &[Value], home: &Home, with_texts: bool) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let mut notes = BTreeMap::new();
    let mut texts = String::new();
    for Settled { draft, outcome } in settled {
        let (name, state) = match outcome {
            Outcome::New { name, text, secrets } => {
                let lines: &mut Vec<String> = notes.entry(name.to_string()).or_default();
                lines.extend(draft.notes.iter().cloned());
                let missing = secrets.iter().filter(|secret| secret.value.is_none());
                lines.extend(missing.map(|secret| {
                    format!("the secret for `{}` is missing: {}", secret.of, keep::how_to_give(home, &secret.name))
                }));
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
    rows.extend_from_slice(left_out);
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

/// Writes one definition with its secrets; a file that came there in the meantime stays.
fn write(home: &Home, servers: &Path, name: &ServerName, text: &str, secrets: &[Wanted]) -> anyhow::Result<()> {
    for secret in secrets {
        if let Some(value) = &secret.value {
            keep::keep(home, &secret.name, value)?;
        }
    }
    let path = servers.join(format!("{name}.yaml"));
    let place = || format!("write `{}`", path.display());
    fs::create_dir_all(servers).with_context(place)?;
    let mut file = tempfile::NamedTempFile::new_in(servers).with_context(place)?;
    file.write_all(text.as_bytes()).with_context(place)?;
    file.as_file().sync_all().with_context(place)?;
    file.persist_noclobber(&path).with_context(place)?;
    Ok(())
}

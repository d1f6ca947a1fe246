//! Taking over the servers of other clients: what their settings hold, what becomes of each server, and the writing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_auth::KeyPreference;
use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_catalog::clients::{
    Answer, Client, Draft, Format, ITSELF, ImportDecision, Input, Outcome, SecretReference, SettingsFile, Source,
    Surroundings, find, inputs, settle, translate, translate_object, unknown_words,
};
use toolcrib_catalog::objects::{Object, ObjectForm, ObjectProblem, objects_at};
use toolcrib_catalog::{Change, DefinitionId, DefinitionKind, Files};
use toolcrib_gateway::{CandidateState, ImportCandidate, ImportQuestion, ImportedServer};

use super::imported::ImportRecords;
use super::keep::{self, ImportVault};
use super::{absolute, failed, places, wrong};
use crate::config::{Config, SettingFlags};
use crate::home::{Environment, Home};
use crate::output::table::{Column, field};
use crate::output::{Format as Layout, Output};
use crate::terminal::ask_hidden;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES: u64 = 64 * 1024;
/// How many questions of clients are shown.
const QUESTIONS: usize = 100;
/// The folders of muster's configuration.
const BESIDE: [&str; 4] = ["mcpservers", "workflows", "serviceclasses", "services"];
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
pub(crate) struct ImportSources {
    pub(crate) drafts: Vec<Draft>,
    /// A row for each server that is left out.
    left_out: Vec<Value>,
    pub(crate) problems: Vec<Problem>,
    /// What means nothing here in files that are right anyway, a line each.
    pub(crate) warnings: Vec<String>,
    /// What stands in for placeholders of the clients.
    answers: BTreeMap<String, Answer>,
    /// The files that were read, with how many servers they hold.
    pub(crate) files: Vec<(&'static Client, PathBuf, usize)>,
    /// What muster has that needs no translation.
    pub(crate) objects: Vec<Object>,
    /// What the clients would ask for, or only they know.
    pub(crate) questions: Vec<ImportQuestion>,
}

/// The outcome of the servers; nothing is written yet.
pub(crate) struct ImportPlan {
    settled: Vec<ImportDecision>,
    left_out: Vec<Value>,
    keep: ImportVault,
    imported: ImportRecords,
    folder: PathBuf,
}

/// Reads every file that is meant: `file`, else the usual ones of `clients`. One that is wrong does not stop the
/// others.
pub(crate) fn gather(
    clients: &[&'static Client],
    file: Option<&Path>,
    home: &Home,
    environment: &Environment,
) -> Result<ImportSources, Problem> {
    gather_with(clients, file, home, environment, PlaceholderAnswers::default())
}

/// What is asked for and what is answered already.
#[derive(Debug, Default)]
pub(crate) struct PlaceholderAnswers {
    pub(crate) answers: BTreeMap<String, Answer>,
    /// Whether there is a person at a terminal.
    pub(crate) asks: bool,
}

/// The same with answers for what the clients ask their person for.
pub(crate) fn gather_with(
    clients: &[&'static Client],
    file: Option<&Path>,
    home: &Home,
    environment: &Environment,
    asking: PlaceholderAnswers,
) -> Result<ImportSources, Problem> {
    let places = places(environment);
    let variable = |name: &str| environment.get(name)?.to_str().map(str::to_owned);
    let low = SettingFlags { home: Some(home.path().to_owned()), ..SettingFlags::default() };
    // Wrong settings of ours are no reason not to import.
    let own_authority = Config::load(&low, environment).ok().map(|config| config.listen.to_string());
    let around = ReadContext {
        home: places.home(),
        variable: &variable,
        own_authority,
        asks: asking.asks,
        is_named: file.is_some(),
    };
    let mut gathered = ImportSources { answers: asking.answers, ..ImportSources::default() };
    if let Some(path) = file {
        let [client] = clients else {
            let problem = Problem::new(Kind::InvalidParams, "`--file` requires the client whose format the file has");
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

/// What a file is read with.
struct ReadContext<'a> {
    home: Option<PathBuf>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    own_authority: Option<String>,
    asks: bool,
    /// Whether the person named the file, so that it may be that of a project.
    is_named: bool,
}

// === impl ReadContext ===

impl ReadContext<'_> {
    /// What a translation may know, with these answers.
    fn surroundings<'s>(&'s self, answers: &'s BTreeMap<String, Answer>) -> Surroundings<'s> {
        let own_authority = self.own_authority.clone();
        Surroundings { answers, home: self.home.clone(), variable: self.variable, own_authority }
    }
}

// === impl ImportSources ===

impl ImportSources {
    fn add(&mut self, client: &'static Client, source: &Source, path: &Path, around: &ReadContext<'_>) {
        if client.format == Format::YamlFolder {
            return self.add_objects(client, path, around);
        }
        if let Err(problem) = self.add_file(client, source, path, around)
            && !self.problems.contains(&problem)
        {
            self.problems.push(problem);
        }
    }

    /// The objects of a file of muster, of a folder of such files, or of its whole configuration.
    fn add_objects(&mut self, client: &'static Client, path: &Path, around: &ReadContext<'_>) {
        let answers = self.answers.clone();
        let around = &around.surroundings(&answers);
        // Anyone who names the folder of servers means what lies beside it, too.
        let root = path.parent().filter(|_| path.is_dir() && path.file_name().is_some_and(|name| name == "mcpservers"));
        let found = match root {
            Some(root) => BESIDE.iter().map(|name| root.join(name)).filter(|folder| folder.is_dir()).collect(),
            None => vec![path.to_owned()],
        };
        for objects in found.iter().map(|path| objects_at(path, None)) {
            self.problems.extend(objects.problems.iter().map(|wrong| {
                let problem = Problem::new(Kind::Definition, wrong.to_string());
                wrong.problem.hint.iter().fold(problem, |problem, hint| problem.hint(hint.clone()))
            }));
            self.warnings.extend(objects.warnings.iter().map(ObjectProblem::as_warning));
            for file in objects.files {
                let servers = objects.objects.iter().filter(|it| it.kind == DefinitionKind::Server);
                let count = servers.filter(|it| it.place.file == file).count();
                self.files.push((client, file, count));
            }
            for object in objects.objects {
                match (object.kind, object.form) {
                    (DefinitionKind::Server, ObjectForm::Muster) => match translate_object(&object, around) {
                        Ok(draft) => self.drafts.push(draft),
                        Err(reason) => self.leave_out(client, &object.name, &reason),
                    },
                    (DefinitionKind::Profile, _) => {
                        let reason = "profiles are created with `toolcrib create -f FILE`";
                        self.leave_out(client, &object.name, reason);
                    }
                    _ => self.objects.push(object),
                }
            }
            for skipped in objects.skipped {
                self.leave_out(client, &skipped.what, &format!("{} ({})", skipped.why, skipped.place));
            }
        }
    }

    fn leave_out(&mut self, client: &Client, name: &str, reason: &str) {
        self.left_out.push(json!({
            "name": name, "from": client.title, "transport": "", "state": format!("skipped: {reason}")
        }));
    }

    /// What the clients call their servers, but Toolcrib itself.
    pub(crate) fn keys(&self) -> Vec<String> {
        let left_out = self.left_out.iter().filter(|row| row["state"].as_str().is_some_and(|it| !it.ends_with(ITSELF)));
        let drafts = self.drafts.iter().map(|draft| draft.origin.key.clone());
        drafts.chain(left_out.map(|row| field(row, "name"))).collect()
    }

    /// Whether there was nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.drafts.is_empty() && self.left_out.is_empty() && self.objects.is_empty() && self.problems.is_empty()
    }

    fn add_file(
        &mut self,
        client: &'static Client,
        source: &Source,
        path: &Path,
        around: &ReadContext<'_>,
    ) -> Result<(), Problem> {
        let file = SettingsFile::read(path).map_err(|error| failed(&error))?;
        let text = file.text().map_err(|error| failed(&error))?;
        let found = find(client, source, text).map_err(|error| wrong(path, &error))?;
        self.files.push((client, path.to_owned(), found.len()));
        let inputs = inputs(client, text, &found);
        self.note_questions(client, &inputs, unknown_words(&found, around.home.as_deref()));
        if around.asks {
            self.ask(client, &inputs)?;
        }
        let mut answers = self.answers.clone();
        if let Some(folder) = project(path).filter(|_| around.is_named) {
            let value = Secret::new(folder.to_string_lossy());
            answers.entry("workspaceFolder".to_owned()).or_insert(Answer { value, is_secret: false });
        }
        let around = &around.surroundings(&answers);
        for found in found {
            match translate(client, path.to_owned(), &found, around) {
                Ok(draft) => self.drafts.push(draft),
                Err(reason) => self.leave_out(client, &found.key, &reason),
            }
        }
        Ok(())
    }
}

/// The folder of a project whose own settings a file is.
fn project(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    match folder.file_name()?.to_str()? {
        ".vscode" | ".cursor" => folder.parent(),
        _ if path.file_name().is_some_and(|name| name == ".mcp.json") => Some(folder),
        _ => None,
    }
}

impl ImportSources {
    /// Notes what a client would ask its person for, once each.
    fn note_questions(&mut self, client: &Client, inputs: &[Input], words: Vec<String>) {
        let asked = inputs.iter().map(|input| ImportQuestion {
            name: format!("input:{}", input.id),
            title: client.title.to_owned(),
            description: input.description.clone(),
            default: input.default.clone().filter(|_| !input.is_secret),
            is_secret: input.is_secret,
        });
        let known = words.into_iter().map(|name| ImportQuestion {
            name,
            title: client.title.to_owned(),
            description: None,
            default: None,
            is_secret: false,
        });
        for question in asked.chain(known) {
            if self.questions.len() < QUESTIONS && !self.questions.iter().any(|it| it.name == question.name) {
                self.questions.push(question);
            }
        }
    }

    /// Asks what a client would ask its person for. Who answers nothing gives it later.
    fn ask(&mut self, client: &Client, inputs: &[Input]) -> Result<(), Problem> {
        for input in inputs {
            let name = format!("input:{}", input.id);
            if self.answers.contains_key(&name) {
                continue;
            }
            let what = input.description.as_deref().unwrap_or(&input.id);
            let usual = input.default.as_ref().filter(|_| !input.is_secret).map(|it| format!(" [{it}]"));
            let question = format!(
                "{} asks: {}{} (Enter: later) ",
                client.title,
                crate::text::line(what),
                crate::text::line(&usual.unwrap_or_default())
            );
            let answer = ask_one(&question, input.is_secret)
                .map_err(|error| Problem::new(Kind::Internal, format!("cannot ask: {error}")))?;
            let given = answer.filter(|value| !value.expose().is_empty());
            let value = given.or_else(|| input.default.as_deref().filter(|_| !input.is_secret).map(Secret::new));
            if let Some(value) = value {
                self.answers.insert(name, Answer { value, is_secret: input.is_secret });
            }
        }
        Ok(())
    }
}

/// Asks on the terminal; what is secret is not shown.
fn ask_one(question: &str, is_secret: bool) -> io::Result<Option<Secret>> {
    if is_secret {
        return ask_hidden(&mut io::stdin().lock(), question);
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut answer = String::new();
    let length = io::stdin().lock().take(ANSWER_BYTES).read_line(&mut answer)?;
    Ok((length > 0).then(|| Secret::new(answer.trim())))
}

// === impl ImportPlan ===

impl ImportPlan {
    /// Settles names, so that nothing that is there is overwritten.
    pub(crate) fn plan(
        gathered: ImportSources,
        home: &Home,
        environment: &Environment,
        preference: KeyPreference,
    ) -> Result<Self, Problem> {
        let loaded = toolcrib_catalog::load(home.path());
        let folder = home.path().join(FOLDER);
        let is_taken = |name: &ServerName| ["yaml", "yml", "json"].iter().any(|end| exists(&folder, name, end));
        let imported = ImportRecords::read(home);
        let mut settled = Vec::new();
        let mut drafts = Vec::new();
        for draft in gathered.drafts {
            // What a person fixed since is theirs, and one that was removed may come again.
            match imported.name_of(&draft).filter(is_taken) {
                Some(name) => settled.push(ImportDecision { draft, outcome: Outcome::Present { name } }),
                None => drafts.push(draft),
            }
        }
        let needs = drafts.iter().any(|draft| !draft.secrets(&draft.name).is_empty());
        let keep = ImportVault::open(home, environment, needs, preference)?;
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

    /// Whether there is one that cannot be imported, for another reason than that it is Toolcrib itself.
    pub(crate) fn has_left_out(&self) -> bool {
        let is_impossible = |settled: &ImportDecision| matches!(settled.outcome, Outcome::Impossible { .. });
        let is_other = |row: &Value| row["state"].as_str().is_some_and(|state| !state.ends_with(ITSELF));
        self.settled.iter().any(is_impossible) || self.left_out.iter().any(is_other)
    }

    /// The servers of the clients that are there already, with their definitions' names.
    pub(crate) fn present_servers(&self) -> impl Iterator<Item = (&Draft, &ServerName)> {
        self.settled.iter().filter_map(|settled| match &settled.outcome {
            Outcome::Present { name } => Some((&settled.draft, name)),
            Outcome::New { .. } | Outcome::Impossible { .. } => None,
        })
    }

    /// What the clients call the servers that are not there.
    pub(crate) fn absent_keys(&self) -> Vec<String> {
        let is_absent = |settled: &&ImportDecision| !matches!(settled.outcome, Outcome::Present { .. });
        let settled = self.settled.iter().filter(is_absent).map(|settled| settled.draft.origin.key.clone());
        let left_out = self.left_out.iter().filter(|row| row["state"].as_str().is_some_and(|it| !it.ends_with(ITSELF)));
        settled.chain(left_out.map(|row| field(row, "name"))).collect()
    }

    /// What becomes of each server, with its definition where it is new.
    pub(crate) fn candidates(&self) -> Vec<ImportCandidate> {
        let settled = self.settled.iter().map(|ImportDecision { draft, outcome }| {
            let mut candidate = ImportCandidate {
                name: draft.name.to_string(),
                key: draft.origin.key.clone(),
                client: draft.origin.client.to_owned(),
                title: draft.origin.title.to_owned(),
                transport: draft.transport().as_str().to_owned(),
                state: CandidateState::Present,
                why: None,
                text: None,
                notes: Vec::new(),
            };
            match outcome {
                Outcome::New { name, text, secrets } => {
                    candidate.name = name.to_string();
                    candidate.state = CandidateState::New;
                    candidate.text = Some(text.clone());
                    candidate.notes.extend(draft.notes.iter().cloned());
                    candidate.notes.extend(secrets.iter().filter_map(|secret| self.missing(name, secret)));
                }
                Outcome::Present { name } => candidate.name = name.to_string(),
                Outcome::Impossible { problems } => {
                    candidate.state = CandidateState::Skipped;
                    candidate.why = problems.first().map(|problem| problem.message.clone());
                }
            }
            candidate
        });
        let is_itself = |row: &&Value| row["state"].as_str().is_some_and(|state| state.ends_with(ITSELF));
        let left_out = self.left_out.iter().filter(|row| !is_itself(row)).map(|row| ImportCandidate {
            name: field(row, "name"),
            key: field(row, "name"),
            client: field(row, "from"),
            title: field(row, "from"),
            transport: field(row, "transport"),
            state: CandidateState::Skipped,
            why: row["state"].as_str().map(|state| state.trim_start_matches("skipped: ").to_owned()),
            text: None,
            notes: Vec::new(),
        });
        settled.chain(left_out).collect()
    }

    /// Writes the secrets of the servers of these names into the vault, then their definitions through `files`, all of
    /// them or none.
    pub(crate) fn write_chosen(
        &mut self,
        wanted: &[ServerName],
        files: &Files,
    ) -> Result<Vec<ImportedServer>, Problem> {
        let mut chosen = Vec::new();
        for name in wanted {
            let found = self.settled.iter().find_map(|settled| match &settled.outcome {
                Outcome::New { name: new, text, secrets } if new == name => Some((settled, text, secrets)),
                Outcome::New { .. } | Outcome::Present { .. } | Outcome::Impossible { .. } => None,
            });
            chosen.push(found.ok_or_else(|| {
                let message = format!("no server of a client would become `{name}`: it is there already, or gone");
                Problem::new(Kind::NotFound, message).hint("look again at what an import would write")
            })?);
        }
        let secrets: Vec<_> = chosen
            .iter()
            .zip(wanted)
            .flat_map(|((.., all), name)| all.iter().map(move |secret| (name, secret)))
            .collect();
        self.keep.keep(&secrets)?;
        let changes: Vec<Change> = chosen
            .iter()
            .zip(wanted)
            .map(|((_, text, _), name)| Change {
                which: DefinitionId::Server(name.clone()),
                text: (*text).clone(),
                revision: None,
            })
            .collect();
        let written = files.put_all(&changes)?;
        for (settled, name) in chosen.iter().map(|(settled, ..)| settled).zip(wanted) {
            self.imported.note(&settled.draft, name);
        }
        self.imported
            .write()
            .map_err(|error| Problem::new(Kind::Internal, format!("the import is not recorded: {error}")))?;
        let imported = wanted.iter().zip(written);
        Ok(imported
            .map(|(name, file)| ImportedServer { name: name.clone(), file: file.file.display().to_string() })
            .collect())
    }

    /// The folder of definitions.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A table of what was found, then what a person should know of each.
    pub(crate) fn show(&self, with_texts: bool) -> anyhow::Result<()> {
        let mut rows = Vec::new();
        let mut notes = BTreeMap::new();
        let (mut texts, mut present) = (String::new(), 0);
        for ImportDecision { draft, outcome } in &self.settled {
            let (name, state) = match outcome {
                Outcome::New { name, text, secrets } => {
                    let lines: &mut Vec<String> = notes.entry(name.to_string()).or_default();
                    lines.extend(draft.notes.iter().cloned());
                    lines.extend(secrets.iter().filter_map(|secret| self.missing(name, secret)));
                    texts.push_str(&format!("--- {FOLDER}/{name}.yaml\n{text}"));
                    (name.to_string(), "new".to_owned())
                }
                Outcome::Present { name } => {
                    present += 1;
                    // Who looks for its own name should find it.
                    if is_other_name(&draft.name, name) {
                        let origin = crate::text::line(&draft.origin.key).into_owned();
                        let line = format!("`{origin}` of {} is the same server, imported once", draft.origin.title);
                        notes.entry(name.to_string()).or_default().push(line);
                    }
                    continue;
                }
                Outcome::Impossible { problems } => {
                    let why = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
                    (draft.name.to_string(), format!("skipped: {why}"))
                }
            };
            let transport = draft.transport().as_str();
            rows.push(json!({ "name": name, "from": draft.origin.title, "transport": transport, "state": state }));
        }
        let is_itself = |row: &&Value| row["state"].as_str().is_some_and(|state| state.ends_with(ITSELF));
        rows.extend(self.left_out.iter().filter(|row| !is_itself(row)).cloned());
        let output = Output { format: Layout::Table, headers: true, quiet: false };
        if !rows.is_empty() {
            output.rows("servers", COLUMNS, &rows)?;
        }
        match present {
            0 => {}
            1 => output.text("1 server already exists.")?,
            _ => output.text(&format!("{present} servers already exist."))?,
        }
        for (name, lines) in notes {
            lines.iter().try_for_each(|note| output.text(&format!("{name}: {note}")))?;
        }
        if with_texts && !texts.is_empty() {
            output.text(&texts)?;
        }
        Ok(())
    }

    /// What to report of a secret that is neither in the client's settings nor kept here.
    fn missing(&self, server: &ServerName, secret: &SecretReference) -> Option<String> {
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
        for ImportDecision { draft, outcome } in &self.settled {
            if let Outcome::New { name, .. } | Outcome::Present { name } = outcome {
                self.imported.note(draft, name);
            }
        }
        self.imported.write().context("record the import")
    }
}

/// Whether a definition has neither the name that the client's server would get, nor that with something behind it.
fn is_other_name(wanted: &ServerName, name: &ServerName) -> bool {
    let rest = name.as_str().strip_prefix(wanted.as_str());
    rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('-'))
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

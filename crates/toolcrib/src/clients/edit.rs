//! The settings of clients as operations see them: [`EditClients`] over the files of this machine's person.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use toolcrib_auth::KeyPreference;
use toolcrib_base::{Kind, Problem, ProfileName, Secret};
use toolcrib_catalog::Files;
use toolcrib_catalog::clients::{Answer, CLIENTS, Client, OURS, SettingsFile, find_entry, is_connected};
use toolcrib_gateway::{
    ClientEdit, ClientState, EditAction, EditClients, EditPreview, EditReport, FoundClient, ImportAnswers,
    ImportPreview, ImportedServer, WantedImport,
};

use super::join::{self, ConnectRequest, Plan};
use super::leave::{self, Disconnection, Place};
use super::take::{ImportPlan, ImportSources, PlaceholderAnswers, gather, gather_with};
use super::{EditOutcome, Flags, backups, failed, named, places, record, target};
use crate::config::Config;
use crate::home::{Environment, Home};

/// The files of clients.
#[derive(Debug)]
pub(crate) struct ClientFiles {
    home: Home,
    environment: Environment,
    /// The gateway's URL, where the settings do not say it.
    endpoint: Option<String>,
}

/// What an edit comes to.
enum EditPlan {
    /// There is nothing to do, and why.
    Done(PathBuf, String),
    Enter(Box<join::NewEntry>),
    Leave(Box<Disconnection>),
}

// === impl ClientFiles ===

impl ClientFiles {
    /// The files of the person that a gateway with these settings belongs to, which serves at this URL; nothing where it
    /// serves other machines, whose clients' files are not here.
    pub(crate) fn of(config: &Config, url: Option<&str>) -> Option<Arc<dyn EditClients>> {
        let is_own = config.listen.ip().is_loopback() && config.public_url.is_none() && config.identity.is_none();
        let endpoint = url.filter(|_| config.listen.port() == 0).map(str::to_owned);
        let environment = Environment::of_process();
        is_own.then(|| Arc::new(Self { home: config.home.clone(), environment, endpoint }) as Arc<dyn EditClients>)
    }

    /// The client starts a gateway without our variables: it is told the home where that is not the usual one.
    fn flags(&self) -> Flags {
        let is_usual = Home::find(None, &self.environment).is_ok_and(|usual| usual == self.home);
        let home = (!is_usual).then(|| self.home.path().to_owned());
        Flags { preview: false, yes: true, file: None, home }
    }

    fn plan(&self, edit: &ClientEdit, is_preview: bool) -> Result<EditPlan, Problem> {
        let client = known(&edit.client)?;
        let flags = self.flags();
        if edit.action == EditAction::Connect {
            let request = ConnectRequest {
                profile: edit.profile.as_ref().filter(|profile: &&ProfileName| profile.as_str() != "default"),
                endpoint: self.endpoint.as_deref(),
                own_gateway: false,
                create: edit.creates,
                moves: edit.moves,
            };
            return Ok(match join::plan(client, &request, &flags, &self.environment)? {
                Plan::New(entry) => EditPlan::Enter(entry),
                Plan::Already(way) => {
                    let (_, path) = target(client, &flags, &self.environment)?;
                    EditPlan::Done(path, format!("{} is already connected, {way}.", client.title))
                }
            });
        }
        let (source, path) = target(client, &flags, &self.environment)?;
        let place = Place { client, source, path: path.clone(), home: &self.home };
        let leaving = match edit.action {
            EditAction::Undo => Some(leave::plan_undo(place)?),
            EditAction::Connect | EditAction::Disconnect => leave::plan(place, is_preview)?,
        };
        Ok(match leaving {
            Some(leaving) => EditPlan::Leave(Box::new(leaving)),
            None => EditPlan::Done(path, format!("{} is not connected.", client.title)),
        })
    }

    fn gathered(&self, clients: &[String], given: &ImportAnswers) -> Result<ImportSources, Problem> {
        let named: Vec<&'static Client> = match clients {
            [] => CLIENTS.iter().collect(),
            names => names.iter().map(|name| known(name)).collect::<Result<_, _>>()?,
        };
        let plain = given.plain.iter().filter(|(_, value)| !value.is_empty());
        let plain = plain.map(|(name, value)| (name.clone(), Answer { value: Secret::new(value), is_secret: false }));
        let secret = given.secret.iter();
        let secret = secret.map(|(name, value)| (name.clone(), Answer { value: value.clone(), is_secret: true }));
        let asking = PlaceholderAnswers { answers: plain.chain(secret).collect(), asks: false };
        gather_with(&named, None, &self.home, &self.environment, asking)
    }

    fn found(&self, client: &'static Client) -> Result<Option<FoundClient>, Problem> {
        let places = places(&self.environment);
        let gathered = gather(&[client], None, &self.home, &self.environment)?;
        let own_folder = places.home();
        let was_started =
            |path: &Path| path.parent().is_some_and(|folder| folder.is_dir() && Some(folder) != own_folder.as_deref());
        let present = client.files(&places).into_iter().map(|(_, path)| path).find(|path| path.exists());
        let to_write = client.file_to_write(&places).filter(|_| client.is_written());
        let Some(path) = to_write
            .as_ref()
            .map(|(_, path)| path.clone())
            .filter(|path| present.is_some() || was_started(path))
            .or(present)
        else {
            return Ok(None);
        };
        let mut found = FoundClient {
            name: client.name,
            title: client.title,
            path: places.shown(&path),
            state: ClientState::ReadOnly,
            way: None,
            servers: gathered.keys(),
            problem: gathered.problems.into_iter().next(),
            can_undo: false,
            reload: client.reload,
        };
        if let Some((source, path)) = to_write {
            let text = SettingsFile::read(&path).map_err(|error| failed(&error));
            let text =
                text.and_then(|file| Ok((file.exists(), file.text().map_err(|error| failed(&error))?.to_owned())));
            match text.map(|(exists, text)| (exists, is_connected(client, source, &text), text)) {
                Ok((false, ..)) => found.state = ClientState::New,
                Ok((true, Ok(false), _)) => found.state = ClientState::Separate,
                Ok((true, Ok(true), text)) => {
                    found.state = ClientState::Connected;
                    found.way = find_entry(client, &text, OURS).as_ref().and_then(way);
                    found.can_undo = record::read(&self.home, client, &path).is_some();
                }
                Ok((true, Err(error), _)) => {
                    found.state = ClientState::Unreadable;
                    found.problem = Some(super::wrong(&path, &error));
                }
                Err(problem) => {
                    found.state = ClientState::Unreadable;
                    found.problem = Some(problem);
                }
            }
        }
        Ok(Some(found))
    }
}

impl EditClients for ClientFiles {
    fn list(&self) -> Result<Vec<FoundClient>, Problem> {
        let found = CLIENTS.iter().filter_map(|client| self.found(client).transpose());
        found.collect()
    }

    fn preview(&self, edit: &ClientEdit) -> Result<EditPreview, Problem> {
        let plan = self.plan(edit, true)?;
        let backups = places(&self.environment).shown(&backups(&self.home, known(&edit.client)?));
        let shown = |path: &Path| places(&self.environment).shown(path);
        Ok(match plan {
            EditPlan::Done(path, why) => EditPreview {
                path: shown(&path),
                difference: String::new(),
                backups,
                revision: SettingsFile::read(&path).map_err(|error| failed(&error))?.revision(),
                notes: vec![why],
            },
            EditPlan::Enter(entry) => EditPreview {
                path: shown(entry.path()),
                difference: entry.difference(),
                // There is nothing to keep of a file that is new.
                backups: if entry.makes_file() { String::new() } else { backups },
                revision: entry.revision(),
                notes: entry.notes(),
            },
            EditPlan::Leave(leaving) => EditPreview {
                path: shown(leaving.path()),
                difference: leaving.difference(),
                backups,
                revision: leaving.revision(),
                notes: leaving
                    .goes()
                    .then(|| "the file is deleted: it came with Toolcrib".to_owned())
                    .into_iter()
                    .collect(),
            },
        })
    }

    fn write(&self, edit: &ClientEdit, revision: Option<&str>) -> Result<EditReport, Problem> {
        let plan = self.plan(edit, false)?;
        let shown = |path: &Path| places(&self.environment).shown(path);
        let report = |path: &Path, done: EditOutcome| EditReport {
            path: shown(path),
            is_changed: true,
            message: done.text.trim_end().to_owned(),
            backup: done.backup.map(|copy| shown(&copy)),
        };
        match plan {
            EditPlan::Done(path, message) => {
                Ok(EditReport { path: shown(&path), is_changed: false, message, backup: None })
            }
            EditPlan::Enter(entry) => {
                check(revision, &entry.revision(), entry.path(), &entry.difference())?;
                Ok(report(entry.path(), entry.write()?))
            }
            EditPlan::Leave(leaving) => {
                check(revision, &leaving.revision(), leaving.path(), &leaving.difference())?;
                Ok(report(leaving.path(), leaving.write(&self.home, false)?))
            }
        }
    }

    fn preview_import(&self, clients: &[String], answers: &ImportAnswers) -> Result<ImportPreview, Problem> {
        let mut gathered = self.gathered(clients, answers)?;
        let questions = std::mem::take(&mut gathered.questions);
        let (problems, mut warnings) = (std::mem::take(&mut gathered.problems), std::mem::take(&mut gathered.warnings));
        if !gathered.objects.is_empty() {
            warnings.push("workflows and services of muster are imported by `toolcrib import muster`".to_owned());
        }
        let plan = ImportPlan::plan(gathered, &self.home, &self.environment, KeyPreference::Keyring)?;
        Ok(ImportPreview { servers: plan.candidates(), problems, warnings, questions })
    }

    fn import(&self, wanted: &WantedImport<'_>, files: &Files) -> Result<Vec<ImportedServer>, Problem> {
        let gathered = self.gathered(wanted.clients, wanted.answers)?;
        let mut plan = ImportPlan::plan(gathered, &self.home, &self.environment, KeyPreference::Keyring)?;
        plan.write_chosen(wanted.servers, files)
    }
}

fn known(name: &str) -> Result<&'static Client, Problem> {
    named(name).map_err(|known| Problem::new(Kind::NotFound, format!("no client `{name}`")).hint(known))
}

/// Refuses what was shown of another file than the one that is there.
fn check(seen: Option<&str>, now: &str, path: &Path, difference: &str) -> Result<(), Problem> {
    if seen.is_none_or(|seen| seen == now) {
        return Ok(());
    }
    let message = format!("`{}` was changed since the preview; now this would change:\n{difference}", path.display());
    Err(Problem::new(Kind::Stale, message).hint("nothing was written; look at the preview again"))
}

/// How an entry of a client leads to a server.
fn way(entry: &Value) -> Option<String> {
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| entry[*key].as_str());
    let command = || {
        let args = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = entry["command"].as_str().into_iter().chain(args).collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    url.map(str::to_owned).or_else(command)
}

#[cfg(test)]
mod tests {
    use crate::config::SettingFlags;

    use super::*;

    #[test]
    fn only_a_gateway_of_this_machine_alone_has_clients_files() {
        let folder = tempfile::tempdir().unwrap();
        for (settings, expected) in [
            ("", true),
            ("listen = \"[::1]:8700\"\n", true),
            ("listen = \"0.0.0.0:8700\"\n", false),
            ("public_url = \"https://tools.example.com\"\n", false),
        ] {
            std::fs::write(folder.path().join("config.toml"), settings).unwrap();
            let flags = SettingFlags { home: Some(folder.path().to_owned()), ..SettingFlags::default() };
            let config = Config::load(&flags, &Environment::default()).unwrap();
            assert_eq!(ClientFiles::of(&config, None).is_some(), expected, "{settings}");
        }
    }

    #[test]
    fn the_way_of_an_entry_is_shown_as_its_client_says_it() {
        for (entry, expected) in [
            (serde_json::json!({ "serverUrl": "http://127.0.0.1:1/mcp" }), Some("http://127.0.0.1:1/mcp")),
            (serde_json::json!({ "command": "toolcrib", "args": ["stdio"] }), Some("toolcrib stdio")),
            (serde_json::json!({}), None),
        ] {
            assert_eq!(way(&entry).as_deref(), expected);
        }
    }
}

//! Writing Toolcrib into the settings of one client: first the plan, at which a person may look, then the writing.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_auth::KeyPreference;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::clients::{self as catalog, Client, ConnectOutcome, SettingsFile, Source, Undo, preview};

use super::record::{self, Record};
use super::take::{ImportPlan, gather};
use super::{EditOutcome, Flags, failed, replace, target, wrong};
use crate::client::{ClientAddress, address};
use crate::home::{Environment, HOME_VARIABLE, Home};
use crate::loopback::is_loopback;

/// What a client is to be led to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectRequest<'a> {
    pub(crate) profile: Option<&'a ProfileName>,
    /// The gateway's URL, where it is not the address in the settings.
    pub(crate) endpoint: Option<&'a str>,
    /// Let it start its own gateway.
    pub(crate) own_gateway: bool,
    /// Make the file and its folder where there is none.
    pub(crate) create: bool,
    /// Take the servers out that come through us.
    pub(crate) moves: bool,
}

/// The outcome of a client's settings.
pub(crate) enum Plan {
    /// They lead to us already, in this way.
    Already(String),
    New(Box<NewEntry>),
}

/// An entry that is not written yet.
pub(crate) struct NewEntry {
    client: &'static Client,
    home: Home,
    path: PathBuf,
    file: SettingsFile,
    text: String,
    record: Record,
    replaces: bool,
    /// Which servers go, and which stay and why.
    notes: Vec<String>,
    way: String,
}

/// Reads a client's settings and sees what is to be written. Nothing is written yet.
pub(crate) fn plan(
    client: &'static Client,
    request: &ConnectRequest<'_>,
    flags: &Flags,
    environment: &Environment,
) -> Result<Plan, Problem> {
    let home = Home::find(flags.home.as_deref(), environment)?;
    let (source, path) = target(client, flags, environment)?;
    let file = SettingsFile::read(&path).map_err(|error| failed(&error))?;
    if !file.exists() && !request.create && !path.parent().is_some_and(Path::is_dir) {
        let message =
            format!("{} has no settings here: the folder of `{}` does not exist", client.title, path.display());
        let hint = format!("start {} once, pass its file with `--file PATH`, or add `--create`", client.title);
        return Err(Problem::new(Kind::NotFound, message).hint(hint));
    }
    let with_home = flags.home.is_some() || environment.get(HOME_VARIABLE).is_some();
    let (entry, way) = entry(client, request, &home, with_home, environment)?;
    let earlier = record::read(&home, client, &path);
    let before = file.text().map_err(|error| failed(&error))?;
    let ServerMoves { keys, notes } =
        moving(&Place { client, source, path: &path, home: &home }, request, earlier.as_ref(), environment)?;
    let has_moved = earlier.as_ref().is_some_and(|record| !record.moved.is_empty());
    let failed_at = |error: &catalog::SettingsError| wrong(&path, error);
    let undo = earlier.as_ref().map(Record::undo);
    if keys.is_empty() && !has_moved {
        let plain = undo.as_ref().map(Undo::of_entry);
        let connected = catalog::connect(client, source, before, &entry, plain).map_err(|error| failed_at(&error))?;
        let ConnectOutcome::New { text, splices, made_container, replaces } = connected else {
            return Ok(Plan::Already(way));
        };
        let made_file = earlier.is_some_and(|record| record.made_file) || !file.exists();
        let after = Some(catalog::digest(text.as_bytes()));
        let record = Record { splices, made_container, made_file, moved: Vec::new(), after };
        return Ok(Plan::New(Box::new(NewEntry { client, home, path, file, text, record, replaces, notes, way })));
    }
    // Everything from the file without us: what was taken out before is taken out again, with what is new.
    let restored = catalog::restore(client, source, before, undo).map_err(|error| failed_at(&error))?;
    let replaces = restored.is_some();
    let base = restored.unwrap_or_else(|| before.to_owned());
    let ConnectOutcome::New { text, made_container, .. } =
        catalog::connect(client, source, &base, &entry, None).map_err(|error| failed_at(&error))?
    else {
        return Ok(Plan::Already(way));
    };
    let (text, moved) = catalog::move_out(client, source, &text, &keys).map_err(|error| failed_at(&error))?;
    if text == before {
        return Ok(Plan::Already(way));
    }
    let made_file = earlier.is_some_and(|record| record.made_file) || !file.exists();
    let after = Some(catalog::digest(text.as_bytes()));
    let record = Record { splices: catalog::region(&base, &text), made_container, made_file, moved, after };
    Ok(Plan::New(Box::new(NewEntry { client, home, path, file, text, record, replaces, notes, way })))
}

/// A settings file of a client, and the home folder that has its servers.
struct Place<'a> {
    client: &'static Client,
    source: &'a Source,
    path: &'a Path,
    home: &'a Home,
}

/// The servers that go, and what is to be said of others.
#[derive(Debug, Default)]
struct ServerMoves {
    keys: Vec<String>,
    notes: Vec<String>,
}

/// Servers go that Toolcrib has by the very words of the client, and shows in the client's profile; and those that went
/// before.
fn moving(
    place: &Place<'_>,
    request: &ConnectRequest<'_>,
    earlier: Option<&Record>,
    environment: &Environment,
) -> Result<ServerMoves, Problem> {
    let Place { client, source, path, home } = *place;
    let mut moving = ServerMoves::default();
    moving.keys.extend(earlier.into_iter().flat_map(|record| &record.moved).map(|(key, _)| key.clone()));
    if !request.moves || !path.exists() {
        return Ok(moving);
    }
    let mut gathered = gather(&[client], Some(path), home, environment)?;
    if let Some(problem) = gathered.problems.pop() {
        return Err(problem);
    }
    let loaded = toolcrib_catalog::load(home.path());
    let profile = request.profile.map_or("default", |profile| profile.as_str());
    let shown = loaded.profiles.values().find(|known| known.name.as_str() == profile);
    let container = source.servers.first().map(|way| way.join(".")).unwrap_or_default();
    let taking = ImportPlan::plan(gathered, home, environment, KeyPreference::Keyring)?;
    for (draft, name) in taking.present_servers() {
        let key = &draft.origin.key;
        let is_shown = shown.is_none_or(|profile| profile.servers.iter().any(|glob| glob.matches(name.as_str())));
        let why = match loaded.servers.get(name) {
            None => Some(format!(
                "its definition `servers/{name}.yaml` cannot be used; check it with `toolcrib check server {name}`"
            )),
            Some(_) if draft.origin.path != container => Some("it belongs to a project".to_owned()),
            Some(_) if draft.is_disabled => Some("it is disabled".to_owned()),
            Some(_) if !is_shown => Some(format!("the profile `{profile}` hides it")),
            Some(_) => None,
        };
        match why {
            Some(why) => moving.notes.push(format!("keep `{key}`: {why}")),
            None if moving.keys.contains(key) => {}
            None => {
                moving.notes.push(format!("remove `{key}`: Toolcrib provides it as `{name}`"));
                moving.keys.push(key.clone());
            }
        }
    }
    let absent = taking.absent_keys();
    let import = format!("toolcrib import {}", client.name);
    moving
        .notes
        .extend(absent.iter().map(|key| format!("keep `{key}`: it is not in Toolcrib; import it with `{import}`")));
    Ok(moving)
}

// === impl NewEntry ===

impl NewEntry {
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which file was looked at.
    pub(crate) fn revision(&self) -> String {
        self.file.revision()
    }

    /// Whether there is no file yet.
    pub(crate) fn makes_file(&self) -> bool {
        !self.file.exists()
    }

    /// What a person should know: what the change is, and which servers go or stay.
    pub(crate) fn notes(&self) -> Vec<String> {
        let own = [format!("{}; connected {}", self.what(), self.way)];
        own.into_iter().chain(self.notes.iter().cloned()).collect()
    }

    /// The lines that change, secrets as `****`.
    pub(crate) fn difference(&self) -> String {
        // It was read when this was planned.
        preview(self.file.text().unwrap_or_default(), &self.text)
    }

    fn what(&self) -> &'static str {
        match (self.file.exists(), self.replaces) {
            (false, _) => "a new file",
            (true, true) if !self.record.moved.is_empty() => "removes servers that Toolcrib provides",
            (true, true) => "replaces a different entry `toolcrib`",
            (true, false) if !self.record.moved.is_empty() => {
                "removes servers that Toolcrib provides, keeps everything else"
            }
            (true, false) => "keeps everything else",
        }
    }

    /// The same for a terminal.
    pub(crate) fn preview(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{} ({}):\n{}{notes}", self.path.display(), self.what(), self.difference())
    }

    /// Writes it after a copy of the file was kept; gives what to report.
    pub(crate) fn write(&self) -> Result<EditOutcome, Problem> {
        let Self { client, home, path, file, .. } = self;
        if let Some(folder) = path.parent().filter(|_| !file.exists()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                Problem::new(Kind::Internal, format!("cannot make `{}`: {error}", folder.display()))
            })?;
        }
        // What is taken out is noted before it goes, so that a crash in between loses nothing.
        let earlier = record::read(home, client, path);
        let mut kept = Ok(());
        if !self.record.moved.is_empty() {
            record::write(home, client, path, Some(&self.record)).map_err(|error| {
                Problem::new(
                    Kind::Internal,
                    format!("nothing was written: cannot record what would be removed: {error}"),
                )
            })?;
        }
        let copy = replace(home, client, file, Some(&self.text)).inspect_err(|_| {
            // The file is as it was, and so is the note of it.
            let _ = record::write(home, client, path, earlier.as_ref());
        })?;
        if self.record.moved.is_empty() {
            kept = record::write(home, client, path, Some(&self.record));
        }
        let mut told = format!("{} is connected, {}\n", client.title, self.way);
        if let Some(copy) = &copy {
            told.push_str(&format!(
                "Backup: {} (readable only by you; it contains the file's secrets)\n",
                copy.display()
            ));
        }
        if !self.record.moved.is_empty() {
            let keys: Vec<&str> = self.record.moved.iter().map(|(key, _)| key.as_str()).collect();
            told.push_str(&format!(
                "Removed: {}. To restore them: `toolcrib disconnect {}`.\n",
                keys.join(", "),
                client.name
            ));
        }
        if let Err(error) = kept {
            told.push_str(&format!(
                "Could not record the changes ({error}): `disconnect` will remove the entry only.\n"
            ));
        }
        if self.way.starts_with("by https:") {
            told.push_str(
                "The client checks the certificate. If your own authority issued it, start the client with \
                 `NODE_EXTRA_CA_CERTS=FILE`: the authority as PEM.\n",
            );
        }
        told.push_str(&format!("To activate it in {}: {}.\n", client.title, client.reload));
        Ok(EditOutcome { text: told, backup: copy })
    }
}

/// Our entry, and what it leads to in words.
fn entry(
    client: &Client,
    request: &ConnectRequest<'_>,
    home: &Home,
    with_home: bool,
    environment: &Environment,
) -> Result<(Value, String), Problem> {
    let only_reads = || Problem::new(Kind::InvalidParams, "the settings of this client cannot be written");
    let program = std::env::current_exe()
        .map_err(|error| Problem::new(Kind::Internal, format!("cannot find the path of this program: {error}")))?;
    let command = program.to_str().ok_or_else(|| {
        Problem::new(Kind::Internal, format!("the path of this program is not UTF-8: `{}`", program.display()))
    })?;
    let starts = |args: &[String]| {
        let entry = catalog::entry(client, "", command, args, true).ok_or_else(only_reads)?;
        Ok((entry, format!("by `{command} {}`", args.join(" "))))
    };
    // The client starts us without the variables of this shell.
    let own_home = || -> Result<Vec<String>, Problem> {
        if !with_home {
            return Ok(Vec::new());
        }
        let folder = home.path().to_str().ok_or_else(|| {
            Problem::new(Kind::InvalidParams, format!("the home folder is not UTF-8: `{}`", home.path().display()))
        })?;
        Ok(vec!["--home".to_owned(), folder.to_owned()])
    };
    if !request.own_gateway {
        let ClientAddress { url, needs_pinning } = address(request.endpoint, request.profile, home, environment)?;
        if client.speaks_http() && !needs_pinning {
            let entry = catalog::entry(client, &url, command, &[], false).ok_or_else(only_reads)?;
            return Ok((entry, format!("by {url}")));
        }
        let mut args = vec!["bridge".to_owned(), url.clone()];
        // Like the clients that come by HTTP it may use tools; the token would let it administer as well.
        args.extend(is_loopback(&url).then(|| "--no-token".to_owned()));
        // It starts the gateway of this home where none runs.
        if request.endpoint.is_none() {
            args.extend(own_home()?);
        }
        return starts(&args);
    }
    let mut args = vec!["stdio".to_owned()];
    if let Some(profile) = request.profile {
        args.extend(["--profile".to_owned(), profile.to_string()]);
    }
    args.extend(own_home()?);
    starts(&args)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_changed_after_the_preview_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |below: &str| folder.path().join(below);
        let variables = [("HOME", at("")), (HOME_VARIABLE, at("toolcrib"))];
        let environment: Environment =
            variables.into_iter().map(|(name, path)| (name.to_owned(), OsString::from(path))).collect();
        fs::create_dir_all(at("toolcrib/servers")).unwrap();
        fs::create_dir(at(".cursor")).unwrap();
        fs::write(at("toolcrib/servers/time.yaml"), "name: time\ncommand: uvx\nargs: [mcp-server-time]\n").unwrap();
        let settings = r#"{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#;
        fs::write(at(".cursor/mcp.json"), settings).unwrap();
        let client = toolcrib_catalog::clients::client("cursor").unwrap();
        let request = ConnectRequest { moves: true, ..ConnectRequest::default() };
        let flags = Flags { preview: false, yes: true, file: None, home: None };
        let home = Home::find(None, &environment).unwrap();
        let plan = || match plan(client, &request, &flags, &environment).unwrap() {
            Plan::New(joining) => joining,
            Plan::Already(way) => panic!("connected {way}"),
        };
        let joining = plan();
        assert!(joining.preview().contains("remove `time`"), "{}", joining.preview());
        // The client writes while a person reads the preview.
        let changed = settings.replace("}}}", r#"}, "new": {"command": "x"}}}"#);
        fs::write(at(".cursor/mcp.json"), &changed).unwrap();
        let problem = joining.write().unwrap_err();
        assert!(problem.message.contains("was changed by another program"), "{problem}");
        assert_eq!(fs::read_to_string(at(".cursor/mcp.json")).unwrap(), changed);
        assert_eq!(
            record::read(&home, client, &at(".cursor/mcp.json")),
            None,
            "nothing is noted of what did not happen"
        );
        // Looked at again it goes, with what came in between left where it is.
        plan().write().unwrap();
        let text = fs::read_to_string(at(".cursor/mcp.json")).unwrap();
        assert!(text.contains("\"new\"") && !text.contains("uvx"), "{text}");
        let record = record::read(&home, client, &at(".cursor/mcp.json")).unwrap();
        assert_eq!(record.moved.len(), 1);
    }
}

//! Writing Toolcrib into the settings of one client: first the plan, at which a person may look, then the writing.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_catalog::clients::{self as catalog, Client, Connected, SettingsFile, Splices, preview};

use super::record::{self, Record};
use super::{Flags, failed, replace, target, wrong};
use crate::client::{address, is_loopback};
use crate::home::{Environment, HOME_VARIABLE, Home};

/// What a client shall be led to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish<'a> {
    pub(crate) profile: Option<&'a ProfileName>,
    /// The gateway's URL, where it is not the address in the settings.
    pub(crate) endpoint: Option<&'a str>,
    /// Let it start a gateway of its own.
    pub(crate) own_gateway: bool,
    /// Make the file and its folder where there is none.
    pub(crate) create: bool,
}

/// What becomes of a client's settings.
pub(crate) enum Plan {
    /// They lead to us already, in this way.
    Already(String),
    New(Box<Joining>),
}

/// An entry that is not written yet.
pub(crate) struct Joining {
    client: &'static Client,
    home: Home,
    path: PathBuf,
    file: SettingsFile,
    text: String,
    splices: Splices,
    made_container: bool,
    replaces: bool,
    earlier: Option<Record>,
    way: String,
}

/// Reads a client's settings and sees what is to be written. Nothing is written yet.
pub(crate) fn plan(
    client: &'static Client,
    wish: &Wish<'_>,
    flags: &Flags,
    environment: &Environment,
) -> Result<Plan, Problem> {
    let home = Home::find(flags.home.as_deref(), environment)?;
    let (source, path) = target(client, flags, environment)?;
    let file = SettingsFile::read(&path).map_err(|error| failed(&error))?;
    if !file.exists() && !wish.create && !path.parent().is_some_and(Path::is_dir) {
        let message =
            format!("{} has no settings here: the folder of `{}` does not exist", client.title, path.display());
        let hint = format!("start {} once, name its file with `--file PATH`, or say `--create`", client.title);
        return Err(Problem::new(Kind::NotFound, message).hint(hint));
    }
    let with_home = flags.home.is_some() || environment.get(HOME_VARIABLE).is_some();
    let (entry, way) = entry(client, wish, (&home, with_home), environment)?;
    let earlier = record::read(&home, client, &path);
    let undo = earlier.as_ref().map(|record| (&record.splices, record.made_container));
    let before = file.text().map_err(|error| failed(&error))?;
    let connected = catalog::connect(client, source, before, &entry, undo).map_err(|error| wrong(&path, &error))?;
    Ok(match connected {
        Connected::Already => Plan::Already(way),
        Connected::New { text, splices, made_container, replaces } => Plan::New(Box::new(Joining {
            client,
            home,
            path,
            file,
            text,
            splices,
            made_container,
            replaces,
            earlier,
            way,
        })),
    })
}

// === impl Joining ===

impl Joining {
    /// The lines that change.
    pub(crate) fn preview(&self) -> String {
        let what = match (self.file.exists(), self.replaces) {
            (false, _) => "a new file",
            (true, true) => "replaces an entry `toolcrib` that says something else",
            (true, false) => "everything else stays",
        };
        // It was read when this was planned.
        let before = self.file.text().unwrap_or_default();
        format!("{} ({what}):\n{}", self.path.display(), preview(before, &self.text))
    }

    /// Writes it after a copy of the file was kept; what to tell.
    pub(crate) fn write(&self) -> Result<String, Problem> {
        let Self { client, home, path, file, .. } = self;
        if let Some(folder) = path.parent().filter(|_| !file.exists()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                Problem::new(Kind::Internal, format!("cannot make `{}`: {error}", folder.display()))
            })?;
        }
        let copy = replace(home, client, file, Some(&self.text))?;
        let made_file = self.earlier.as_ref().is_some_and(|record| record.made_file) || !file.exists();
        let made = Record { splices: self.splices.clone(), made_container: self.made_container, made_file };
        let kept = record::write(home, client, path, Some(&made));
        let mut told = format!("{} is connected, {}\n", client.title, self.way);
        if let Some(copy) = copy {
            told.push_str(&format!("The file as it was: {}\n", copy.display()));
        }
        if let Err(error) = kept {
            told.push_str(&format!(
                "What was changed could not be noted ({error}): `disconnect` will cut the entry out.\n"
            ));
        }
        told.push_str(&format!("So that {} sees it: {}.\n", client.title, client.reload));
        Ok(told)
    }
}

/// Our entry, and what it leads to in words.
fn entry(
    client: &Client,
    wish: &Wish<'_>,
    (home, with_home): (&Home, bool),
    environment: &Environment,
) -> Result<(Value, String), Problem> {
    let only_reads = || Problem::new(Kind::InvalidParams, "the settings of this client are only read");
    let program = std::env::current_exe()
        .map_err(|error| Problem::new(Kind::Internal, format!("cannot tell where this program is: {error}")))?;
    let command = program.to_str().ok_or_else(|| {
        Problem::new(Kind::Internal, format!("the path of this program is not UTF-8: `{}`", program.display()))
    })?;
    let starts = |args: &[String]| {
        let entry = catalog::entry(client, "", command, args, true).ok_or_else(only_reads)?;
        Ok((entry, format!("by `{command} {}`", args.join(" "))))
    };
    if !wish.own_gateway {
        let url = address(wish.endpoint, wish.profile, home, environment)?;
        if client.speaks_http() {
            let entry = catalog::entry(client, &url, command, &[], false).ok_or_else(only_reads)?;
            return Ok((entry, format!("by {url}")));
        }
        let mut args = vec!["bridge".to_owned(), url.clone()];
        // Like the clients that come by HTTP it may use tools; the token would let it administer as well.
        args.extend(is_loopback(&url).then(|| "--no-token".to_owned()));
        return starts(&args);
    }
    let mut args = vec!["stdio".to_owned()];
    if let Some(profile) = wish.profile {
        args.extend(["--profile".to_owned(), profile.to_string()]);
    }
    // The client starts us without the variables of this shell.
    if with_home {
        let folder = home.path().to_str().ok_or_else(|| {
            Problem::new(Kind::InvalidParams, format!("the home folder is not UTF-8: `{}`", home.path().display()))
        })?;
        args.extend(["--home".to_owned(), folder.to_owned()]);
    }
    starts(&args)
}

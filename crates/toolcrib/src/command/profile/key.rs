//! `toolcrib profile key add|rotate|revoke`: the keys that open a profile. Edits the profile's file, which a running
//! gateway takes up by itself; the key is printed once and kept nowhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toolcrib_base::{Clock, Kind, Problem, ProfileName, SystemClock};
use toolcrib_catalog::{GatewayKey, KeyName, ProfileDefinition, edit};

use crate::home::{Environment, Home};
use crate::{output, token};

/// What a profile may be read from.
const ENDINGS: [&str; 2] = ["yaml", "yml"];

#[derive(Debug, clap::Subcommand)]
pub(in super::super) enum Action {
    /// Create a key and print it once; with the first key, the profile requires a key
    Add(KeyArgument),
    /// Create a second key with the same name, so that clients can switch
    Rotate(KeyArgument),
    /// Revoke the keys of a name
    Revoke {
        #[command(flatten)]
        named: KeyArgument,
        /// All but the newest key
        #[arg(long)]
        old: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(in super::super) struct KeyArgument {
    /// The profile
    profile: ProfileName,
    /// The key's name; its principal is `key:<profile>/<name>`
    #[arg(value_parser = key_name)]
    key: KeyName,
    /// The home folder
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

fn key_name(text: &str) -> Result<KeyName, String> {
    KeyName::new(text)
        .ok_or_else(|| "expected at most 64 characters of a-z, 0-9 and `-`, not starting with `-`".to_owned())
}

pub(in super::super) fn run(action: &Action, environment: &Environment) -> anyhow::Result<()> {
    match action {
        Action::Add(named) => make(named, environment, |given| match given {
            0 => Ok(()),
            _ => Err(Problem::new(Kind::InvalidParams, format!("key `{}` already exists", named.key))
                .hint("choose another name, or rotate it with `toolcrib profile key rotate`")),
        }),
        Action::Rotate(named) => make(named, environment, |given| match given {
            0 => Err(no_key(named)),
            1 => Ok(()),
            _ => Err(Problem::new(Kind::InvalidParams, format!("there are already {given} keys `{}`", named.key))
                .hint("revoke the older one first with `toolcrib profile key revoke --old`")),
        }),
        Action::Revoke { named, old } => revoke(named, *old, environment),
    }
}

fn make(
    named: &KeyArgument,
    environment: &Environment,
    may: impl FnOnce(usize) -> Result<(), Problem>,
) -> anyhow::Result<()> {
    let file = File::open(named, environment)?;
    may(file.keys_named(&named.key).len())?;
    let today: String = SystemClock.now().to_string().chars().take(10).collect();
    let (secret, key) = GatewayKey::generate(named.key.clone(), Some(today));
    file.write(edit::add_key(&file.path, named.profile.as_str(), &file.text, &key))?;
    Ok(output::print(&format!("{}\n", secret.expose()))?)
}

fn revoke(named: &KeyArgument, old: bool, environment: &Environment) -> anyhow::Result<()> {
    let file = File::open(named, environment)?;
    let given = file.keys_named(&named.key);
    let newest = given.last().ok_or_else(|| no_key(named))?.hash;
    let goes = |key: &GatewayKey| key.name == named.key && !(old && key.hash == newest);
    let count = given.iter().filter(|key| goes(key)).count();
    file.write(edit::remove_keys(&file.path, named.profile.as_str(), &file.text, goes))?;
    Ok(output::print(&format!("{count} key(s) `{}` revoked\n", named.key))?)
}

fn no_key(named: &KeyArgument) -> Problem {
    Problem::new(Kind::NotFound, format!("profile `{}` has no key `{}`", named.profile, named.key))
        .hint("create one with `toolcrib profile key add`")
}

/// A profile's file as it is.
struct File {
    path: PathBuf,
    text: String,
    profile: ProfileDefinition,
}

impl File {
    /// The file of a profile. The built-in one has none until now.
    fn open(named: &KeyArgument, environment: &Environment) -> anyhow::Result<Self> {
        let folder = Home::find(named.home.as_deref(), environment)?.path().join("profiles");
        let name = named.profile.as_str();
        let paths = ENDINGS.map(|ending| folder.join(format!("{name}.{ending}")));
        for path in &paths {
            match fs::read_to_string(path) {
                Ok(text) => return Self::read(path, name, text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let message = format!("cannot read `{}`: {error}", path.display());
                    return Err(Problem::new(Kind::Definition, message).into());
                }
            }
        }
        if named.profile != ProfileDefinition::built_in().name {
            let problem = Problem::new(Kind::NotFound, format!("profile `{name}` has no file"));
            return Err(problem.hint(format!("write `{}`", paths[0].display())).into());
        }
        Self::read(&paths[0], name, format!("name: {name}\n"))
    }

    fn read(path: &Path, name: &str, text: String) -> anyhow::Result<Self> {
        match edit::read_profile(path, name, &text) {
            Ok(profile) => Ok(Self { path: path.to_owned(), text, profile }),
            Err(problems) => {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                let problem = Problem::new(Kind::Definition, format!("the profile is not valid: {}", lines.join("; ")));
                Err(problem.hint("fix it first; nothing was changed").into())
            }
        }
    }

    /// The keys of a name, the newest last.
    fn keys_named(&self, name: &KeyName) -> Vec<&GatewayKey> {
        self.profile.keys.iter().flatten().filter(|key| key.name == *name).collect()
    }

    /// Writes the new text in one step. Who may read the file stays as it was.
    fn write(&self, edited: Result<String, edit::KeyEditError>) -> anyhow::Result<()> {
        let text = edited.map_err(|error| {
            Problem::new(Kind::Definition, format!("cannot edit `{}`: {error}", self.path.display()))
                .hint("write each key on its own line; nothing was changed")
        })?;
        let failed =
            |error: io::Error| Problem::new(Kind::Internal, format!("cannot write `{}`: {error}", self.path.display()));
        // A link stays one: what it leads to is written.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let permissions = fs::metadata(&path).map(|metadata| metadata.permissions());
        token::write_private(&path, text.as_bytes()).map_err(failed)?;
        if let Ok(permissions) = permissions {
            fs::set_permissions(&path, permissions).map_err(failed)?;
        }
        Ok(())
    }
}

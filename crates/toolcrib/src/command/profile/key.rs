//! `toolcrib profile key add|list|rotate|revoke`: the keys that open a profile. Edits the profile's file, which a running
//! gateway takes up by itself; the key is printed once and kept nowhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::{Clock, Kind, PrincipalId, Problem, ProfileName, Role, Secret, SystemClock, Timestamp};
use toolcrib_catalog::{
    GatewayKey, KeyName, ProfileDefinition, day_of, edit, key_end, key_expiry, key_period, user_named,
};

use crate::home::{Environment, Home};
use crate::output::table::{Column, field};
use crate::output::{Format, Output};
use crate::{key_use, output, token};

/// What a profile may be read from.
const ENDINGS: [&str; 2] = ["yaml", "yml"];

const COLUMNS: [Column; 6] = [
    Column::new("NAME", |key| field(key, "name")),
    Column::new("ROLE", |key| field(key, "role")),
    Column::new("CREATED", |key| field(key, "created")),
    Column::new("EXPIRES", |key| field(key, "expires")),
    Column::new("LAST USED", |key| field(key, "lastUsed")),
    Column::new("USER", |key| field(key, "user")),
];

#[derive(Debug, clap::Subcommand)]
pub(in super::super) enum Action {
    /// Create a key and print it once; with the first key, the profile requires a key
    Add {
        #[command(flatten)]
        named: KeyArgument,
        /// What its bearer may do: viewer, member, operator or admin
        #[arg(long, default_value = "member", value_parser = role)]
        role: Role,
        /// When it expires: a date, a time, or a period such as `90d` or `12h`
        #[arg(long, value_name = "WHEN", value_parser = moment)]
        expires: Option<Timestamp>,
        /// Whose key it is, such as `user:acme/ann`: limits count the keys of one user together
        #[arg(long, value_name = "USER", value_parser = user)]
        user: Option<PrincipalId>,
    },
    /// List the keys of a profile with their roles, their ends and their last use
    List {
        /// The profile
        profile: ProfileName,
        /// The home folder
        #[arg(long, value_name = "DIR")]
        home: Option<PathBuf>,
    },
    /// Create a second key with the same name and role, so that clients can switch
    Rotate {
        #[command(flatten)]
        named: KeyArgument,
        /// How long the older key still opens the profile, such as `24h` or `7d`; without it until it is revoked
        #[arg(long, value_name = "PERIOD", value_parser = period)]
        keep: Option<Duration>,
    },
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
        Action::Add { named, role, expires, user } => {
            add(named, environment, |key| GatewayKey { role: *role, expires: *expires, user: user.clone(), ..key })
        }
        Action::List { profile, home } => list(profile, home.as_deref(), environment),
        Action::Rotate { named, keep } => rotate(named, *keep, environment),
        Action::Revoke { named, old } => revoke(named, *old, environment),
    }
}

fn user(text: &str) -> Result<PrincipalId, String> {
    user_named(text).ok_or_else(|| "expected a user such as `user:acme/ann`, without spaces".to_owned())
}

fn role(text: &str) -> Result<Role, String> {
    let role = text.parse().ok().filter(|role| *role != Role::Owner);
    role.ok_or_else(|| "expected `viewer`, `member`, `operator` or `admin`".to_owned())
}

/// A period of days, or of what other settings have.
fn period(text: &str) -> Result<Duration, String> {
    key_period(text).ok_or_else(|| "expected a period such as `90d`, `24h` or `30m`".to_owned())
}

/// A moment that is still to come.
fn moment(text: &str) -> Result<Timestamp, String> {
    let is_moment = key_period(text).is_some() || text.contains('-') && Timestamp::parse(text).is_some();
    if !is_moment {
        return Err("expected a date such as `2027-01-31`, a time, or a period such as `90d`".to_owned());
    }
    key_expiry(text, SystemClock.now()).ok_or_else(|| "expected a moment that is still to come".to_owned())
}

fn add(
    named: &KeyArgument,
    environment: &Environment,
    with: impl FnOnce(GatewayKey) -> GatewayKey,
) -> anyhow::Result<()> {
    let file = File::open(&named.profile, named.home.as_deref(), environment)?;
    if !file.keys_named(&named.key).is_empty() {
        let problem = Problem::new(Kind::InvalidParams, format!("key `{}` already exists", named.key));
        return Err(problem.hint("choose another name, or rotate it with `toolcrib profile key rotate`").into());
    }
    file.add(named, with)
}

/// The new key has the role and the user of the older one, and lasts as long as that was made to last.
fn rotate(named: &KeyArgument, keep: Option<Duration>, environment: &Environment) -> anyhow::Result<()> {
    let mut file = File::open(&named.profile, named.home.as_deref(), environment)?;
    let now = SystemClock.now();
    let given = file.keys_named(&named.key);
    let lasting = given.iter().filter(|key| key.lasts(now)).count();
    let newest = (*given.last().ok_or_else(|| no_key(named))?).clone();
    if lasting > 1 {
        let problem = Problem::new(Kind::InvalidParams, format!("there are already {lasting} keys `{}`", named.key));
        return Err(problem.hint("revoke the older one first with `toolcrib profile key revoke --old`").into());
    }
    if let Some(keep) = keep {
        let (path, name) = (&file.path, named.profile.as_str());
        file.text = file.edited(edit::expire_keys(path, name, &file.text, &named.key, key_end(now, keep)))?;
    }
    let (secret, key) = newest.successor(now);
    file.put(named, &secret, &key)
}

/// The keys of a profile, and when each was used last.
fn list(profile: &ProfileName, home: Option<&Path>, environment: &Environment) -> anyhow::Result<()> {
    let file = File::open(profile, home, environment)?;
    let uses = key_use::read(&Home::find(home, environment)?.state());
    let now = SystemClock.now();
    let day = |moment: Timestamp| moment.to_string().chars().take(16).collect::<String>().replace('T', " ");
    let rows = file.profile.keys.iter().flatten().map(|key| {
        let expires = match key.expires {
            Some(expires) if key.lasts(now) => day(expires),
            Some(_) => "expired".to_owned(),
            None => "never".to_owned(),
        };
        json!({
            "name": key.name.as_str(), "role": key.role.as_str(), "created": key.created, "expires": expires,
            "user": key.user.as_ref().map(PrincipalId::as_str),
            "lastUsed": uses.get(&key.hash).map_or_else(|| "never".to_owned(), |last| day(*last)),
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(Output { format: Format::Table, headers: true, quiet: false }.rows("keys", &COLUMNS, &rows)?)
}

fn revoke(named: &KeyArgument, old: bool, environment: &Environment) -> anyhow::Result<()> {
    let file = File::open(&named.profile, named.home.as_deref(), environment)?;
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
    fn open(profile: &ProfileName, home: Option<&Path>, environment: &Environment) -> anyhow::Result<Self> {
        let folder = Home::find(home, environment)?.path().join("profiles");
        let name = profile.as_str();
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
        if *profile != ProfileDefinition::built_in().name {
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

    /// Makes a key, writes its hash and prints it.
    fn add(&self, named: &KeyArgument, with: impl FnOnce(GatewayKey) -> GatewayKey) -> anyhow::Result<()> {
        let (secret, key) = GatewayKey::generate(named.key.clone(), Some(day_of(SystemClock.now())));
        self.put(named, &secret, &with(key))
    }

    /// Writes the hash of a key and prints the key.
    fn put(&self, named: &KeyArgument, secret: &Secret, key: &GatewayKey) -> anyhow::Result<()> {
        self.write(edit::add_key(&self.path, named.profile.as_str(), &self.text, key))?;
        Ok(output::print(&format!("{}\n", secret.expose()))?)
    }

    fn edited(&self, edited: Result<String, edit::KeyEditError>) -> Result<String, Problem> {
        edited.map_err(|error| {
            Problem::new(Kind::Definition, format!("cannot edit `{}`: {error}", self.path.display()))
                .hint("write each key on its own line; nothing was changed")
        })
    }

    /// Writes the new text in one step. Who may read the file stays as it was.
    fn write(&self, edited: Result<String, edit::KeyEditError>) -> anyhow::Result<()> {
        let text = self.edited(edited)?;
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

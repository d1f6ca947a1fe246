//! `toolcrib secret`: what is in the vault. Works on the file itself, whether a gateway runs or not.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_auth::vault::VALUE_BYTES;
use toolcrib_auth::{EntryName, KeyPreference, Reach, SecretEntry};
use toolcrib_base::{Clock, Kind, Problem, ProfileName, Secret, ServerName, SystemClock};
use toolcrib_protocol::Raw;

use crate::home::{Environment, Home};
use crate::output::table::{Column, field, moment};
use crate::output::{Format, Output};
use crate::secrets;
use crate::terminal::ask_hidden;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR", global = true)]
    home: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Set a secret; reads its value from stdin, or asks for it on a terminal
    Set(SetArguments),
    /// List the secrets, without values
    List(ListArguments),
    /// Remove a secret
    #[command(alias = "remove")]
    Rm {
        /// Its name
        name: EntryName,
    },
}

#[derive(Debug, clap::Args)]
struct SetArguments {
    /// Its name, which definitions refer to as `vault:NAME`
    name: EntryName,
    /// Allow only this server to use it; repeatable [default: every server]
    #[arg(long = "server", value_name = "SERVER")]
    servers: Vec<ServerName>,
    /// Allow it only in this profile; repeatable [default: every profile]
    #[arg(long = "profile", value_name = "PROFILE")]
    profiles: Vec<ProfileName>,
    /// Take the value from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    from_env: Option<String>,
    /// Keep the key of a new vault in a file even if there is a keyring
    #[arg(long)]
    key_file: bool,
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

const COLUMNS: &[Column] = &[
    Column::new("NAME", |secret| field(secret, "name")),
    Column::new("SERVERS", |secret| all_or(secret, "servers")),
    Column::new("PROFILES", |secret| all_or(secret, "profiles")),
    Column::new("SET", |secret| moment(secret, "set_at")),
];

fn all_or(secret: &Value, member: &str) -> String {
    if secret[member].as_array().is_none_or(Vec::is_empty) { "all".to_owned() } else { field(secret, member) }
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let home = Home::find(arguments.home.as_deref(), environment)?;
    let vault = secrets::vault(&home, environment);
    match &arguments.action {
        Action::Set(set) => {
            let (question, what) = (format!("value of `{}`: ", set.name), format!("value of `{}`", set.name));
            let source = SecretSource { from_env: set.from_env.as_deref(), question: &question, what: &what };
            let Some(value) = source.read(environment)? else { return Ok(ExitCode::from(super::INTERRUPTED)) };
            let reach = Reach::new(set.servers.clone(), set.profiles.clone());
            let entry = SecretEntry { name: set.name.clone(), reach, set_at: SystemClock.now() };
            let preference = if set.key_file { KeyPreference::File } else { KeyPreference::Keyring };
            let replaced = vault.set(&entry, &value, preference).map_err(|error| secrets::problem(&error))?;
            let what = if replaced { "replaced" } else { "set" };
            plain(false).text(&format!("{what} `{0}`; definitions refer to it as `vault:{0}`", set.name))?;
        }
        Action::List(list) => {
            let entries = vault.list().map_err(|error| secrets::problem(&error))?;
            let entries: Vec<Value> = entries.iter().map(shown).collect();
            let output = plain(list.json);
            if output.is_for_programs() {
                output.answer(&Raw::from_value(&json!({ "secrets": entries })))?;
            } else {
                output.rows("secrets", COLUMNS, &entries)?;
            }
        }
        Action::Rm { name } => {
            vault.remove(name).map_err(|error| secrets::problem(&error))?;
            plain(false).text(&format!("removed `{name}`"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(json: bool) -> Output {
    Output { format: if json { Format::Json } else { Format::Table }, headers: true, quiet: false }
}

fn shown(listed: &SecretEntry) -> Value {
    json!({
        "name": listed.name.as_str(),
        "servers": listed.reach.servers().iter().map(ServerName::as_str).collect::<Vec<_>>(),
        "profiles": listed.reach.profiles().iter().map(ProfileName::as_str).collect::<Vec<_>>(),
        "set_at": listed.set_at.to_string(),
    })
}

/// A secret that a person passes to a command.
pub(super) struct SecretSource<'a> {
    /// The environment variable that has it.
    pub(super) from_env: Option<&'a str>,
    /// What a person at a terminal is asked.
    pub(super) question: &'a str,
    /// What it is, in an error.
    pub(super) what: &'a str,
}

impl SecretSource<'_> {
    /// Reads it from the variable, the terminal or stdin, without a line end; `None` where the person took the question
    /// back.
    pub(super) fn read(&self, environment: &Environment) -> anyhow::Result<Option<Secret>> {
        if let Some(variable) = self.from_env {
            let value = environment.text(variable)?.ok_or_else(|| {
                Problem::new(Kind::InvalidParams, format!("the environment variable `{variable}` is not set"))
                    .hint("export it, or omit `--from-env` and pass the value on stdin")
            })?;
            return Ok(Some(Secret::new(value)));
        }
        let mut stdin = std::io::stdin().lock();
        if stdin.is_terminal() {
            return ask_hidden(&mut stdin, self.question).context("ask for the value");
        }
        let mut bytes = Vec::new();
        // With a line end, and one more to see that it is too long.
        stdin.take(VALUE_BYTES as u64 + 3).read_to_end(&mut bytes).context("read the value from stdin")?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Problem::new(Kind::InvalidParams, format!("{} is not UTF-8 text", self.what)))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Some(Secret::new(text.strip_suffix('\r').unwrap_or(text))))
    }
}

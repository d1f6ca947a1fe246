//! `toolcrib profile`: the profiles of a running gateway, added, shown and used; their keys are made in [`key`].

pub(super) mod bundle;
pub(super) mod key;

use std::path::PathBuf;

use http::Method;
use serde_json::{Map, Value, json};
use toolcrib_base::{Problem, ProfileName};
use toolcrib_protocol::Raw;

use super::server::{Request, text_of};
use crate::client::{ClientFlags, Rest};
use crate::kind;
use crate::output::table::field;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Create and revoke the keys of a profile
    #[command(subcommand)]
    Key(key::Action),
    /// Write a profile with its servers into one file, without secrets
    Export(bundle::Export),
    /// Import a profile with its servers from such a file
    Import(bundle::Import),
    #[command(flatten)]
    Wire(RemoteAction),
}

/// What a running gateway is asked for.
#[derive(Debug, clap::Subcommand)]
pub(super) enum RemoteAction {
    /// List the profiles
    List(ClientArguments),
    /// Show a profile with its definition
    Show(ProfileArgument),
    /// Add a profile
    Create(Create),
    /// Remove a profile's definition
    #[command(alias = "remove")]
    Rm(ProfileArgument),
    /// Print the shell line that selects a profile: `eval "$(toolcrib profile use work)"`
    Use(ProfileArgument),
}

#[derive(Debug, clap::Args)]
pub(super) struct ClientArguments {
    #[command(flatten)]
    client: ClientFlags,
}

/// `--profile` is one of the common flags, so the name has another one inside.
#[derive(Debug, clap::Args)]
pub(super) struct ProfileArgument {
    /// The profile's name
    name: ProfileName,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// The new profile's name
    name: ProfileName,
    /// A server to show, or a glob over server names
    #[arg(long = "server", value_name = "GLOB", conflicts_with = "file")]
    servers: Vec<String>,
    /// Show only these tools: globs over `server/tool`
    #[arg(long, value_name = "GLOB", conflicts_with = "file")]
    allow: Vec<String>,
    /// Hide these tools: globs over `server/tool`
    #[arg(long, value_name = "GLOB", conflicts_with = "file")]
    deny: Vec<String>,
    /// How tools are shown: meta, direct, pinned or dynamic
    #[arg(long, conflicts_with = "file")]
    exposure: Option<String>,
    /// The names of the meta-tools: native, muster, go-ent or scooter
    #[arg(long, conflicts_with = "file")]
    dialect: Option<String>,
    /// A YAML file with the definition; `-` reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    client: ClientFlags,
}

// === impl RemoteAction ===

impl RemoteAction {
    pub(super) fn client(&self) -> &ClientFlags {
        match self {
            Self::List(plain) => &plain.client,
            Self::Create(create) => &create.client,
            Self::Show(named) | Self::Rm(named) | Self::Use(named) => &named.client,
        }
    }

    /// What is to be sent, before any request is sent.
    pub(super) fn request(&self) -> Result<Request, Problem> {
        let plain = |method, path: String| Request { method, path, body: None };
        Ok(match self {
            Self::List(_) => plain(Method::GET, "/profiles".to_owned()),
            Self::Show(it) | Self::Use(it) => plain(Method::GET, format!("/profiles/{}", it.name)),
            Self::Rm(it) => plain(Method::DELETE, format!("/profiles/{}", it.name)),
            Self::Create(create) => {
                let body = Some(Raw::from_value(&create.body()?));
                Request { body, ..plain(Method::POST, "/profiles".to_owned()) }
            }
        })
    }
}

impl Create {
    fn body(&self) -> Result<Value, Problem> {
        if let Some(file) = &self.file {
            return Ok(json!({ "name": self.name.as_str(), "yaml": text_of(file)? }));
        }
        let mut definition = Map::new();
        for (key, word) in [("exposure", &self.exposure), ("dialect", &self.dialect)] {
            if let Some(word) = word {
                definition.insert(key.to_owned(), word.as_str().into());
            }
        }
        if !self.servers.is_empty() {
            definition.insert("servers".to_owned(), json!(self.servers));
        }
        let mut tools = Map::new();
        for (key, globs) in [("allow", &self.allow), ("deny", &self.deny)] {
            if !globs.is_empty() {
                tools.insert(key.to_owned(), json!(globs));
            }
        }
        if !tools.is_empty() {
            definition.insert("tools".to_owned(), Value::Object(tools));
        }
        Ok(json!({ "name": self.name.as_str(), "definition": definition }))
    }
}

pub(super) async fn run(action: &RemoteAction, request: &Request, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let answer = rest.ask(request.method.clone(), &request.path, request.body.as_ref()).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    let name = field(&value, "name");
    match action {
        RemoteAction::List(_) => {
            let profiles = value["profiles"].as_array().map(Vec::as_slice).unwrap_or_default();
            output.rows("profiles", kind::rows::PROFILES.columns, profiles)?;
        }
        RemoteAction::Show(_) => Output { format: Format::Yaml, ..output }.answer(&answer)?,
        RemoteAction::Create(_) => {
            let (file, url) = (field(&value, "file"), format!("{}/mcp/p/{name}", rest.origin()));
            output.text(&format!("profile `{name}` is defined in `{file}` and served at {url}"))?;
        }
        RemoteAction::Rm(_) => {
            output.text(&format!("removed profile `{name}` and its file `{}`", field(&value, "file")))?;
        }
        RemoteAction::Use(_) => {
            output.text(&format!("export TOOLCRIB_ENDPOINT='{}{}'", rest.origin(), field(&value, "url")))?;
        }
    }
    Ok(())
}

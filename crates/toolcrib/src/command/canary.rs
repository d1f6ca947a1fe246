//! `toolcrib canary`: tokens whose appearance in a call halts who sends it.

use std::process::ExitCode;

use http::Method;
use serde_json::json;
use toolcrib_call::canaries::mint::KINDS;
use toolcrib_protocol::Raw;

use super::with_rest;
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a canary and print its token, once
    Mint(MintArguments),
    /// Show the canaries, without their tokens
    List(ListArguments),
    /// Forget a canary
    Remove(RemoveArguments),
}

#[derive(Debug, clap::Args)]
struct MintArguments {
    /// What it looks like
    #[arg(long, default_value = "text", value_parser = KINDS)]
    kind: String,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct RemoveArguments {
    /// Its id, such as `can_0f3a5c7e9b1d`
    id: String,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("CANARY", |row| field(row, "id")),
    Column::new("KIND", |row| field(row, "kind")),
    Column::new("PROFILE", |row| field(row, "profile")),
    Column::new("LOOKED FOR", |row| if row["lookedFor"] == true { "yes".to_owned() } else { "NO".to_owned() }),
    Column::new("MINTED", |row| moment(row, "mintedAt")),
    Column::new("BY", |row| crate::text::line(&field(row, "mintedBy")).to_string()),
];

// === impl Arguments ===

impl Arguments {
    fn client(&self) -> &ClientFlags {
        match &self.action {
            Action::Mint(it) => &it.client,
            Action::List(it) => &it.client,
            Action::Remove(it) => &it.client,
        }
    }
}

pub(crate) fn start(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    with_rest(arguments.client(), environment, async |rest, output| run(arguments, rest, output).await)
}

async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Mint(it) => {
            let mut body = json!({ "kind": it.kind });
            if let Some(profile) = rest.profile() {
                body["profile"] = profile.as_str().into();
            }
            let answer = rest.ask(Method::POST, "/canaries", Some(&Raw::from_value(&body))).await?;
            Ok(output.shown(&answer, |canary| {
                output.text(canary["token"].as_str().unwrap_or_default())?;
                output
                    .note(&format!("{} is looked for from now on; its token is not shown again", field(canary, "id")));
                Ok(())
            })?)
        }
        Action::List(_) => Ok(output.listed(&rest.get("/canaries").await?, "canaries", COLUMNS)?),
        Action::Remove(it) => {
            let answer = rest.ask(Method::DELETE, &format!("/canaries/{}", encoded(&it.id)), None).await?;
            Ok(output.shown(&answer, |_| output.text(&format!("removed {}", it.id)))?)
        }
    }
}

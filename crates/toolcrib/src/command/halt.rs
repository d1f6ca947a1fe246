//! `toolcrib halt`: who may do nothing until the halt is lifted.

use std::process::ExitCode;

use http::Method;
use serde_json::json;
use toolcrib_call::HaltSubject;
use toolcrib_protocol::Raw;

use super::with_rest;
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{Column, field, moment};
use crate::text::line;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Halt a principal, client, session, profile or run: everything of it ends and is refused
    Add(AddArguments),
    /// Show the halts in force
    List(ListArguments),
    /// Lift a halt
    Lift(LiftArguments),
}

#[derive(Debug, clap::Args)]
struct AddArguments {
    /// What kind of thing
    #[arg(value_parser = HaltSubject::KINDS)]
    kind: String,
    /// Which one: `user:acme/ann`, an OAuth client, the name of a session, a profile, the id of a run
    subject: String,
    /// Why, for other administrators
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    /// Show those that were lifted, too
    #[arg(long)]
    lifted: bool,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct LiftArguments {
    /// Its id, such as `hlt_0f3a5c7e9b1d`
    id: String,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("HALT", |row| field(row, "id")),
    Column::new("KIND", |row| field(row, "kind")),
    Column::new("SUBJECT", |row| line(&field(row, "subject")).to_string()),
    Column::new("ADDED", |row| moment(row, "addedAt")),
    Column::new("BY", |row| line(&field(row, "addedBy")).to_string()),
    Column::new("LIFTED", |row| moment(row, "liftedAt")),
    Column::new("REASON", |row| line(&field(row, "reason")).to_string()),
];

// === impl Arguments ===

impl Arguments {
    fn client(&self) -> &ClientFlags {
        match &self.action {
            Action::Add(it) => &it.client,
            Action::List(it) => &it.client,
            Action::Lift(it) => &it.client,
        }
    }
}

pub(crate) fn start(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    with_rest(arguments.client(), environment, async |rest, output| run(arguments, rest, output).await)
}

async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Add(it) => {
            let body = json!({ "kind": it.kind, "subject": it.subject, "reason": it.reason });
            let answer = rest.ask(Method::POST, "/halts", Some(&Raw::from_value(&body))).await?;
            said(&answer, "halted", output)
        }
        Action::List(it) => {
            let answer = rest.get(if it.lifted { "/halts?lifted=true" } else { "/halts" }).await?;
            Ok(output.listed(&answer, "halts", COLUMNS)?)
        }
        Action::Lift(it) => {
            let answer = rest.ask(Method::DELETE, &format!("/halts/{}", encoded(&it.id)), None).await?;
            said(&answer, "no longer halted:", output)
        }
    }
}

fn said(answer: &Raw, what: &str, output: Output) -> anyhow::Result<()> {
    Ok(output.shown(answer, |halt| {
        let before = if halt["new"] == false { ", as it was before" } else { "" };
        let (kind, subject, id) = (field(halt, "kind"), field(halt, "subject"), field(halt, "id"));
        output.text(&format!("{what} {kind} {} ({id}){before}", line(&subject)))
    })?)
}

//! `toolcrib approval`: calls that wait for a yes, and the yes or the no.

use http::Method;
use serde_json::{Value, json};
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::table::{Column, field, moment};
use crate::output::{Output, rows_of};
use crate::text::line;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List calls that wait for a yes, and what became of them
    List(ListArguments),
    /// Show a call that waits, with its whole arguments
    Show(ShowArguments),
    /// Say yes: the call runs once
    Approve(DecisionArguments),
    /// Say no
    Deny(DecisionArguments),
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    /// Only those in this state
    #[arg(long, value_parser = ["open", "approved", "running", "done", "denied", "expired", "unknown"])]
    state: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ShowArguments {
    /// The approval: `apr_…`
    id: String,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct DecisionArguments {
    /// The approval: `apr_…`
    id: String,
    /// Why; its caller and the audit log read it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("ID", |row| field(row, "id")),
    Column::new("STATE", |row| field(row, "state")),
    Column::new("KIND", |row| field(row, "kind")),
    Column::new("TOOL", |row| field(row, "tool")),
    Column::new("PRINCIPAL", |row| field(row, "principal")),
    Column::wide("PROFILE", |row| field(row, "profile")),
    Column::new("EXPIRES", |row| moment(row, "expiresAt")),
    Column::wide("APPROVER", |row| field(row, "approver")),
    Column::wide("REASON", |row| field(row, "reason")),
    Column::wide("TARGET", |row| field(row, "targetLabel")),
    Column::wide("SUMMARY", |row| field(row, "actionSummary")),
    Column::wide("ARGUMENTS", |row| field(row, "arguments")),
];

/// What is shown of one, in this order.
const SHOWN: [(&str, &str); 17] = [
    ("id", "ID"),
    ("state", "State"),
    ("kind", "Kind"),
    ("tool", "Tool"),
    ("principal", "Principal"),
    ("profile", "Profile"),
    ("door", "Door"),
    ("chain", "Chain"),
    ("createdAt", "Created"),
    ("expiresAt", "Expires"),
    ("decidedAt", "Decided"),
    ("approver", "Approver"),
    ("reason", "Reason"),
    ("endedAt", "Ended"),
    // Made of the arguments, which follow.
    ("targetType", "Changes"),
    ("targetLabel", "Target"),
    ("actionSummary", "Summary"),
];

// === impl Arguments ===

impl Arguments {
    pub(crate) fn client(&self) -> &ClientFlags {
        match &self.action {
            Action::List(it) => &it.client,
            Action::Show(it) => &it.client,
            Action::Approve(it) | Action::Deny(it) => &it.client,
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    match &arguments.action {
        Action::List(it) => list(it, rest, output).await,
        Action::Show(it) => show(&it.id, rest, output).await,
        Action::Approve(it) => decide(it, "approve", rest, output).await,
        Action::Deny(it) => decide(it, "deny", rest, output).await,
    }
}

async fn list(arguments: &ListArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let state = arguments.state.as_ref().map(|state| format!("?state={state}")).unwrap_or_default();
    Ok(output.listed(&rest.get(&format!("/approvals{state}")).await?, "approvals", COLUMNS)?)
}

async fn show(id: &str, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let answer = rest.get(&format!("/approvals/{}", encoded(id))).await?;
    Ok(output.shown(&answer, |value| {
        let say = |title: &str, words: &str| output.text(&format!("{title:<10} {}", line(words)));
        for (key, title) in SHOWN {
            if !value[key].is_null() {
                say(title, &field(value, key))?;
            }
        }
        for (key, title) in [("askedBy", "Asked by"), ("groups", "Groups")] {
            let words: Vec<&str> = rows_of(value, key).iter().filter_map(Value::as_str).collect();
            if !words.is_empty() {
                say(title, &words.join(", "))?;
            }
        }
        // One line of JSON in which everything is visible already.
        say("Arguments", &field(value, "arguments"))?;
        if value["outcome"].is_null() { Ok(()) } else { say("Outcome", &value["outcome"].to_string()) }
    })?)
}

async fn decide(arguments: &DecisionArguments, word: &str, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let mut wanted = json!({});
    if let Some(reason) = &arguments.reason {
        wanted["reason"] = json!(reason);
    }
    let path = format!("/approvals/{}/{word}", encoded(&arguments.id));
    let answer = rest.ask(Method::POST, &path, Some(&Raw::from_value(&wanted))).await?;
    Ok(output.shown(&answer, |value| {
        let (id, tool, principal) = (field(value, "id"), field(value, "tool"), field(value, "principal"));
        let said = if word == "approve" { "approved" } else { "denied" };
        output.text(&format!("{said} {id}: {} for {}", line(&tool), line(&principal)))
    })?)
}

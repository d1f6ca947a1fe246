//! `toolcrib audit export`: audit events in formats of other systems, also as they happen.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::{Clock, Kind, Problem, SystemClock};

use super::date;
use crate::client::{Client, ClientFlags};
use crate::home::Environment;
use crate::output::{self, Output};

/// How many events are asked for at a time.
const EXPORT_LIMIT: u32 = 1_000;
/// How many seconds the gateway may wait for an event, so that it is not asked all the time.
const WAIT: u32 = 15;
/// How long a gateway that went away is left alone between two attempts.
const REOPEN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArguments {
    /// Format of the lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "jsonl")]
    format: ExportFormat,
    /// Only events since this RFC 3339 date or age, such as `1d`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only events after the one with this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Print new events until interrupted
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// An object on each line (JSON Lines)
    Jsonl,
    /// ArcSight's Common Event Format
    Cef,
    /// OTLP log records, a request on each line
    Otlp,
}

pub(crate) async fn run(
    arguments: &ExportArguments,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let format = match arguments.format {
        ExportFormat::Jsonl => "jsonl",
        ExportFormat::Cef => "cef",
        ExportFormat::Otlp => "otlp",
    };
    let mut wanted = json!({ "format": format, "after": arguments.after.unwrap_or(0), "limit": EXPORT_LIMIT });
    if let Some(when) = &arguments.since {
        wanted["since"] = date(when, SystemClock.now()).into();
    }
    // Of the gateway that came back, where the first one went away.
    let mut next: Option<Client> = None;
    let mut is_following = false;
    loop {
        let asked = next.as_ref().unwrap_or(client).operate("core_audit_export", &wanted).await;
        let answer = match asked {
            Ok(answer) => answer.to_value(),
            Err(problem) if is_following && problem.kind == Kind::Unavailable => {
                output.note(&format!("waiting for the gateway, to continue after event {}", wanted["after"]));
                next = Some(reopen(arguments, environment).await?);
                continue;
            }
            Err(problem) => return Err(problem.into()),
        };
        is_following = arguments.follow;
        let lines = answer["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines: String = lines.iter().filter_map(Value::as_str).flat_map(|line| [line, "\n"]).collect();
        output::print(&lines)?;
        let is_at_end = answer["truncated"] != true;
        if is_at_end && !arguments.follow {
            return Ok(());
        }
        wanted["after"] = answer["next"].clone();
        wanted["wait"] = if is_at_end { WAIT } else { 0 }.into();
    }
}

/// Waits until the gateway is there again, wherever it listens now.
async fn reopen(arguments: &ExportArguments, environment: &Environment) -> anyhow::Result<Client> {
    loop {
        tokio::time::sleep(REOPEN).await;
        match Client::open(&arguments.client, environment).await {
            Ok(client) => return Ok(client),
            Err(error) if error.downcast_ref::<Problem>().is_some_and(|problem| problem.kind == Kind::Unavailable) => {}
            Err(error) => return Err(error),
        }
    }
}

//! `toolcrib audit export`: audit events in formats of other systems, also as they happen.

use serde_json::{Value, json};
use toolcrib_base::{Clock, SystemClock};

use super::date;
use crate::client::{Client, ClientFlags};
use crate::output;

/// How many events are asked for at a time.
const EXPORT_LIMIT: u32 = 1_000;
/// How many seconds the gateway may wait for an event, so that it is not asked all the time.
const WAIT: u32 = 15;

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

pub(crate) async fn run(arguments: &ExportArguments, client: &Client) -> anyhow::Result<()> {
    let format = match arguments.format {
        ExportFormat::Jsonl => "jsonl",
        ExportFormat::Cef => "cef",
        ExportFormat::Otlp => "otlp",
    };
    let mut wanted = json!({ "format": format, "after": arguments.after.unwrap_or(0), "limit": EXPORT_LIMIT });
    if let Some(when) = &arguments.since {
        wanted["since"] = date(when, SystemClock.now()).into();
    }
    loop {
        let answer = client.operate("core_audit_export", &wanted).await?.to_value();
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

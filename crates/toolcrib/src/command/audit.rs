//! `toolcrib audit`: who did what to which tool, and whether the record is intact.

use serde_json::{Value, json};
use toolcrib_base::{Clock, Kind, Problem, SystemClock, Timestamp};
use toolcrib_catalog::Period;

use crate::client::{Client, ClientFlags};
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// List audit events, newest first
    List(ListArguments),
    /// Check that no audit event was changed, removed or added
    Verify(VerifyArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Only calls of these targets: an id or a glob such as `files/*`
    #[arg(long, value_name = "GLOB")]
    target: Option<String>,
    /// Only calls of this principal
    #[arg(long, value_name = "ID")]
    principal: Option<String>,
    /// Only events with this outcome
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only events since this RFC 3339 date or age, such as `1h`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only events before this date or age
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("SEQ", |event| field(event, "seq")),
    Column::new("AT", |event| moment(event, "at")),
    Column::new("PRINCIPAL", |event| field(event, "principal")),
    Column::wide("PROFILE", |event| field(event, "profile")),
    Column::wide("DOOR", |event| field(event, "door")),
    Column::wide("METHOD", |event| field(event, "method")),
    Column::new("TARGET", |event| field(event, "target")),
    Column::new("DECISION", |event| field(event, "decision")),
    Column::new("OUTCOME", |event| field(event, "outcome")),
    Column::new("DURATION", duration),
    Column::wide("ADDRESS", |event| field(event, "address")),
    Column::wide("CREDENTIAL", |event| field(event, "credential")),
    Column::wide("REQUEST", |event| field(event, "request_id")),
];

fn duration(event: &Value) -> String {
    match event["duration_us"].as_f64() {
        Some(micros) if micros < 1e3 => format!("{micros} µs"),
        Some(micros) if micros < 1e6 => format!("{:.1} ms", micros / 1e3),
        Some(micros) => format!("{:.1} s", micros / 1e6),
        None => field(event, "duration_us"),
    }
}

pub(crate) async fn list(arguments: &ListArguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let members = [
        ("target", arguments.target.clone()),
        ("principal", arguments.principal.clone()),
        ("outcome", arguments.outcome.clone()),
        ("since", arguments.since.as_deref().map(|when| date(when, now))),
        ("until", arguments.until.as_deref().map(|when| date(when, now))),
    ];
    let mut wanted = json!({ "limit": arguments.limit });
    for (key, value) in members.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        wanted[key] = json!(value);
    }
    let answer = client.operate("core_audit_list", &wanted).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    let events: &[Value] = value["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    output.rows("audit events", COLUMNS, events)?;
    if value["truncated"] == true {
        output.note(&format!("{} audit events; there may be more: use `--limit N`", events.len()));
    }
    Ok(())
}

pub(crate) async fn verify(client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.operate("core_audit_verify", &json!({})).await?;
    let value = answer.to_value();
    let is_intact = value["intact"] == true;
    if output.is_for_programs() {
        output.answer(&answer)?;
    } else if is_intact {
        output.text(&format!("intact: {} audit events", field(&value, "events")))?;
    }
    if is_intact {
        return Ok(());
    }
    let broken = &value["broken"];
    let message = format!("the audit log is broken at event `{}`: {}", field(broken, "seq"), field(broken, "fault"));
    Err(Problem::new(Kind::Internal, message).hint("what comes before that event is intact").into())
}

/// A date, also of how long ago.
fn date(when: &str, now: Timestamp) -> String {
    let Ok(ago) = when.parse::<Period>() else { return when.to_owned() };
    let millis = i64::try_from(ago.duration().as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(millis)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ago_become_dates() {
        let now = Timestamp(3_600_000);
        assert_eq!(date("1h", now), "1970-01-01T00:00:00.000Z");
        assert_eq!(date("2026-01-01T00:00:00Z", now), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn durations_read_well() {
        for (micros, expected) in [(json!(7), "7 µs"), (json!(1_500), "1.5 ms"), (json!(2_000_000), "2.0 s")] {
            assert_eq!(duration(&json!({ "duration_us": micros })), expected);
        }
        assert_eq!(duration(&json!({})), "");
    }
}

//! `toolcrib status`: how the gateway and its servers are, and what to do about what is not well.

use std::time::Duration;

use serde_json::{Value, json};

use super::get;
use crate::client::{Client, ClientFlags, Rest};
use crate::kind::{KindParser, KindSelection, Verb, listing};
use crate::output::table::{Column, field, moment};
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of object [default: the gateway]
    #[arg(value_parser = KindParser(Verb::Status), requires = "name")]
    kind: Option<KindSelection>,
    /// Its name
    #[arg(add = crate::names::of_kind())]
    name: Option<String>,
    /// Print the full response as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("NAME", |server| field(server, "name")),
    Column::new("STATE", |server| field(server, "state")),
    Column::new("SINCE", |server| moment(server, "since")),
    Column::new("TOOLS", |server| field(server, "tools")),
    Column::wide("RESTARTS", |server| field(server, "restarts")),
    Column::wide("NEXT RETRY", |server| moment(server, "nextRetry")),
];

const SINK_COLUMNS: &[Column] = &[
    Column::new("AUDIT SINK", |sink| field(sink, "name")),
    Column::new("TYPE", |sink| field(sink, "type")),
    Column::new("TO", |sink| field(sink, "to")),
    Column::new("LAG", |sink| field(sink, "lag")),
    Column::new("FAILING SINCE", |sink| moment(sink, "failingSince")),
    Column::wide("SENT", |sink| field(sink, "sent")),
    Column::wide("REJECTED", |sink| field(sink, "rejected")),
    Column::wide("MISSED", |sink| field(sink, "missed")),
];

impl Arguments {
    /// Whether it is about one thing instead of the gateway.
    pub(crate) fn is_of_one(&self) -> bool {
        self.kind.is_some()
    }

    fn format(&self, output: Output) -> Output {
        if self.json { Output { format: Format::Json, ..output } } else { output }
    }
}

/// How one thing is.
pub(crate) async fn one(arguments: &Arguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let (Some(kind), Some(name)) = (&arguments.kind, &arguments.name) else { return Ok(()) };
    let Some(operation) = kind.row.act(Verb::Status) else { return Err(listing::unknown(kind.row, name).into()) };
    let asked = json!({ kind.row.argument: name });
    let answer = output.busy(&format!("loading {name}"), client.obtain(operation, &asked)).await;
    let answer = answer.map_err(|problem| kind.row.sought(problem))?;
    get::show(kind.row, &answer, arguments.format(output))
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let output = arguments.format(output);
    let answer = rest.get("/status").await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    output.text(&heading(&value))?;
    let servers = value["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    output.rows("servers", COLUMNS, servers)?;
    let sinks = value["audit"]["sinks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !sinks.is_empty() && output.format != Format::Name {
        output.text("")?;
        output.rows("audit sinks", SINK_COLUMNS, sinks)?;
    }
    let troubles = troubles(&value);
    if !troubles.is_empty() {
        output.text(&format!("\n{}", troubles.join("\n\n")))?;
    }
    Ok(())
}

fn heading(value: &Value) -> String {
    let recording = if value["audit"]["recording"] == true { "recording" } else { "NOT RECORDING" };
    let uptime = Duration::from_secs(value["uptime_s"].as_u64().unwrap_or(0)).as_secs();
    let (hours, minutes, seconds) = (uptime / 3_600, uptime / 60 % 60, uptime % 60);
    format!(
        "toolcrib {}, up {hours}:{minutes:02}:{seconds:02}, sessions: {}, audit log: {recording}",
        field(value, "version"),
        field(value, "sessions"),
    )
}

/// What is not well, a paragraph each: what, why with what the program said last, and what to do.
fn troubles(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for server in value["servers"].as_array().into_iter().flatten() {
        let why = server["lastError"].as_str().or(server["note"].as_str());
        // Without the token there is no reason, and a server that someone stopped has none.
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let Some(next) = server["next"].as_str().filter(|_| !why.is_empty() || server["state"] != "stopped") else {
            continue;
        };
        all.push(format!("{} {}{why}\n  → {next}", field(server, "name"), field(server, "state")));
    }
    for problem in value["problems"].as_array().into_iter().flatten() {
        let hint = problem["hint"].as_str().map(|hint| format!("\n  → {hint}")).unwrap_or_default();
        all.push(format!("{}{hint}", field(problem, "problem")));
    }
    for warning in value["warnings"].as_array().into_iter().flatten() {
        let hint = warning["hint"].as_str().map(|hint| format!("\n  → {hint}")).unwrap_or_default();
        all.push(format!("{}{hint}", field(warning, "warning")));
    }
    for sink in value["audit"]["sinks"].as_array().into_iter().flatten() {
        let Some(error) = sink["lastError"].as_str() else { continue };
        let (name, lag) = (field(sink, "name"), field(sink, "lag"));
        let what = format!("audit sink {name} takes no events, {lag} wait in the log: {error}");
        all.push(format!("{what}\n  → check the receiver, and `[[audit.sink]]` in config.toml; calls are unaffected"));
    }
    if let Some(error) = value["audit"]["lastError"].as_str().filter(|_| value["audit"]["recording"] == false) {
        all.push(format!("the audit log cannot be written, so calls wait: {error}\n  → free space on the disk"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_reported_with_what_to_do() {
        let value = json!({
            "version": "1", "uptime_s": 3_725, "sessions": 2,
            "audit": { "recording": true, "lastError": null, "sinks": [
                { "name": "archive", "lag": 0 },
                { "name": "siem", "lag": 7, "lastError": "the collector answered 503 Service Unavailable" },
            ]},
            "servers": [
                { "name": "good", "state": "ready" },
                { "name": "bad", "state": "failed", "lastError": "it ended with status 1: no such file", "next": "fix it" },
                { "name": "stripped", "state": "failed", "next": "ask an admin" },
                { "name": "halted", "state": "stopped", "next": "start it" },
            ],
            "problems": [{ "problem": "servers/x.yaml:1:2: wrong", "hint": "write it" }, { "problem": "y", "hint": null }],
        });
        assert_eq!(heading(&value), "toolcrib 1, up 1:02:05, sessions: 2, audit log: recording");
        assert_eq!(
            troubles(&value),
            [
                "bad failed: it ended with status 1: no such file\n  → fix it",
                "stripped failed\n  → ask an admin",
                "servers/x.yaml:1:2: wrong\n  → write it",
                "y",
                "audit sink siem takes no events, 7 wait in the log: the collector answered 503 Service Unavailable\n  \
                 → check the receiver, and `[[audit.sink]]` in config.toml; calls are unaffected",
            ]
        );
    }
}

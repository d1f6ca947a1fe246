//! `toolcrib run activity`: what agents did, from the audit log.

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only that of agents that fit the pattern
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only that of this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only about tools that fit the pattern, such as mail/*
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only about tools of this server or connector
    #[arg(long, value_name = "NAME")]
    connector: Option<String>,
    /// Only about tools of this risk class
    #[arg(long, value_name = "CLASS")]
    risk_class: Option<String>,
    /// Only this kind, such as tool.called
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only with this status, such as blocked
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Not before this moment
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this moment
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only what stands before this number: the next page
    #[arg(long, value_name = "SEQ")]
    before: Option<u64>,
    /// At most so many [default: 50]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("SEQ", |row| field(row, "seq")),
    Column::new("TIME", |row| moment(row, "occurred_at")),
    Column::new("ACTION", |row| field(row, "action")),
    Column::new("STATUS", |row| field(row, "status")),
    Column::new("AGENT", |row| field(row, "agent")),
    Column::new("TOOL", |row| field(row, "tool")),
    Column::wide("RISK", |row| field(row, "risk_class")),
    Column::wide("PRINCIPAL", |row| field(row, "principal")),
    Column::new("RUN", |row| field(row, "run")),
];

pub(super) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let numbers =
        [("before", arguments.before.map(|seq| seq.to_string())), ("limit", arguments.limit.map(|n| n.to_string()))];
    let texts = [
        ("agent", &arguments.agent),
        ("run", &arguments.run),
        ("tool", &arguments.tool),
        ("connector", &arguments.connector),
        ("risk_class", &arguments.risk_class),
        ("kind", &arguments.kind),
        ("status", &arguments.status),
        ("since", &arguments.since),
        ("until", &arguments.until),
    ];
    let given = texts.into_iter().chain(numbers.iter().map(|(key, number)| (*key, number)));
    let query: Vec<String> =
        given.filter_map(|(key, text)| Some(format!("{key}={}", encoded(text.as_deref()?)))).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let answer = rest.get(&format!("/activity{query}")).await?;
    output.listed(&answer, "events", COLUMNS)?;
    if let Some(next) = answer.to_value()["next_before"].as_u64().filter(|_| !output.is_for_programs()) {
        output.note(&format!("there are more: add `--before {next}`"));
    }
    Ok(())
}

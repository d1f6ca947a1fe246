//! `toolcrib figures`: how many calls there were, how they ended and how long they took.

use std::process::ExitCode;

use serde_json::Value;

use super::with_rest;
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{Column, field};
use crate::text::line;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How far back
    #[arg(long, value_parser = ["1h", "6h", "24h", "7d", "30d", "1y"], default_value = "24h")]
    range: String,
    /// What the rows are
    #[arg(long, value_parser = ["server", "tool", "profile", "client"], default_value = "server")]
    by: String,
    /// Only calls of this one
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("NAME", |row| line(&field(row, "name")).to_string()),
    Column::new("CALLS", |row| field(row, "calls")),
    Column::new("ERRORS", |row| field(row, "errors")),
    Column::new("DENIED", |row| field(row, "denied")),
    Column::new("HALF", |row| took(row, "p50_us")),
    Column::new("90 %", |row| took(row, "p90_us")),
    Column::new("99 %", |row| took(row, "p99_us")),
    Column::new("TOKENS SAVED", |row| field(row, "tokens_saved")),
];

pub(crate) fn start(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    with_rest(&arguments.client, environment, async |rest, output| run(arguments, rest, output).await)
}

async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let name = arguments.name.as_deref().map_or_else(String::new, |name| format!("&name={}", encoded(name)));
    let answer = rest.get(&format!("/figures?range={}&by={}{name}", arguments.range, arguments.by)).await?;
    Ok(output.listed(&answer, "rows", COLUMNS)?)
}

/// Microseconds in a unit that people read.
fn took(row: &Value, key: &str) -> String {
    match row[key].as_u64() {
        None => String::new(),
        Some(micros) if micros < 1_000 => format!("{micros} µs"),
        Some(micros) if micros < 1_000_000 => format!("{} ms", micros / 1_000),
        Some(micros) => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::took;

    #[test]
    fn durations_have_a_unit_that_fits() {
        let row = json!({ "a": 999, "b": 12_345, "c": 2_345_678 });
        assert_eq!(["a", "b", "c", "d"].map(|key| took(&row, key)), ["999 µs", "12 ms", "2.3 s", ""]);
    }
}

//! `toolcrib check`: whether something can be used, as a line and as the exit code.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;

use super::get;
use crate::client::{Client, ClientFlags};
use crate::kind::{KindParser, KindSelection, Row, Verb};
use crate::output::Output;
use crate::output::table::field;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::Check))]
    kind: KindSelection,
    /// Its name
    #[arg(add = crate::names::of_kind())]
    name: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let row = arguments.kind.row;
    let names = arguments.kind.names(arguments.name.as_slice());
    let (Some(operation), [name]) = (row.act(Verb::Check), &names[..]) else {
        return Err(get::nameless(row, "check").into());
    };
    let asked = json!({ row.argument: name });
    let answer = output.busy(&format!("checking {name}"), client.obtain(operation, &asked)).await;
    let answer = answer.map_err(|problem| row.sought(problem))?;
    let value = answer.to_value();
    let (available, how) = judged(row, &value);
    let whole = json!({ "kind": row.one, "name": name, "available": available, "detail": how });
    if output.is_for_programs() {
        output.answer(&Raw::from_value(&whole))?;
    } else {
        let how = if how.is_empty() { String::new() } else { format!(" ({how})") };
        let (sign, word) = if available { ("✅", "is available") } else { ("❌", "is not available") };
        let line = format!("{sign} {} '{name}' {word}{how}", row.singular());
        if !available {
            let login =
                value["next"].as_str().filter(|_| row.one == "server").map(|next| format!("log in with `{next}`"));
            let hint = login.unwrap_or_else(|| next_step(row, name));
            return Err(Problem::new(Kind::Unavailable, line).hint(hint).into());
        }
        output.text(&line)?;
    }
    if available { Ok(()) } else { Err(crate::output::ReportedFailure.into()) }
}

/// Whether it can be used, and what is said about that.
fn judged(row: &Row, value: &Value) -> (bool, String) {
    if let Some(available) = value["available"].as_bool() {
        // A workflow's answer has one name for them, a service class's another.
        let missing = ["missing", "missingTools"].into_iter().map(|key| field(value, key));
        let missing = missing.into_iter().find(|missing| !missing.is_empty()).unwrap_or_default();
        return (available, if missing.is_empty() { missing } else { format!("missing tools: {missing}") });
    }
    let state = field(value, "state");
    let health = field(value, "health");
    let error = [field(value, "lastError"), field(value, "error")].into_iter().find(|text| !text.is_empty());
    let said: Vec<String> = [state.clone(), health.clone(), error.unwrap_or_default()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let is_well = match row.one {
        // A lazy server that idles starts with the next call.
        "server" => matches!(state.to_lowercase().as_str(), "ready" | "idle" | "running" | "connected"),
        "service" => {
            matches!(state.to_lowercase().as_str(), "running" | "connected" | "ready") && health != "unhealthy"
        }
        "tool" => !matches!(state.as_str(), "failed" | "stopped" | "held"),
        _ => true,
    };
    (is_well, said.join(", "))
}

fn next_step(row: &Row, name: &str) -> String {
    match row.one {
        "server" | "service" => {
            format!("see `toolcrib describe {} {name}`; `toolcrib start {} {name}`", row.one, row.one)
        }
        "tool" => format!("see `toolcrib explain {name}`"),
        _ => format!("see `toolcrib describe {} {name}`; what is missing may be another server", row.one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::rows::{SERVERS, SERVICE_CLASSES, SERVICES, WORKFLOWS};

    #[test]
    fn what_can_be_used_is_told_from_what_cannot() {
        for (row, value, expected) in [
            (&WORKFLOWS, json!({"name": "w", "available": true}), (true, "")),
            (&WORKFLOWS, json!({"name": "w", "available": false}), (false, "")),
            (&WORKFLOWS, json!({"available": false, "missing": ["a", "b"]}), (false, "missing tools: a,b")),
            (&SERVICE_CLASSES, json!({"available": false, "missingTools": ["a", "b"]}), (false, "missing tools: a,b")),
            (&SERVERS, json!({"state": "ready"}), (true, "ready")),
            (&SERVERS, json!({"state": "failed", "lastError": "gone"}), (false, "failed, gone")),
            (&SERVICES, json!({"state": "running", "health": "unhealthy"}), (false, "running, unhealthy")),
            (&SERVICES, json!({"state": "connected", "health": "healthy"}), (true, "connected, healthy")),
        ] {
            let (available, how) = judged(row, &value);
            assert_eq!((available, how.as_str()), expected, "{value}");
        }
    }
}

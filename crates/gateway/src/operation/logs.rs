//! The logs of servers: what a program wrote to stderr, and what the gateway saw of it.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_view::Operation;
use toolcrib_view::arguments::{number, text};

use super::servers::running;
use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;
use crate::server_logs::LogQuery;

pub(super) const ROWS: &[Row] = &[row(
    Run::Global(|gateway, arguments| Box::pin(logs(gateway, arguments))),
    Operation {
        tool: "core_mcpserver_logs",
        path: "/servers/{name}/logs",
        tag: "servers",
        summary: "Show the log of a server",
        description: "Show what a server's program wrote to stderr and what the gateway saw of it, oldest \
                      first: the newest lines, or those after a place (`after`, from `next`). The log holds \
                      the last one to two megabytes. `missed` says that lines after the place are gone \
                      already.",
        problems: &[Kind::NotFound, Kind::InvalidParams, Kind::Unavailable],
        input: concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","#,
            r#""description":"Name of the server"},"query":{"type":"string","#,
            r#""description":"Words that a line has, in any order"},"level":{"enum":["INFO","WARN","#,
            r#""ERROR"],"description":"Only lines of this level or a graver one"},"#,
            r#""after":{"type":"string","#,
            r#""description":"Only lines after this place: `next` of an answer"},"#,
            r#""limit":{"type":"integer","minimum":1,"maximum":1000,"default":200}},"#,
            r#""required":["name"],"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"server":{"type":"string"},"lines":{"type":"array","#,
            r#""items":{"type":"object","properties":{"at":{"type":"string"},"level":{"type":"string"},"#,
            r#""line":{"type":"string"}},"required":["at","level","line"]}},"next":{"type":"string"},"#,
            r#""missed":{"type":"boolean"},"truncated":{"type":"boolean"}},"required":["server","#,
            r#""lines","next","missed","truncated"]}"#,
        ),
        ..ROW
    },
)];

/// How many lines are shown when no one says.
const LIMIT: u64 = 200;
/// The levels, the gravest last.
const LEVELS: [&str; 3] = ["INFO", "WARN", "ERROR"];

async fn logs(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let server = running(gateway, arguments)?.definition.name.clone();
    let Some(logs) = gateway.logs.clone() else {
        return Err(Problem::new(Kind::Unavailable, "this gateway keeps no logs of servers")
            .hint("Only `toolcrib serve` and `toolcrib stdio` keep them, in `state/logs` of the home folder."));
    };
    let words = text(arguments, "query")?.unwrap_or_default();
    let level = text(arguments, "level")?;
    let lowest = level.and_then(|level| LEVELS.iter().position(|known| *known == level)).unwrap_or(0);
    let query = LogQuery {
        words: words.split_whitespace().map(str::to_owned).collect(),
        levels: if lowest == 0 { Vec::new() } else { LEVELS[lowest..].iter().map(ToString::to_string).collect() },
        after: text(arguments, "after")?.filter(|place| !place.is_empty()),
        limit: usize::try_from(number(arguments, "limit")?.unwrap_or(LIMIT)).unwrap_or(usize::MAX),
    };
    let name = server.clone();
    let found = blocking(move || logs.read(&name, &query)).await?;
    let lines: Vec<Value> =
        found.lines.iter().map(|line| json!({ "at": line.at, "level": line.level, "line": line.line })).collect();
    Ok(json!({
        "server": server.as_str(), "lines": lines, "next": found.next, "missed": found.missed,
        "truncated": found.truncated,
    }))
}

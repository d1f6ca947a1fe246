//! `toolcrib find`: tools for a purpose told in plain words, best first.

use serde_json::{Value, json};

use crate::client::{Client, ClientFlags};
use crate::output::Output;
use crate::output::table::{Column, field};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What the tool should do, in plain words
    #[arg(required = true)]
    words: Vec<String>,
    /// Only tools of this server
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// How much to tell of each
    #[arg(long, value_enum)]
    detail: Option<Detail>,
    /// How many tokens the answer may cost a model
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Detail {
    Names,
    Signatures,
    Schemas,
}

/// The columns, best hit first.
const COLUMNS: &[Column] = &[
    Column::new("NAME", |hit| field(hit, "name")),
    Column::new("SERVER", |hit| field(hit, "server")),
    Column::wide("STATE", |hit| field(hit, "state")),
    Column::wide("SCORE", |hit| hit["score"].as_f64().map(|score| format!("{score:.2}")).unwrap_or_default()),
    Column::wide("ALSO", |hit| field(hit, "also")),
    Column::wide("SIGNATURE", |hit| field(hit, "signature")),
    Column::new("SUMMARY", |hit| field(hit, "summary")),
];

pub(crate) async fn run(arguments: &Arguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let mut wanted = json!({ "query": arguments.words.join(" "), "limit": arguments.limit });
    if let Some(server) = &arguments.server {
        wanted["server"] = json!(server);
    }
    if let Some(detail) = arguments.detail {
        wanted["detail"] = json!(match detail {
            Detail::Names => "names",
            Detail::Signatures => "signatures",
            Detail::Schemas => "schemas",
        });
    }
    if let Some(most) = arguments.max_tokens {
        wanted["max_tokens"] = json!(most);
    }
    let answer = client.ask("find_tools", &wanted).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    let hits: &[Value] = value["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    output.rows("tools", COLUMNS, hits)?;
    let total = value["total"].as_u64().unwrap_or(hits.len() as u64);
    if total > hits.len() as u64 {
        output.note(&format!("{} of {total} tools; more with `--limit N`", hits.len()));
    }
    if value["confidence"] == "low" {
        output.note("perhaps nothing fits: try other words");
    }
    let loadable = field(&value, "loadable");
    if !loadable.is_empty() {
        output.note(&format!("could be loaded: {loadable}"));
    }
    Ok(())
}

//! `toolcrib find`: tools for a purpose in plain words, best first.

use serde_json::{Value, json};

use crate::client::{Client, ClientFlags};
use crate::output::Output;
use crate::output::table::{Column, field};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The task, in plain words
    #[arg(required = true)]
    words: Vec<String>,
    /// Only tools of this server
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Level of detail for each result
    #[arg(long, value_enum)]
    detail: Option<Detail>,
    /// Maximum tokens of the response
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    /// Also explain each score
    #[arg(long, conflicts_with = "detail")]
    explain: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Detail {
    Names,
    Signatures,
    Schemas,
}

/// More tokens than any answer has.
const EVERYTHING: u32 = 100_000;

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
    if arguments.explain {
        return explained(wanted, client, output).await;
    }
    if let Some(detail) = arguments.detail {
        wanted["detail"] = json!(match detail {
            Detail::Names => "names",
            Detail::Signatures => "signatures",
            Detail::Schemas => "schemas",
        });
    }
    // Who asks for many at a terminal wants them all: no model has to pay for them.
    let many = (arguments.limit > 8).then_some(EVERYTHING);
    if let Some(most) = arguments.max_tokens.or(many) {
        wanted["max_tokens"] = json!(most);
    }
    // Where the dialect has another search, the operation answers the same.
    let is_plain = arguments.detail.is_none() && arguments.max_tokens.is_none();
    let name = if is_plain && client.wraps().await? { "core_tool_find" } else { "find_tools" };
    let answer = client.ask(name, &wanted).await?;
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
        output.note("no good match: try other words");
    }
    super::list::note_logins(client, arguments.server.as_deref(), output).await;
    let loadable = field(&value, "loadable");
    if !loadable.is_empty() {
        output.note(&format!("can be loaded: {loadable}"));
    }
    Ok(())
}

/// The hits, and what each component of the ranking and each word of the query brings.
async fn explained(mut wanted: Value, client: &Client, output: Output) -> anyhow::Result<()> {
    wanted["explain"] = json!(true);
    let answer = client.ask("core_tool_find", &wanted).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    for hit in answer.to_value()["tools"].as_array().into_iter().flatten() {
        output.text(text_of(hit).trim_end())?;
    }
    Ok(())
}

fn text_of(hit: &Value) -> String {
    let why = &hit["explanation"];
    let number = |value: &Value| format!("{:.2}", value.as_f64().unwrap_or_default());
    let mut text = format!("{} {}\n", number(&hit["score"]), crate::text::line(&field(hit, "id")));
    if why.is_null() {
        return format!("{text}  no details for this ranking\n");
    }
    if why["exact"].as_f64().is_some_and(|exact| exact > 0.0) {
        text.push_str(&format!("  exact    {}\n", number(&why["exact"])));
    }
    for part in ["words", "alike", "meaning", "model", "server"].into_iter().filter(|part| why[*part].is_object()) {
        let (scaled, weight) = (number(&why[part]["scaled"]), number(&why[part]["weight"]));
        text.push_str(&format!("  {part:<8} {} = {scaled} × {weight}", number(&why[part]["share"])));
        if part == "words" {
            for term in why["terms"].as_array().into_iter().flatten() {
                let word = crate::text::line(&field(term, "word")).into_owned();
                text.push_str(&format!(", {word} {}", number(&term["score"])));
            }
        }
        text.push('\n');
    }
    if why["learned"].as_f64().is_some_and(|learned| learned > 0.0) {
        text.push_str(&format!("  learned  {}\n", number(&why["learned"])));
    }
    for taken in why["corrections"].as_array().into_iter().flatten() {
        let (from, to) = (field(taken, "from"), field(taken, "to"));
        text.push_str(&format!("  `{}` read as `{}`\n", crate::text::line(&from), crate::text::line(&to)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_reported_by_its_parts() {
        let part = |share: f64| json!({ "raw": 1.0, "scaled": share * 2.0, "weight": 0.5, "share": share });
        let mut hit = json!({
            "id": "a/b", "score": 0.9,
            "explanation": {
                "exact": 0.0, "words": part(0.4), "alike": part(0.1), "meaning": part(0.4),
                "terms": [{"word": "currency\u{1b}", "score": 3.0}],
                "corrections": [{"from": "curency", "to": "currency"}],
            },
        });
        let text = text_of(&hit);
        assert!(text.starts_with("0.90 a/b\n  words    0.40 = 0.80 × 0.50, currency"), "{text}");
        assert!(text.ends_with("  `curency` read as `currency`\n") && !text.contains('\u{1b}'), "{text}");
        hit["explanation"]["model"] = part(0.2);
        hit["explanation"]["server"] = json!({ "raw": 0.3, "scaled": 0.3, "weight": 0.2, "share": 0.06 });
        hit["explanation"]["learned"] = json!(0.05);
        let text = text_of(&hit);
        let parts = "  model    0.20 = 0.40 × 0.50\n  server   0.06 = 0.30 × 0.20\n  learned  0.05\n";
        assert!(text.contains(parts), "{text}");
        hit["explanation"] = Value::Null;
        assert!(text_of(&hit).contains("no details"));
    }
}

//! `toolcrib call`: one call of a tool, its result as a person reads it.

pub(super) mod arguments;
pub(super) mod questions;

use std::io::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::{Notification, Raw};
use toolcrib_transport::CallHandler;

use crate::client::{Answer, Client, ClientFlags, ToolResult};
use crate::output::table::field;
use crate::output::{Output, json as layout};
use crate::text;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The tool's name or its id `server/tool`
    #[arg(add = crate::names::tools())]
    tool: String,
    #[command(flatten)]
    given: arguments::ArgumentFlags,
    /// An answer to a field that the tool asks for [default: ask on the terminal]
    #[arg(long = "answer", value_name = "FIELD=VALUE")]
    answers: Vec<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

impl Arguments {
    /// The arguments of the call, before any request is sent.
    pub(crate) fn gather(&self) -> Result<Raw, Problem> {
        self.given.gather()
    }

    /// Who answers what the tool asks back.
    pub(crate) fn person(&self) -> Result<Option<Arc<dyn Answer>>, Problem> {
        questions::Person::find(&self.answers)
    }

    /// The arguments as the tool wants them. It is asked only where that is in doubt.
    async fn settle(&self, given: &Raw, client: &Client) -> Result<Raw, Problem> {
        let doubtful = self.given.doubtful()?;
        if doubtful.is_empty() {
            return Ok(given.clone());
        }
        // A tool that cannot be seen says so when it is called.
        let tool = client.obtain("core_tool_get", &json!({ "name": self.tool })).await;
        let schema = tool.map_or(Value::Null, |tool| tool.to_value()["inputSchema"].clone());
        Ok(arguments::settled(given, &doubtful, &schema))
    }
}

pub(crate) async fn run(arguments: &Arguments, given: &Raw, client: &Client, output: Output) -> anyhow::Result<()> {
    let handler = output.shows_progress().then(|| {
        let show: Arc<dyn CallHandler> = Arc::new(|progress: Notification| show_progress(&progress.params));
        show
    });
    let shows_progress = handler.is_some();
    let given = arguments.settle(given, client).await?;
    let result = client.run(&arguments.tool, &given, handler).await;
    if shows_progress {
        // Takes the line of progress away.
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
    let result = result.map_err(|problem| explained(problem, client))?;
    if result.is_error() {
        return Err(explained(client.refused(&result), client).into());
    }
    if output.is_for_programs() {
        output.answer(&result.structured().unwrap_or_else(|| result.0.clone()))?;
    } else {
        output.text(&readable(&result))?;
    }
    Ok(())
}

/// A server may keep tools that ask from clients that do not answer, and then not know what it lists for others.
fn explained(problem: Problem, client: &Client) -> Problem {
    let text = problem.message.to_lowercase();
    let is_unknown = problem.kind != Kind::UnknownTool && text.contains("not found") && text.contains("tool");
    if client.answers() || problem.hint.is_some() || !is_unknown {
        return problem;
    }
    problem.hint(
        "the server may offer this tool only to clients that answer its questions: call it in a terminal, or with \
         `--answer FIELD=VALUE`",
    )
}

/// One line on the terminal, written over by the next.
fn show_progress(params: &Raw) {
    let params = params.to_value();
    let done = field(&params, "progress");
    let total = params.get("total").map(|total| format!("/{total}")).unwrap_or_default();
    let message: String = field(&params, "message").chars().take(60).collect();
    let _ = write!(std::io::stderr().lock(), "\r\x1b[K{}", text::line(&format!("{done}{total} {message}")));
}

/// The result for a person: the texts, what else there is, and the structured content where there is no text.
fn readable(result: &ToolResult) -> String {
    let blocks = result.blocks();
    let has_text = blocks.iter().any(|block| block.text("type").as_deref() == Some("text"));
    let mut parts: Vec<String> = blocks.iter().map(block).collect();
    if !has_text && let Some(structured) = result.0.get("structuredContent") {
        parts.push(layout::pretty(structured.as_str()).trim_end().to_owned());
    }
    if parts.is_empty() { "(no content)".to_owned() } else { parts.join("\n") }
}

fn block(block: &Raw) -> String {
    let value = block.to_value();
    let mime = |value: &Value| value["mimeType"].as_str().unwrap_or("of unknown type").to_owned();
    match value["type"].as_str() {
        Some("text") => laid_out(value["text"].as_str().unwrap_or_default()),
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind} {}, {} bytes]", mime(&value), decoded_size(&value["data"]))
        }
        Some("resource") => {
            let resource = &value["resource"];
            let uri = field(resource, "uri");
            match resource["text"].as_str() {
                Some(text) => format!("[resource {uri} {}]\n{text}", mime(resource)),
                None => format!("[resource {uri} {}, {} bytes]", mime(resource), decoded_size(&resource["blob"])),
            }
        }
        Some("resource_link") => format!("[link {} {}]", field(&value, "uri"), field(&value, "name")),
        Some(other) => format!("[{other}, {} bytes of JSON]", block.as_str().len()),
        None => format!("[a block without a type, {} bytes of JSON]", block.as_str().len()),
    }
}

/// A text that is JSON gets line breaks.
fn laid_out(text: &str) -> String {
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    if looks_like_json && Raw::parse(text.to_owned().into_bytes().into(), Rules::relayed(120)).is_ok() {
        return layout::pretty(text).trim_end().to_owned();
    }
    text.to_owned()
}

/// How many bytes a base64 text encodes.
fn decoded_size(data: &Value) -> usize {
    let data = data.as_str().unwrap_or_default().trim_end_matches('=');
    data.len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &Value, expected: &str) {
        assert_eq!(readable(&ToolResult(Raw::from_value(result))), expected, "{result}");
    }

    #[test]
    fn results_are_readable() {
        check(&json!({"content": [{"type": "text", "text": "a\nb"}], "structuredContent": {"x": 1}}), "a\nb");
        check(&json!({"content": [{"type": "text", "text": "[1]"}]}), "[\n  1\n]");
        check(&json!({"content": [], "structuredContent": {"x": 1}}), "{\n  \"x\": 1\n}");
        check(
            &json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAECAw=="}]}),
            "[image image/png, 4 bytes]",
        );
        check(
            &json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "t"}}]}),
            "[resource a:b text/plain]\nt",
        );
        check(
            &json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "AAEC"}}]}),
            "[resource a:b of unknown type, 3 bytes]",
        );
        check(&json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "n"}]}), "[link a:b n]");
        check(
            &json!({"content": [{"type": "hologram", "x": 1}, {}]}),
            "[hologram, 25 bytes of JSON]\n[a block without a type, 2 bytes of JSON]",
        );
        check(&json!({}), "(no content)");
        check(&json!({"content": 7}), "(no content)");
    }
}

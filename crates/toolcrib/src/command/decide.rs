//! `toolcrib approve` and `toolcrib reject`: what is to become of what differs from what was approved.

use http::Method;
use serde_json::{Value, json};
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest, encoded};
use crate::output::Output;
use crate::output::table::field;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server
    server: String,
    /// Tools, `prompt:NAME`, `template:URI` or `instructions`
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// Everything that changed
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Only if the server still offers what `toolcrib verify --output json` showed with this digest
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Reject,
}

pub(crate) async fn run(decision: Decision, arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let (operation, word) = match decision {
        Decision::Approve => ("approve", "approved"),
        Decision::Reject => ("reject", "rejected"),
    };
    let mut wanted = json!({});
    if !arguments.all {
        wanted["tools"] = json!(arguments.names);
    }
    if let Some(digest) = &arguments.digest {
        wanted["digest"] = json!(digest);
    }
    let path = format!("/servers/{}/{operation}", encoded(&arguments.server));
    let answer = rest.ask(Method::POST, &path, Some(&Raw::from_value(&wanted))).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    let decided: &[Value] = value["decided"].as_array().map(Vec::as_slice).unwrap_or_default();
    for item in decided {
        output.text(&format!("{word} {} {}", field(item, "kind"), crate::text::line(&field(item, "name"))))?;
    }
    if decided.is_empty() {
        output.text("no differences")?;
    }
    Ok(())
}

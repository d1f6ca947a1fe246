//! `toolcrib verify`: start a server beside what runs, and show how what it offers differs from what was approved.

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
    /// Also write the tools and the time into the definition's file
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let answer = rest
        .ask(
            Method::POST,
            &format!("/servers/{}/verify", encoded(&arguments.server)),
            Some(&Raw::from_value(&json!({ "write": arguments.write }))),
        )
        .await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    output.text(&headline(&value))?;
    if let Some(file) = value["file"].as_str() {
        output.text(&format!("the tools are written into `{}`", crate::text::line(file)))?;
    }
    let text = field(&value, "text");
    if !text.is_empty() {
        output.text(text.trim_end())?;
        let server = crate::text::line(&arguments.server).into_owned();
        output.note(&format!("approve with `toolcrib approve {server} --all`, turn down with `toolcrib reject {server} --all`, or name what you mean"));
    }
    for warning in value["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.note(warning);
    }
    Ok(())
}

fn headline(value: &Value) -> String {
    let what = if value["first"] == true {
        "verified for the first time, all of it counts as approved".to_owned()
    } else {
        format!("verified, {}", field(value, "summary"))
    };
    format!("{}: {what}: {} tools in {} ms", field(value, "server"), field(value, "tools"), field(value, "tookMs"))
}

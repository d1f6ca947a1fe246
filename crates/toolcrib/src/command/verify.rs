//! `toolcrib verify`: start a server beside what runs, and show how what it offers differs from what was approved.

pub(crate) mod many;

use std::io::IsTerminal;

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;

use self::many::Verification;
use crate::client::{ClientFlags, Rest};
use crate::output::Output;
use crate::output::table::field;
use crate::text::count;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The servers
    #[arg(required_unless_present = "all")]
    servers: Vec<ServerName>,
    /// Every enabled server
    #[arg(long, conflicts_with = "servers")]
    all: bool,
    /// Also write the tools and the time into the definition file
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(arguments: &Arguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    match arguments.servers.as_slice() {
        [server] => one(server, arguments.write, rest, output).await,
        _ if output.is_for_programs() => {
            Err(Problem::new(Kind::InvalidParams, "`-o json` works for a single server only")
                .hint("run `toolcrib verify NAME -o json` for each server")
                .into())
        }
        named => several(arguments, named, rest).await,
    }
}

async fn several(arguments: &Arguments, named: &[ServerName], rest: &Rest) -> anyhow::Result<()> {
    let servers = if arguments.all { switched_on(rest).await? } else { named.to_vec() };
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let outcome = Verification { rest, servers: &servers, write: arguments.write, asks }.run().await?;
    match servers.len() - outcome.verified {
        0 => Ok(()),
        missing => Err(super::not_working(missing, servers.len()).hint("run `toolcrib doctor` for details").into()),
    }
}

/// The servers that are not stopped.
async fn switched_on(rest: &Rest) -> anyhow::Result<Vec<ServerName>> {
    let all = rest.get("/servers").await?.to_value();
    let servers = all["mcpServers"].as_array().into_iter().flatten().filter(|server| server["state"] != "stopped");
    Ok(servers.filter_map(|server| ServerName::new(server["name"].as_str()?).ok()).collect())
}

async fn one(server: &ServerName, write: bool, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let body = Raw::from_value(&json!({ "write": write }));
    let answer = rest.ask(Method::POST, &format!("/servers/{server}/verify"), Some(&body)).await?;
    if output.is_for_programs() {
        return Ok(output.answer(&answer)?);
    }
    let value = answer.to_value();
    output.text(&headline(&value))?;
    if let Some(file) = value["file"].as_str() {
        output.text(&format!("wrote the tools into `{}`", crate::text::line(file)))?;
    }
    let text = field(&value, "text");
    if !text.is_empty() {
        output.text(text.trim_end())?;
        output.note(&format!(
            "approve with `toolcrib approve {server} --all`, reject with `toolcrib reject {server} \
                              --all`, or name the items"
        ));
    }
    for warning in value["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.note(warning);
    }
    Ok(())
}

fn headline(value: &Value) -> String {
    let what = if value["first"] == true {
        "verified for the first time; everything is approved".to_owned()
    } else {
        format!("verified, {}", field(value, "summary"))
    };
    format!(
        "{}: {what}: {} in {} ms",
        field(value, "server"),
        count(&field(value, "tools"), "tool"),
        field(value, "tookMs")
    )
}

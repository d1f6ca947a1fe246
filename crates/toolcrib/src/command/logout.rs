//! `toolcrib logout`: ends a login at a server. Its tokens are revoked where the provider can, and forgotten in any case.

use std::process::ExitCode;

use http::Method;
use serde_json::json;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;

use super::login::place::at_gateway;
use super::login::{endpoint, flow};
use super::on_this_thread;
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server
    #[arg(add = crate::names::servers())]
    server: ServerName,
    #[command(flatten)]
    client: ClientFlags,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    one(&arguments.server, &arguments.client, environment)
}

/// Ends the login at one server.
pub(super) fn one(server: &ServerName, client: &ClientFlags, environment: &Environment) -> anyhow::Result<ExitCode> {
    let output = client.output(environment)?;
    at_gateway(client, environment, async |gateway| {
        let answer = end(gateway.rest, server.as_str()).await?;
        Ok(tell(&answer, server.as_str(), output)?)
    })
}

/// Ends every login, after a question unless `yes`.
pub(super) fn all(yes: bool, client: &ClientFlags, environment: &Environment) -> anyhow::Result<ExitCode> {
    let output = client.output(environment)?;
    at_gateway(client, environment, async |gateway| {
        let logins = flow::logins(gateway.rest).await?;
        let held = logins.iter().filter(|login| login["state"] != "logged-out");
        let servers: Vec<&str> = held.filter_map(|login| login["server"].as_str()).collect();
        if servers.is_empty() {
            output.note("there is no login to end");
            return Ok(());
        }
        if !yes && !flow::confirms_logout(&servers).await? {
            output.note("nothing was changed");
            return Ok(());
        }
        let mut failed = None;
        for server in servers {
            match end(gateway.rest, server).await {
                Ok(answer) => tell(&answer, server, output)?,
                Err(problem) => {
                    output.note(&format!("error: {}", problem.message));
                    failed = failed.or(Some(problem));
                }
            }
        }
        failed.map_or(Ok(()), |problem: Problem| Err(problem.into()))
    })
}

/// Ends the login of this home at a gateway elsewhere. Our own has none.
pub(super) fn of_endpoint(client: &ClientFlags, environment: &Environment) -> anyhow::Result<ExitCode> {
    let output = client.output(environment)?;
    on_this_thread(async {
        if !endpoint::end(client, environment).await? {
            return Err(of_gateway().into());
        }
        if output.is_for_programs() {
            output.answer(&Raw::from_value(&json!({"status": "logged_out"})))?;
        } else {
            output.text("Logged out.")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// There is no login at the gateway itself.
fn of_gateway() -> Problem {
    Problem::new(Kind::Conflict, "the gateway itself has no login to end: it is administered with its token").hint(
        "name a server with `toolcrib logout SERVER`, or all with `--all`; a context forgets its token with `toolcrib \
             context update NAME --no-token`",
    )
}

async fn end(rest: &Rest, server: &str) -> Result<Raw, Problem> {
    rest.ask(Method::DELETE, &rest.in_profile(&format!("/logins/{}", encoded(server))), None).await
}

fn tell(answer: &Raw, server: &str, output: Output) -> std::io::Result<()> {
    if output.is_for_programs() {
        return output.answer(answer);
    }
    match answer.text("status").as_deref() {
        Some("not_logged_in") => output.text(&format!("There was no login at {server}.")),
        _ => output.text(&format!("Logged out of {server}.")),
    }
}

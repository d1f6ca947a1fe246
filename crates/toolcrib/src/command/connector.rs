//! `toolcrib connector`: what a connector's server offers beside its definition, and another secret for it. Both ask a
//! running gateway.

use std::process::ExitCode;

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Secret};
use toolcrib_protocol::Raw;

use super::secret::SecretSource;
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::table::{Column, field};
use crate::output::{Output, rows_of};
use crate::text::line;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Connect to a connector's server, and compare its tools with the definition
    Test(TestArguments),
    /// Replace a connector's secret; reads the value from stdin, or asks for it on a terminal
    Rotate(RotateArguments),
}

#[derive(Debug, clap::Args)]
struct TestArguments {
    /// The connector's name
    name: String,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct RotateArguments {
    /// The connector's name
    name: String,
    /// Take the value from this environment variable
    #[arg(long, value_name = "VARIABLE")]
    from_env: Option<String>,
    #[command(flatten)]
    client: ClientFlags,
}

const CHECKS: &[Column] = &[
    Column::new("CHECK", |row| field(row, "check")),
    Column::state("WORKS", |row| match row["works"].as_bool() {
        Some(true) => "yes".to_owned(),
        Some(false) => "NO".to_owned(),
        None => "-".to_owned(),
    }),
    Column::new("DETAIL", |row| field(row, "detail")),
];

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Test(arguments) => {
            super::with_rest(&arguments.client, environment, async |rest, output| test(arguments, rest, output).await)
        }
        Action::Rotate(arguments) => {
            let Some(value) = value(arguments, environment)? else { return Ok(ExitCode::from(super::INTERRUPTED)) };
            super::with_rest(&arguments.client, environment, async |rest, output| {
                rotate(arguments, &value, rest, output).await
            })
        }
    }
}

async fn test(arguments: &TestArguments, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let path = format!("/connectors/{}/test", encoded(&arguments.name));
    let body = Raw::from_value(&json!({}));
    let asked = rest.ask(Method::POST, &path, Some(&body));
    let answer = output.busy(&format!("testing {}", arguments.name), asked).await?;
    output.listed(&answer, "checks", CHECKS)?;
    let report = answer.to_value();
    let unlisted: Vec<&str> = rows_of(&report, "unlisted").iter().filter_map(Value::as_str).collect();
    if !output.is_for_programs() && !unlisted.is_empty() {
        output.text(&format!("not in its definition: {}", line(&unlisted.join(", "))))?;
    }
    if report["works"] == true {
        return Ok(());
    }
    let failed = rows_of(&report, "checks").iter().filter(|row| row["works"] == false);
    let names: Vec<String> = failed.map(|row| format!("`{}`", field(row, "check"))).collect();
    let message = format!("connector `{}` failed: {}", arguments.name, names.join(", "));
    Err(Problem::new(Kind::Unavailable, message).hint("the details above say what to do").into())
}

async fn rotate(arguments: &RotateArguments, value: &Secret, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let path = format!("/connectors/{}/rotate", encoded(&arguments.name));
    let answer = rest.ask(Method::POST, &path, Some(&Raw::from_value(&json!({ "value": value.expose() })))).await?;
    Ok(output.shown(&answer, |said| {
        output.text(&line(&field(said, "message")))?;
        let shared: Vec<&str> = rows_of(said, "shared").iter().filter_map(Value::as_str).collect();
        if shared.is_empty() { Ok(()) } else { output.text(&format!("also the secret of: {}", shared.join(", "))) }
    })?)
}

/// The new value; `None` where the person took the question back.
fn value(arguments: &RotateArguments, environment: &Environment) -> anyhow::Result<Option<Secret>> {
    let question = format!("new secret of `{}`: ", arguments.name);
    let from_env = arguments.from_env.as_deref();
    let value = SecretSource { from_env, question: &question, what: "the value" }.read(environment)?;
    if value.as_ref().is_some_and(|value| value.expose().is_empty()) {
        let problem = Problem::new(Kind::InvalidParams, "the value is empty");
        return Err(problem.hint("pass it on stdin: `toolcrib connector rotate NAME < FILE`").into());
    }
    Ok(value)
}

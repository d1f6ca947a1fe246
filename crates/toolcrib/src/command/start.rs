//! `toolcrib start`, `stop` and `restart`: servers and services; `start workflow` runs one.

mod workflow;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};

use super::call::arguments::ExtraArguments;
use super::get;
use crate::client::{Client, ClientFlags, ToolResult};
use crate::kind::{KindParser, KindSelection, Row, Verb};
use crate::output::table::field;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::Start))]
    kind: KindSelection,
    /// Names; a workflow's input may follow as `key=value` or `--key value`
    #[arg(value_name = "NAME", add = crate::names::of_kind())]
    words: Vec<String>,
    #[command(flatten)]
    loose: ExtraArguments,
    /// Do not wait for the workflow to complete; print the id of its run
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::Stop))]
    kind: KindSelection,
    /// Names
    #[arg(value_name = "NAME", add = crate::names::of_kind())]
    names: Vec<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Restart {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::Restart))]
    kind: KindSelection,
    /// Names
    #[arg(value_name = "NAME", add = crate::names::of_kind())]
    names: Vec<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn start(arguments: &Start, client: &Client, output: Output) -> anyhow::Result<()> {
    let row = arguments.kind.row;
    let words = arguments.kind.names(&arguments.words);
    if row.one != "workflow" {
        if arguments.detach || !arguments.loose.is_empty() {
            return Err(Problem::new(Kind::InvalidParams, format!("a {} takes no input", row.singular())).into());
        }
        return each(row, Verb::Start, &words, client, output).await;
    }
    let (name, pairs) = words.split_first().ok_or_else(|| get::nameless(row, "start"))?;
    let run = workflow::Run { name, pairs, loose: &arguments.loose, detach: arguments.detach };
    workflow::run(&run, client, output).await
}

pub(crate) async fn stop(arguments: &Stop, client: &Client, output: Output) -> anyhow::Result<()> {
    each(arguments.kind.row, Verb::Stop, &arguments.kind.names(&arguments.names), client, output).await
}

pub(crate) async fn restart(arguments: &Restart, client: &Client, output: Output) -> anyhow::Result<()> {
    each(arguments.kind.row, Verb::Restart, &arguments.kind.names(&arguments.names), client, output).await
}

/// One order for each name; the first that fails is the outcome, and the others continue.
async fn each(row: &'static Row, verb: Verb, names: &[String], client: &Client, output: Output) -> anyhow::Result<()> {
    let (word, doing, done) = words(verb);
    let Some(operation) = row.act(verb).filter(|_| !names.is_empty()) else {
        return Err(get::nameless(row, word).into());
    };
    let mut failed: Option<Problem> = None;
    for name in names {
        let asked = json!({ row.argument: name });
        let outcome = output.busy(&format!("{doing} {name}"), client.act(operation, &asked)).await;
        let outcome = outcome.map_err(|problem| row.sought(problem));
        match outcome.and_then(|result| told(row, name, done, &result).map(|text| (result, text))) {
            Ok((result, text)) => match output.format {
                Format::Json | Format::Yaml => output.answer(&result.value())?,
                Format::Name => output.text(&format!("{}/{name}", row.one))?,
                Format::Table | Format::Wide => output.text(&text)?,
            },
            Err(problem) if failed.is_none() => failed = Some(problem),
            Err(problem) => output.note(&format!("error: {}", problem.message)),
        }
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

const fn words(verb: Verb) -> (&'static str, &'static str, &'static str) {
    match verb {
        Verb::Stop => ("stop", "stopping", "stopped"),
        Verb::Restart => ("restart", "restarting", "restarted"),
        _ => ("start", "starting", "started"),
    }
}

/// What a gateway says of something that went well, as people read it.
pub(super) fn sentence(text: &str) -> String {
    match text.strip_prefix("successfully") {
        Some(rest) => format!("Successfully{rest}"),
        None => text.to_owned(),
    }
}

/// What is reported of an order that was obeyed: the gateway's own words, else ours.
fn told(row: &Row, name: &str, done: &str, result: &ToolResult) -> Result<String, Problem> {
    let value = result.value().to_value();
    let Value::Object(_) = value else { return Ok(sentence(&result.text())) };
    let state = field(&value, "state");
    if state == "needs-login" {
        let message = format!("{} `{name}` requires a login", row.singular());
        let hint = format!("log in with `toolcrib login {name}`");
        return Err(Problem::new(Kind::Unavailable, message).hint(hint));
    }
    if state == "installing" {
        let note = "it is being downloaded; check progress with `toolcrib status`";
        return Ok(format!("{} '{name}' is installing: {note}", row.singular()));
    }
    if state.eq_ignore_ascii_case("failed") {
        let message = format!("{} `{name}` failed: {}", row.singular(), field(&value, "lastError"));
        let hint = format!("see `toolcrib describe {} {name}` and `state/logs/{name}.log` in the home folder", row.one);
        return Err(Problem::new(Kind::Unavailable, message).hint(hint));
    }
    if let Some(message) = value["message"].as_str() {
        return Ok(sentence(message));
    }
    let state = if state.is_empty() { String::new() } else { format!(" ({state})") };
    Ok(format!("Successfully {done} {} '{name}'{state}", row.singular()))
}

//! `toolcrib delete`: things by name, one after the other; what cannot be deleted is reported, and the others continue.

use serde_json::json;
use toolcrib_base::{Kind, Problem};

use super::get;
use super::start::sentence;
use crate::client::{Client, ClientFlags};
use crate::kind::{KindParser, KindSelection, Source, Verb};
use crate::output::table::field;
use crate::output::{Format, Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind of object
    #[arg(value_parser = KindParser(Verb::Delete))]
    kind: KindSelection,
    /// Names
    #[arg(add = crate::names::of_kind())]
    names: Vec<String>,
    /// Ignore objects that do not exist
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

impl Arguments {
    /// Contexts are in the home, and have their own rules for that.
    pub(crate) fn refuse_local(&self) -> Result<(), Problem> {
        if !matches!(self.kind.row.source, Source::Contexts) {
            return Ok(());
        }
        Err(Problem::new(Kind::InvalidParams, "`delete` does not delete contexts")
            .hint("write `toolcrib context delete NAME`"))
    }
}

pub(crate) async fn run(arguments: &Arguments, client: &Client, output: Output) -> anyhow::Result<()> {
    let row = arguments.kind.row;
    let names = arguments.kind.names(&arguments.names);
    let Some(operation) = row.act(Verb::Delete).filter(|_| !names.is_empty()) else {
        return Err(get::nameless(row, "delete").into());
    };
    let mut failed: Option<Problem> = None;
    for name in &names {
        let outcome =
            output.busy(&format!("deleting {name}"), client.act(operation, &json!({ row.argument: name }))).await;
        match outcome.map_err(|problem| row.sought(problem)) {
            Ok(result) => match output.format {
                Format::Json | Format::Yaml => output.answer(&result.value())?,
                Format::Name => output.text(&format!("{}/{name}", row.one))?,
                Format::Table | Format::Wide => {
                    let value = result.value().to_value();
                    if value.is_string() {
                        // It may say more than that it is gone.
                        output.text(&sentence(&result.text()))?;
                        continue;
                    }
                    let file = Some(field(&value, "file")).filter(|file| !file.is_empty());
                    let file = file.map(|file| format!(" with `{file}`")).unwrap_or_default();
                    output.text(&format!("Successfully deleted {} '{name}'{file}", row.singular()))?;
                }
            },
            Err(problem) if arguments.ignore_not_found && problem.kind == Kind::NotFound => {}
            // The first one becomes the outcome, the others are reported here.
            Err(problem) if failed.is_none() => failed = Some(problem),
            Err(problem) => output.note(&format!("error: {}", problem.message)),
        }
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

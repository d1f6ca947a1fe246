//! `toolcrib eval`: how well a gateway answers and how well agents do their tasks, where it is known what is right.

mod run;
mod set;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};
use toolcrib_protocol::Raw;
use toolcrib_search::measure::Scores;

use crate::compose::{self, Measurement};
use crate::config::Config;
use crate::home::Environment;
use crate::output::table::{Column, field};
use crate::output::{Format, Output};
use set::Set;

/// What is logged by default.
const LOG: &str = "warn";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Send every query of a set to `find_tools` and score the answers
    Search(Search),
    /// Run tasks with agents or models, and check what each run did
    Run(Box<run::RunArguments>),
}

#[derive(Debug, clap::Args)]
struct Search {
    /// A folder with `tools.jsonl` and `queries.jsonl`, or a folder of such folders
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The ranking: `blend` or `tfidf`
    #[arg(long, value_name = "RANKING", default_value = "blend", value_parser = ["blend", "tfidf"])]
    ranking: String,
    /// The format of the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    /// Leave out the headers of tables
    #[arg(long)]
    no_headers: bool,
    /// Print the result only, no notes
    #[arg(short, long)]
    quiet: bool,
}

const COLUMNS: &[Column] = &[
    Column::new("SET", |row| field(row, "set")),
    Column::new("TOOLS", |row| field(row, "tools")),
    Column::new("QUERIES", |row| field(row, "queries")),
    Column::new("R@1", |row| share(&row["recall_at_1"])),
    Column::new("R@5", |row| share(&row["recall_at_5"])),
    Column::new("R@10", |row| share(&row["recall_at_10"])),
    Column::new("MRR", |row| share(&row["mrr"])),
    Column::new("NDCG@10", |row| share(&row["ndcg_at_10"])),
    Column::new("TOKENS p50", |row| field(row, "tokens_median")),
    Column::new("MAX", |row| field(row, "tokens_max")),
    Column::new("MS p50", |row| millis(&row["ms_p50"])),
    Column::new("p95", |row| millis(&row["ms_p95"])),
];

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Search(search) => search_sets(search, environment).map(|()| ExitCode::SUCCESS),
        Action::Run(arguments) => run::run(arguments, environment),
    }
}

fn search_sets(search: &Search, environment: &Environment) -> anyhow::Result<()> {
    // All are read before anything starts, so that a bad line is reported at once.
    let sets = set::folders(&search.folder)?.iter().map(|folder| Set::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let homes = super::temporary_home("toolcrib-eval-")?;
    let measured = search.measure(&sets, homes.path(), environment);
    let removed = homes.close().context("remove the temporary home");
    let rows = measured?;
    removed?;
    Ok(search.print(&sets, &rows)?)
}

impl Search {
    fn measure(&self, sets: &[Set], homes: &Path, environment: &Environment) -> anyhow::Result<Vec<Measurement>> {
        let mut configs = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            let home = homes.join(number.to_string());
            set.write(&home, &self.ranking)?;
            configs.push(Config::for_a_command(&home, LOG, [], environment)?);
        }
        let Some(first) = configs.first().cloned() else { return Ok(Vec::new()) };
        super::run_gateway(&first, async |events| {
            let mut rows = Vec::new();
            for (config, set) in configs.into_iter().zip(sets) {
                let measured = compose::eval(config, events.clone(), &set.questions).await;
                rows.push(measured.with_context(|| format!("ask the queries of `{}`", set.name))?);
            }
            Ok(rows)
        })
    }

    fn print(&self, sets: &[Set], measured: &[Measurement]) -> std::io::Result<()> {
        let output = Output { format: self.output, headers: !self.no_headers, quiet: self.quiet };
        let mut rows: Vec<Value> = sets.iter().zip(measured).map(|(set, measured)| row(set, measured)).collect();
        let scores: Vec<Scores> = measured.iter().map(|measured| measured.scores).collect();
        let mean = score_row(&format!("mean of {}", sets.len()), &Scores::mean(&scores));
        if output.is_for_programs() {
            return output.answer(&Raw::from_value(&json!({ "sets": rows, "mean": mean })));
        }
        rows.extend((rows.len() > 1).then_some(mean));
        output.rows("sets", COLUMNS, &rows)
    }
}

fn score_row(name: &str, scores: &Scores) -> Value {
    let [one, five, ten] = scores.recall;
    json!({
        "set": name, "recall_at_1": one, "recall_at_5": five, "recall_at_10": ten,
        "mrr": scores.reciprocal_rank, "ndcg_at_10": scores.ndcg,
    })
}

fn row(set: &Set, measured: &Measurement) -> Value {
    let mut row = score_row(&set.name, &measured.scores);
    row["tools"] = set.tools().into();
    row["queries"] = set.questions.len().into();
    row["tokens_median"] = measured.tokens.0.into();
    row["tokens_max"] = measured.tokens.1.into();
    row["ms_p50"] = measured.millis.0.into();
    row["ms_p95"] = measured.millis.1.into();
    row
}

fn share(value: &Value) -> String {
    value.as_f64().map(|share| format!("{share:.3}")).unwrap_or_default()
}

fn millis(value: &Value) -> String {
    value.as_f64().map(|millis| format!("{millis:.1}")).unwrap_or_default()
}

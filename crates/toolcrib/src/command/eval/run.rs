//! `toolcrib eval run`: tasks for agents and models at a running gateway, and whether their runs were as expected.

mod attempt;
mod baseline;
mod expect;
mod read;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use toolcrib_base::{Kind, Problem};

use crate::client::{ClientFlags, Rest};
use crate::command::with_rest;
use crate::home::Environment;
use crate::output::{Output, ReportedFailure, print};
use attempt::Attempt;
use baseline::Baseline;
use read::EvalScenario;

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// Files with scenarios
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only the scenario with this id; may be repeated
    #[arg(long = "only", value_name = "ID")]
    only: Vec<String>,
    /// The model of every scenario
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// How often each scenario is run; every run must pass
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Run each scenario with every one of these: `tools=menu,all`, `model=A,B` or `agent=A,B`
    #[arg(long, value_name = "KEY=A,B")]
    compare: Option<String>,
    /// A report of `--format json`; what is worse than there fails
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Percent by which tokens and cost may be above the baseline
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    tolerance: u32,
    /// The report
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// Columns for people
    Table,
    /// A table in Markdown
    Markdown,
    /// Everything, also for `--baseline`
    Json,
    /// XML for CI
    Junit,
}

/// What differs between the runs of one scenario.
#[derive(Debug, Clone, Default)]
struct Variant {
    /// Such as `tools=menu`; empty where nothing is compared.
    name: String,
    /// The argument of the run and its value.
    set: Option<(&'static str, String)>,
}

/// The runs of one scenario in one variant.
#[derive(Debug)]
struct Series {
    scenario: String,
    file: String,
    variant: String,
    attempts: Vec<Attempt>,
    /// What is worse than in the baseline.
    regressions: Vec<String>,
}

pub(super) fn run(arguments: &RunArguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    // Everything is read before the first run: a wrong line costs no money.
    let mut scenarios = Vec::new();
    for file in &arguments.files {
        scenarios.extend(read::scenarios(file)?);
    }
    only(&mut scenarios, &arguments.only)?;
    let variants = variants(arguments.compare.as_deref())?;
    let baseline = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    with_rest(&arguments.client, environment, async |rest, output| {
        let mut series = Vec::new();
        for scenario in &scenarios {
            for variant in &variants {
                series.push(arguments.series(scenario, variant, rest, output).await?);
            }
        }
        if let Some(baseline) = &baseline {
            baseline.compare(&mut series, arguments.tolerance)?;
        }
        print(&report::render(&series, arguments.format, output))?;
        if series.iter().all(Series::is_passed) { Ok(()) } else { Err(ReportedFailure.into()) }
    })
}

fn only(scenarios: &mut Vec<EvalScenario>, ids: &[String]) -> Result<(), Problem> {
    if let Some(id) = ids.iter().find(|id| scenarios.iter().all(|scenario| scenario.id != **id)) {
        let known: Vec<&str> = scenarios.iter().map(|scenario| scenario.id.as_str()).collect();
        let problem = Problem::new(Kind::NotFound, format!("no scenario `{id}` in these files"));
        return Err(problem.hint(format!("there are {}", known.join(", "))));
    }
    scenarios.retain(|scenario| ids.is_empty() || ids.contains(&scenario.id));
    Ok(())
}

/// The variants of `tools=menu,all`.
fn variants(text: Option<&str>) -> Result<Vec<Variant>, Problem> {
    let Some(text) = text else { return Ok(vec![Variant::default()]) };
    let wrong = |message: String| Problem::new(Kind::InvalidParams, message).hint("write `--compare tools=menu,all`");
    let (key, values) = text.split_once('=').ok_or_else(|| wrong(format!("`{text}` has no `=`")))?;
    let argument = match key {
        "tools" => "tools_shown",
        "model" => "model",
        "agent" => "agent",
        _ => return Err(wrong(format!("`{key}` cannot be compared; tools, model and agent can"))),
    };
    let mut variants: Vec<Variant> = Vec::new();
    for value in values.split(',').map(str::trim) {
        let is_way = key != "tools" || ["menu", "all", "native", "auto"].contains(&value);
        let name = format!("{key}={value}");
        if value.is_empty() || !is_way || variants.iter().any(|variant| variant.name == name) {
            return Err(wrong(format!("`{value}` is no value of `{key}` or there twice")));
        }
        variants.push(Variant { name, set: Some((argument, value.to_owned())) });
    }
    if variants.len() < 2 {
        return Err(wrong(format!("`{text}` compares one with nothing")));
    }
    Ok(variants)
}

// === impl RunArguments ===

impl RunArguments {
    async fn series(
        &self,
        scenario: &EvalScenario,
        variant: &Variant,
        rest: &Rest,
        output: Output,
    ) -> Result<Series, Problem> {
        let mut start = scenario.start.clone();
        if let Some(model) = &self.model {
            start.insert("model".to_owned(), model.as_str().into());
        }
        if let Some((key, value)) = &variant.set {
            start.insert((*key).to_owned(), value.as_str().into());
        }
        let mut attempts = Vec::new();
        for number in 1..=self.repeat {
            let words = format!("{} {} {number}/{}", scenario.id, variant.name, self.repeat);
            attempts.push(output.busy(&words, attempt::make(rest, &start, &scenario.expect)).await?);
        }
        let (id, file) = (scenario.id.clone(), scenario.file.clone());
        Ok(Series { scenario: id, file, variant: variant.name.clone(), attempts, regressions: Vec::new() })
    }
}

// === impl Series ===

impl Series {
    fn is_passed(&self) -> bool {
        self.regressions.is_empty() && self.passes() == self.attempts.len()
    }

    fn passes(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.wrong.is_empty()).count()
    }

    fn name(&self) -> String {
        if self.variant.is_empty() { self.scenario.clone() } else { format!("{} {}", self.scenario, self.variant) }
    }

    /// The mean over the runs, rounded.
    fn mean(&self, number: impl Fn(&Attempt) -> u64) -> u64 {
        let sum: u128 = self.attempts.iter().map(|attempt| u128::from(number(attempt))).sum();
        let count = self.attempts.len().max(1) as u128;
        u64::try_from((sum + count / 2) / count).unwrap_or(u64::MAX)
    }

    /// Everything that is wrong, with the number of the run where there are several.
    fn problems(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (index, attempt) in self.attempts.iter().enumerate() {
            let place = if self.attempts.len() > 1 { format!("run {}: ", index + 1) } else { String::new() };
            all.extend(attempt.wrong.iter().map(|wrong| format!("{place}{wrong}")));
        }
        all.extend(self.regressions.iter().cloned());
        all
    }
}

#[cfg(test)]
mod tests;

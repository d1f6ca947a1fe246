//! `toolcrib test`: runs scenarios, each against its own gateway. The mock servers that a gateway starts over stdio
//! are this command too (`--mock-mcp-server`).

mod drive;
mod mock;
mod show;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_scenario::{self as scenario, Expectations, Outcome, Pace, Select, Tally};

use drive::HttpDriver;
use show::RunDisplay;

/// How long the runtime waits at the end for what cannot be cancelled.
const LAST_TASKS: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A scenario file, or a folder searched recursively
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Number of scenarios to run in parallel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=50))]
    parallel: u16,
    /// Write a report: `.json`, or `.xml` for JUnit
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Only scenarios with this name or pattern
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    scenario: Vec<Glob>,
    /// Only scenarios of this category
    #[arg(long, value_name = "CATEGORY")]
    category: Vec<String>,
    /// Only scenarios of this concept
    #[arg(long, value_name = "CONCEPT")]
    concept: Vec<String>,
    /// Only scenarios with this tag
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Stop after the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Default timeout of a scenario's steps
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    timeout: Duration,
    /// Print every step, and the gateway's log on failure
    #[arg(short, long)]
    verbose: bool,
    /// Keep the gateways' home folders and print their paths
    #[arg(long)]
    keep_home: bool,
    /// A list of `{name, reason}` of scenarios that must fail
    #[arg(long, value_name = "FILE")]
    expected_failures: Option<PathBuf>,
    /// Run nothing; check every file, and every `core_*` call against the gateway's schemas
    #[arg(long, conflicts_with_all = ["generate_schema", "mcp_server"])]
    validate_scenarios: bool,
    /// Print the schemas of all core tools and of scenario files
    #[arg(long, conflicts_with = "mcp_server")]
    generate_schema: bool,
    /// Write the schemas to a file
    #[arg(long, value_name = "FILE", requires = "generate_schema")]
    schema_output: Option<PathBuf>,
    /// Serve the test runner as MCP tools over stdin and stdout
    #[arg(long)]
    mcp_server: bool,
    /// Run a mock server over stdin and stdout
    #[arg(long, hide = true, requires = "mock_config")]
    mock_mcp_server: bool,
    /// The mock server's configuration
    #[arg(long, hide = true, value_name = "FILE")]
    mock_config: Option<PathBuf>,
}

fn time(text: &str) -> Result<Duration, String> {
    scenario::parse_time(text).ok_or_else(|| "a time looks like `30s` or `1m30s`".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.mock_mcp_server {
        let file = arguments.mock_config.as_deref().expect("clap asks for it");
        return mock::run(file).map(|()| ExitCode::SUCCESS);
    }
    if arguments.generate_schema {
        return schema(arguments).map(|()| ExitCode::SUCCESS);
    }
    let path = arguments.config.as_deref().ok_or_else(|| {
        Problem::new(Kind::InvalidParams, "`toolcrib test` needs scenarios")
            .hint("pass a file or a folder with `--config PATH`; docs/scenarios.md explains how to write one")
    })?;
    if let Some(report) = &arguments.report
        && scenario::render_report(report, &[]).is_none()
    {
        let message =
            format!("cannot write a report to `{}`: the extension must be `.json` or `.xml`", report.display());
        return Err(Problem::new(Kind::InvalidParams, message).into());
    }
    arguments.report.as_deref().map_or(Ok(()), writable)?;
    if arguments.mcp_server {
        return serve(arguments, path).map(|()| ExitCode::SUCCESS);
    }
    let outcomes = outcomes(arguments, path)?;
    let tally = Tally::of(&outcomes);
    crate::output::print(&format!("{tally}\n"))?;
    if let Some(report) = &arguments.report {
        let text = scenario::render_report(report, &outcomes).expect("the ending was looked at before");
        std::fs::write(report, text).with_context(|| format!("write the report `{}`", report.display()))?;
    }
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a report could lie there: reported now rather than after all scenarios have run.
fn writable(report: &Path) -> Result<(), Problem> {
    let folder = report.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wrong = |message: String| Err(Problem::new(Kind::InvalidParams, message));
    if !folder.is_dir() {
        return wrong(format!("cannot write `{}`: there is no folder `{}`", report.display(), folder.display()));
    }
    if report.is_dir() {
        return wrong(format!("cannot write `{}`: it is a folder", report.display()));
    }
    Ok(())
}

/// Runs what is wanted; what could not be read is an outcome too.
fn outcomes(arguments: &Arguments, path: &Path) -> anyhow::Result<Vec<Outcome>> {
    let mut found = scenario::gather(path).with_context(|| format!("read scenarios from `{}`", path.display()))?;
    let mut scenarios = std::mem::take(&mut found.scenarios);
    let expectations = expectations(arguments)?;
    let names: Vec<&str> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    if let Some(name) = expectations.unknown(&names).first()
        && found.wrong.is_empty()
    {
        let message = format!("unknown scenario `{name}` in the list of expected failures");
        return Err(Problem::new(Kind::InvalidParams, message).hint("remove it from the list").into());
    }
    let select = Select {
        names: arguments.scenario.clone(),
        categories: arguments.category.clone(),
        concepts: arguments.concept.clone(),
        tags: arguments.tag.clone(),
    };
    scenarios.retain(|scenario| select.takes(scenario));
    if scenarios.is_empty() && found.wrong.is_empty() {
        bail!(anyhow!("no scenario in `{}` matches the filters", path.display()));
    }
    // It is not known whether a file that cannot be read would have been wanted.
    let mut outcomes = if select.is_everything() { found.unread() } else { Vec::new() };
    let show = RunDisplay::new(scenarios.len() + outcomes.len(), arguments.verbose);
    for outcome in &outcomes {
        scenario::Progress::ended(&show, outcome);
    }
    let config = config(arguments)?;
    let pace = Pace { parallel: usize::from(arguments.parallel), fail_fast: arguments.fail_fast };
    let ran = within_runtime(async {
        if arguments.validate_scenarios {
            let schemas = scenario::core_schemas(&config).await.map_err(anyhow::Error::msg)?;
            let judged = scenario::validate(&scenarios, &schemas);
            judged.iter().for_each(|outcome| scenario::Progress::ended(&show, outcome));
            return Ok(judged);
        }
        Ok(scenario::run(&scenarios, &config, &pace, &expectations, &show).await)
    });
    show.finish();
    outcomes.extend(ran?);
    Ok(outcomes)
}

fn expectations(arguments: &Arguments) -> anyhow::Result<Expectations> {
    let Some(file) = &arguments.expected_failures else { return Ok(Expectations::default()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("read `{}`", file.display()))?;
    Expectations::read(file, &text).map_err(|wrong| anyhow!("{wrong}"))
}

/// How scenarios are run: by this program, with its own client.
fn config(arguments: &Arguments) -> anyhow::Result<scenario::Config> {
    Ok(scenario::Config {
        program: std::env::current_exe().context("find this program")?,
        guarded: true,
        timeout: arguments.timeout,
        keep_home: arguments.keep_home,
        drive: Arc::new(HttpDriver),
    })
}

/// Runs on a runtime of all cores; Ctrl-C ends it, and with it every gateway.
fn within_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
            outcome = work => outcome,
        }
    });
    // A thread that waits for stdin must not keep the process.
    runtime.shutdown_timeout(LAST_TASKS);
    outcome
}

fn schema(arguments: &Arguments) -> anyhow::Result<()> {
    let config = config(arguments)?;
    let schemas = within_runtime(async { scenario::core_schemas(&config).await.map_err(anyhow::Error::msg) })?;
    let text = serde_json::to_string_pretty(&scenario::schema_document(&schemas))? + "\n";
    match &arguments.schema_output {
        Some(file) => std::fs::write(file, text).with_context(|| format!("write `{}`", file.display())),
        None => Ok(crate::output::print(&text)?),
    }
}

fn serve(arguments: &Arguments, path: &Path) -> anyhow::Result<()> {
    let bench =
        scenario::Bench { path: path.to_owned(), config: config(arguments)?, expectations: expectations(arguments)? };
    within_runtime(async { Ok(scenario::serve(bench, tokio::io::stdin(), tokio::io::stdout()).await?) })
}

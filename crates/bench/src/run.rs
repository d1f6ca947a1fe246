//! `toolcrib-bench run`: starts everything, measures path by path in turns, and writes the tables.

mod aims;
mod build;
mod calls;
mod crowd;
mod footprint;
mod foundation;
mod lifecycle;
mod lists;
mod ratios;
pub(crate) mod sheet;
mod workflows;
mod yard;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::report::write_region;
use crate::{gateway, machine, say};
use yard::Yard;

/// The parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Start-up time, memory, idle streams
    Footprint,
    /// Calls over every path
    Calls,
    /// A result of 10 MiB
    Big,
    /// `tools/list` and `find_tools` over many tools
    Lists,
    /// Lazy servers, first calls, changed definitions, a server that hangs
    Lifecycle,
    /// Calls beside the byte forwarder, the SDK's proxy and an earlier build, with the bounds on them
    Ratios,
    /// Steps of workflows, the list of many, behaviour scenarios
    Workflows,
    /// 1,000 and 4,000 clients of one server
    Crowd,
    /// A tool that hangs once in a hundred calls
    Hung,
    /// Locked packages, and with `--compile` the compile time
    Build,
}

/// `toolcrib-bench run`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Run {
    /// One short round with fewer starts: shows that everything works, not how fast
    #[arg(long)]
    quick: bool,
    /// Rounds in which the paths take turns; medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds per path and round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Clients at a time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    clients: Vec<usize>,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// The gateway's program; the one beside this program by default, built if it is missing
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Measure the yardsticks only
    #[arg(long, conflicts_with = "gateway")]
    no_gateway: bool,
    /// The program of an earlier build, which `ratios` measures beside the gateway's
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Another gateway that runs in front of this run's backend: NAME=URL or NAME=URL,PID (see --backend-listen)
    #[arg(long, value_parser = yard::parse_peer)]
    peer: Vec<yard::Peer>,
    /// Where the backend listens, for peers that have to be configured before
    #[arg(long, default_value = "127.0.0.1:0")]
    backend_listen: String,
    /// Minutes for each cell of `hung`
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Also compile the gateway from cold
    #[arg(long)]
    compile: bool,
    /// A document whose regions `bench`, `crowd`, `lifecycle`, `ratios` and `workflows` receive the tables of the parts
    /// that were measured
    #[arg(long)]
    write: Option<PathBuf>,
    /// A file that receives the figures of `ratios` as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Run {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds.max(1) }
    }

    fn window(&self) -> Duration {
        let seconds = if self.quick { 1.0 } else { self.seconds };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(2))
    }

    fn warm_up(&self) -> Duration {
        self.window() / 4
    }
}

/// What the parts add to: text for the document, figures for the aims and for the comparison, and what went wrong.
#[derive(Debug, Default)]
struct Findings {
    text: String,
    aims: aims::Figures,
    foundation: foundation::Comparison,
    failures: Vec<String>,
}

impl Findings {
    fn section(&mut self, title: &str, body: &str) {
        let text = format!("### {title}\n\n{}\n\n", body.trim());
        say(&text);
        self.text.push_str(&text);
    }

    /// Notes a failed measurement; the others go on.
    fn note<T>(&mut self, what: &str, result: anyhow::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                eprintln!("{what}: {error:#}");
                self.failures.push(format!("{what}: {error:#}"));
                None
            }
        }
    }
}

pub(crate) async fn run(run: &Run) -> anyhow::Result<()> {
    let program = if run.no_gateway { None } else { Some(gateway::program(run.gateway.clone())?) };
    if let Some(before) = &run.before {
        ensure!(before.is_file(), "there is no program `{}`; name the earlier build with --before", before.display());
    }
    let mut findings = Findings::default();
    let facts = machine::facts();
    say(&format!("{facts}\n\n"));
    if run.wants(Part::Footprint)
        && let Some(program) = &program
    {
        footprint::starts(run, program, &mut findings).await?;
    }
    if run.wants(Part::Footprint) || run.wants(Part::Calls) || run.wants(Part::Big) {
        let yard = Yard::start(run, program.as_deref(), yard::SMALL).await.context("start the paths")?;
        if run.wants(Part::Footprint) {
            footprint::memory(run, &yard, &mut findings).await;
        }
        if run.wants(Part::Calls) {
            calls::measure(run, &yard, &mut findings).await;
        }
        if run.wants(Part::Big) {
            calls::measure_big(run, &yard, &mut findings).await;
        }
        let stopped = yard.stop().await;
        findings.note("stop the gateway", stopped);
    }
    if run.wants(Part::Lists) {
        lists::measure(run, program.as_deref(), &mut findings).await?;
    }
    if run.wants(Part::Build) {
        build::measure(run, &mut findings)?;
    }
    if let Some(program) = program.as_deref() {
        if run.wants(Part::Ratios) {
            let text = ratios::measure(run, program, &facts, &mut findings).await;
            write_own(run, "ratios", &facts, &text)?;
        }
        if run.wants(Part::Lifecycle) {
            let text = lifecycle::measure(run, program, &mut findings).await;
            write_own(run, "lifecycle", &facts, &text)?;
        }
        if run.wants(Part::Crowd) || run.wants(Part::Hung) {
            let text = crowd::measure(run, program, &mut findings).await;
            write_own(run, "crowd", &facts, &text)?;
        }
        if run.wants(Part::Workflows) {
            let text = workflows::measure(run, program, &mut findings).await;
            write_own(run, "workflows", &facts, &text)?;
        }
    }
    // What has a region of its own leaves that of the others alone.
    let own = |part: &Part| matches!(part, Part::Crowd | Part::Hung | Part::Lifecycle | Part::Ratios | Part::Workflows);
    if !run.only.is_empty() && run.only.iter().all(own) { verdict(&findings) } else { finish(run, &facts, &findings) }
}

fn write_own(run: &Run, region: &str, facts: &str, text: &str) -> anyhow::Result<()> {
    match &run.write {
        Some(file) => write_region(file, region, &format!("{facts}.\n\n{text}")),
        None => Ok(()),
    }
}

fn finish(run: &Run, facts: &str, findings: &Findings) -> anyhow::Result<()> {
    let aims = findings.aims.table();
    let mut summary = format!("### Aims\n\n{aims}\n");
    if let Some(comparison) = findings.foundation.markdown() {
        summary += &format!("### Against the foundation\n\n{comparison}\n");
    }
    say(&summary);
    if let Some(file) = &run.write {
        let rounds = format!("medians of {} rounds of {:?} per path", run.rounds(), run.window());
        let text = format!("{facts}; {rounds}.\n\n{summary}{}", findings.text);
        write_region(file, "bench", &text)?;
    }
    verdict(findings)
}

fn verdict(findings: &Findings) -> anyhow::Result<()> {
    if !findings.failures.is_empty() {
        bail!("{} measurements failed:\n- {}", findings.failures.len(), findings.failures.join("\n- "));
    }
    Ok(())
}

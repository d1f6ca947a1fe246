//! What identity costs: access tokens at the door, many credentials in memory and at the start, many renewals at once, a
//! call through the bridge, what principals with lists of their own cost. The parts that a request passes are measured in this process; the rest beside the gateway.

mod bridge;
mod credentials;
mod provider;
mod tokens;
mod views;

use std::path::PathBuf;

use anyhow::{bail, ensure};

use crate::gateway::program;
use crate::report::{Table, number, write_region};
use crate::{machine, say};

/// `toolcrib-bench identity`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct IdentityBench {
    /// Repetitions; tables show medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many principals have credentials
    #[arg(long, default_value_t = 10_000)]
    principals: usize,
    /// At how many servers each of them has one
    #[arg(long, default_value_t = 10)]
    servers: usize,
    /// How many principals list servers with tokens of their own, which all show the same
    #[arg(long, default_value_t = 1_000)]
    viewers: usize,
    /// How many credentials expire at once
    #[arg(long, default_value_t = 1_000)]
    expiring: usize,
    /// The gateway's program; the one beside this program by default
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// A document whose region `identity` receives the table
    #[arg(long)]
    write: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug)]
struct Findings {
    table: Table,
    failures: Vec<String>,
}

impl Findings {
    fn new() -> Self {
        let table = Table::new(&["measure", "at most", "measured", "met", "beside it"]);
        say(table.markdown());
        Self { table, failures: Vec::new() }
    }

    /// One row: a bound in the unit of the figure, and what stands beside it.
    fn add(&mut self, measure: &str, bound: Option<f64>, figure: f64, beside: &str) {
        let met = bound.map_or("", |bound| if figure <= bound { "met" } else { "**missed**" });
        let cells = [
            measure.to_owned(),
            bound.map_or_else(String::new, number),
            number(figure),
            met.to_owned(),
            beside.to_owned(),
        ];
        let before = self.table.markdown().len();
        self.table.row(&cells);
        say(&self.table.markdown()[before..]);
    }

    /// Notes a failed measurement; the others go on.
    fn note(&mut self, what: &str, result: anyhow::Result<()>) {
        if let Err(error) = result {
            eprintln!("{what}: {error:#}");
            self.failures.push(format!("{what}: {error:#}"));
        }
    }
}

pub(crate) async fn run(bench: &IdentityBench) -> anyhow::Result<()> {
    ensure!(bench.rounds > 0 && bench.principals > 0 && bench.servers > 0, "there is nothing to measure");
    let program = program(bench.gateway.clone())?;
    let facts = machine::facts();
    say(&format!("{facts}\n\n"));
    let mut findings = Findings::new();
    let measured = tokens::measure(bench, &mut findings).await;
    findings.note("tokens", measured);
    let measured = credentials::expire_at_once(bench, &mut findings).await;
    findings.note("credentials that expire at once", measured);
    let measured = credentials::many(bench, &program, &mut findings).await;
    findings.note("many credentials", measured);
    let measured = views::measure(bench, &program, &mut findings).await;
    findings.note("views of principals", measured);
    let measured = bridge::measure(bench, &program, &mut findings).await;
    findings.note("bridge", measured);
    if let Some(file) = &bench.write {
        let head = format!("{facts}; medians of {} rounds.\n\n", bench.rounds);
        write_region(file, "identity", &(head + findings.table.markdown()))?;
    }
    if !findings.failures.is_empty() {
        bail!("{} measurements failed:\n- {}", findings.failures.len(), findings.failures.join("\n- "));
    }
    Ok(())
}

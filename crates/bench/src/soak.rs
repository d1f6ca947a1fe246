//! Constant load for a long time: does anything grow? One row per minute.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::child::Role;
use crate::client::Manner;
use crate::gateway::{Gateway, Home, program};
use crate::load::{Ask, Load, Outcome, listed_name};
use crate::report::{Table, maybe, number, write_region};
use crate::{machine, say};

/// How long each kind of call is sent before the next one's turn; new sessions are opened every time.
const TURN: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);
/// Size of the text result less what a proxy may leave out around it.
const TEXT_AT_LEAST: usize = 97_000;

/// `toolcrib-bench soak`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Soak {
    /// How long, in minutes
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Clients at a time
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// The gateway's program; the one beside this program by default
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// A document whose region `soak` receives the table
    #[arg(long)]
    write: Option<PathBuf>,
}

pub(crate) async fn run(soak: &Soak) -> anyhow::Result<()> {
    let backend = Role::start(&["backend-http"]).await?;
    let home = Home::new()?;
    home.http_server("bench-http", &backend.url)?;
    home.stdio_server("bench-stdio", 25, false)?;
    let gateway = Gateway::start(&program(soak.gateway.clone())?, &home).await?;
    let turns = turns(&gateway).await?;
    let columns = ["minute", "calls", "calls/s", "p50 µs", "p99 µs", "CPU µs/call", "resident KiB", "files", "threads"];
    let mut table = Table::new(&columns);
    say(table.markdown());
    let started = Instant::now();
    let mut round = 0;
    for minute in 1..=soak.minutes {
        let mut sum = Outcome::default();
        let until = MINUTE * u32::try_from(minute).unwrap_or(u32::MAX);
        while started.elapsed() < until {
            let (url, ask) = turns[round % turns.len()].clone();
            round += 1;
            let window = TURN.min(until.saturating_sub(started.elapsed())).max(Duration::from_millis(200));
            let load = Load {
                url,
                manner: Manner::Legacy,
                ask,
                clients: soak.clients,
                warm_up: Duration::ZERO,
                window,
                process: Some(gateway.process),
            };
            add(&mut sum, &load.run().await?);
        }
        let sizes = gateway.process.sizes().context("the gateway is gone")?;
        let cells = [
            minute.to_string(),
            sum.calls.to_string(),
            number(sum.calls_per_second()),
            maybe(sum.quantile_micros(0.5)),
            maybe(sum.quantile_micros(0.99)),
            maybe(sum.cpu_micros_per_call()),
            sizes.resident_kib.to_string(),
            sizes.files.to_string(),
            sizes.threads.to_string(),
        ];
        let before = table.markdown().len();
        table.row(&cells);
        say(&table.markdown()[before..]);
    }
    gateway.stop().await?;
    if let Some(file) = &soak.write {
        let head = format!("{}; {} clients, {} minutes.\n\n", machine::facts(), soak.clients, soak.minutes);
        write_region(file, "soak", &(head + table.markdown()))?;
    }
    Ok(())
}

/// The calls that take turns: small and large, over HTTP and over stdio, direct and by `call_tool`, and searches.
async fn turns(gateway: &Gateway) -> anyhow::Result<Vec<(String, Ask)>> {
    let direct = gateway.profile("direct");
    let mut turns = Vec::new();
    for server in ["bench-http", "bench-stdio"] {
        turns.push((direct.clone(), Ask::Echo { tool: listed_name(&direct, Manner::Legacy, "echo", server).await? }));
        let tool = listed_name(&direct, Manner::Legacy, "text", server).await?;
        turns.push((direct.clone(), Ask::Text { tool, at_least: TEXT_AT_LEAST }));
        turns.push((gateway.url.clone(), Ask::EchoByCallTool { tool: format!("{server}/echo") }));
    }
    turns.push((gateway.url.clone(), Ask::Find { queries: &crate::backend::tools::QUERIES }));
    Ok(turns)
}

fn add(sum: &mut Outcome, one: &Outcome) {
    sum.calls += one.calls;
    sum.seconds += one.seconds;
    sum.bytes += one.bytes;
    sum.latency.merge(&one.latency);
    sum.cpu = Some(sum.cpu.unwrap_or_default() + one.cpu.unwrap_or_default());
}

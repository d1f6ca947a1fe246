//! Single measurements of something that already runs.

use std::time::Duration;

use crate::backend::tools::QUERIES;
use crate::client::Manner;
use crate::load::{Ask, Load, listed_name};
use crate::process::Process;
use crate::report::{Table, maybe, number};
use crate::{idle_streams, say};

/// How long and how hard.
#[derive(Debug, Clone, clap::Args)]
struct Effort {
    /// URL of the MCP endpoint
    #[arg(long)]
    url: String,
    /// Process whose CPU time and memory are of interest
    #[arg(long)]
    pid: Option<u32>,
    /// Clients at a time
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds to warm up before
    #[arg(long, default_value_t = 0.5)]
    warm_up: f64,
    /// Speak revision 2026-07-28
    #[arg(long)]
    modern: bool,
    /// Declare that the user can be asked
    #[arg(long, requires = "modern")]
    askable: bool,
}

impl Effort {
    fn manner(&self) -> Manner {
        match (self.modern, self.askable) {
            (true, true) => Manner::Askable,
            (true, false) => Manner::Modern,
            _ => Manner::Legacy,
        }
    }
}

/// `toolcrib-bench load`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LoadOne {
    #[command(flatten)]
    effort: Effort,
    /// What to ask for: `echo`, `text`, `big` or `list`
    #[arg(long, default_value = "echo")]
    ask: String,
    /// Which server's tool, where several have one of that name
    #[arg(long, default_value = "")]
    server: String,
    /// With `--ask list`: how many tools at least
    #[arg(long, default_value_t = 1)]
    tools: usize,
}

/// `toolcrib-bench search`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SearchOne {
    #[command(flatten)]
    effort: Effort,
}

/// `toolcrib-bench idle-streams`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct IdleStreams {
    /// URL of the MCP endpoint
    #[arg(long)]
    url: String,
    /// Process whose memory is of interest
    #[arg(long)]
    pid: u32,
    /// How many streams
    #[arg(long, default_value_t = 1_000)]
    count: usize,
}

pub(crate) async fn load(load: &LoadOne) -> anyhow::Result<()> {
    let (url, manner) = (&load.effort.url, load.effort.manner());
    let ask = match load.ask.as_str() {
        "echo" => Ask::Echo { tool: listed_name(url, manner, "echo", &load.server).await? },
        "list" => Ask::List { tools: load.tools },
        tool => Ask::Text { tool: listed_name(url, manner, tool, &load.server).await?, at_least: 0 },
    };
    measure(&load.effort, ask).await
}

pub(crate) async fn search(search: &SearchOne) -> anyhow::Result<()> {
    measure(&search.effort, Ask::Find { queries: &QUERIES }).await
}

async fn measure(effort: &Effort, ask: Ask) -> anyhow::Result<()> {
    let load = Load {
        url: effort.url.clone(),
        manner: effort.manner(),
        ask,
        clients: effort.clients,
        warm_up: Duration::try_from_secs_f64(effort.warm_up)?,
        window: Duration::try_from_secs_f64(effort.seconds)?,
        process: effort.pid.map(Process),
    };
    let outcome = load.run().await?;
    let mut table = Table::new(&["clients", "calls/s", "p50 µs", "p99 µs", "CPU µs/call", "bytes/call"]);
    table.row(&[
        effort.clients.to_string(),
        number(outcome.calls_per_second()),
        maybe(outcome.quantile_micros(0.5)),
        maybe(outcome.quantile_micros(0.99)),
        maybe(outcome.cpu_micros_per_call()),
        maybe(outcome.bytes_per_call()),
    ]);
    say(table.markdown());
    Ok(())
}

pub(crate) async fn idle_streams(idle: &IdleStreams) -> anyhow::Result<()> {
    let found = idle_streams::run(&idle.url, Process(idle.pid), idle.count).await?;
    let mut table = Table::new(&["streams", "resident KiB before", "with streams", "KiB/stream", "files", "threads"]);
    table.row(&[
        idle.count.to_string(),
        found.before.resident_kib.to_string(),
        found.with_streams.resident_kib.to_string(),
        number(found.kib_per_stream(idle.count)),
        found.with_streams.files.to_string(),
        found.with_streams.threads.to_string(),
    ]);
    say(table.markdown());
    Ok(())
}

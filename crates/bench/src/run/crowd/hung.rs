//! A tool that hangs once in a hundred calls, while another tool of the same server is called. Clients of the first
//! wait a second for an answer, then they take the call back, or only close their connection. The other may lose no
//! call.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::time::timeout;
use toolcrib_base::task::Scope;

use crate::child::Role;
use crate::client::{Client, Manner, Request};
use crate::gateway::{Gateway, Home};
use crate::histogram::Histogram;
use crate::load::listed_name;
use crate::report::{Table, maybe, micros};

use super::super::Run;
use super::super::sheet::Sheet;
use super::TOOLS;

/// Clients of the tool that hangs, and as many of the other one.
const CLIENTS: usize = 16;
/// One call of so many hangs.
const ONE_IN: usize = 100;
/// How long a client of the tool that hangs waits.
const DEADLINE: Duration = Duration::from_secs(1);
/// How long a client of the other tool waits, as ordinary clients do: what takes longer is lost.
const LOST: Duration = Duration::from_secs(30);
/// How long a client pauses after an answer: the machine is to be busy, not full, or the queue alone makes the latency.
const PAUSE: Duration = Duration::from_millis(10);
/// How much slower the slowest calls of the other tool may be.
const AIM: f64 = 1.5;
/// How long is measured without hanging, at most.
const BASELINE: Duration = Duration::from_secs(60);

/// What a client does with a call that it waits for no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivesUp {
    Cancels,
    Drops,
}

/// One cell: an era of both ends, a carrier to the server, and what clients do.
#[derive(Debug, Clone, Copy)]
struct Cell {
    manner: Manner,
    stdio: bool,
    gives_up: GivesUp,
}

/// What the calls of one tool came to.
#[derive(Debug, Default)]
struct ToolResults {
    latency: Histogram,
    lost: u64,
    hung: u64,
}

pub(super) async fn measure(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let columns = [
        "era, carrier, clients that …",
        "minutes",
        "calls of the other tool",
        "lost",
        "p99 ms before",
        "p99 ms with hung calls",
        "ratio",
        "calls that hung",
        "good calls of the same tool that were lost",
    ];
    let mut table = Table::new(&columns);
    let (mut lost, mut worst) = (0, 0.0_f64);
    for manner in [Manner::Legacy, Manner::Modern] {
        for gives_up in [GivesUp::Cancels, GivesUp::Drops] {
            let [over_http, over_stdio] = [false, true].map(|stdio| Cell { manner, stdio, gives_up });
            // Each has its own gateway, and neither fills the machine.
            let (first, second) =
                tokio::join!(Box::pin(over_http.measure(run, program)), Box::pin(over_stdio.measure(run, program)));
            for (cell, found) in [(over_http, first), (over_stdio, second)] {
                let (before, [good, fickle]) = found.with_context(|| cell.name())?;
                let p99 = |found: &ToolResults| found.latency.quantile(0.99).map(|it| micros(it) / 1e3);
                let ratio = p99(&good).zip(p99(&before)).map(|(after, before)| after / before);
                lost += good.lost;
                worst = worst.max(ratio.unwrap_or(f64::INFINITY));
                #[allow(clippy::cast_precision_loss)]
                let count = |count: u64| Some(count as f64);
                let cells = [
                    Some(run.minutes),
                    count(good.latency.len()),
                    count(good.lost),
                    p99(&before),
                    p99(&good),
                    ratio,
                    count(fickle.hung),
                    count(fickle.lost),
                ];
                table.row(&std::iter::once(cell.name()).chain(cells.map(maybe)).collect::<Vec<_>>());
                eprintln!("{}", table.markdown().lines().last().unwrap_or_default());
            }
        }
    }
    #[allow(clippy::cast_precision_loss)]
    sheet.aim("calls of the other tool that were lost", Some(0.0), Some(lost as f64));
    sheet.aim("p99 of the other tool ÷ without hung calls, worst cell", Some(AIM), Some(worst));
    sheet.section("A tool that hangs once in a hundred calls", table.markdown());
    ensure!(lost == 0, "{lost} calls of the other tool were lost");
    Ok(())
}

// === impl Cell ===

impl Cell {
    fn name(self) -> String {
        let era = if self.manner.is_modern() { "2026-07-28" } else { "2025-11-25" };
        let carrier = if self.stdio { "stdio" } else { "HTTP" };
        let clients = if self.gives_up == GivesUp::Cancels { "cancel" } else { "drop" };
        format!("{era}, {carrier}, {clients}")
    }

    /// Without hung calls, and then with them: those of the other tool and of the one that hangs.
    async fn measure(self, run: &Run, program: &Path) -> anyhow::Result<(ToolResults, [ToolResults; 2])> {
        let modern = self.manner.is_modern();
        let arguments: &[&str] = if modern { &["backend-http", "--modern"] } else { &["backend-http"] };
        let backend = Role::start(arguments).await.context("start the backend")?;
        let home = Home::new()?;
        if self.stdio {
            home.stdio_server("one", TOOLS, modern)?;
        } else {
            home.http_server("one", &backend.url)?;
        }
        let gateway = Gateway::start(program, &home).await?;
        let url = gateway.profile("direct");
        let length = Duration::try_from_secs_f64(run.minutes * 60.0).context("`--minutes` is too long")?;
        self.both(&url, Duration::from_secs(2), false).await.context("warm up")?;
        let [before, _] = self.both(&url, length.min(BASELINE), false).await.context("without hung calls")?;
        let after = self.both(&url, length, true).await.context("with hung calls")?;
        gateway.stop().await?;
        Ok((before, after))
    }

    async fn both(self, url: &str, length: Duration, hangs: bool) -> anyhow::Result<[ToolResults; 2]> {
        let scope = Scope::new();
        let done = Arc::new(AtomicBool::new(false));
        let good = listed_name(url, self.manner, "echo", "one").await?;
        let fickle = listed_name(url, self.manner, "fickle", "one").await?;
        let mut tasks = Vec::new();
        for number in 0..2 * CLIENTS {
            let of_fickle = number % 2 == 1;
            let tool = if of_fickle { fickle.clone() } else { good.clone() };
            let client = Client::open(url, self.manner).await?;
            let every = (of_fickle && hangs).then_some(ONE_IN);
            let calling = self.call(client, tool, every, Arc::clone(&done));
            tasks.push((of_fickle, scope.spawn(calling)));
        }
        tokio::time::sleep(length).await;
        done.store(true, Ordering::Relaxed);
        let mut found = [ToolResults::default(), ToolResults::default()];
        for (of_fickle, task) in tasks {
            let one = task.await.context("a client ended early")??;
            let all = &mut found[usize::from(of_fickle)];
            all.latency.merge(&one.latency);
            all.lost += one.lost;
            all.hung += one.hung;
        }
        Ok(found)
    }

    /// Calls until it is over; one call in `every` is one that hangs.
    async fn call(
        self,
        mut client: Client,
        tool: String,
        every: Option<usize>,
        done: Arc<AtomicBool>,
    ) -> anyhow::Result<ToolResults> {
        let mut found = ToolResults::default();
        let good = Request::call(&tool, r#"{"message":"good"}"#);
        let hangs = Request::call(&tool, r#"{"message":"hangs","hang":true}"#);
        let deadline = if every.is_some() { DEADLINE } else { LOST };
        let mut round = 0;
        while !done.load(Ordering::Relaxed) {
            round += 1;
            let is_hung = every.is_some_and(|every| round % every == 0);
            let started = Instant::now();
            let answered = timeout(deadline, client.call(if is_hung { &hangs } else { &good })).await;
            match answered {
                Ok(Ok((_, answer))) if is_hung => {
                    bail!("a call that hangs was answered: {}", String::from_utf8_lossy(answer))
                }
                Ok(Ok((_, answer))) if memchr::memmem::find(answer, br#""text":"good""#).is_some() => {
                    found.latency.record(started.elapsed());
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(Ok((_, answer))) => {
                    if found.lost == 0 {
                        eprintln!("{}: {}", self.name(), String::from_utf8_lossy(answer));
                    }
                    found.lost += 1;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    if is_hung {
                        found.hung += 1;
                    } else {
                        found.lost += 1;
                    }
                    client.give_up(self.gives_up == GivesUp::Cancels).await?;
                }
            }
        }
        client.close().await;
        Ok(found)
    }
}

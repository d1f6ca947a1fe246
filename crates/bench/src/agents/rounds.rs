//! What a round costs the gateway: the request to the model, its answer, a call of a tool and the journal, in a run that
//! becomes long.

use anyhow::{Context as _, ensure};

use super::model::{MARK, MOST_ROUNDS, Mark, ROUNDS};
use super::{AgentBench, Stage};
use crate::client::{Client, Manner, Request};
use crate::report::{Table, number};
use crate::run::sheet::Sheet;

/// Milliseconds of CPU that a round may take.
const AIM: f64 = 1.0;
const RUNS: usize = 10;
/// Calls of the same tool by a client, to know what they cost.
const CALLS: usize = 2_000;

pub(super) async fn measure(bench: &AgentBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    let stage = Stage::new(bench).await?;
    let gateway = stage.gateway().await?;
    let runs = (RUNS / stage.share).max(1);
    // What is made once is not counted.
    stage.start_runs(&gateway, ROUNDS, 1).await?;
    stage.until_count(&gateway, "ended", 1).await?;
    stage.model.measure(gateway.process);
    let mut all = Vec::new();
    for run in 0..runs {
        stage.start_runs(&gateway, ROUNDS, 1).await?;
        stage.until_count(&gateway, "ended", run + 2).await?;
        let marks = stage.model.marks();
        ensure!(marks.len() == MOST_ROUNDS / MARK + 1, "a run ended after {} marks", marks.len());
        all.push(marks);
    }
    let call = call(&stage, &gateway).await?;
    gateway.stop().await?;

    let mut table = Table::new(&["rounds", "KB of a request", "CPU ms of a round", "without its call of a tool"]);
    let mut found = Vec::new();
    for place in 0..MOST_ROUNDS / MARK {
        let cpu = mean(&all, |marks| marks[place + 1].cpu.since(marks[place].cpu).as_secs_f64() * 1e3) / of(MARK);
        let bytes = mean(&all, |marks| of(marks[place].bytes + marks[place + 1].bytes) / 2.0);
        let rounds = format!("{} to {}", place * MARK + 1, (place + 1) * MARK);
        table.row(&[rounds, number(bytes / 1e3), number(cpu), number(cpu - call)]);
        found.push((bytes, cpu));
    }
    let (first, last) = (found[0], found[found.len() - 1]);
    let slope = (last.1 - first.1) * 1e6 / (last.0 - first.0);
    // What is left where nothing is sent.
    let still = first.1 - call - slope * first.0 / 1e6;
    sheet.aim("CPU of a round besides the tool and the bytes of its request, ms", Some(AIM), Some(still));
    sheet.aim(&format!("CPU of each of the first {MARK} rounds, all included, ms"), None, Some(first.1));
    sheet.aim("CPU for each byte of the request, ns", None, Some(slope));
    let body = format!(
        "{runs} runs of {MOST_ROUNDS} rounds, one after the other, each with a call of 2 KB and its result. The first \
         request of a run begins\nwith no history.\n\n{}",
        table.markdown()
    );
    sheet.section("Rounds", &body);
    Ok(())
}

/// CPU milliseconds of a call of the same tool by a client.
async fn call(stage: &Stage, gateway: &crate::gateway::Gateway) -> anyhow::Result<f64> {
    let mut client = Client::open(&gateway.profile("direct"), Manner::Modern).await?;
    let request = Request::call("bench_echo", &serde_json::json!({"message": "word ".repeat(400)}).to_string());
    let calls = CALLS / stage.share;
    client.call(&request).await?;
    let before = gateway.process.cpu_time().context("no CPU time")?;
    for _ in 0..calls {
        client.call(&request).await?;
    }
    let after = gateway.process.cpu_time().context("no CPU time")?;
    Ok(after.since(before).as_secs_f64() * 1e3 / of(calls))
}

fn mean(all: &[Vec<Mark>], figure: impl Fn(&[Mark]) -> f64) -> f64 {
    all.iter().map(|marks| figure(marks)).sum::<f64>() / of(all.len())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn of(count: usize) -> f64 {
    count as f64
}

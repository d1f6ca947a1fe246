//! What runs keep in memory: many at once, and those that wait.

use anyhow::Context as _;

use super::model::{BUSY, HELD, HELD_ROUNDS};
use super::{AgentBench, Stage};
use crate::gateway::Gateway;
use crate::run::sheet::Sheet;

const AT_ONCE: usize = 500;
const WAITING: usize = 10_000;
/// MB of the gateway with all of its runs.
const AIM_AT_ONCE: f64 = 300.0;
/// MB more than without runs.
const AIM_WAITING: f64 = 20.0;

pub(super) async fn measure(bench: &AgentBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    at_once(bench, sheet).await?;
    waiting(bench, sheet).await
}

async fn at_once(bench: &AgentBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    let stage = Stage::new(bench).await?;
    let gateway = stage.gateway().await?;
    let count = AT_ONCE / stage.share;
    let idle = own(&gateway)?;
    stage.start_runs(&gateway, HELD, count).await?;
    for results in 0..HELD_ROUNDS {
        stage.model.until_held(count).await?;
        stage.model.open(results + 1);
    }
    stage.model.until_held(count).await?;
    let held = own(&gateway)?;
    stage.model.open(usize::MAX);
    stage.until_count(&gateway, "ended", count).await?;
    let peak = megabytes(gateway.process.sizes().context("no sizes")?.peak_kib);
    gateway.stop().await?;
    sheet.aim(&format!("{count} runs at once, peak of the resident memory, MB"), Some(AIM_AT_ONCE), Some(peak));
    sheet.aim("the same gateway before its first run, MB", None, Some(idle));
    sheet.aim(&format!("{count} runs after {HELD_ROUNDS} rounds, MB more"), None, Some(held - idle));
    Ok(())
}

async fn waiting(bench: &AgentBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    let stage = Stage::new(bench).await?;
    let count = WAITING / stage.share;
    let gateway = stage.gateway().await?;
    let without = own(&gateway)?;
    stage.start_runs(&gateway, BUSY, count).await?;
    stage.until_count(&gateway, "waiting", count).await?;
    let with = own(&gateway)?;
    gateway.stop().await?;
    let gateway = stage.gateway().await?;
    stage.until_count(&gateway, "waiting", count).await?;
    let again = own(&gateway)?;
    gateway.stop().await?;
    let name = format!("{count} runs that wait, MB more than without");
    sheet.aim(&name, Some(AIM_WAITING), Some(with - without));
    sheet.aim(&format!("{name}, after a restart"), Some(AIM_WAITING), Some(again - without));
    Ok(())
}

/// Without pages of the program's file, which come and go.
fn own(gateway: &Gateway) -> anyhow::Result<f64> {
    Ok(megabytes(gateway.process.sizes().context("no sizes")?.own_kib))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

//! How soon the runs that were under way go on after kill -9.

use std::time::Instant;

use super::model::HELD;
use super::{AgentBench, Stage};
use crate::run::sheet::{Sheet, millis};

const RUNS: usize = 1_000;
/// Seconds from the start of the program until each run asks its model again.
const AIM: f64 = 5.0;

pub(super) async fn measure(bench: &AgentBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    let stage = Stage::new(bench).await?;
    let count = RUNS / stage.share;
    let gateway = stage.gateway().await?;
    stage.start_runs(&gateway, HELD, count).await?;
    stage.model.until_held(count).await?;
    // One call is done in each, and its result may not be asked for again.
    stage.model.open(1);
    stage.model.until_held(count).await?;
    gateway.process.signal(rustix::process::Signal::KILL);
    stage.model.until_held(0).await?;
    let begun = Instant::now();
    let gateway = stage.gateway().await?;
    let ready = millis(begun) / 1e3;
    stage.model.until_held(count).await?;
    let resumed = millis(begun) / 1e3;
    stage.model.open(usize::MAX);
    stage.until_count(&gateway, "ended", count).await?;
    gateway.stop().await?;
    sheet.aim(
        &format!("{count} runs resumed after kill -9, s from the start of the program"),
        Some(AIM),
        Some(resumed),
    );
    sheet.aim("of it until the gateway is ready, s", None, Some(ready));
    Ok(())
}

//! The behaviour scenarios of the acceptance folder, eight at a time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::report::{Table, maybe};

use super::super::sheet::Sheet;

const AIM_SECONDS: f64 = 180.0;
const PARALLEL: &str = "8";

pub(super) fn measure(program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let folder = std::env::var_os("TOOLCRIB_ACCEPTANCE").filter(|named| !named.is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("../shared/acceptance"), PathBuf::from).join("muster-scenarios");
    if !folder.is_dir() {
        eprintln!("SKIPPED: no scenarios at `{}`; name their folder with TOOLCRIB_ACCEPTANCE", folder.display());
        return Ok(());
    }
    let started = Instant::now();
    let output = Command::new(program)
        .args(["test", "--parallel", PARALLEL, "--config"])
        .arg(&folder)
        .output()
        .context("run `test`")?;
    let seconds = started.elapsed().as_secs_f64();
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    anyhow::ensure!(output.status.success(), "the scenarios failed: {last}");
    let mut table = Table::new(&["muster's scenarios, `--parallel 8`", "seconds"]);
    table.row(&[last.to_owned(), maybe(Some(seconds))]);
    sheet.aim("muster's scenarios with `--parallel 8`, seconds", Some(AIM_SECONDS), Some(seconds));
    sheet.section("Scenarios", table.markdown());
    Ok(())
}

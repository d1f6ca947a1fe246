//! Start-up time, resident memory with three idle servers, and 1,000 idle event streams.

use std::path::Path;
use std::time::Duration;

use crate::child::Role;
use crate::gateway::Gateway;
use crate::idle_streams;
use crate::report::{Table, maybe, median, number};

use super::calls::mib;
use super::yard::{Yard, home};
use super::{Findings, Run};

const STARTS: usize = 10;
const STREAMS: usize = 1_000;
/// Time for buffers of the start to be given back before memory is read.
const SETTLE: Duration = Duration::from_secs(3);

/// Starts the gateway several times on one home.
pub(super) async fn starts(run: &Run, program: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    let backend = Role::start(&["backend-http"]).await?;
    let home = home(&backend.url, true, false)?;
    let count = if run.quick { 3 } else { STARTS };
    let (mut listening, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let gateway = Gateway::start(program, &home).await?;
        listening.push(gateway.times.listening);
        ready.push(gateway.times.ready);
        gateway.stop().await?;
    }
    let mut table = Table::new(&["from start until", "first ms", "median ms", "slowest ms"]);
    for (name, times) in [("`/healthz` answers", &listening), ("3 eager servers are listed", &ready)] {
        let slowest = times.iter().copied().reduce(f64::max);
        table.row(&[name.to_owned(), maybe(times.first().copied()), maybe(median(times)), maybe(slowest)]);
    }
    findings.aims.listening_millis = median(&listening);
    findings.section(&format!("Start, {count} times on one home"), table.markdown());
    Ok(())
}

/// Memory of the gateway before it has seen a client, and with idle streams. Comes before any load.
pub(super) async fn memory(run: &Run, yard: &Yard, findings: &mut Findings) {
    let Some(gateway) = yard.gateway() else { return };
    tokio::time::sleep(SETTLE).await;
    let Some(idle) = gateway.process.sizes() else { return };
    findings.aims.idle_mib = Some(mib(idle.resident_kib));
    let mut table = Table::new(&["state", "resident MiB", "files", "threads"]);
    let mut row = |state: &str, sizes: crate::process::Sizes| {
        let resident = number(mib(sizes.resident_kib));
        table.row(&[state.to_owned(), resident, sizes.files.to_string(), sizes.threads.to_string()]);
    };
    row("idle with 3 servers", idle);
    let streams = if run.quick { STREAMS / 10 } else { STREAMS };
    let found = idle_streams::run(&gateway.url, gateway.process, streams).await;
    let mut remark = String::new();
    if let Some(found) = findings.note("idle event streams", found) {
        row(&format!("{streams} idle legacy event streams"), found.with_streams);
        remark = format!("\n{} KiB per session with its open stream.", number(found.kib_per_stream(streams)));
    }
    findings.section("Memory", &format!("{}{remark}", table.markdown()));
}

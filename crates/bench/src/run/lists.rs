//! Many tools: `tools/list` of 1,000 over the paths, and `find_tools` over 1,000 and 10,000.

use std::path::Path as FilePath;

use crate::client::Manner;
use crate::load::{Ask, Load};
use crate::report::{Table, maybe};

use super::calls::{Row, load, of};
use super::yard::{Path, Yard};
use super::{Findings, Run};

const TOOLS: usize = 1_000;
const MANY_TOOLS: usize = 10_000;

pub(super) async fn measure(run: &Run, program: Option<&FilePath>, findings: &mut Findings) -> anyhow::Result<()> {
    let mut searches = Table::new(&["tools", "clients", "calls/s", "p50 µs", "p99 µs", "CPU µs/call", "bytes"]);
    for tools in [TOOLS, MANY_TOOLS] {
        if tools == MANY_TOOLS && program.is_none() {
            break;
        }
        let yard = Yard::start(run, program, tools).await?;
        if tools == TOOLS {
            list(run, &yard, findings).await;
        }
        for clients in [1, 16] {
            if let Some(row) = find(run, &yard, tools, clients, findings).await {
                searches.row(&row);
            }
        }
        let stopped = yard.stop().await;
        findings.note("stop the gateway", stopped);
    }
    if program.is_some() {
        findings.section("`find_tools` over HTTP", searches.markdown());
    }
    Ok(())
}

async fn list(run: &Run, yard: &Yard, findings: &mut Findings) {
    let paths: Vec<_> = yard.paths().into_iter().filter(Path::serves_lists).collect();
    let mut rows: Vec<_> = paths.iter().map(Row::new).collect();
    for round in 1..=run.rounds() {
        eprintln!("tools/list of {TOOLS} tools: round {round} of {}", run.rounds());
        for (path, row) in paths.iter().zip(&mut rows) {
            let outcome = load(run, path, Ask::List { tools: TOOLS }, 1).run().await;
            row.add(findings.note(&format!("tools/list over {}", path.name), outcome).as_ref());
        }
    }
    let mut table = Table::new(&["path", "p50 µs", "p99 µs", "÷ direct", "CPU µs/call", "÷ forwarder", "KB"]);
    let none = Row::default();
    for row in &rows {
        let proxy = row.name != row.yardsticks.direct;
        table.row(&[
            row.name.clone(),
            maybe(row.p50.median()),
            maybe(row.p99.median()),
            maybe(row.p50.over(&of(&rows, row.yardsticks.direct, &none).p50)),
            maybe(row.cpu.median()),
            maybe(row.cpu.over(&of(&rows, row.yardsticks.forwarder, &none).cpu).filter(|_| proxy)),
            maybe(row.bytes.median().map(|bytes| bytes / 1e3)),
        ]);
    }
    findings.aims.add_list(&rows);
    findings.foundation.add_lists(&rows);
    findings.section("`tools/list` with 1,000 tools, 1 client", table.markdown());
}

/// The row of one search, where there is a gateway.
async fn find(run: &Run, yard: &Yard, tools: usize, clients: usize, findings: &mut Findings) -> Option<[String; 7]> {
    let (gateway, ask) = yard.find()?;
    let mut row = Row::default();
    for _ in 0..run.rounds() {
        let load = Load {
            url: gateway.url.clone(),
            manner: Manner::Legacy,
            ask: ask.clone(),
            clients,
            warm_up: run.warm_up(),
            window: run.window(),
            process: Some(gateway.process),
        };
        let outcome = load.run().await;
        row.add(findings.note(&format!("find_tools over {tools} tools"), outcome).as_ref());
    }
    if tools == MANY_TOOLS && clients == 1 {
        findings.aims.find_micros = row.p50.median();
    }
    Some([
        tools.to_string(),
        clients.to_string(),
        maybe(row.speed.median()),
        maybe(row.p50.median()),
        maybe(row.p99.median()),
        maybe(row.cpu.median()),
        maybe(row.bytes.median()),
    ])
}

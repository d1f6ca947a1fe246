//! Many clients at one server, and a tool that hangs while others of the same server are called.

mod hung;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::child::Role;
use crate::client::Manner;
use crate::gateway::{Gateway, Home};
use crate::load::{Ask, Load, listed_name};
use crate::report::{Table, maybe};
use crate::say;

use super::sheet::Sheet;
use super::{Findings, Part, Run};

/// As many tools as an ordinary server has.
const TOOLS: usize = 25;
/// How many clients call at a time.
const CLIENTS: [usize; 2] = [1_000, 4_000];

/// Measures what is wanted of it and gives the text for the document.
pub(super) async fn measure(run: &Run, program: &Path, findings: &mut Findings) -> String {
    let mut sheet = Sheet::new();
    if run.wants(Part::Crowd) {
        let crowd = Box::pin(crowd(run, program, &mut sheet)).await;
        findings.note("many clients", crowd);
    }
    if run.wants(Part::Hung) {
        let hung = Box::pin(hung::measure(run, program, &mut sheet)).await;
        findings.note("a tool that hangs", hung);
    }
    let text = sheet.markdown("Aims of many clients and a slow tool");
    say(&text);
    text
}

/// The first wrong answer, `busy` among them, fails the measurement.
async fn crowd(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let backend = Role::start(&["backend-http"]).await.context("start the backend")?;
    let home = Home::new()?;
    home.http_server("over-http", &backend.url)?;
    home.stdio_server("over-stdio", TOOLS, false)?;
    let gateway = Gateway::start(program, &home).await?;
    let url = gateway.profile("direct");
    let mut table = Table::new(&["clients of one server", "path", "calls/s", "÷ direct", "p50 ms", "p99 ms"]);
    for clients in CLIENTS {
        let paths = [
            ("direct", backend.url.clone(), "", Manner::Legacy),
            ("Toolcrib → HTTP", url.clone(), "over-http", Manner::Legacy),
            ("Toolcrib → HTTP, client 2026-07-28", url.clone(), "over-http", Manner::Modern),
            ("Toolcrib → stdio", url.clone(), "over-stdio", Manner::Legacy),
        ];
        let mut direct = None;
        for (name, url, server, manner) in paths {
            let tool = listed_name(&url, manner, "echo", server).await?;
            // The first answers of all clients must be there before anything is measured.
            let (warm_up, window) = (run.window().max(Duration::from_secs(2)), run.window() * 2);
            let ask = Ask::Echo { tool };
            let load = Load { url, manner, ask, clients, warm_up, window, process: None };
            let found = load.run().await.with_context(|| format!("{clients} clients: {name}"))?;
            let speed = found.calls_per_second();
            let direct = *direct.get_or_insert(speed);
            let millis = |share| found.quantile_micros(share).map(|micros| micros / 1e3);
            let cells = [Some(speed), Some(speed / direct), millis(0.5), millis(0.99)];
            let texts = [clients.to_string(), name.to_owned()];
            table.row(&texts.into_iter().chain(cells.map(maybe)).collect::<Vec<_>>());
        }
    }
    gateway.stop().await?;
    sheet.section("Many clients at one server", table.markdown());
    Ok(())
}

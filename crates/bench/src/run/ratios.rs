//! The ratios that the speed of a call is judged by: the gateway, the byte forwarder, the SDK's proxy over stdio and an
//! earlier build of the gateway, in front of the same backends, in rounds; each ratio beside the bound on it.
//!
//! To add a bound: a row in `bound.rs`.

mod bound;
mod start;
mod table;

use std::path::Path as FilePath;

use anyhow::Context;

use crate::child::Role;
use crate::gateway::{Gateway, Home};
use crate::say;

use super::calls::{Cell, Row, rounds};
use super::yard::{FORWARDER, GATEWAY_HTTP, GATEWAY_STDIO, Path, Payload, SDK_STDIO, direct_paths, home};
use super::{Findings, Run};

const GATEWAY_MODERN_CLIENT: &str = "Toolcrib → HTTP, modern client";
const EARLIER_HTTP: &str = "earlier build → HTTP";
const EARLIER_STDIO: &str = "earlier build → stdio";
const EARLIER_MODERN_CLIENT: &str = "earlier build → HTTP, modern client";
/// The paths of this build, and the same of the earlier one.
const PAIRS: [(&str, &str); 3] =
    [(GATEWAY_HTTP, EARLIER_HTTP), (GATEWAY_STDIO, EARLIER_STDIO), (GATEWAY_MODERN_CLIENT, EARLIER_MODERN_CLIENT)];

/// With `--quick`: short rounds, but enough of them for a median.
const QUICK_ROUNDS: usize = 3;
const QUICK_SECONDS: f64 = 0.4;

/// What the rounds found in one cell.
#[derive(Debug)]
struct CellFigures {
    cell: Cell,
    rows: Vec<Row>,
}

/// All that is found here; what was not measured is empty.
#[derive(Debug, Default)]
struct Ratios {
    starts: Vec<start::Start>,
    idle: Option<start::Idle>,
    cells: Vec<CellFigures>,
}

/// A gateway and the home that it runs on.
#[derive(Debug)]
struct Site {
    gateway: Gateway,
    _home: Home,
}

/// Everything that takes turns.
#[derive(Debug)]
struct Field {
    _backend: Role,
    forwarder: Role,
    sdk_stdio: Option<Role>,
    now: Site,
    earlier: Option<Site>,
}

/// Measures everything here, prints it, writes `--json`, and gives the text for the document.
pub(super) async fn measure(run: &Run, program: &FilePath, facts: &str, findings: &mut Findings) -> String {
    let paced = paced(run);
    let programs = start::Programs { now: program, earlier: run.before.as_deref() };
    let mut found = Ratios::default();
    let starts = Box::pin(start::starts(run, programs)).await;
    found.starts = findings.note("the time of a start", starts).unwrap_or_default();
    let idle = Box::pin(start::idle(run, programs)).await;
    found.idle = findings.note("memory of an idle gateway", idle);
    let cells = Box::pin(cells(&paced, programs, findings)).await;
    found.cells = findings.note("calls beside the byte forwarder", cells).unwrap_or_default();
    let pace = format!("medians of {} rounds of {:?} per path", paced.rounds(), paced.window());
    let text = table::markdown(&found, &pace);
    say(&text);
    if let Some(file) = &run.json {
        let json = table::json(&found, &format!("{facts}; {pace}"));
        let written = std::fs::write(file, format!("{json:#}\n"));
        findings.note("the figures as JSON", written.with_context(|| format!("write `{}`", file.display())));
    }
    text
}

/// The run with the rounds that are used here.
fn paced(run: &Run) -> Run {
    let quick = Run { quick: false, rounds: QUICK_ROUNDS, seconds: QUICK_SECONDS, ..run.clone() };
    if run.quick { quick } else { run.clone() }
}

async fn cells(run: &Run, programs: start::Programs<'_>, findings: &mut Findings) -> anyhow::Result<Vec<CellFigures>> {
    let field = Field::start(programs).await.context("start the paths")?;
    let mut cells = Vec::new();
    for payload in [Payload::Echo, Payload::Text] {
        for &clients in &run.clients {
            let cell = Cell { payload, clients };
            let rows = rounds(run, &field.paths(payload), cell, findings).await;
            cells.push(CellFigures { cell, rows });
        }
    }
    field.stop().await?;
    Ok(cells)
}

// === impl CellFigures ===

impl CellFigures {
    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

// === impl Site ===

impl Site {
    async fn start(program: &FilePath, backend: &Role) -> anyhow::Result<Self> {
        let home = home(&backend.url, true, false)?;
        Ok(Self { gateway: Gateway::start(program, &home).await?, _home: home })
    }
}

// === impl Field ===

impl Field {
    async fn start(programs: start::Programs<'_>) -> anyhow::Result<Self> {
        let backend = Role::start(&["backend-http"]).await?;
        let forwarder = Role::start(&["forwarder", "--backend", &backend.url]).await?;
        let sdk_stdio = if cfg!(feature = "sdk") { Some(Role::start(&["sdk-proxy"]).await?) } else { None };
        let now = Site::start(programs.now, &backend).await?;
        let earlier = match programs.earlier {
            Some(program) => Some(Site::start(program, &backend).await.context("the earlier build")?),
            None => None,
        };
        Ok(Self { _backend: backend, forwarder, sdk_stdio, now, earlier })
    }

    /// In the order of the turns and of the tables. What a client's revision costs is the same for large results.
    fn paths(&self, payload: Payload) -> Vec<Path> {
        let mut paths = vec![Path::of_role(FORWARDER, &self.forwarder)];
        paths.extend(self.sdk_stdio.as_ref().map(|role| Path::of_role(SDK_STDIO, role)));
        let [now, earlier] = [0, 1].map(|which| PAIRS.map(|(now, earlier)| [now, earlier][which]));
        for (running, [http_name, stdio_name, modern_name]) in
            [(Some(&self.now), now), (self.earlier.as_ref(), earlier)]
        {
            let Some(running) = running else { continue };
            let [http, stdio] = direct_paths(&running.gateway, [http_name, stdio_name]);
            let modern = (payload == Payload::Echo).then(|| http.by_modern_client(modern_name));
            paths.extend([http, stdio].into_iter().chain(modern));
        }
        paths
    }

    async fn stop(self) -> anyhow::Result<()> {
        let now = self.now.gateway.stop().await;
        if let Some(earlier) = self.earlier {
            earlier.gateway.stop().await.context("stop the earlier build")?;
        }
        now.context("stop the gateway")
    }
}

//! Tool calls over every path: the paths take turns in rounds, so that a slow minute of the machine meets all of them,
//! and ratios are formed within a round.

use crate::load::{Ask, Load, Outcome};
use crate::process::Process;
use crate::report::{Table, maybe, median};

use super::yard::{Path, Payload, Yard, Yardsticks};
use super::{Findings, Run};

/// What is measured at a time: one payload, so many clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) payload: Payload,
    pub(super) clients: usize,
}

/// One number per round.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(Vec<Option<f64>>);

impl Series {
    pub(super) fn median(&self) -> Option<f64> {
        median(&self.0.iter().copied().flatten().collect::<Vec<_>>())
    }

    /// The median of what `combine` makes of the two numbers of each round.
    pub(super) fn with(&self, other: &Self, combine: impl Fn(f64, f64) -> f64) -> Option<f64> {
        let both = self.0.iter().zip(&other.0).filter_map(|(mine, theirs)| Some(combine((*mine)?, (*theirs)?)));
        median(&both.collect::<Vec<_>>())
    }

    pub(super) fn over(&self, other: &Self) -> Option<f64> {
        self.with(other, |mine, theirs| mine / theirs)
    }
}

// === impl Cell ===

impl Cell {
    /// As in `echo, 0.2 KB, 16 clients`.
    pub(super) fn title(self) -> String {
        let plural = if self.clients == 1 { "client" } else { "clients" };
        format!("{}, {} {plural}", self.payload.title(), self.clients)
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<T: IntoIterator<Item = f64>>(numbers: T) -> Self {
        Self(numbers.into_iter().map(Some).collect())
    }
}

/// What the rounds found for one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) yardsticks: Yardsticks,
    pub(super) speed: Series,
    pub(super) p50: Series,
    pub(super) p99: Series,
    pub(super) cpu: Series,
    pub(super) bytes: Series,
}

impl Row {
    pub(super) fn new(path: &Path) -> Self {
        Self { name: path.name.clone(), yardsticks: path.yardsticks(), ..Self::default() }
    }

    pub(super) fn add(&mut self, outcome: Option<&Outcome>) {
        self.speed.0.push(outcome.map(Outcome::calls_per_second));
        self.p50.0.push(outcome.and_then(|outcome| outcome.quantile_micros(0.5)));
        self.p99.0.push(outcome.and_then(|outcome| outcome.quantile_micros(0.99)));
        self.cpu.0.push(outcome.and_then(Outcome::cpu_micros_per_call));
        self.bytes.0.push(outcome.and_then(Outcome::bytes_per_call));
    }
}

/// The row of a path, or one without numbers.
pub(super) fn of<'a>(rows: &'a [Row], name: &str, none: &'a Row) -> &'a Row {
    rows.iter().find(|row| row.name == name).unwrap_or(none)
}

pub(super) async fn measure(run: &Run, yard: &Yard, findings: &mut Findings) {
    for payload in [Payload::Echo, Payload::Text] {
        for &clients in &run.clients {
            let rows = rounds(run, &paths_for(yard, payload), Cell { payload, clients }, findings).await;
            findings.aims.add_calls(payload, clients, &rows);
            findings.foundation.add_calls(payload, clients, &rows);
            findings.section(&Cell { payload, clients }.title(), table(&rows).markdown());
        }
    }
}

pub(super) async fn measure_big(run: &Run, yard: &Yard, findings: &mut Findings) {
    let cell = Cell { payload: Payload::Big, clients: 1 };
    let rows = rounds(run, &paths_for(yard, Payload::Big), cell, findings).await;
    let columns = ["path", "ms per call", "÷ direct", "MB/s", "CPU ms/call", "peak resident MiB"];
    let mut out = Table::new(&columns);
    let none = Row::default();
    for (row, path) in rows.iter().zip(paths_for(yard, Payload::Big)) {
        let peak = path.process.and_then(Process::sizes).map(|sizes| mib(sizes.peak_kib));
        out.row(&[
            row.name.clone(),
            maybe(row.p50.median().map(|micros| micros / 1e3)),
            maybe(row.p50.over(&of(&rows, row.yardsticks.direct, &none).p50)),
            maybe(row.speed.with(&row.bytes, |calls, bytes| calls * bytes / 1e6)),
            maybe(row.cpu.median().map(|micros| micros / 1e3)),
            maybe(peak),
        ]);
    }
    findings.section("A relayed result of 10 MiB, 1 client", out.markdown());
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

fn paths_for(yard: &Yard, payload: Payload) -> Vec<Path> {
    yard.paths().into_iter().filter(|path| payload == Payload::Echo || path.serves_large()).collect()
}

/// One measurement of each path in each round; a path that fails has no figure in that round.
pub(super) async fn rounds(run: &Run, paths: &[Path], cell: Cell, findings: &mut Findings) -> Vec<Row> {
    let Cell { payload, clients } = cell;
    let mut asks: Vec<Option<Ask>> = Vec::new();
    for path in paths {
        let ask = path.ask(payload).await;
        asks.push(findings.note(&path.name, ask).flatten());
    }
    let mut rows: Vec<_> = paths.iter().map(Row::new).collect();
    for round in 1..=run.rounds() {
        eprintln!("{}: round {round} of {}", cell.title(), run.rounds());
        for ((path, ask), row) in paths.iter().zip(&asks).zip(&mut rows) {
            let Some(ask) = ask.clone() else { continue };
            let outcome = load(run, path, ask, clients).run().await;
            let outcome = findings.note(&format!("{}, {}", path.name, cell.title()), outcome);
            row.add(outcome.as_ref());
        }
    }
    rows
}

/// One measurement of a path.
pub(super) fn load(run: &Run, path: &Path, ask: Ask, clients: usize) -> Load {
    Load {
        url: path.url.clone(),
        manner: path.manner,
        ask,
        clients,
        warm_up: run.warm_up(),
        window: run.window(),
        process: path.process,
    }
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        "path",
        "calls/s",
        "÷ direct",
        "p50 µs",
        "p99 µs",
        "p50 − direct",
        "CPU µs/call",
        "÷ forwarder",
        "÷ SDK proxy",
    ];
    let mut table = Table::new(&columns);
    let none = Row::default();
    for row in rows {
        let names = row.yardsticks;
        let of_row = |name| of(rows, name, &none);
        let (direct, forwarder, sdk) = (of_row(names.direct), of_row(names.forwarder), of_row(names.sdk));
        let proxy = row.name != names.direct;
        let compared = proxy && row.name != names.forwarder;
        table.row(&[
            row.name.clone(),
            maybe(row.speed.median()),
            maybe(row.speed.over(&direct.speed)),
            maybe(row.p50.median()),
            maybe(row.p99.median()),
            maybe(row.p50.with(&direct.p50, |mine, direct| mine - direct).filter(|_| proxy)),
            maybe(row.cpu.median()),
            maybe(row.cpu.over(&forwarder.cpu).filter(|_| proxy)),
            maybe(row.cpu.over(&sdk.cpu).filter(|_| compared)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_formed_within_a_round() {
        let mine = Series(vec![Some(10.0), Some(40.0), None]);
        let other = Series(vec![Some(5.0), Some(10.0), Some(1.0)]);
        assert_eq!(mine.over(&other), Some(3.0));
        assert_eq!(mine.median(), Some(25.0));
        assert_eq!(mine.over(&Series::default()), None);
    }
}

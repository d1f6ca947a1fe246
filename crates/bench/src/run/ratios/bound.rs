//! The bounds: which figure of which path, beside which other path, may be how large at how many clients. And what a
//! run found of each, beside the same ratio of the earlier build.

use crate::process::Sizes;
use crate::report::median;

use super::super::calls::{Row, Series};
use super::super::yard::{FORWARDER, GATEWAY_HTTP, GATEWAY_STDIO, Payload, SDK_STDIO};
use super::start::Idle;
use super::{CellFigures, GATEWAY_MODERN_CLIENT, PAIRS, Ratios};

/// From a start to the first good list, in milliseconds.
const READY_MILLIS: f64 = 60.0;
/// Resident memory of an idle gateway.
const IDLE_MIB: f64 = 18.0;

/// What a ratio is formed of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// CPU time of the process under test for each call.
    Cpu,
    P99,
}

/// A bound on the figure of `path` ÷ that of `beside`.
#[derive(Debug)]
struct Bound {
    payload: Payload,
    path: &'static str,
    figure: Figure,
    beside: &'static str,
    /// At 1, 16 and 64 clients.
    at_most: [f64; 3],
}

const CLIENTS: [usize; 3] = [1, 16, 64];

const BOUNDS: [Bound; 10] = [
    Bound::new(Payload::Echo, GATEWAY_HTTP, Figure::Cpu, FORWARDER, [1.6, 1.4, 1.4]),
    Bound::new(Payload::Echo, GATEWAY_HTTP, Figure::P99, FORWARDER, [2.0; 3]),
    Bound::new(Payload::Echo, GATEWAY_MODERN_CLIENT, Figure::Cpu, GATEWAY_HTTP, [1.05; 3]),
    Bound::new(Payload::Echo, GATEWAY_MODERN_CLIENT, Figure::P99, FORWARDER, [2.0; 3]),
    Bound::new(Payload::Echo, GATEWAY_STDIO, Figure::Cpu, FORWARDER, [1.1; 3]),
    Bound::new(Payload::Echo, GATEWAY_STDIO, Figure::P99, SDK_STDIO, [1.0; 3]),
    Bound::new(Payload::Text, GATEWAY_HTTP, Figure::Cpu, FORWARDER, [1.4; 3]),
    Bound::new(Payload::Text, GATEWAY_HTTP, Figure::P99, FORWARDER, [2.0; 3]),
    Bound::new(Payload::Text, GATEWAY_STDIO, Figure::Cpu, FORWARDER, [1.4; 3]),
    Bound::new(Payload::Text, GATEWAY_STDIO, Figure::P99, SDK_STDIO, [1.0; 3]),
];

/// What a run found of one bound.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// What was measured: the cell, or a state of the gateway.
    pub(super) subject: String,
    /// The path that is judged; empty where the figure is none of a path.
    pub(super) path: &'static str,
    /// As in `CPU ÷ byte forwarder`; empty where the subject says it.
    pub(super) ratio: String,
    pub(super) at_most: f64,
    pub(super) found: Option<f64>,
    /// The same of the earlier build.
    pub(super) earlier: Option<f64>,
}

/// Everything that has a bound, in the order of the tables.
pub(super) fn judge(found: &Ratios) -> Vec<Verdict> {
    let mut judged: Vec<_> = found.cells.iter().flat_map(judge_cell).collect();
    judged.extend(found.starts.iter().map(|start| {
        let (now, earlier) = (median(&start.now), median(&start.earlier));
        Verdict::of_state(&start.title(), READY_MILLIS, now, earlier)
    }));
    judged.extend(found.idle.iter().map(|idle| {
        let [now, earlier] = [&idle.now, &idle.earlier].map(|sizes| median(&Idle::each(sizes, Sizes::resident_mib)));
        Verdict::of_state("resident when idle with 3 servers, MiB", IDLE_MIB, now, earlier)
    }));
    judged
}

/// What has a bound in one cell; nothing where there is none for its number of clients.
pub(super) fn judge_cell(measured: &CellFigures) -> Vec<Verdict> {
    let cell = measured.cell;
    let Some(column) = CLIENTS.iter().position(|clients| *clients == cell.clients) else { return Vec::new() };
    let of_payload = BOUNDS.iter().filter(|bound| bound.payload == cell.payload);
    of_payload
        .map(|bound| Verdict {
            subject: cell.title(),
            path: bound.path,
            ratio: format!("{} ÷ {}", bound.figure.name(), bound.beside),
            at_most: bound.at_most[column],
            found: bound.figure.ratio(measured.row(bound.path), measured.row(bound.beside)),
            earlier: earlier(bound.path)
                .and_then(|path| bound.figure.ratio(measured.row(path), measured.row(of_same_build(bound.beside)))),
        })
        .collect()
}

/// The earlier build's path like that one.
pub(super) fn earlier(path: &str) -> Option<&'static str> {
    PAIRS.iter().find(|(now, _)| *now == path).map(|(_, earlier)| *earlier)
}

/// What stands beside the earlier build's path: its own path where this build's stands beside one of its own.
fn of_same_build(beside: &'static str) -> &'static str {
    earlier(beside).unwrap_or(beside)
}

// === impl Figure ===

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::P99 => "p99",
        }
    }

    fn of(self, row: &Row) -> &Series {
        match self {
            Self::Cpu => &row.cpu,
            Self::P99 => &row.p99,
        }
    }

    /// The median of the ratios of each round; `None` where one of the rows was not measured.
    pub(super) fn ratio(self, row: Option<&Row>, beside: Option<&Row>) -> Option<f64> {
        self.of(row?).over(self.of(beside?))
    }
}

// === impl Bound ===

impl Bound {
    const fn new(
        payload: Payload,
        path: &'static str,
        figure: Figure,
        beside: &'static str,
        at_most: [f64; 3],
    ) -> Self {
        Self { payload, path, figure, beside, at_most }
    }
}

// === impl Verdict ===

impl Verdict {
    fn of_state(subject: &str, at_most: f64, found: Option<f64>, earlier: Option<f64>) -> Self {
        Self { subject: subject.to_owned(), path: "", ratio: String::new(), at_most, found, earlier }
    }

    /// `None` where nothing was measured.
    pub(super) fn met(&self) -> Option<bool> {
        self.found.map(|found| found <= self.at_most)
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.met() {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "–",
        }
    }

    /// All that was measured in one line.
    pub(super) fn measure(&self) -> String {
        let parts = [self.subject.as_str(), self.path, &self.ratio];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::calls::Cell;
    use super::super::{EARLIER_HTTP, EARLIER_MODERN_CLIENT};
    use super::*;

    fn row(name: &str, cpu: f64) -> Row {
        Row { name: name.to_owned(), cpu: [cpu].into_iter().collect(), ..Row::default() }
    }

    fn measured(clients: usize) -> CellFigures {
        let rows = vec![
            row(FORWARDER, 20.0),
            row(GATEWAY_HTTP, 30.0),
            row(GATEWAY_MODERN_CLIENT, 31.0),
            row(EARLIER_HTTP, 40.0),
            row(EARLIER_MODERN_CLIENT, 50.0),
        ];
        CellFigures { cell: Cell { payload: Payload::Echo, clients }, rows }
    }

    fn judged(clients: usize, path: &str) -> Verdict {
        let all = judge_cell(&measured(clients));
        all.into_iter().find(|judged| judged.path == path && judged.ratio.starts_with("CPU")).unwrap()
    }

    #[test]
    fn a_bound_holds_at_its_own_number_of_clients() {
        let [one, many] = [1, 16].map(|clients| judged(clients, GATEWAY_HTTP));
        assert_eq!((one.found, one.at_most, one.met()), (Some(1.5), 1.6, Some(true)));
        assert_eq!((many.found, many.at_most, many.met()), (Some(1.5), 1.4, Some(false)));
        assert_eq!(many.earlier, Some(2.0));
        assert_eq!(many.measure(), "echo, 0.2 KB, 16 clients: Toolcrib → HTTP: CPU ÷ byte forwarder");
        assert!(judge_cell(&measured(256)).is_empty());
    }

    #[test]
    fn a_modern_client_is_judged_beside_the_other_client_of_the_same_build() {
        let modern = judged(16, GATEWAY_MODERN_CLIENT);
        assert_eq!(modern.found, Some(31.0 / 30.0));
        assert_eq!(modern.earlier, Some(50.0 / 40.0));
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let stdio = judged(16, GATEWAY_STDIO);
        assert_eq!((stdio.met(), stdio.verdict()), (None, "–"));
    }
}

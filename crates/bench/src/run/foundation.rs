//! What the relay cost when it was first measured, in front of legacy servers only, and whether it has become dearer
//! since: ratios to the byte forwarder, which another machine changes little.

use crate::report::{Table, maybe, number};

use super::calls::{Row, of};
use super::yard::{GATEWAY_CALL_TOOL, GATEWAY_HTTP, GATEWAY_MODERN, GATEWAY_MODERN_CLIENT, GATEWAY_STDIO, Payload};

/// By how much a ratio may have grown.
const GROWTH: f64 = 1.10;

/// What was measured first, at 1, 16 and 64 clients.
struct First {
    payload: Payload,
    path: &'static str,
    over_forwarder: [f64; 3],
}

const CLIENTS: [usize; 3] = [1, 16, 64];

/// There was no modern server then. A modern client's calls to a legacy one stand for those to a modern one, which do
/// not have to be translated; large results were not measured for it, and cost what a legacy client's did.
const FIRST: [First; 8] = [
    First { payload: Payload::Echo, path: GATEWAY_HTTP, over_forwarder: [1.60, 1.88, 1.81] },
    First { payload: Payload::Echo, path: GATEWAY_STDIO, over_forwarder: [1.30, 1.28, 1.20] },
    First { payload: Payload::Echo, path: GATEWAY_CALL_TOOL, over_forwarder: [1.72, 1.91, 1.83] },
    First { payload: Payload::Echo, path: GATEWAY_MODERN_CLIENT, over_forwarder: [1.75, 2.03, 2.02] },
    First { payload: Payload::Echo, path: GATEWAY_MODERN, over_forwarder: [1.75, 2.03, 2.02] },
    First { payload: Payload::Text, path: GATEWAY_HTTP, over_forwarder: [2.47, 2.43, 2.53] },
    First { payload: Payload::Text, path: GATEWAY_STDIO, over_forwarder: [2.14, 3.08, 2.60] },
    First { payload: Payload::Text, path: GATEWAY_MODERN, over_forwarder: [2.47, 2.43, 2.53] },
];
/// `tools/list` of 1,000 tools, one client.
const FIRST_LISTS: [(&str, f64); 3] = [(GATEWAY_HTTP, 0.44), (GATEWAY_MODERN_CLIENT, 0.42), (GATEWAY_MODERN, 0.42)];

/// The ratios of this run beside the first ones.
#[derive(Debug)]
pub(super) struct Comparison {
    table: Table,
    any: bool,
}

impl Default for Comparison {
    fn default() -> Self {
        let columns = ["CPU per call ÷ byte forwarder", "foundation", "now", "change", "within a tenth"];
        Self { table: Table::new(&columns), any: false }
    }
}

impl Comparison {
    pub(super) fn add_calls(&mut self, payload: Payload, clients: usize, rows: &[Row]) {
        let Some(column) = CLIENTS.iter().position(|known| *known == clients) else { return };
        let plural = if clients == 1 { "client" } else { "clients" };
        for first in FIRST.iter().filter(|first| first.payload == payload) {
            let what = format!("{}, {clients} {plural}: {}", payload.title(), first.path);
            self.add(what, first.over_forwarder[column], over_forwarder(rows, first.path));
        }
    }

    pub(super) fn add_lists(&mut self, rows: &[Row]) {
        for (path, first) in FIRST_LISTS {
            self.add(format!("`tools/list` of 1,000: {path}"), first, over_forwarder(rows, path));
        }
    }

    fn add(&mut self, what: String, first: f64, now: Option<f64>) {
        let change = now.map(|now| format!("{:+.0} %", (now / first - 1.0) * 100.0)).unwrap_or_default();
        self.any |= now.is_some();
        self.table.row(&[what, number(first), maybe(now), change, verdict(first, now).to_owned()]);
    }

    /// `None` when nothing of it was measured.
    pub(super) fn markdown(&self) -> Option<&str> {
        self.any.then(|| self.table.markdown())
    }
}

fn over_forwarder(rows: &[Row], path: &str) -> Option<f64> {
    let none = Row::default();
    let row = of(rows, path, &none);
    row.cpu.over(&of(rows, row.yardsticks.forwarder, &none).cpu)
}

fn verdict(first: f64, now: Option<f64>) -> &'static str {
    match now {
        Some(now) if now <= first * GROWTH => "yes",
        Some(_) => "**no**",
        None => "–",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_still_within() {
        assert_eq!(verdict(2.0, Some(1.0)), "yes");
        assert_eq!(verdict(2.0, Some(2.19)), "yes");
        assert_eq!(verdict(2.0, Some(2.21)), "**no**");
        assert_eq!(verdict(2.0, None), "–");
    }

    #[test]
    fn what_was_not_measured_gives_no_table() {
        let mut comparison = Comparison::default();
        assert!(comparison.markdown().is_none());
        comparison.add_calls(Payload::Echo, 16, &[]);
        assert!(comparison.markdown().is_none());
        comparison.add("x".to_owned(), 2.0, Some(2.3));
        assert!(comparison.markdown().unwrap().ends_with("| x | 2.00 | 2.30 | +15 % | **no** |\n"));
    }
}

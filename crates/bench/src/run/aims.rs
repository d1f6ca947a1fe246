//! What the project aims at, beside what this run found.

use crate::report::{Table, maybe};

use super::calls::{Row, of};
use super::yard::{DIRECT, FORWARDER, GATEWAY_HTTP, GATEWAY_STDIO, Payload, SDK_HTTP, SDK_STDIO};

/// At how many clients CPU time per call is judged.
const JUDGED_CLIENTS: usize = 16;

/// The figures that have an aim.
#[derive(Debug, Default)]
pub(super) struct Figures {
    over_forwarder: Option<f64>,
    over_sdk: Option<f64>,
    cpu_micros: Option<f64>,
    stdio_cpu_micros: Option<f64>,
    stdio_over_sdk: Option<f64>,
    added_micros: Option<f64>,
    list_micros: Option<f64>,
    list_added_micros: Option<f64>,
    list_cpu_micros: Option<f64>,
    pub(super) find_micros: Option<f64>,
    pub(super) idle_mib: Option<f64>,
    pub(super) listening_millis: Option<f64>,
}

impl Figures {
    pub(super) fn add_calls(&mut self, payload: Payload, clients: usize, rows: &[Row]) {
        if payload != Payload::Echo {
            return;
        }
        let none = Row::default();
        let row = |name| of(rows, name, &none);
        let (http, stdio) = (row(GATEWAY_HTTP), row(GATEWAY_STDIO));
        if clients == JUDGED_CLIENTS {
            self.over_forwarder = http.cpu.over(&row(FORWARDER).cpu);
            self.over_sdk = http.cpu.over(&row(SDK_HTTP).cpu);
            self.cpu_micros = http.cpu.median();
            self.stdio_cpu_micros = stdio.cpu.median();
            self.stdio_over_sdk = stdio.cpu.over(&row(SDK_STDIO).cpu);
        }
        if clients == 1 {
            self.added_micros = http.p50.with(&row(DIRECT).p50, |mine, direct| mine - direct);
        }
    }

    pub(super) fn add_list(&mut self, rows: &[Row]) {
        let none = Row::default();
        self.list_micros = of(rows, GATEWAY_HTTP, &none).p50.median();
        let direct = of(rows, DIRECT, &none);
        self.list_added_micros = of(rows, GATEWAY_HTTP, &none).p50.with(&direct.p50, |mine, direct| mine - direct);
        self.list_cpu_micros = of(rows, GATEWAY_HTTP, &none).cpu.median();
    }

    pub(super) fn table(&self) -> String {
        let rows: [(&str, Option<f64>, Option<f64>); 12] = [
            ("CPU per call over HTTP ÷ byte forwarder, 16 clients", Some(1.6), self.over_forwarder),
            ("CPU per call over HTTP ÷ SDK proxy, 16 clients", Some(0.4), self.over_sdk),
            ("CPU per call over HTTP, µs", Some(30.0), self.cpu_micros),
            ("CPU per call over stdio, µs", None, self.stdio_cpu_micros),
            ("CPU per call over stdio ÷ SDK proxy, 16 clients", None, self.stdio_over_sdk),
            ("added median latency at 1 client, µs", Some(80.0), self.added_micros),
            ("`tools/list` of 1,000 tools, median µs over HTTP", None, self.list_micros),
            ("`tools/list` of 1,000 tools, median µs more than direct", None, self.list_added_micros),
            ("`tools/list` of 1,000 tools, CPU µs", Some(150.0), self.list_cpu_micros),
            ("`find_tools` over 10,000 tools, median µs over HTTP", Some(1_000.0), self.find_micros),
            ("resident when idle with 3 servers, MiB", Some(30.0), self.idle_mib),
            ("from start to listening, ms", Some(50.0), self.listening_millis),
        ];
        let mut table = Table::new(&["measure", "aim, at most", "found", "met"]);
        for (name, aim, found) in rows {
            table.row(&[name.to_owned(), maybe(aim), maybe(found), verdict(aim, found).to_owned()]);
        }
        table.markdown().to_owned()
    }
}

pub(super) fn verdict(aim: Option<f64>, found: Option<f64>) -> &'static str {
    match (aim, found) {
        (Some(aim), Some(found)) if found <= aim => "yes",
        (Some(_), Some(_)) => "**no**",
        _ => "–",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_met_missed_or_unknown() {
        assert_eq!(verdict(Some(1.6), Some(1.6)), "yes");
        assert_eq!(verdict(Some(1.6), Some(1.7)), "**no**");
        assert_eq!(verdict(Some(1.6), None), "–");
        assert_eq!(verdict(None, Some(1.0)), "–");
    }
}

//! What the ratios look like: tables for people, and the same figures as JSON.

use serde_json::{Value, json};

use crate::process::Sizes;
use crate::report::{Table, maybe, median, number};

use super::super::calls::Row;
use super::super::yard::{FORWARDER, Payload};
use super::bound::{Figure, Verdict, earlier, judge, judge_cell};
use super::start::Idle;
use super::{CellFigures, PAIRS, Ratios};

pub(super) fn markdown(found: &Ratios, pace: &str) -> String {
    let bounds = bounds(&judge(found));
    let cells: String = found.cells.iter().map(cell).collect();
    let states = states(found);
    format!("### Bounds, {pace}\n\n{bounds}\n### Start and memory\n\n{states}\n{cells}")
}

fn bounds(judged: &[Verdict]) -> String {
    let mut table = Table::new(&["measure", "at most", "this build", "met", "earlier build"]);
    for one in judged {
        let cells = [number(one.at_most), maybe(one.found), one.verdict().to_owned(), maybe(one.earlier)];
        table.row(&[&[one.measure()], &cells[..]].concat());
    }
    table.markdown().to_owned()
}

fn states(found: &Ratios) -> String {
    let columns = ["measure", "this build", "least", "most", "earlier build", "this ÷ earlier"];
    let mut table = Table::new(&columns);
    let mut row = |measure: String, now: &[f64], earlier: &[f64]| {
        let [now_median, earlier_median] = [median(now), median(earlier)];
        let [least, most] = [f64::min as fn(f64, f64) -> f64, f64::max].map(|pick| now.iter().copied().reduce(pick));
        let ratio = now_median.zip(earlier_median).map(|(now, earlier)| now / earlier);
        let cells = [now_median, least, most, earlier_median, ratio].map(maybe);
        table.row(&[&[measure], &cells[..]].concat());
    };
    for start in &found.starts {
        row(start.title(), &start.now, &start.earlier);
    }
    for (what, size) in SIZES {
        if let Some(idle) = &found.idle {
            row(
                format!("{what} when idle with 3 servers"),
                &Idle::each(&idle.now, size),
                &Idle::each(&idle.earlier, size),
            );
        }
    }
    table.markdown().to_owned()
}

/// A size of a process: in MiB, or a number of things.
type Size = fn(&Sizes) -> f64;

const SIZES: [(&str, Size); 3] =
    [("resident MiB", Sizes::resident_mib), ("of it its own, MiB,", Sizes::own_mib), ("threads", Sizes::thread_count)];

fn cell(measured: &CellFigures) -> String {
    let columns = [
        "path",
        "calls/s",
        "p50 µs",
        "p99 µs",
        "CPU µs/call",
        "CPU ÷ forwarder",
        "p99 ÷ forwarder",
        "CPU ÷ earlier",
        "p99 ÷ earlier",
        "bounds",
    ];
    let mut table = Table::new(&columns);
    let judged = judge_cell(measured);
    for row in &measured.rows {
        let figures = [&row.speed, &row.p50, &row.p99, &row.cpu].map(|series| maybe(series.median()));
        let ratios = ratios(measured, row).map(maybe);
        let bounds: Vec<_> = judged.iter().filter(|one| one.path == row.name).map(beside).collect();
        table.row(&[std::slice::from_ref(&row.name), &figures[..], &ratios[..], &[bounds.join("; ")]].concat());
    }
    format!("### {}\n\n{}\n", measured.cell.title(), table.markdown())
}

/// As in `CPU ÷ byte forwarder 1.93 ≤ 1.40: missed`.
fn beside(judged: &Verdict) -> String {
    format!("{} {} ≤ {}: {}", judged.ratio, maybe(judged.found), number(judged.at_most), judged.verdict())
}

/// CPU and p99 ÷ the forwarder's, and ÷ those of the earlier build's path.
fn ratios(measured: &CellFigures, row: &Row) -> [Option<f64>; 4] {
    let forwarder = measured.row(FORWARDER).filter(|_| row.name != FORWARDER);
    let earlier = earlier(&row.name).and_then(|path| measured.row(path));
    let of = |figure: Figure, beside| figure.ratio(Some(row), beside);
    [of(Figure::Cpu, forwarder), of(Figure::P99, forwarder), of(Figure::Cpu, earlier), of(Figure::P99, earlier)]
}

/// The figures of the tables; `null` for what was not measured.
pub(super) fn json(found: &Ratios, facts: &str) -> Value {
    let cells: Vec<_> = found
        .cells
        .iter()
        .map(|measured| {
            let paths: Vec<_> = measured
                .rows
                .iter()
                .map(|row| {
                    let [cpu, p99, earlier_cpu, earlier_p99] = ratios(measured, row);
                    json!({
                        "path": row.name,
                        "earlier_build": PAIRS.iter().any(|(_, earlier)| *earlier == row.name),
                        "calls_per_second": row.speed.median(),
                        "p50_micros": row.p50.median(),
                        "p99_micros": row.p99.median(),
                        "cpu_micros_per_call": row.cpu.median(),
                        "cpu_over_forwarder": cpu,
                        "p99_over_forwarder": p99,
                        "cpu_over_earlier": earlier_cpu,
                        "p99_over_earlier": earlier_p99,
                    })
                })
                .collect();
            let payload = match measured.cell.payload {
                Payload::Echo => "echo",
                Payload::Text => "text",
                Payload::Big => "big",
            };
            json!({ "payload": payload, "clients": measured.cell.clients, "paths": paths })
        })
        .collect();
    let starts: Vec<_> = found
        .starts
        .iter()
        .map(|start| json!({ "server": start.server, "millis": start.now, "earlier_millis": start.earlier }))
        .collect();
    let idle = found.idle.as_ref().map(|idle| {
        let sizes = |sizes: &[Sizes]| {
            json!({
                "resident_mib": Idle::each(sizes, Sizes::resident_mib),
                "own_mib": Idle::each(sizes, Sizes::own_mib),
                "threads": Idle::each(sizes, Sizes::thread_count),
            })
        };
        json!({ "this": sizes(&idle.now), "earlier": sizes(&idle.earlier) })
    });
    let bounds: Vec<_> = judge(found).iter().map(|one| {
        let (at_most, found, earlier) = (one.at_most, one.found, one.earlier);
        json!({ "measure": one.measure(), "at_most": at_most, "found": found, "met": one.met(), "earlier": earlier })
    }).collect();
    json!({ "facts": facts, "bounds": bounds, "starts": starts, "idle": idle, "cells": cells })
}

#[cfg(test)]
mod tests {
    use super::super::super::calls::Cell;
    use super::super::super::yard::GATEWAY_HTTP;
    use super::super::{EARLIER_HTTP, start::Start};
    use super::*;

    fn found() -> Ratios {
        let row = |name: &str, cpu: f64, p99: f64| Row {
            name: name.to_owned(),
            cpu: [cpu].into_iter().collect(),
            p99: [p99].into_iter().collect(),
            ..Row::default()
        };
        let rows =
            vec![row(FORWARDER, 20.0, 1_000.0), row(GATEWAY_HTTP, 30.0, 1_500.0), row(EARLIER_HTTP, 40.0, 2_000.0)];
        let cell = Cell { payload: Payload::Echo, clients: 16 };
        let start = Start { server: "HTTP", now: vec![40.0, 50.0, 60.0], earlier: vec![100.0] };
        Ratios { starts: vec![start], idle: None, cells: vec![CellFigures { cell, rows }] }
    }

    #[test]
    fn each_row_has_its_ratios_and_its_bounds() {
        let text = markdown(&found(), "one round");
        let row = "| Toolcrib → HTTP | – | – | 1,500 | 30.0 | 1.50 | 1.50 | 0.75 | 0.75 | \
                   CPU ÷ byte forwarder 1.50 ≤ 1.40: **missed**; p99 ÷ byte forwarder 1.50 ≤ 2.00: met |\n";
        assert!(text.contains(row), "{text}");
        let row =
            "| echo, 0.2 KB, 16 clients: Toolcrib → HTTP: CPU ÷ byte forwarder | 1.40 | 1.50 | **missed** | 2.00 |\n";
        assert!(text.contains(row), "{text}");
        let row = "| from start to the first good list, a server over HTTP, ms | 50.0 | 40.0 | 60.0 | 100 | 0.50 |\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn json_has_the_same_figures_and_null_for_what_is_missing() {
        let json = json(&found(), "a machine");
        let path = &json["cells"][0]["paths"][1];
        assert_eq!((path["path"].as_str(), path["cpu_over_forwarder"].as_f64()), (Some(GATEWAY_HTTP), Some(1.5)));
        assert_eq!((path["cpu_over_earlier"].as_f64(), path["p50_micros"].is_null()), (Some(0.75), true));
        let bound = &json["bounds"][0];
        assert_eq!(
            (bound["at_most"].as_f64(), bound["met"].as_bool(), bound["earlier"].as_f64()),
            (Some(1.4), Some(false), Some(2.0))
        );
        assert!(json["idle"].is_null());
    }
}

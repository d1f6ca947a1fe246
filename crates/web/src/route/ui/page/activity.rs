//! `/ui/activity`: how many calls there were, how they ended and how long they took, over time.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::chart::{Chart, ChartForm, ChartPoint, ChartSeries};
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ActivityPage;
use toolcrib_ui::part::{Cell, Column, Filter, Look, Table};

use super::audit::duration;
use super::json::{number, rows, text};
use super::{Page, open_page, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/activity",
    nav: Some(("Record", "Activity")),
    needs: "core_figures",
    make: |request| Box::pin(async move { rendered(&page(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&page(request).await?.as_live()) })),
};

const RANGES: [&str; 6] = ["1h", "6h", "24h", "7d", "30d", "1y"];
const BY: [&str; 4] = ["server", "tool", "profile", "client"];

async fn page(request: &PageRequest) -> Result<ActivityPage, Problem> {
    let chosen = |name: &str, all: &[&str], usual: &str| {
        let value = request.value(name);
        if all.contains(&value.as_str()) { value } else { usual.to_owned() }
    };
    let (range, by) = (chosen("range", &RANGES, "24h"), chosen("by", &BY, "server"));
    let name = request.value("name");
    // While it is open, the page shows what is counted each minute anyway.
    let mut arguments = json!({ "range": range, "by": by, "fresh": !request.is_live() });
    if !name.is_empty() {
        arguments["name"] = name.as_str().into();
    }
    if let Some(until) = request.parameter("until") {
        arguments["until"] = until.into();
    }
    let answer = request.operate("core_figures", arguments).await?.to_value();
    let narrow = narrowing(&by, &name);
    let options = |all: &[&str]| all.iter().map(ToString::to_string).collect();
    let filters = vec![
        Filter::Switch { name: "range", label: "The last", options: options(&RANGES), value: range.clone() },
        Filter::Switch { name: "by", label: "By", options: options(&BY), value: by.clone() },
        Filter::Search { name: "name", label: "Only", hint: "one of them, by its name", value: name },
    ];
    let mut actions = vec![open_page("Earlier", &request.with("until", &text(&answer, "since")), Look::Plain)];
    if request.parameter("until").is_some() {
        actions.push(open_page("Now", &request.with("until", ""), Look::Plain));
    }
    Ok(ActivityPage {
        frame: request.frame("Activity"),
        actions,
        filters,
        path: request.path(),
        totals: totals(&answer["totals"]),
        charts: charts(&answer, &narrow),
        rows: by_name(&answer, &by, &range),
        times: by_time(&answer, &narrow),
        live: request.live_path(),
    })
}

/// The parameter of the audit log that narrows it to one of a kind; empty where none does.
fn narrowing(by: &str, name: &str) -> String {
    let (key, value) = match by {
        _ if name.is_empty() => return String::new(),
        "server" => ("target", format!("{name}/*")),
        "tool" => ("target", name.to_owned()),
        "profile" => ("profile", name.to_owned()),
        _ => ("principal", name.to_owned()),
    };
    format!("&{key}={}", encoded(&value))
}

/// The events of a point or of all of the time.
fn events(of: &Value, narrow: &str) -> String {
    let part = |key: &str| encoded(&text(of, key));
    format!("/ui/audit?since={}&until={}{narrow}", part("since"), part("until"))
}

pub(super) fn totals(totals: &Value) -> Vec<(&'static str, Cell)> {
    let calls = totals["calls"].as_u64().unwrap_or_default();
    let mut cells = vec![
        ("Calls", Cell::Number(calls)),
        ("Errors", share(totals, "errors", calls)),
        ("Denied", share(totals, "denied", calls)),
        ("Half took less than", took(totals, "p50_us")),
        ("99 % took less than", took(totals, "p99_us")),
    ];
    if let Some(saved) = totals["tokens_saved"].as_u64() {
        cells.push(("Tokens saved in lists", Cell::Number(saved)));
    }
    cells
}

/// A count with its share of the calls.
fn share(row: &Value, key: &str, calls: u64) -> Cell {
    match row[key].as_u64().unwrap_or_default() {
        count if count == 0 || calls == 0 => Cell::Number(count),
        count => Cell::Several(vec![
            Cell::Number(count),
            Cell::Figure(format!("({:.1} %)", 100.0 * count as f64 / calls as f64)),
        ]),
    }
}

fn took(row: &Value, key: &str) -> Cell {
    row[key].as_u64().map_or_else(|| Cell::Text("–".to_owned()), |micros| Cell::Figure(duration(micros)))
}

fn charts(answer: &Value, narrow: &str) -> Vec<(&'static str, Chart)> {
    let is_long = answer["step_s"].as_u64().is_some_and(|step| step >= 7_200);
    let point = |row: &Value, values: Vec<Option<f64>>| ChartPoint {
        label: label(&text(row, "since"), is_long),
        title: title(row),
        path: events(row, narrow),
        values,
    };
    let counted = rows(answer, "points").iter().map(|row| {
        let count = |key: &str| row[key].as_u64().unwrap_or_default();
        let good = count("calls").saturating_sub(count("errors")).saturating_sub(count("denied"));
        point(row, [good, count("denied"), count("errors")].map(|count| Some(count as f64)).to_vec())
    });
    let calls = Chart {
        form: ChartForm::Columns,
        unit: "",
        series: vec![series("calls", "a"), series("denied", "c"), series("errors", "b")],
        points: counted.collect(),
    };
    let timed = rows(answer, "points").iter().map(|row| {
        let millis = |key: &str| row[key].as_u64().map(|micros| micros as f64 / 1_000.0);
        point(row, ["p50_us", "p90_us", "p99_us"].map(millis).to_vec())
    });
    let durations = Chart {
        form: ChartForm::Lines,
        unit: "ms",
        series: vec![series("half of them", "a"), series("90 %", "c"), series("99 %", "b")],
        points: timed.collect(),
    };
    vec![("Calls", calls), ("How long they took", durations)]
}

fn series(label: &'static str, class: &'static str) -> ChartSeries {
    ChartSeries { label, class }
}

/// The day or the time of a moment.
fn label(moment: &str, is_long: bool) -> String {
    let part = if is_long { moment.get(5..10) } else { moment.get(11..16) };
    part.unwrap_or(moment).to_owned()
}

/// A point in words.
fn title(row: &Value) -> String {
    let since = text(row, "since");
    let since = since.get(..16).unwrap_or(&since).replace('T', " ");
    format!("{since}: {} calls, {} errors, {} denied", text(row, "calls"), text(row, "errors"), text(row, "denied"))
}

const FIGURES: [Column; 6] = [
    Column::number("Calls"),
    Column::number("Errors"),
    Column::number("Denied"),
    Column::number("Half"),
    Column::number("90 %"),
    Column::number("99 %"),
];

fn figures(row: &Value) -> [Cell; 6] {
    let calls = row["calls"].as_u64().unwrap_or_default();
    [
        number(row, "calls"),
        share(row, "errors", calls),
        share(row, "denied", calls),
        took(row, "p50_us"),
        took(row, "p90_us"),
        took(row, "p99_us"),
    ]
}

/// Who had how many; each name narrows the page, and leads to its events.
fn by_name(answer: &Value, by: &str, range: &str) -> Table {
    let (label, heading) = match by {
        "server" => ("By server", "Server"),
        "tool" => ("By tool", "Tool"),
        "profile" => ("By profile", "Profile"),
        _ => ("By client", "Client"),
    };
    let mut columns = vec![Column::text(heading)];
    columns.extend(FIGURES);
    columns.extend([Column::number("Tokens saved"), Column::text("On record")]);
    let rows = rows(answer, "rows").iter().map(|row| {
        let name = text(row, "name");
        let own = format!("/ui/activity?range={range}&by={by}&name={}", encoded(&name));
        let narrow = narrowing(by, &name);
        let mut cells = vec![Cell::link(own, name)];
        cells.extend(figures(row));
        cells.push(number(row, "tokens_saved"));
        cells.push(Cell::link(events(answer, &narrow), "events"));
        cells
    });
    Table { label: label.to_owned(), columns, rows: rows.collect() }
}

/// The times that had any, the latest first.
fn by_time(answer: &Value, narrow: &str) -> Table {
    let mut columns = vec![Column::text("From (UTC)")];
    columns.extend(FIGURES);
    columns.push(Column::text("On record"));
    let had = rows(answer, "points").iter().rev().filter(|row| row["calls"].as_u64().is_some_and(|calls| calls > 0));
    let rows = had.map(|row| {
        let mut cells = vec![super::json::time(row, "since")];
        cells.extend(figures(row));
        cells.push(Cell::link(events(row, narrow), "events"));
        cells
    });
    Table { label: "By time".to_owned(), columns, rows: rows.collect() }
}

//! Twenty steps beside the same twenty calls, straight at the server and through the gateway. They take turns, so that
//! a slow moment meets all of them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::ensure;

use crate::child::Role;
use crate::client::{Client, Manner, Request};
use crate::gateway::{Gateway, Home};
use crate::load::listed_name;
use crate::report::{Table, maybe, median, micros};

use super::super::Run;
use super::super::sheet::Sheet;
use super::define;

const STEPS: u32 = 20;
const TURNS: usize = 400;
/// Calls before any counts: connections, the first run's records.
const WARM_UP: usize = 20;
const WORDS: &str = "the words that go through all of the steps";

/// The forms that a workflow of twenty calls can have.
const FORMS: [(&str, &str); 3] = [
    ("20 steps, each with a template", "in_turn"),
    ("one `forEach` over 20 items", "each_item"),
    ("20 branches of one `parallel`", "at_once"),
];

pub(super) async fn measure(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let turns = if run.quick { TURNS / 10 } else { TURNS };
    let backend = Role::start(&["backend-http", "--tools", "25"]).await?;
    let home = Home::new()?;
    home.http_server("bench", &backend.url)?;
    define(&home, "in_turn", &in_turn())?;
    define(&home, "each_item", &each_item())?;
    define(&home, "at_once", &at_once())?;
    let gateway = Gateway::start(program, &home).await?;
    let url = gateway.profile("direct");

    let mut direct = Client::open(&backend.url, Manner::Legacy).await?;
    let mut client = Client::open(&url, Manner::Legacy).await?;
    let arguments = format!("{{\"message\":\"{WORDS}\"}}");
    let echo = Request::call(&listed_name(&backend.url, Manner::Legacy, "echo", "").await?, &arguments);
    let through = Request::call(&listed_name(&url, Manner::Legacy, "echo", "bench").await?, &arguments);
    let mut workflows = Vec::new();
    for (_, name) in FORMS {
        workflows.push(Request::call(&listed_name(&url, Manner::Legacy, name, "").await?, &arguments));
    }

    let mut alone = Vec::new();
    let mut by_client = Vec::new();
    let mut whole = vec![Vec::new(); FORMS.len()];
    for turn in 0..turns + WARM_UP {
        let straight = calls(&mut direct, &echo, STEPS).await?;
        let relayed = calls(&mut client, &through, STEPS).await?;
        let mut runs = Vec::new();
        for workflow in &workflows {
            runs.push(calls(&mut client, workflow, 1).await?);
        }
        if turn >= WARM_UP {
            alone.push(straight);
            by_client.push(relayed);
            whole.iter_mut().zip(runs).for_each(|(times, took)| times.push(took));
        }
    }
    direct.close().await;
    client.close().await;
    gateway.stop().await?;

    let mut table = Table::new(&["twenty calls", "median µs", "µs per call", "more than straight, µs per call"]);
    let mut row = |what: &str, times: &[f64]| {
        let more = per_step(times, &alone);
        let each = median(times).map(|all| all / f64::from(STEPS));
        table.row(&[what.to_owned(), maybe(median(times)), maybe(each), maybe(more)]);
    };
    row("by a client, straight at the server", &alone);
    row("by a client, through the gateway", &by_client);
    for ((what, _), times) in FORMS.iter().zip(&whole) {
        row(&format!("a workflow: {what}"), times);
    }
    let over =
        "overhead per step of a workflow with 20 steps, µs more than the same call by a client through the gateway";
    sheet.aim(over, Some(150.0), per_step(&whole[0], &by_client));
    let straight = "the same, µs more than the same call straight at the server";
    sheet.aim(straight, None, per_step(&whole[0], &alone));
    sheet.section("Steps of a workflow, 1 client", table.markdown());
    Ok(())
}

/// What a step takes more than a call, by the median of the differences within a turn.
fn per_step(whole: &[f64], calls: &[f64]) -> Option<f64> {
    let more: Vec<_> = whole.iter().zip(calls).map(|(whole, calls)| (whole - calls) / f64::from(STEPS)).collect();
    median(&more)
}

async fn calls(client: &mut Client, request: &Request, count: u32) -> anyhow::Result<f64> {
    let started = Instant::now();
    for _ in 0..count {
        let (_, answer) = client.call(request).await?;
        let right = memchr::memmem::find(answer, WORDS.as_bytes()).is_some()
            && memchr::memmem::find(answer, b"\"isError\":true").is_none();
        ensure!(
            right,
            "the answer is wrong: {}",
            String::from_utf8_lossy(answer).chars().take(400).collect::<String>()
        );
    }
    Ok(micros(started.elapsed()))
}

const ARGS: &str = "args:\n  message: {type: string, required: true}\n";

fn in_turn() -> String {
    let mut text = format!("{ARGS}steps:\n");
    for step in 1..=STEPS {
        let store = if step == STEPS { ", store: true" } else { "" };
        let _ = writeln!(
            text,
            "- {{id: s{step}, tool: bench/echo, args: {{message: \"{{{{ .input.message }}}}, {step}\"}}{store}}}"
        );
    }
    text
}

fn each_item() -> String {
    let items: Vec<_> = (1..=STEPS).map(|item| item.to_string()).collect();
    format!(
        "{ARGS}steps:\n- id: all\n  store: true\n  forEach:\n    items: [{}]\n    as: item\n    steps:\n    \
         - {{id: one, tool: bench/echo, args: {{message: \"{{{{ .input.message }}}}, {{{{ .vars.item }}}}\"}}}}\n",
        items.join(", ")
    )
}

fn at_once() -> String {
    let mut text = format!("{ARGS}steps:\n- id: all\n  store: true\n  parallel:\n");
    for step in 1..=STEPS {
        let _ = writeln!(
            text,
            "  - {{id: s{step}, tool: bench/echo, args: {{message: \"{{{{ .input.message }}}}, {step}\"}}}}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_costs_what_its_turn_took_more() {
        assert_eq!(per_step(&[400.0, 300.0, 500.0], &[200.0, 200.0, 200.0]), Some(10.0));
        assert_eq!(per_step(&[], &[]), None);
    }
}

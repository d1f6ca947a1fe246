//! `workflow list` with 300 workflows over 1,000 tools: the operation by a client, and the command as a person runs it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::child::Role;
use crate::client::{Client, Manner, Request};
use crate::gateway::{Gateway, Home};
use crate::load::list;
use crate::report::{Table, maybe, median};

use super::super::Run;
use super::super::sheet::{Sheet, middle_and_greatest, millis};
use super::define;

const WORKFLOWS: usize = 300;
const TOOLS: usize = 1_000;
const STEPS: usize = 5;
const LISTS: usize = 200;
const COMMANDS: usize = 30;

pub(super) async fn measure(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let share = if run.quick { 10 } else { 1 };
    let backend = Role::start(&["backend-http", "--tools", &TOOLS.to_string()]).await?;
    let mut direct = Client::open(&backend.url, Manner::Legacy).await?;
    let tools = list(&mut direct).await?;
    direct.close().await;
    let home = Home::new()?;
    home.http_server("bench", &backend.url)?;
    for number in 0..WORKFLOWS {
        define(&home, &format!("routine_{number:03}"), &routine(number, &tools))?;
    }
    let gateway = Gateway::start(program, &home).await?;

    let mut client = Client::open(&gateway.url, Manner::Legacy).await?;
    let request = Request::call("call_tool", "{\"name\":\"core_workflow_list\",\"arguments\":{}}");
    let mut lists = Vec::new();
    for _ in 0..LISTS / share {
        let started = Instant::now();
        let (_, answer) = client.call(&request).await?;
        lists.push(millis(started));
        whole(answer)?;
    }
    let mut all = Vec::new();
    let mut named = Client::open(&gateway.profile("direct"), Manner::Legacy).await?;
    for _ in 0..LISTS / share {
        let started = Instant::now();
        let names = list(&mut named).await?;
        all.push(millis(started));
        ensure!(names.len() >= TOOLS + WORKFLOWS, "only {} tools are listed", names.len());
    }
    named.close().await;
    client.close().await;
    let mut commands = Vec::new();
    for _ in 0..COMMANDS / share {
        let started = Instant::now();
        let output = Command::new(program)
            .args(["list", "workflow", "--endpoint", &gateway.url, "--home"])
            .arg(home.path())
            .output()
            .context("run `list workflow`")?;
        commands.push(millis(started));
        ensure!(output.status.success(), "`list workflow`: {}", String::from_utf8_lossy(&output.stderr));
        whole(&output.stdout)?;
    }
    gateway.stop().await?;

    let mut table = Table::new(&["300 workflows over 1,000 tools", "median ms", "slowest ms"]);
    for (what, times) in [
        ("`core_workflow_list` by `call_tool` over HTTP", &lists),
        ("`tools/list` of all 1,300 in a profile that exposes everything", &all),
        ("`toolcrib list workflow`, the process with its start", &commands),
    ] {
        let (middle, greatest) = middle_and_greatest(times);
        table.row(&[what.to_owned(), maybe(middle), maybe(greatest)]);
    }
    sheet.aim("`workflow list` with 300 workflows over 1,000 tools, ms", Some(20.0), median(&lists));
    sheet.aim("the same as a command, with the start of its process, ms", Some(20.0), median(&commands));
    sheet.section("The list of workflows", table.markdown());
    Ok(())
}

fn routine(number: usize, tools: &[String]) -> String {
    let mut text = format!("description: routine number {number}, made up\nargs: {{}}\nsteps:\n");
    for step in 0..STEPS {
        let tool = &tools[(number * 7 + step * 131) % tools.len()];
        let _ = writeln!(text, "- {{id: s{step}, tool: bench/{tool}, args: {{number: {number}}}}}");
    }
    text
}

/// Whether the first and the last workflow are in the answer.
fn whole(answer: &[u8]) -> anyhow::Result<()> {
    for name in ["routine_000".to_owned(), format!("routine_{:03}", WORKFLOWS - 1)] {
        ensure!(
            memchr::memmem::find(answer, name.as_bytes()).is_some(),
            "`{name}` is missing in {}",
            String::from_utf8_lossy(answer).chars().take(300).collect::<String>()
        );
    }
    Ok(())
}

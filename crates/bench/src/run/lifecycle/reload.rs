//! A thousand definitions: from a changed file to its effect in a client's list, for one file and for all of them.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;

use crate::client::{Client, Manner};
use crate::gateway::{Gateway, Home};
use crate::process::CpuTime;
use crate::report::{Table, maybe};

use super::super::Run;
use super::super::sheet::{Sheet, middle_and_greatest, millis};
use super::until_listed;

const DEFINITIONS: usize = 1_000;
const AIM_MILLIS: f64 = 1_000.0;

/// What was found in the rounds, in milliseconds.
#[derive(Default)]
struct Times {
    effect: Vec<f64>,
    cpu: Vec<f64>,
}

pub(super) async fn measure(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let count = if run.quick { DEFINITIONS / 10 } else { DEFINITIONS };
    let home = Home::new()?;
    // A client that is shown little can look often without being in the way.
    home.profile("probe", "servers: [\"server-0042\", \"extra*\"]\nexposure: direct\n")?;
    define_all(&home, count, 0)?;
    let gateway = Gateway::start(program, &home).await?;
    let mut probe = Client::open(&gateway.profile("probe"), Manner::Legacy).await?;
    let mut all = Client::open(&gateway.profile("direct"), Manner::Legacy).await?;
    until_listed(&mut all, |names| names.len() == count).await.context("list all definitions")?;

    let (mut added, mut changed, mut removed, mut every) =
        (Times::default(), Times::default(), Times::default(), Times::default());
    let mut writing = Vec::new();
    for round in 1..=run.rounds() {
        let mark = format!("_v{}", 2 * round);
        let clock = Clock::start(&gateway);
        define(&home, "extra", 1)?;
        added.take(&clock, &mut probe, |names| names.len() == 2).await?;

        let clock = Clock::start(&gateway);
        define(&home, "server-0042", 2 * round)?;
        changed.take(&clock, &mut probe, |names| names.iter().any(|name| name.ends_with(&mark))).await?;

        let clock = Clock::start(&gateway);
        home.remove_server("extra")?;
        removed.take(&clock, &mut probe, |names| names.len() == 1).await?;

        let mark = format!("_v{}", 2 * round + 1);
        let begun = Instant::now();
        define_all(&home, count, 2 * round + 1)?;
        writing.push(millis(begun));
        // The clock starts when all is written: how fast someone writes is not ours.
        let clock = Clock::start(&gateway);
        every
            .take(&clock, &mut all, |names| names.iter().filter(|name| name.ends_with(&mark)).count() == count)
            .await?;
    }
    let processes = gateway.process.descendants().len();
    anyhow::ensure!(processes == 0, "{processes} processes run that nobody called");
    probe.close().await;
    all.close().await;
    gateway.stop().await?;

    let mut table = Table::new(&["change", "median ms", "slowest ms", "CPU ms of the gateway"]);
    for (what, times) in [
        ("one file added", &added),
        ("one file changed", &changed),
        ("one file removed", &removed),
        (&format!("all {count} changed"), &every),
    ] {
        let (middle, greatest) = middle_and_greatest(&times.effect);
        table.row(&[what.to_owned(), maybe(middle), maybe(greatest), maybe(middle_and_greatest(&times.cpu).0)]);
    }
    let aim = Some(AIM_MILLIS);
    let greatest = |times: &Times| middle_and_greatest(&times.effect).1;
    sheet.aim(
        &format!("one changed of {count} definitions until a client sees it, slowest ms"),
        aim,
        greatest(&changed),
    );
    sheet.aim(&format!("all {count} definitions changed until a client sees it, slowest ms"), aim, greatest(&every));
    let remark = format!(
        "\nFrom the moment when the last file was written. In it are the 200 ms without a change that are waited for, \
         because editors write in pieces. To write all {count} took {} ms, in which a first part of them may have been \
         read.",
        maybe(middle_and_greatest(&writing).0)
    );
    sheet.section(&format!("{count} definitions, one tool each"), &format!("{}{remark}", table.markdown()));
    Ok(())
}

/// When a change was made, and what the gateway had used up by then.
struct Clock {
    started: Instant,
    process: crate::process::Process,
    used: CpuTime,
}

impl Clock {
    fn start(gateway: &Gateway) -> Self {
        let used = gateway.process.cpu_time().unwrap_or_default();
        Self { started: Instant::now(), process: gateway.process, used }
    }
}

impl Times {
    async fn take(
        &mut self,
        clock: &Clock,
        client: &mut Client,
        wanted: impl Fn(&[String]) -> bool,
    ) -> anyhow::Result<()> {
        until_listed(client, wanted).await?;
        self.effect.push(millis(clock.started));
        let used = clock.process.cpu_time().unwrap_or_default().since(clock.used);
        self.cpu.push(used.as_secs_f64() * 1e3);
        Ok(())
    }
}

fn define_all(home: &Home, count: usize, version: usize) -> anyhow::Result<()> {
    (0..count).try_for_each(|index| define(home, &format!("server-{index:04}"), version))
}

/// A server whose tool is known from its definition, so that it never has to run.
fn define(home: &Home, name: &str, version: usize) -> anyhow::Result<()> {
    let tool = format!(
        "  - name: look_v{version}\n    description: Looks for a thing by its name and returns it with its links.\n    \
         inputSchema: {{type: object, properties: {{name: {{type: string, description: The name}}, limit: {{type: \
         integer}}}}, required: [name]}}\n"
    );
    home.server(
        name,
        &format!("title: The server {name}\ncommand: never-started\nargs: [\"{name}\"]\nstart: lazy\ntools:\n{tool}"),
    )
}

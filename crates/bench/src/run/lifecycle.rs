//! Servers through their life: lazy ones that idle, the first call of one, definitions that change, one that hangs.
//!
//! To add a measurement: a file here with `measure(run, program, sheet)`, and a line in [`measure`].

mod first_call;
mod hanging;
mod idle;
mod reload;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::client::{Client, Manner};
use crate::gateway::{Gateway, Home};
use crate::load::list;
use crate::say;

use super::sheet::Sheet;
use super::{Findings, Run};

/// The longest that anything here is waited for.
const DEADLINE: Duration = Duration::from_secs(120);
/// How often a list is asked for until it shows what is waited for.
const POLL: Duration = Duration::from_millis(2);
/// As many tools as an ordinary server has.
const TOOLS: usize = 25;

/// Measures everything here and gives the text for the document.
pub(super) async fn measure(run: &Run, program: &Path, findings: &mut Findings) -> String {
    let mut sheet = Sheet::new();
    let idle = Box::pin(idle::measure(run, program, &mut sheet)).await;
    findings.note("lazy servers that idle", idle);
    let first = Box::pin(first_call::measure(run, program, &mut sheet)).await;
    findings.note("the first call of a lazy server", first);
    let reload = Box::pin(reload::measure(run, program, &mut sheet)).await;
    findings.note("definitions that change", reload);
    let hanging = Box::pin(hanging::measure(run, program, &mut sheet)).await;
    findings.note("a server that hangs", hanging);
    let text = sheet.markdown("Aims of the life of servers");
    say(&text);
    text
}

/// Lets the gateway list all servers of a home once, so that it knows them the next time.
async fn list_once(program: &Path, home: &Home, tools: usize) -> anyhow::Result<()> {
    let gateway = Gateway::start(program, home).await?;
    let mut client = Client::open(&gateway.profile("direct"), Manner::Legacy).await?;
    let listed = until_listed(&mut client, |names| names.len() == tools).await;
    client.close().await;
    gateway.stop().await?;
    listed
}

/// Asks for the names of all tools until they are as they should be.
pub(super) async fn until_listed(client: &mut Client, wanted: impl Fn(&[String]) -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let names = list(client).await?;
        if wanted(&names) {
            return Ok(());
        }
        ensure!(started.elapsed() < DEADLINE, "waited too long; {} tools are listed", names.len());
        tokio::time::sleep(POLL).await;
    }
}

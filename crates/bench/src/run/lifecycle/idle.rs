//! A hundred lazy servers that no one uses: what the gateway weighs, and whether any of them runs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::client::{Client, Manner, Request, quoted};
use crate::gateway::{Gateway, Home};
use crate::report::{Table, number};

use super::super::Run;
use super::super::calls::mib;
use super::super::sheet::{Sheet, middle_and_greatest};
use super::{TOOLS, list_once};
use crate::load::list;

const SERVERS: usize = 100;
/// 40 MB in MiB.
const AIM: f64 = 40e6 / 1_048_576.0;
/// Time for buffers to be given back before memory is read.
const SETTLE: Duration = Duration::from_secs(3);

pub(super) async fn measure(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let servers = if run.quick { SERVERS / 10 } else { SERVERS };
    let home = Home::new()?;
    for index in 0..servers {
        home.lazy_server(&format!("lazy-{index:03}"), TOOLS, &["--big-mib", "0"])?;
    }
    list_once(program, &home, servers * TOOLS).await.context("list all servers once")?;

    let mut table = Table::new(&["state", "resident MiB", "of it its own", "threads", "files", "processes"]);
    let (mut resident, mut processes) = (Vec::new(), 0);
    // Several starts: what the kernel maps of the program's file differs from one to the next.
    for start in 1..=run.rounds() {
        let gateway = Gateway::start(program, &home).await?;
        tokio::time::sleep(SETTLE).await;
        let (found, below) = row(&mut table, &gateway, &format!("idle after start {start}"))?;
        resident.push(found);
        processes = processes.max(below);
        gateway.stop().await?;
    }
    let greatest = middle_and_greatest(&resident).1;
    sheet.aim(
        &format!("resident with {servers} lazy servers, MiB (40 MB), greatest of {} starts", resident.len()),
        Some(AIM),
        greatest,
    );
    #[allow(clippy::cast_precision_loss)]
    sheet.aim("processes below the gateway then", Some(0.0), Some(processes as f64));

    let gateway = Gateway::start(program, &home).await?;
    let mut client = Client::open(&gateway.profile("direct"), Manner::Legacy).await?;
    let listed = list(&mut client).await?.len();
    ensure!(listed == servers * TOOLS, "{listed} tools are listed instead of {}", servers * TOOLS);
    client.close().await;
    let mut client = Client::open(&gateway.url, Manner::Legacy).await?;
    for query in crate::backend::tools::QUERIES {
        let find = Request::call("find_tools", &format!("{{\"query\":{}}}", quoted(query)));
        client.call(&find).await?;
    }
    client.close().await;
    tokio::time::sleep(SETTLE).await;
    row(&mut table, &gateway, &format!("after a client listed {listed} tools and another searched them"))?;
    gateway.stop().await?;
    sheet.section(&format!("{servers} lazy servers of {TOOLS} tools each"), table.markdown());
    Ok(())
}

/// Adds a row; gives the memory and how many processes there are below the gateway.
fn row(table: &mut Table, gateway: &Gateway, state: &str) -> anyhow::Result<(f64, usize)> {
    let sizes = gateway.process.sizes().context("the gateway is gone")?;
    let (resident, processes) = (mib(sizes.resident_kib), gateway.process.descendants().len());
    let own = number(mib(sizes.own_kib));
    let counts = [own, sizes.threads.to_string(), sizes.files.to_string(), processes.to_string()];
    table.row(&[&[state.to_owned(), number(resident)], &counts[..]].concat());
    Ok((resident, processes))
}

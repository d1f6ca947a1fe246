//! Ten servers of which one hangs: what a client waits for the list of all tools.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::client::{Client, Manner};
use crate::gateway::{Gateway, Home, Until};
use crate::report::{Table, maybe};

use super::super::Run;
use super::super::sheet::{Sheet, middle_and_greatest, millis};
use super::{TOOLS, list_once};
use crate::load::list;

const SERVERS: usize = 10;
const LISTS: usize = 200;
const AIM_MILLIS: f64 = 50.0;

pub(super) async fn measure(_: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let home = Home::new()?;
    for index in 0..SERVERS {
        let hang = switch(&home, index);
        home.lazy_server(&format!("server-{index}"), TOOLS, &["--big-mib", "0", "--hang", &hang])?;
    }
    list_once(program, &home, SERVERS * TOOLS).await.context("list all servers once")?;
    for index in 0..SERVERS {
        let hang = switch(&home, index);
        let program = serde_json::to_string(&std::env::current_exe()?)?;
        let arguments =
            format!("[\"backend-stdio\", \"--tools\", \"{TOOLS}\", \"--big-mib\", \"0\", \"--hang\", {hang:?}]");
        home.server(&format!("server-{index}"), &format!("command: {program}\nargs: {arguments}\nstart: eager\n"))?;
    }

    let mut table = Table::new(&["one of 10 servers", "median ms", "slowest ms"]);
    std::fs::write(switch(&home, 7), "")?;
    let gateway = Gateway::start_until(program, &home, Until::Listening).await?;
    let starting = lists(&gateway).await?;
    gateway.stop().await?;
    std::fs::remove_file(switch(&home, 7))?;

    let gateway = Gateway::start(program, &home).await?;
    let steady = lists(&gateway).await?;
    let hung: Vec<_> =
        gateway.process.descendants().into_iter().filter(|process| process.is_called(&switch(&home, 7))).collect();
    ensure!(!hung.is_empty(), "the server that is to hang does not run");
    hung.iter().for_each(|process| process.signal(rustix::process::Signal::STOP));
    let running = lists(&gateway).await;
    hung.iter().for_each(|process| process.signal(rustix::process::Signal::CONT));
    let running = running?;
    gateway.stop().await?;

    for (what, times) in [
        ("all answer", &steady),
        ("has not answered since the gateway started, a moment ago", &starting),
        ("answered, and then its process was stopped", &running),
    ] {
        let (middle, greatest) = middle_and_greatest(times);
        table.row(&[what.to_owned(), maybe(middle), maybe(greatest)]);
    }
    let greatest = starting.iter().chain(&running).copied().reduce(f64::max);
    sheet.aim("`tools/list` of 10 servers of which one hangs, slowest ms", Some(AIM_MILLIS), greatest);
    let tools = SERVERS * TOOLS;
    sheet.section(&format!("`tools/list` of {tools} tools while a server hangs, {LISTS} times"), table.markdown());
    Ok(())
}

/// The file that lets a server hang.
fn switch(home: &Home, index: usize) -> String {
    home.path().join(format!("hang-{index}-now")).to_string_lossy().into_owned()
}

/// Every list must have all tools, those of the server that hangs too. Each is asked for in its own session.
async fn lists(gateway: &Gateway) -> anyhow::Result<Vec<f64>> {
    let url = gateway.profile("direct");
    let mut times = Vec::with_capacity(LISTS);
    for _ in 0..LISTS {
        let mut client = Client::open(&url, Manner::Legacy).await?;
        let started = Instant::now();
        let listed = list(&mut client).await?.len();
        times.push(millis(started));
        ensure!(listed == SERVERS * TOOLS, "{listed} tools are listed instead of {}", SERVERS * TOOLS);
        client.close().await;
    }
    Ok(times)
}

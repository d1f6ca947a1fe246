//! From a start to the first list that shows all tools, and what an idle gateway weighs: this build and the earlier one
//! by turns.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::child::Role;
use crate::client::{Client, Manner};
use crate::gateway::{Gateway, Home, Until};
use crate::process::Sizes;

use super::super::Run;
use super::super::lifecycle::until_listed;
use super::super::sheet::millis;
use super::super::yard::{SMALL, home};

const STARTS: usize = 10;
const QUICK_STARTS: usize = 4;
/// Time for buffers of the start to be given back before memory is read.
const SETTLE: Duration = Duration::from_secs(3);

/// The programs that are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs<'a> {
    pub(super) now: &'a Path,
    pub(super) earlier: Option<&'a Path>,
}

/// Milliseconds from a start to the first good list, of one kind of server.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) server: &'static str,
    pub(super) now: Vec<f64>,
    pub(super) earlier: Vec<f64>,
}

/// Sizes of idle gateways, one of each start.
#[derive(Debug, Default)]
pub(super) struct Idle {
    pub(super) now: Vec<Sizes>,
    pub(super) earlier: Vec<Sizes>,
}

/// A home with one server over HTTP, and one with a server over stdio. Each home has been started once before, because
/// a first start creates its database.
pub(super) async fn starts(run: &Run, programs: Programs<'_>) -> anyhow::Result<Vec<Start>> {
    let backend = Role::start(&["backend-http"]).await?;
    let count = if run.quick { QUICK_STARTS } else { STARTS };
    let mut found = Vec::new();
    for server in ["HTTP", "stdio"] {
        eprintln!("start with a server over {server}: {count} times");
        let [now, earlier] = [one_server(server, &backend)?, one_server(server, &backend)?];
        let mut start = Start { server, now: Vec::new(), earlier: Vec::new() };
        for turn in 0..=count {
            let took = first_list(programs.now, &now).await?;
            start.now.extend((turn > 0).then_some(took));
            if let Some(program) = programs.earlier {
                let took = first_list(program, &earlier).await.context("the earlier build")?;
                start.earlier.extend((turn > 0).then_some(took));
            }
        }
        found.push(start);
    }
    Ok(found)
}

/// With three servers and no client yet; both builds at the same time, since neither does anything.
pub(super) async fn idle(run: &Run, programs: Programs<'_>) -> anyhow::Result<Idle> {
    let backend = Role::start(&["backend-http"]).await?;
    let mut found = Idle::default();
    let [now_home, earlier_home] = [home(&backend.url, true, false)?, home(&backend.url, true, false)?];
    for start in 1..=run.rounds() {
        eprintln!("memory of an idle gateway: start {start} of {}", run.rounds());
        let now = Gateway::start(programs.now, &now_home).await?;
        let earlier = match programs.earlier {
            Some(program) => Some(Gateway::start(program, &earlier_home).await.context("the earlier build")?),
            None => None,
        };
        tokio::time::sleep(SETTLE).await;
        found.now.push(now.process.sizes().context("the gateway is gone")?);
        now.stop().await?;
        if let Some(earlier) = earlier {
            found.earlier.push(earlier.process.sizes().context("the earlier build is gone")?);
            earlier.stop().await?;
        }
    }
    Ok(found)
}

fn one_server(server: &str, backend: &Role) -> anyhow::Result<Home> {
    if server == "HTTP" {
        return home(&backend.url, false, false);
    }
    let home = Home::new()?;
    home.stdio_server("bench-stdio", SMALL, false)?;
    Ok(home)
}

/// Starts the program, asks for its list until all tools are there, and stops it.
async fn first_list(program: &Path, home: &Home) -> anyhow::Result<f64> {
    let started = Instant::now();
    let gateway = Gateway::start_until(program, home, Until::Listening).await?;
    let mut client = Client::open(&gateway.profile("direct"), Manner::Legacy).await?;
    until_listed(&mut client, |names| names.len() == SMALL).await?;
    let took = millis(started);
    client.close().await;
    gateway.stop().await?;
    Ok(took)
}

// === impl Start ===

impl Start {
    pub(super) fn title(&self) -> String {
        format!("from start to the first good list, a server over {}, ms", self.server)
    }
}

// === impl Idle ===

impl Idle {
    /// One size of each start.
    pub(super) fn each(sizes: &[Sizes], size: fn(&Sizes) -> f64) -> Vec<f64> {
        sizes.iter().map(size).collect()
    }
}

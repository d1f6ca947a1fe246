//! An open page while a thousand events a second happen: whether the browser stays quick, what its heap grows by, and what
//! the page costs the gateway and its calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::time::MissedTickBehavior;
use toolcrib_base::task::Scope;

use super::chromium::Chromium;
use super::{Browser, UiBench};
use crate::child::Role;
use crate::client::{Client, Manner, Request};
use crate::gateway::{Gateway, Home, program};
use crate::histogram::Histogram;
use crate::report::median;
use crate::run::sheet::Sheet;

/// Events a second, of so many clients.
const EVENTS: u64 = 1_000;
const CLIENTS: u64 = 10;
/// How often the page is closed and opened for what it costs, and how long each lasts.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(8);
/// How long what reads the page has to end.
const READER_END: Duration = Duration::from_secs(5);
/// The time between two keys.
const KEYS: Duration = Duration::from_millis(400);
/// The page that follows the log.
const PAGE: &str = "/ui/audit";
/// What a browser that shows it listens to.
const STREAMS: [&str; 2] = ["/ui/live/audit", "/ui/live/calls-running"];
/// A field of it.
const FIELD: &str = "input[name=target]";

/// Counts what takes the page long, from now on.
const WATCH: &str = r"
window.longest = 0; window.keys = []; window.frames_seen = 0;
new PerformanceObserver((list) => { for (const it of list.getEntries()) window.longest = Math.max(window.longest, it.duration); })
  .observe({ type: 'longtask' });
new PerformanceObserver((list) => { for (const it of list.getEntries()) if (it.name === 'keydown') window.keys.push(it.duration); })
  .observe({ type: 'event', durationThreshold: 16 });
document.addEventListener('htmx:sse:after:message', () => { window.frames_seen += 1; });
";

/// What a paced load found.
#[derive(Debug, Default)]
struct LoadOutcome {
    latency: Histogram,
    calls: u64,
    /// The gateway's share of a core.
    share: f64,
}

pub(super) async fn measure(bench: &UiBench, sheet: &mut Sheet) -> anyhow::Result<()> {
    let tools = Role::start(&["backend-http"]).await?;
    let home = Home::new()?;
    home.http_server("bench", &tools.url)?;
    let gateway = Gateway::start(&program(bench.gateway.clone())?, &home).await?;
    let chromium = Chromium::sign_in(&Browser::link(&gateway, home.path()).await?.1).await?;
    let reader = Browser::sign_in(&gateway, home.path()).await?;
    let (mut closed, mut read, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let (mut closed_share, mut open_share) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        chromium.leave().await?;
        let paced = load(&gateway, ROUND).await?;
        closed.extend(paced.latency.quantile(0.5).map(crate::report::micros));
        closed_share.push(paced.share);
        // What the gateway does for the page, without the work of a browser on the same cores.
        let scope = Scope::new();
        for stream in STREAMS {
            reader.follow(stream, &scope).await?;
        }
        let paced = load(&gateway, ROUND).await?;
        read.extend(paced.latency.quantile(0.5).map(crate::report::micros));
        scope.close(READER_END).await;
        chromium.open(PAGE).await?;
        let paced = load(&gateway, ROUND).await?;
        open.extend(paced.latency.quantile(0.5).map(crate::report::micros));
        open_share.push(paced.share);
    }
    let slower = |than: &[f64]| median(than).zip(median(&closed)).map(|(open, closed)| (open / closed - 1.0) * 100.0);
    let name = "calls slower while the page of 1,000 of them a second is read";
    sheet.aim(&format!("{name} without a browser on this machine, %"), Some(2.0), slower(&read));
    sheet.aim(&format!("{name} by Chromium on the same cores, %"), Some(2.0), slower(&open));
    let more = median(&open_share).zip(median(&closed_share)).map(|(open, closed)| (open - closed) * 100.0);
    sheet.aim("the gateway's work for that page, % of a core", Some(3.0), more);
    let idle = idle_share(&gateway).await?;
    sheet.aim("the gateway's work for the open page while nothing happens, % of a core", Some(3.0), idle);

    chromium.open(PAGE).await?;
    load(&gateway, Duration::from_secs(2)).await?;
    chromium.eval(WATCH).await?;
    let before = chromium.heap().await?;
    let length = Duration::from_secs(bench.seconds);
    let typing = async {
        let end = Instant::now() + length;
        while Instant::now() < end {
            chromium.press(FIELD, "x").await?;
            tokio::time::sleep(KEYS).await;
        }
        anyhow::Ok(())
    };
    let (paced, typed) = tokio::join!(load(&gateway, length), typing);
    let (paced, ()) = (paced?, typed?);
    let after = chromium.heap().await?;
    #[allow(clippy::cast_precision_loss)]
    let seconds = bench.seconds as f64;
    let seen = chromium.eval("return [window.longest, Math.max(0, ...window.keys), window.frames_seen]").await?;
    let seen = |place: usize| seen[place].as_f64();
    #[allow(clippy::cast_precision_loss)]
    sheet.aim("events a second", None, Some(paced.calls as f64 / seconds));
    sheet.aim("longest task of the page above 50 ms, ms; 0 is none", Some(50.0), seen(0));
    sheet.aim("slowest key above 16 ms until it is shown, ms; 0 is none", Some(100.0), seen(1));
    sheet.aim("frames a second", Some(5.0), seen(2).map(|frames| frames / seconds));
    sheet.aim("growth of the heap, MB", Some(10.0), Some((after - before) / 1e6));
    chromium.quit().await?;
    gateway.stop().await
}

/// Calls at an even pace; each is an event.
async fn load(gateway: &Gateway, length: Duration) -> anyhow::Result<LoadOutcome> {
    let scope = Scope::new();
    let request = Arc::new(Request::call("call_tool", r#"{"name":"bench/echo","arguments":{"text":"x"}}"#));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::open(&gateway.url, Manner::Modern).await?);
    }
    let cpu_before = gateway.process.cpu_time().context("the gateway is gone")?;
    let started = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let request = Arc::clone(&request);
            scope.spawn(async move {
                let mut latency = Histogram::default();
                let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 * CLIENTS / EVENTS));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                while started.elapsed() < length {
                    ticks.tick().await;
                    let begun = Instant::now();
                    client.call(&request).await?;
                    latency.record(begun.elapsed());
                }
                anyhow::Ok(latency)
            })
        })
        .collect();
    let mut paced = LoadOutcome::default();
    for task in tasks {
        paced.latency.merge(&task.await.context("a client ended")??);
    }
    let cpu = gateway.process.cpu_time().context("the gateway is gone")?.since(cpu_before);
    paced.calls = paced.latency.len();
    paced.share = cpu.as_secs_f64() / started.elapsed().as_secs_f64();
    Ok(paced)
}

/// The gateway's share of a core while nothing is asked, in percent.
async fn idle_share(gateway: &Gateway) -> anyhow::Result<Option<f64>> {
    let before = gateway.process.cpu_time().context("the gateway is gone")?;
    let started = Instant::now();
    tokio::time::sleep(ROUND).await;
    let after = gateway.process.cpu_time().context("the gateway is gone")?;
    Ok(Some(after.since(before).as_secs_f64() / started.elapsed().as_secs_f64() * 100.0))
}

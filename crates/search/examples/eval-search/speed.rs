//! Time and memory of an index of many tools: built from nothing, one server added, queries of all sets.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use toolcrib_base::ServerName;
use toolcrib_search::{Document, Index, Query, Ranker, ServerText};

use crate::set::{self, Set};

/// How many tools the index holds.
const TOOLS: usize = 10_000;
/// How many tools a server has at most.
const SERVER: usize = 100;
/// How many tools the server has that is added.
const ADDED: usize = 100;
/// How often it is added.
const TIMES: usize = 20;

pub fn report(sets: &[PathBuf]) -> Result<()> {
    let mut sets: Vec<Set> = sets.iter().map(|folder| Set::read(folder)).collect::<Result<_>>()?;
    let before = resident();
    let mut index = Index::new();
    let mut spent = 0.0;
    // Sets of few servers first: a server has ten or a hundred tools, seldom one.
    sets.sort_by_key(|set| {
        set.parts(SERVER).count() * 1000 / set.parts(SERVER).map(|it| it.1.len()).sum::<usize>().max(1)
    });
    for (name, tools) in sets.iter().flat_map(|set| set.parts(SERVER)) {
        let tools = &tools[..tools.len().min(TOOLS - index.len())];
        let start = Stopwatch::start();
        set::add(&mut index, &name, tools);
        spent += start.millis();
    }
    ensure!(index.len() >= TOOLS / 2, "the sets hold only {} tools", index.len());
    let servers = {
        let mut servers: Vec<&str> = index.ids().map(|id| id.server.as_str()).collect();
        servers.dedup();
        servers.len()
    };
    println!("tools                              {} of {servers} servers", index.len());
    println!("build                              {:.3} s", spent / 1000.0);
    println!("resident before the first search   {:.1} MB more than without the index", resident() - before);
    let start = Stopwatch::start();
    index.search(&Query::new("find something"));
    println!("first search                       {:.1} ms", start.millis());

    let mut times = Vec::new();
    for query in sets.iter().flat_map(|set| set.queries.iter().take(200)) {
        let start = Stopwatch::start();
        index.search(&Query::new(&query.text));
        times.push(start.millis());
    }
    println!(
        "resident after {:>5} searches      {:.1} MB more than without the index",
        times.len(),
        resident() - before
    );
    let most = times.iter().copied().fold(0.0, f64::max);
    let (p50, p95) = (percentile(&mut times, 0.5), percentile(&mut times, 0.95));
    println!("query                              p50 {p50:.3} ms, p95 {p95:.3} ms, most {most:.3} ms");

    let (mut replaced, mut found) = (Vec::new(), Vec::new());
    for round in 0..TIMES {
        let start = Stopwatch::start();
        add(&mut index, round)?;
        replaced.push(start.millis());
        index.search(&Query::new("ledger entry"));
        found.push(start.millis());
    }
    let (alone, with) = (percentile(&mut replaced, 0.0), percentile(&mut found, 0.0));
    println!("a server of {ADDED} tools added       {alone:.1} ms, until it is found {with:.1} ms (best of {TIMES})");
    Ok(())
}

/// A server of made-up tools; each round has other words.
fn add(index: &mut Index, round: usize) -> Result<()> {
    let texts: Vec<(String, String)> = (0..ADDED)
        .map(|at| {
            let name = format!("post_ledger_entry_{round}_{at}");
            (name, format!("Posts entry {at} of kind k{at}x{round} to the general ledger and returns its number. Fails on a closed period."))
        })
        .collect();
    let documents: Vec<Document<'_>> = texts
        .iter()
        .map(|(name, description)| Document { tool: name.as_str().into(), description, ..Document::default() })
        .collect();
    index.replace(&ServerText::new(ServerName::new("added-later")?), &documents);
    Ok(())
}

/// The time that this thread has had the processor: what others do on the machine does not count.
pub struct Stopwatch {
    start: f64,
}

// === impl Stopwatch ===

impl Stopwatch {
    pub fn start() -> Self {
        Self { start: Self::now() }
    }

    pub fn millis(&self) -> f64 {
        Self::now() - self.start
    }

    fn now() -> f64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    }
}

/// The value below which a share of all lies; sorts.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// The resident memory of this process in megabytes; 0 where the system does not say.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0);
    kilobytes / 1024.0
}

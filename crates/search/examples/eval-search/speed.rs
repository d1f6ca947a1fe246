//! Time and memory of an index of many tools: built from nothing, one server added, queries of all sets.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use toolcrib_base::ServerName;
use toolcrib_search::{Document, Index, Query, Ranker, ServerText};

use crate::set::Set;

/// How many tools the index holds.
const TOOLS: usize = 10_000;
/// How many tools the server has that is added.
const ADDED: usize = 100;
/// How often it is added.
const TIMES: usize = 20;

pub fn report(sets: &[PathBuf]) -> Result<()> {
    let sets: Vec<Set> = sets.iter().map(|folder| Set::read(folder)).collect::<Result<_>>()?;
    let before = resident();
    let mut index = Index::new();
    let mut spent = Duration::ZERO;
    for set in &sets {
        for (name, _) in set.servers() {
            if index.len() < TOOLS {
                let start = Instant::now();
                set.add_server(&mut index, name);
                spent += start.elapsed();
            }
        }
    }
    ensure!(index.len() >= TOOLS / 2, "the sets hold only {} tools", index.len());
    let servers = {
        let mut servers: Vec<&str> = index.ids().map(|id| id.server.as_str()).collect();
        servers.dedup();
        servers.len()
    };
    println!("tools                              {} of {servers} servers", index.len());
    println!("build                              {:.3} s", spent.as_secs_f64());
    println!("resident before the first search   {:.1} MB more than without the index", resident() - before);
    let start = Instant::now();
    index.search(&Query::new("find something"));
    println!("first search                       {:.1} ms", millis(start));

    let mut times = Vec::new();
    for query in sets.iter().flat_map(|set| set.queries.iter().take(200)) {
        let start = Instant::now();
        index.search(&Query::new(&query.text));
        times.push(millis(start));
    }
    println!("resident after {:>5} searches      {:.1} MB more than without the index", times.len(), resident() - before);
    let most = times.iter().copied().fold(0.0, f64::max);
    let (p50, p95) = (percentile(&mut times, 0.5), percentile(&mut times, 0.95));
    println!("query                              p50 {p50:.3} ms, p95 {p95:.3} ms, most {most:.3} ms");

    let (mut replaced, mut found) = (Vec::new(), Vec::new());
    for round in 0..TIMES {
        let start = Instant::now();
        add(&mut index, round)?;
        replaced.push(millis(start));
        index.search(&Query::new("ledger entry"));
        found.push(millis(start));
    }
    let (alone, with) = (percentile(&mut replaced, 0.5), percentile(&mut found, 0.5));
    println!("a server of {ADDED} tools added       {alone:.1} ms, until it is found {with:.1} ms");
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

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
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

//! Fuzz targets: which there are, whether this machine can run them, and a run of bounded length.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::child;
use crate::tally::Tally;
use crate::verdict::{STEP_DEADLINE, Setting, Verdict};
use crate::workspace::{self, Workspace};

/// How long each target runs as a part of `cargo xtask test`.
const SECONDS_IN_TEST: u32 = 6;
/// How long a target runs when a person asks for it without saying how long.
const SECONDS_BY_HAND: u32 = 60;
const PROBE_DEADLINE: Duration = Duration::from_secs(30);
/// All that is fuzzed is safe Rust but for one line, whose check `envelope` compares with serde_json: an address
/// sanitizer would find nothing there, and make build and search slower.
const FORM: [&str; 2] = ["--sanitizer", "none"];
/// Longer inputs find no more in parsers that are bounded anyway; they only slow the search.
const LONGEST_INPUT: u32 = 16 * 1024;

pub fn command(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let (wanted, seconds) = read(arguments)?;
    let mut targets = targets(workspace)?;
    if let Some(wanted) = wanted {
        if !targets.contains(&wanted) {
            bail!("no fuzz target is called `{wanted}`; there are: {}", targets.join(", "));
        }
        targets = vec![wanted];
    }
    if let Some(missing) = missing(workspace)? {
        bail!("{missing}");
    }
    let tally = run(workspace, &targets, seconds)?;
    println!("{tally}");
    Ok(tally.failed == 0)
}

pub fn step(workspace: &Workspace, _: Setting) -> Result<Verdict> {
    let targets = targets(workspace)?;
    if targets.is_empty() {
        return Ok(Verdict::plain(true));
    }
    if let Some(missing) = missing(workspace)? {
        println!("skipped: {missing}");
        let tally = Tally { skipped: targets.len(), ..Tally::default() };
        return Ok(Verdict { failed: false, tally, remarks: vec![format!("skipped, {missing}")] });
    }
    let tally = run(workspace, &targets, SECONDS_IN_TEST)?;
    Ok(Verdict::counted(tally.failed == 0, tally))
}

/// What this machine lacks, with the command that fixes it.
pub fn missing(workspace: &Workspace) -> Result<Option<String>> {
    if !has_cpp() {
        return Ok(Some("no C++ compiler for libFuzzer: `apt install g++`".to_owned()));
    }
    let mut probe = cargo_fuzz(workspace)?;
    if !child::quiet(probe.arg("--version"), PROBE_DEADLINE)?.success {
        return Ok(Some("no cargo-fuzz: `cargo install cargo-fuzz --locked`".to_owned()));
    }
    Ok(None)
}

fn has_nightly() -> bool {
    child::answers("rustup", &["run", "nightly", "cargo", "--version"])
}

/// Whether libFuzzer can be compiled.
pub fn has_cpp() -> bool {
    child::answers("c++", &["--version"])
}

/// `cargo fuzz` of the nightly toolchain, or of this one with the switch that lets it do the same: sanitizers are not
/// stable. A cargo-fuzz below the target folder is found too.
fn cargo_fuzz(workspace: &Workspace) -> Result<Command> {
    let mut command = if has_nightly() {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]);
        workspace::clean(&mut command);
        command
    } else {
        let mut command = workspace.cargo();
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(workspace.tools()?.join("bin")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders)?);
    command.current_dir(&workspace.root).arg("fuzz");
    Ok(command)
}

/// Builds all targets, then runs one on each core.
fn run(workspace: &Workspace, targets: &[String], seconds: u32) -> Result<Tally> {
    if !child::run(cargo_fuzz(workspace)?.args(["build"]).args(FORM), STEP_DEADLINE)?.success {
        return Ok(Tally::FAILED);
    }
    let cores = available_parallelism().context("count the cores")?.get();
    let (next, sum) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || -> Result<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let tally = run_one(workspace, target, seconds)?;
            *sum.lock().unwrap_or_else(PoisonError::into_inner) += tally;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a fuzz run panicked"))?)
    })?;
    Ok(sum.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One target; what it prints comes at once when it has ended.
fn run_one(workspace: &Workspace, target: &str, seconds: u32) -> Result<Tally> {
    let mut command = cargo_fuzz(workspace)?;
    command.arg("run").args(FORM).arg(target);
    // What is found goes into the first folder; the second one is where a search begins that needs an example.
    let seeds = workspace.root.join("fuzz/seeds").join(target);
    if seeds.is_dir() {
        let corpus = workspace.root.join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus).with_context(|| format!("failed to create `{}`", corpus.display()))?;
        command.arg(corpus).arg(seeds);
    }
    command.arg("--");
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={LONGEST_INPUT}"));
    let outcome = child::quiet(&mut command, STEP_DEADLINE + Duration::from_secs(u64::from(seconds)))?;
    println!("--> fuzz target {target}, {seconds} s\n{}", outcome.lines.join("\n"));
    Ok(if outcome.success { Tally::PASSED } else { Tally::FAILED })
}

/// The files in `fuzz/fuzz_targets`, sorted; none while there is no such folder.
pub fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder: PathBuf = workspace.root.join("fuzz/fuzz_targets");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context("failed to list the fuzz targets")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(stem) = path.file_stem()
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn read(arguments: &[String]) -> Result<(Option<String>, u32)> {
    let mut wanted = None;
    let mut seconds = SECONDS_BY_HAND;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                let value = arguments.next().context("--seconds needs a number")?;
                seconds = value.parse().with_context(|| format!("`{value}` is not a number of seconds"))?;
            }
            other if other.starts_with('-') => bail!("unknown argument `{other}`; `fuzz` knows --seconds N"),
            name => wanted = Some(name.to_owned()),
        }
    }
    Ok((wanted, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_any_order() {
        let check = |arguments: &[&str], expect: (Option<&str>, u32)| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let (wanted, seconds) = read(&arguments).unwrap();
            assert_eq!((wanted.as_deref(), seconds), expect);
        };
        check(&["sse", "--seconds", "5"], (Some("sse"), 5));
        check(&["--seconds", "5", "sse"], (Some("sse"), 5));
        check(&[], (None, SECONDS_BY_HAND));
        assert!(read(&["--seconds".to_owned(), "soon".to_owned()]).is_err());
    }
}

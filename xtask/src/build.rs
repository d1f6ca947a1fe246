//! The steps that cargo does: format, lints, build, tests, documentation. They share one target folder, one profile
//! and one choice of features, so that no crate is compiled twice for the same purpose.

use std::num::NonZero;
use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::child::{self, Outcome};
use crate::tally::{self, Tally};
use crate::verdict::{STEP_DEADLINE, Setting, Verdict};
use crate::workspace::Workspace;

pub fn format(workspace: &Workspace, _: Setting) -> Result<Verdict> {
    plain(workspace.cargo().args(["fmt", "--all", "--check"]))
}

pub fn lint(workspace: &Workspace, setting: Setting) -> Result<Verdict> {
    // `--deny` after the dashes reaches clippy only: RUSTFLAGS would compile everything again.
    plain(cargo(workspace, setting).args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
}

/// Everything that the test steps start. With the test targets among them the features are those of the test
/// build, so nothing is compiled a second time; the programs `toolcrib` and `fake-server` come along as binaries.
pub fn build(workspace: &Workspace, setting: Setting) -> Result<Verdict> {
    plain(cargo(workspace, setting).args(["build", "--workspace", "--bins", "--lib", "--tests", "--examples"]))
}

pub fn unit(workspace: &Workspace, setting: Setting) -> Result<Verdict> {
    let mut command = cargo(workspace, setting);
    if child::answers("cargo-nextest", &["nextest", "--version"]) {
        let profile = if setting == Setting::Machine { "ci" } else { "default" };
        command.args(["nextest", "run", "--workspace", "--no-tests", "pass", "--no-fail-fast", "--profile", profile]);
        // Many tests wait for programs and browsers, so more of them than cores go on side by side.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        command.args(["--test-threads", &(cores + cores.div_ceil(2)).to_string()]);
        let outcome = run(&mut command)?;
        let verdict = Verdict::counted(outcome.success, Tally::from_nextest(&outcome.lines));
        return Ok(Verdict { remarks: tally::not_at_once(&outcome.lines), ..verdict });
    }
    command.args(["test", "--workspace", "--bins", "--lib", "--tests", "--examples", "--no-fail-fast"]);
    let outcome = run(&mut command)?;
    Ok(Verdict::counted(outcome.success, Tally::from_libtest(&outcome.lines)))
}

pub fn doctest(workspace: &Workspace, setting: Setting) -> Result<Verdict> {
    let outcome = run(cargo(workspace, setting).args(["test", "--workspace", "--doc", "--no-fail-fast"]))?;
    Ok(Verdict::counted(outcome.success, Tally::from_libtest(&outcome.lines)))
}

pub fn doc(workspace: &Workspace, setting: Setting) -> Result<Verdict> {
    // RUSTDOCFLAGS touches our own pages only. Naming the targets, examples among them, chooses the features of the
    // test build, so that the dependencies which clippy has checked are not checked again.
    let mut command = cargo(workspace, setting);
    command.args(["doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples"]);
    plain(command.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn cargo(workspace: &Workspace, setting: Setting) -> Command {
    let mut command = workspace.cargo();
    if setting == Setting::Machine {
        command.env("CARGO_TERM_COLOR", "never").env("CARGO_NET_RETRY", "5").env("RUST_BACKTRACE", "1");
    }
    command
}

fn run(command: &mut Command) -> Result<Outcome> {
    child::run(command, STEP_DEADLINE)
}

fn plain(command: &mut Command) -> Result<Verdict> {
    Ok(Verdict::plain(run(command)?.success))
}

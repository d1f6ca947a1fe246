//! The person and the owner whom the suite waits for when it tests our own authorization server: it prints the page of a
//! request, which is opened in a browser without a screen, and what that shows is approved by the command that it names.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::provider::{Browser, Network};

/// What stands before the code on the page that waits.
const COMMAND: &str = "toolcrib auth approve ";
/// Such as `ABCD-EFGH`.
const CODE: usize = 9;

/// The suite with its arguments, and the gateway that it tests.
#[derive(Debug)]
pub(super) struct OwnedSuite {
    pub(super) gateway: PathBuf,
    pub(super) home: PathBuf,
    pub(super) command: Vec<String>,
}

// === impl OwnedSuite ===

impl OwnedSuite {
    /// Runs the suite to its end, and passes on what it prints.
    pub(super) fn run(&self) -> Result<()> {
        let (program, arguments) = self.command.split_first().context("the suite's command is missing")?;
        let mut suite = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(suite.stdout.take().context("the suite has no output")?).lines();
        let mut seen = Ok(());
        for line in lines {
            let line = line?;
            writeln!(std::io::stdout(), "{line}")?;
            if seen.is_ok() && line.starts_with("http") && line.contains("/oauth/authorize?") {
                seen = self.agree(&line);
                if seen.is_err() {
                    // It would wait for minutes.
                    suite.kill()?;
                }
            }
        }
        let status = suite.wait()?;
        seen?;
        ensure!(status.success(), "the suite ended with {status}");
        Ok(())
    }

    /// Agrees on the page, approves as the owner, and goes on to where the client waits.
    fn agree(&self, page: &str) -> Result<()> {
        let mut browser = Browser::new(&Network::default());
        let waiting = browser.visit(page)?;
        let code = waiting.body.split(COMMAND).nth(1).and_then(|rest| rest.get(..CODE));
        let code = code.with_context(|| format!("no code on the page: {} {}", waiting.status, waiting.body))?;
        let mut approve = Command::new(&self.gateway);
        approve.args(["auth", "approve", code, "--yes", "--home"]).arg(&self.home).stdin(Stdio::null());
        let output = approve.output()?;
        ensure!(output.status.success(), "not approved: {}", String::from_utf8_lossy(&output.stderr));
        let end = browser.visit(&waiting.address)?;
        ensure!(end.status == 200, "the client answers with status {}: {}", end.status, end.body);
        Ok(())
    }
}

//! Starts this program's own roles as children and ends them.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::process::Process;

const READY_DEADLINE: Duration = Duration::from_secs(20);

/// A role of this program that listens. It ends when this value is dropped, because its standard input closes.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) url: String,
    pub(crate) process: Process,
    _child: Child,
}

impl Role {
    /// Starts `toolcrib-bench ARGUMENTS` and waits for its `ready` line.
    pub(crate) async fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let role = arguments.first().copied().unwrap_or_default();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).arg("--until-stdin-closes");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start `{role}`"))?;
        let output = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let line = timeout(READY_DEADLINE, lines.next_line()).await;
        let line = line.with_context(|| format!("`{role}` did not get ready"))??;
        let url = line.as_deref().and_then(|line| line.strip_prefix("ready "));
        let url = url.with_context(|| format!("`{role}` ended before it was ready"))?.to_owned();
        let process = Process(child.id().with_context(|| format!("`{role}` ended at once"))?);
        Ok(Self { url, process, _child: child })
    }
}

//! A gateway with one server, started for one scenario and ended with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Definition;

const POLL: Duration = Duration::from_millis(20);
const READY_DEADLINE: Duration = Duration::from_secs(30);
const END_DEADLINE: Duration = Duration::from_secs(10);

/// A running gateway; it is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Gateway {
    child: Child,
    home: PathBuf,
    log: PathBuf,
    url: String,
}

// === impl Gateway ===

impl Gateway {
    /// Starts `program` with a fresh home in `folder` whose one server is defined so, and waits until it is ready.
    pub(super) async fn start(program: &Path, folder: &Path, definition: &Definition) -> Result<Self> {
        let home = folder.join("home");
        if home.exists() {
            fs::remove_dir_all(&home).with_context(|| format!("failed to empty `{}`", home.display()))?;
        }
        for (path, text) in [
            ("servers/suite.yaml", definition.text.clone()),
            ("config.toml", definition.settings.to_owned()),
            ("profiles/default.yaml", "name: default\nexposure: direct\nprefix: none\n".to_owned()),
        ] {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&home))?;
            fs::write(path, text)?;
        }
        let (log, ready) = (folder.join("gateway.log"), folder.join("ready.json"));
        let _ = fs::remove_file(&ready);
        let file = File::create(&log)?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--home"]).arg(&home).arg("--ready-file").arg(&ready);
        command.envs(definition.secrets.iter().map(|(variable, value)| (variable, value)));
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("failed to start `{}`", program.display()))?;
        let mut gateway = Self { child, home, log, url: String::new() };
        gateway.url = gateway.wait_until_ready(&ready).await?;
        Ok(gateway)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What the owner proves itself with.
    pub(super) fn token(&self) -> Result<String> {
        let token = fs::read_to_string(self.home.join("state/token")).context("the gateway has no token")?;
        Ok(token.trim().to_owned())
    }

    /// Asks for an operation as the owner: its path below `/api/v1`, and its arguments.
    pub(super) async fn ask(&self, method: &'static str, path: &str, arguments: &Value) -> Result<Value> {
        let token = self.token()?;
        let origin = self.url.split('/').take(3).collect::<Vec<_>>().join("/");
        let address = format!("{origin}/api/v1{path}");
        let lines = [format!("authorization: Bearer {token}"), "content-type: application/json".to_owned()];
        let body = if arguments.is_null() { String::new() } else { arguments.to_string() };
        let work = move || crate::provider::fetch(method, &address, &lines, &body);
        let page = tokio::task::spawn_blocking(work).await?.context("the gateway does not answer")?;
        ensure!(page.status < 300, "status {}: {}", page.status, page.body);
        serde_json::from_str(&page.body).with_context(|| format!("no JSON: {}", page.body))
    }

    /// Ends the gateway cleanly, so that its connections to the suite's server are closed.
    pub(super) async fn end(&mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process id of none")?;
        kill_process(id, Signal::TERM).context("failed to end the gateway")?;
        let ended = tokio::time::timeout(END_DEADLINE, self.ended()).await;
        let status = ended.with_context(|| format!("the gateway does not end: {}", self.log()))??;
        ensure!(status.success(), "the gateway ended with {status}: {}", self.log());
        Ok(())
    }

    /// The address that the ready file names. The file appears by rename, so it is whole as soon as it is there.
    async fn wait_until_ready(&mut self, ready: &Path) -> Result<String> {
        let waited = tokio::time::timeout(READY_DEADLINE, async {
            loop {
                if let Ok(text) = fs::read_to_string(ready) {
                    let ready: Value = serde_json::from_str(&text).context("the ready file is not JSON")?;
                    return ready["url"].as_str().map(str::to_owned).context("the ready file names no `url`");
                }
                if let Some(status) = self.child.try_wait()? {
                    bail!("the gateway ended before it was ready ({status}): {}", self.log());
                }
                tokio::time::sleep(POLL).await;
            }
        });
        waited.await.context("the gateway was not ready in time")?
    }

    async fn ended(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            // Nothing to do about an error here: the scenario has failed already.
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

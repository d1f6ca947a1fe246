//! The folder of one cell, and the programs that run in it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Programs;
use super::cell::{Carrier, Cell, Side, pin};
use crate::process::RunningProgram;

const READY_DEADLINE: Duration = Duration::from_secs(90);
const END_DEADLINE: Duration = Duration::from_secs(20);

/// The client that the suite is at our authorization server.
pub const SUITE_CLIENT: &str = "conformance-suite";

#[derive(Debug)]
pub struct Stage {
    root: PathBuf,
    gateway: Option<RunningProgram>,
    fixture: Option<RunningProgram>,
}

// === impl Stage ===

impl Stage {
    /// An empty folder; what an earlier run left there is removed.
    pub fn new(root: &Path) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(root).with_context(|| format!("failed to empty `{}`", root.display()))?;
        }
        for folder in ["home/servers", "home/profiles", "work"] {
            fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self { root: root.to_path_buf(), gateway: None, fixture: None })
    }

    /// Where the suite writes what it finds.
    pub fn results(&self) -> PathBuf {
        self.root.join("results")
    }

    /// Where the driver puts its gateways.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The home of the cell's own gateway.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn write_log(&self, name: &str, lines: &[String]) -> Result<()> {
        fs::write(self.root.join(name), lines.join("\n") + "\n").with_context(|| format!("failed to write `{name}`"))
    }

    /// Starts the cell's fixture and the gateway in front of it; gives the address for the suite.
    pub fn serve(&mut self, programs: &Programs, cell: &Cell, direct: bool) -> Result<String> {
        let Side::Server { fixture, carrier } = cell.side else { anyhow::bail!("the cell has no fixture") };
        let pin = pin(fixture);
        let behind = match carrier {
            Carrier::Http => {
                let url = self.start_fixture(programs, pin)?;
                if direct {
                    return Ok(url);
                }
                format!("transport: http\nurl: {url}\n")
            }
            Carrier::Stdio => {
                let command = json!(programs.fixture);
                format!("transport: stdio\ncommand: {command}\nargs: [\"--stdio\", \"--pin\", \"{pin}\"]\n")
            }
        };
        let home = self.home();
        let timeouts = "timeouts: {connect: 30s, list: 30s, call: 120s}\n";
        let server = format!("name: fixture\n{behind}start: eager\n{timeouts}");
        fs::write(home.join("servers/fixture.yaml"), server)?;
        fs::write(home.join("profiles/default.yaml"), "name: default\nexposure: direct\nprefix: none\n")?;
        self.start_gateway(programs, "127.0.0.1:0")
    }

    /// Starts a gateway with an authorization server at which the suite is a client; gives its origin, which the settings
    /// name.
    pub fn serve_authorization(&mut self, programs: &Programs) -> Result<String> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let settings = format!(
            "[identity]\nurl = \"http://{address}\"\n[identity.server]\n[[identity.server.client]]\n\
             id = \"{SUITE_CLIENT}\"\nname = \"Conformance suite\"\nredirect_uris = [\"http://127.0.0.1/callback\"]\n"
        );
        fs::write(self.home().join("config.toml"), settings)?;
        fs::write(self.home().join("profiles/default.yaml"), "name: default\n")?;
        self.start_gateway(programs, &address)?;
        Ok(format!("http://{address}"))
    }

    /// Ends the programs cleanly; the gateway has to end with status 0.
    pub fn end(&mut self) -> Result<()> {
        if let Some(mut gateway) = self.gateway.take() {
            let status = gateway.end("TERM", END_DEADLINE)?;
            ensure!(status.success(), "the gateway ended with {status}:\n{}", gateway.log_end());
        }
        // A fixture has no good manners: the signal just ends it.
        if let Some(mut fixture) = self.fixture.take() {
            fixture.end("TERM", END_DEADLINE)?;
        }
        Ok(())
    }

    fn start_fixture(&mut self, programs: &Programs, pin: &str) -> Result<String> {
        let log = self.root.join("fixture.log");
        let mut command = Command::new(&programs.fixture);
        command.args(["--http", "127.0.0.1:0", "--pin", pin]);
        let mut fixture = RunningProgram::start("the fixture", &mut command, &log)?;
        let url = fixture.wait_for(READY_DEADLINE, || {
            let log = fs::read_to_string(&log).ok()?;
            log.lines().find_map(|line| text(&serde_json::from_str::<Value>(line).ok()?["url"]))
        })?;
        self.fixture = Some(fixture);
        Ok(url)
    }

    fn start_gateway(&mut self, programs: &Programs, listen: &str) -> Result<String> {
        let ready = self.root.join("ready.json");
        let mut command = Command::new(&programs.gateway);
        command.args(["serve", "--listen", listen, "--home"]).arg(self.home()).arg("--ready-file").arg(&ready);
        let mut gateway = RunningProgram::start("the gateway", &mut command, &self.root.join("gateway.log"))?;
        // The file appears by rename, so it is whole as soon as it is there.
        let url = gateway.wait_for(READY_DEADLINE, || {
            text(&serde_json::from_str::<Value>(&fs::read_to_string(&ready).ok()?).ok()?["url"])
        })?;
        self.gateway = Some(gateway);
        Ok(url)
    }
}

/// A port of this machine that is free now: both sides must know it before one of them listens.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_begins_empty() {
        let root = std::env::temp_dir().join(format!("stage-{}", std::process::id()));
        fs::create_dir_all(root.join("results/old")).unwrap();
        let stage = Stage::new(&root).unwrap();
        assert!(!stage.results().exists() && stage.work().is_dir());
        fs::remove_dir_all(&root).unwrap();
    }
}

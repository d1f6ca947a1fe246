//! A package registry on this machine: a folder behind a server of files, as npm and uv ask one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::RunningProgram;

const DEADLINE: Duration = Duration::from_secs(60);

/// It answers until it is dropped.
#[derive(Debug)]
pub struct Registry {
    pub url: String,
    pub folder: PathBuf,
    _server: RunningProgram,
}

// === impl Registry ===

impl Registry {
    /// Serves what is in the folder, now or later.
    pub fn start(folder: &Path) -> Result<Self> {
        let log = folder.with_extension("log");
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(folder);
        let mut server = RunningProgram::start("python3 -m http.server", &mut command, &log)?;
        // `Serving HTTP on 127.0.0.1 port 38211 (http://127.0.0.1:38211/) ...`
        let port = server.wait_for(DEADLINE, || {
            let log = fs::read_to_string(&log).ok()?;
            log.split(" port ").nth(1)?.split(' ').next()?.parse::<u16>().ok()
        })?;
        Ok(Self { url: format!("http://127.0.0.1:{port}"), folder: folder.to_path_buf(), _server: server })
    }

    /// Writes a file below the folder.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let file = self.folder.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&self.folder))?;
        fs::write(&file, content).with_context(|| format!("failed to write `{}`", file.display()))
    }
}

//! The gateway under test: writes it a home, starts it as a user would, and ends it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::process::Process;

const READY_DEADLINE: Duration = Duration::from_secs(60);
const END_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);

/// A home with definitions of the bench's servers.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("toolcrib-bench-").tempdir()?;
        fs::create_dir(folder.path().join("servers"))?;
        fs::create_dir(folder.path().join("profiles"))?;
        let home = Self { folder };
        home.write("profiles", "default", "servers: [\"*\"]\nexposure: meta\n")?;
        home.write("profiles", "direct", "servers: [\"*\"]\nexposure: direct\n")?;
        Ok(home)
    }

    /// Defines a server over HTTP.
    pub(crate) fn http_server(&self, name: &str, url: &str) -> anyhow::Result<()> {
        self.write("servers", name, &format!("transport: http\nurl: {url}\nstart: eager\nsession: shared\n"))
    }

    /// Defines this program's own backend over stdio.
    pub(crate) fn stdio_server(&self, name: &str, tools: usize, modern: bool) -> anyhow::Result<()> {
        let program = std::env::current_exe()?;
        let program = serde_json::to_string(&program.to_str().context("the path of this program is not UTF-8")?)?;
        let modern = if modern { ", \"--modern\"" } else { "" };
        self.write(
            "servers",
            name,
            &format!(
                "transport: stdio\ncommand: {program}\nargs: [\"backend-stdio\", \"--tools\", \"{tools}\"{modern}]\n\
                 start: eager\nsession: shared\n"
            ),
        )
    }

    /// Defines a server that starts at its first call: this program's own backend, with `more` arguments.
    pub(crate) fn lazy_server(&self, name: &str, tools: usize, more: &[&str]) -> anyhow::Result<()> {
        let program = std::env::current_exe()?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let tools = tools.to_string();
        let mut arguments = vec!["backend-stdio", "--tools", &tools];
        arguments.extend(more);
        let (program, arguments) = (serde_json::to_string(program)?, serde_json::to_string(&arguments)?);
        self.server(name, &format!("command: {program}\nargs: {arguments}\nstart: lazy\n"))
    }

    /// Defines a server by the keys of its definition, in place of the one that was.
    pub(crate) fn server(&self, name: &str, keys: &str) -> anyhow::Result<()> {
        self.write("servers", name, keys)
    }

    /// Writes the settings.
    pub(crate) fn settings(&self, text: &str) -> anyhow::Result<()> {
        Ok(fs::write(self.path().join("config.toml"), text)?)
    }

    /// Removes the definition of a server.
    pub(crate) fn remove_server(&self, name: &str) -> anyhow::Result<()> {
        Ok(fs::remove_file(self.path().join("servers").join(format!("{name}.yaml")))?)
    }

    /// Defines a profile by its keys.
    pub(crate) fn profile(&self, name: &str, keys: &str) -> anyhow::Result<()> {
        self.write("profiles", name, keys)
    }

    /// By rename, as editors and operations write, so that no half of it is ever read.
    fn write(&self, kind: &str, name: &str, keys: &str) -> anyhow::Result<()> {
        let file = self.path().join(kind).join(format!("{name}.yaml"));
        let new = self.path().join(kind).join(format!(".{name}.new"));
        let written = fs::write(&new, format!("name: {name}\n{keys}")).and_then(|()| fs::rename(&new, &file));
        written.with_context(|| format!("write `{}`", file.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// What a start waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// `/healthz` answers; servers may still be starting.
    Listening,
    /// Every eager server has answered its first listing, or has failed to.
    Ready,
}

/// How long a start took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTimes {
    /// Until `/healthz` answered, in milliseconds.
    pub(crate) listening: f64,
    /// Until the ready file was there: every eager server had answered its first listing.
    pub(crate) ready: f64,
}

/// A running gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// `http://127.0.0.1:PORT/mcp`
    pub(crate) url: String,
    pub(crate) process: Process,
    pub(crate) times: StartTimes,
    child: Child,
}

#[derive(Deserialize)]
struct ReadyFile {
    pid: u32,
    url: String,
}

impl Gateway {
    /// Starts `program serve` on `home` and waits until it is ready.
    pub(crate) async fn start(program: &Path, home: &Home) -> anyhow::Result<Self> {
        Self::start_until(program, home, Until::Ready).await
    }

    /// Starts `program serve` on `home` and waits as long as is wanted.
    pub(crate) async fn start_until(program: &Path, home: &Home, until: Until) -> anyhow::Result<Self> {
        let ready_file = home.path().join("ready.json");
        let _ = fs::remove_file(&ready_file);
        // The start is timed from outside, so the port has to be known before.
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let log = fs::File::create(home.path().join("bench-gateway.log"))?;
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(["serve", "--listen", &listen])
            .arg("--home")
            .arg(home.path())
            .arg("--ready-file")
            .arg(&ready_file)
            .env_remove("TOOLCRIB_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start `{}`", program.display()))?;
        let mut listening = None;
        let text = loop {
            if listening.is_none() && healthy(&listen).await {
                listening = Some(millis(started));
            }
            if until == Until::Listening
                && let (Some(listening), Some(id)) = (listening, child.id())
            {
                let times = StartTimes { listening, ready: f64::NAN };
                return Ok(Self { url: format!("http://{listen}/mcp"), process: Process(id), times, child });
            }
            if let Ok(text) = fs::read_to_string(&ready_file) {
                break text;
            }
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(home.path().join("bench-gateway.log")).unwrap_or_default();
                let end: Vec<_> = log.lines().rev().take(5).collect();
                bail!("the gateway ended with {status} before it was ready: {}", end.join(" | "));
            }
            if started.elapsed() > READY_DEADLINE {
                bail!("the gateway was not ready after {READY_DEADLINE:?}");
            }
            tokio::time::sleep(POLL).await;
        };
        let ready = millis(started);
        let file: ReadyFile = serde_json::from_str(&text).context("read the ready file")?;
        let times = StartTimes { listening: listening.unwrap_or(ready), ready };
        Ok(Self { url: file.url, process: Process(file.pid), times, child })
    }

    /// The URL of a profile.
    pub(crate) fn profile(&self, name: &str) -> String {
        format!("{}/p/{name}", self.url.trim_end_matches('/'))
    }

    /// Asks the gateway to end, and kills it if it does not.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        }
        if timeout(END_DEADLINE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
            bail!("the gateway did not end within {END_DEADLINE:?} of SIGTERM");
        }
        Ok(())
    }
}

async fn healthy(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = [0; 12];
    let read = timeout(END_DEADLINE, stream.read_exact(&mut answer)).await;
    matches!(read, Ok(Ok(_))) && answer.starts_with(b"HTTP/1.1 200")
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The gateway's program: the given one, or the one that was built beside this program, built now if it is missing.
pub(crate) fn program(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        if !given.is_file() {
            bail!("there is no program `{}`", given.display());
        }
        return Ok(given);
    }
    let beside = std::env::current_exe()?.with_file_name("toolcrib");
    if !beside.is_file() {
        let built = std::process::Command::new(crate::machine::cargo())
            .args(["build", "-p", "toolcrib", "--profile", &crate::machine::profile()])
            .status()
            .context("run cargo")?;
        if !built.success() || !beside.is_file() {
            bail!("`{}` is missing and could not be built; name the program with --gateway", beside.display());
        }
    }
    Ok(beside)
}

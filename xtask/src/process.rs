//! Programs that run beside the tests: started with a log file, waited for, ended with a signal, and looked for
//! afterwards.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Everything that a run started by the gateway inherits carries this variable; see [`left`].
pub const MARK: &str = "TOOLCRIB_ACCEPTANCE_RUN";

const POLL: Duration = Duration::from_millis(20);
const LOG_LINES: usize = 40;

/// A program with its log file; it is killed when it is dropped.
#[derive(Debug)]
pub struct RunningProgram {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

// === impl RunningProgram ===

impl RunningProgram {
    pub fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("failed to create `{}`", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name, child, log: log.to_path_buf() })
    }

    /// Waits until `ready` gives a value, the program ends, or the deadline passes.
    pub fn wait_for<T>(&mut self, deadline: Duration, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let end = Instant::now() + deadline;
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it was ready ({status}); the end of its log:\n{}", self.name, self.log_end());
            }
            ensure!(Instant::now() < end, "{} was not ready after {deadline:?}:\n{}", self.name, self.log_end());
            std::thread::park_timeout(POLL);
        }
    }

    /// Sends `signal` (`TERM`, `KILL`) and waits for the end.
    pub fn end(&mut self, signal: &str, deadline: Duration) -> Result<ExitStatus> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().context("failed to start `kill`")?;
        ensure!(sent.success(), "failed to send SIG{signal} to {}", self.name);
        self.wait(deadline).with_context(|| format!("after SIG{signal}"))
    }

    /// Waits for the end.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + deadline;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < end, "{} still runs after {deadline:?}", self.name);
            std::thread::park_timeout(POLL);
        }
    }

    pub fn log_end(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            // Nothing to do about an error here: the run has failed already.
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

/// A port that no one uses at the moment, for a server that cannot choose one itself.
pub fn free_port() -> Result<u16> {
    Ok(free_ports(1)?[0])
}

/// So many of them, each another one.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    // All are held until all are known: a port that is free again may be chosen again.
    let held = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    Ok(held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<_, std::io::Error>>()?)
}

pub fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), POLL).is_ok()
}

/// The command lines of the processes that carry `mark` in their environment, after at most `deadline` of waiting for
/// them to end. `None` where the system does not show the environment of processes.
pub fn left(mark: &str, deadline: Duration) -> Option<Vec<String>> {
    let end = Instant::now() + deadline;
    loop {
        let left = marked(mark)?;
        if left.is_empty() || Instant::now() >= end {
            return Some(left);
        }
        std::thread::park_timeout(POLL);
    }
}

/// The same at this moment.
pub fn marked(mark: &str) -> Option<Vec<String>> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        // A process that ends while we look is none that is left.
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(format!("{} {}", entry.file_name().to_string_lossy(), command.trim_end()));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_is_left_is_found_and_an_ended_one_is_not() {
        let mark = format!("test-{}", std::process::id());
        let log = std::env::temp_dir().join(format!("{mark}.log"));
        let mut command = Command::new("tail");
        command.args(["-f", "/dev/null"]).env(MARK, &mark);
        let mut running = RunningProgram::start("tail", &mut command, &log).unwrap();
        // The new program is there as soon as its command line is.
        let found = running.wait_for(Duration::from_secs(30), || marked(&mark).filter(|found| !found.is_empty()));
        assert!(found.unwrap()[0].contains("tail"));
        assert!(!running.end("KILL", Duration::from_secs(30)).unwrap().success());
        assert_eq!(left(&mark, Duration::from_secs(30)).unwrap(), [""; 0]);
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn free_ports_differ() {
        let ports: std::collections::HashSet<u16> = free_ports(50).unwrap().into_iter().collect();
        assert_eq!(ports.len(), 50);
    }

    #[test]
    fn a_program_that_ends_too_early_is_reported_with_its_log() {
        let log = std::env::temp_dir().join(format!("early-{}.log", std::process::id()));
        let mut running =
            RunningProgram::start("sh", Command::new("sh").args(["-c", "echo why >&2; exit 7"]), &log).unwrap();
        let error = running.wait_for(Duration::from_secs(30), || None::<()>).unwrap_err().to_string();
        assert!(error.contains("ended before it was ready") && error.contains("why"), "{error}");
        fs::remove_file(log).unwrap();
    }
}

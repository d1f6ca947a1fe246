//! A way to start the program, such as the script of the npm package or the program of a wheel, tried against the
//! program itself: exit codes, streams and signals are the same, nothing stays behind, and how much later it starts.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::dist::trial::Trials;
use crate::process::{self, RunningProgram};

/// Long enough on a machine that does ten other things.
const DEADLINE: Duration = Duration::from_secs(120);
/// What may be left for a moment after the end: the guards of servers.
const LEFT: Duration = Duration::from_secs(30);
/// Starts of each kind of which the median is told.
const STARTS: usize = 15;
/// Lines of the program that wait for us; it speaks after it was asked.
const LINES: usize = 16;

/// How the program is started.
#[derive(Debug)]
pub struct Launcher<'a> {
    /// Of what it is a part, such as `Node 22.23.3`.
    pub label: String,
    pub program: PathBuf,
    /// What stands before the program's own arguments, such as a script.
    pub first: Vec<PathBuf>,
    /// What it finds its interpreter in.
    pub path: OsString,
    /// An empty folder: its home, and that of the gateway.
    pub folder: PathBuf,
    /// The program that it starts.
    pub direct: &'a Path,
}

/// What a program printed and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct End {
    status: ExitStatus,
    stdout: Vec<u8>,
}

/// A child that does not outlive the trial.
struct Speaker(Child);

// === impl Launcher ===

impl Launcher<'_> {
    pub fn trials(&self, trials: &mut Trials) {
        let named = |name: &str| format!("{}: {name}", self.label);
        trials.run(&named("streams and exit codes 0, 1 and 64 are the program's own"), || self.ends_alike());
        trials.run(&named("after Ctrl-C the exit code is 130"), || self.interrupted());
        trials.run(&named("SIGINT, SIGTERM and SIGHUP end the gateway, nothing is left"), || self.signals());
        trials.run(&named("when the program is killed, so is what started it"), || self.killed());
        trials.run(&named("MCP over stdin and stdout, which ends with stdin"), || self.speaks());
    }

    /// Prints how much later the program starts than directly.
    pub fn print_figures(&self) -> Result<()> {
        let (mut through, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            through.push(time(&mut self.through())?);
            direct.push(time(&mut self.command(self.direct))?);
        }
        let (through, direct) = (median(&mut through), median(&mut direct));
        let more = through.saturating_sub(direct).as_secs_f64() * 1e3;
        println!(
            "    figure   {}: `--version` takes {more:.1} ms more than the {direct:.1?} of the program",
            self.label
        );
        Ok(())
    }

    fn through(&self) -> Command {
        let mut command = self.command(&self.program);
        command.args(&self.first);
        command
    }

    /// Nothing of the caller's environment reaches it.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.path).env("HOME", &self.folder).env("TOOLCRIB_HOME", self.home());
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn home(&self) -> PathBuf {
        self.folder.join("toolcrib-home")
    }

    fn ends_alike(&self) -> Result<()> {
        let cases: [(&[&str], i32); 4] = [
            (&["--version"], 0),
            (&["completion", "bash"], 0),
            (&["status", "--endpoint", "http://127.0.0.1:9/mcp"], 1),
            (&["--nonsense", "with blanks", "$HOME", ""], 64),
        ];
        for (words, code) in cases {
            let (through, direct) = (end(self.through().args(words))?, end(self.command(self.direct).args(words))?);
            ensure!(direct.status.code() == Some(code), "`{words:?}` ends with {} directly", direct.status);
            ensure!(through.status == direct.status, "`{words:?}` ends with {}, not with {code}", through.status);
            ensure!(through.stdout == direct.stdout, "`{words:?}` prints something else");
        }
        Ok(())
    }

    fn interrupted(&self) -> Result<()> {
        let mut command = self.through();
        command.args(["example", "units", "--listen", "127.0.0.1:0"]);
        let log = self.folder.join("example.log");
        let mut server = RunningProgram::start("toolcrib example", &mut command, &log)?;
        server.wait_for(DEADLINE, || fs::read_to_string(&log).ok().filter(|log| log.contains("serving url=")))?;
        let status = server.end("INT", DEADLINE)?;
        ensure!(status.code() == Some(130), "it ended with {status}");
        Ok(())
    }

    /// Starts a gateway and waits until it is ready; also gives the id of its process.
    fn gateway(&self, mark: &str) -> Result<(RunningProgram, u64)> {
        let ready = self.folder.join("ready.json");
        if ready.exists() {
            fs::remove_file(&ready)?;
        }
        let mut command = self.through();
        command.args(["serve", "--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready).env(process::MARK, mark);
        let mut gateway = RunningProgram::start("toolcrib serve", &mut command, &self.folder.join("serve.log"))?;
        let id = gateway.wait_for(DEADLINE, || {
            let said: Value = serde_json::from_str(&fs::read_to_string(&ready).ok()?).ok()?;
            said["pid"].as_u64()
        })?;
        Ok((gateway, id))
    }

    fn signals(&self) -> Result<()> {
        self.with_a_server()?;
        for signal in ["INT", "TERM", "HUP"] {
            let mark = format!("dist-{}-{}", std::process::id(), self.folder.display());
            let (mut gateway, id) = self.gateway(&mark)?;
            let status = gateway.end(signal, DEADLINE)?;
            ensure!(status.code() == Some(0), "after SIG{signal} it ended with {status}:\n{}", gateway.log_end());
            ensure!(!Path::new(&format!("/proc/{id}")).exists(), "after SIG{signal} process {id} is still there");
            let left = process::left(&mark, LEFT).unwrap_or_default();
            ensure!(left.is_empty(), "after SIG{signal} there is still: {}", left.join(", "));
        }
        Ok(())
    }

    /// A server that runs while the gateway does.
    fn with_a_server(&self) -> Result<()> {
        let servers = self.home().join("servers");
        fs::create_dir_all(&servers)?;
        let definition =
            json!({ "name": "units", "command": self.direct, "args": ["example", "units"], "start": "eager" });
        fs::write(servers.join("units.yaml"), definition.to_string())
            .context("failed to write the definition of a server")
    }

    fn killed(&self) -> Result<()> {
        let (mut gateway, id) = self.gateway("")?;
        let killed = Command::new("kill").args(["-s", "KILL", &id.to_string()]).status()?;
        ensure!(killed.success(), "failed to kill process {id}");
        let status = gateway.wait(DEADLINE)?;
        ensure!(status.signal() == Some(9), "it ended with {status}");
        Ok(())
    }

    /// A client over stdin and stdout gets an answer, and nothing but JSON is on stdout.
    pub fn speaks(&self) -> Result<()> {
        let mut command = self.through();
        command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut speaker = Speaker(command.spawn().context("failed to start `toolcrib stdio`")?);
        let (mut input, output) = (speaker.0.stdin.take(), speaker.0.stdout.take());
        let (sender, lines) = sync_channel(LINES);
        let output = BufReader::new(output.context("it has no stdout")?);
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let client = json!({ "name": "trial", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        writeln!(input.as_mut().context("it has no stdin")?, "{request}")?;
        let line = lines.recv_timeout(DEADLINE).context("it did not answer")?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("it said `{line}`"))?;
        ensure!(answer["result"]["serverInfo"]["name"].is_string(), "it answered `{line}`");
        drop(input);
        let end = Instant::now() + DEADLINE;
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => ensure!(serde_json::from_str::<Value>(&line).is_ok(), "stdout has `{line}`"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("it does not end when stdin does"),
            }
        }
        let status = speaker.0.wait()?;
        ensure!(status.code() == Some(0), "it ended with {status}");
        Ok(())
    }
}

// === impl Speaker ===

impl Drop for Speaker {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn end(command: &mut Command) -> Result<End> {
    let output = command.output()?;
    Ok(End { status: output.status, stdout: output.stdout })
}

/// How long `--version` takes.
fn time(command: &mut Command) -> Result<Duration> {
    let begun = Instant::now();
    let status = command.arg("--version").stdout(Stdio::null()).status()?;
    ensure!(status.success(), "`--version` failed");
    Ok(begun.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

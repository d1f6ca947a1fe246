//! Starts the program `toolcrib` for tests: commands that run to their end, commands that go on, and gateways that are
//! waited for until they are ready. A test that fails gets the log of each of its programs below its message.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead as _, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::{DEADLINE, eventually_finds};

/// How long the last lines of a log are waited for after the end of its program: a program below it may have the log
/// open for longer.
const LAST_LINES: Duration = Duration::from_secs(5);

/// A command line that has not been started: without any environment, without input, killed when it is dropped.
#[derive(Debug)]
pub struct Launch {
    command: Command,
    /// As it is named in failures.
    name: String,
}

/// What a command left that ran to its end.
#[derive(Debug)]
pub struct CommandOutput {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// Its errors and its log.
    pub stderr: String,
}

/// A program that goes on; killed when it is dropped. When that is because the test fails, its log is printed.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    log: watch::Receiver<String>,
    /// How much of the log [`Program::logs`] has gone through.
    seen: usize,
    follower: Option<JoinHandle<()>>,
}

/// A gateway that is ready.
#[derive(Debug)]
pub struct GatewayProgram {
    /// `http://127.0.0.1:PORT/mcp`
    pub url: String,
    program: Program,
    _ready: TempDir,
}

// === impl Launch ===

impl Launch {
    /// `program` with these arguments.
    pub fn new(program: impl AsRef<OsStr>, arguments: &[&str]) -> Self {
        let name = Path::new(program.as_ref()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        Self { command, name: format!("`{name} {}`", arguments.join(" ")) }
    }

    /// With this home folder of the gateway.
    #[must_use]
    pub fn home(self, home: &Path) -> Self {
        self.env("TOOLCRIB_HOME", home)
    }

    /// With a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// With the folders of programs that this process has.
    #[must_use]
    pub fn with_path(self) -> Self {
        self.env("PATH", std::env::var_os("PATH").unwrap_or_default())
    }

    /// In this folder.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs it to its end with this input.
    ///
    /// # Panics
    /// When it does not start, does not end in time, is ended by a signal or prints what is no text.
    pub async fn run(mut self, input: &str) -> CommandOutput {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn();
        let mut pipe = child.stdin.take().expect("its input is a pipe");
        let run = async {
            // A command that does not read leaves a closed pipe.
            let _ = pipe.write_all(input.as_bytes()).await;
            drop(pipe);
            child.wait_with_output().await
        };
        let name = &self.name;
        let output = timeout(DEADLINE, run).await.unwrap_or_else(|_| panic!("{name} does not end"));
        let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        CommandOutput {
            code: output.status.code().unwrap_or_else(|| panic!("{name} ended with {}", output.status)),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Starts it as a program that goes on. What it logs is kept.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(mut self) -> Program {
        let (reader, writer) = std::io::pipe().expect("a pipe for the log");
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer);
        let mut child = self.spawn();
        let stdout = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        // With the command goes our end of the pipe for writing, so that the log ends with the program.
        let Self { command, name } = self;
        drop(command);
        let (log, follower) = follow(reader);
        Program { name, stdin: child.stdin.take(), child, stdout, log, seen: 0, follower: Some(follower) }
    }

    /// Starts it as a gateway on a port that the system chooses, and waits until it is ready. `serve` is among its
    /// arguments.
    ///
    /// # Panics
    /// When it does not start, ends, or is not ready in time.
    pub async fn serve(mut self) -> GatewayProgram {
        let folder = tempfile::tempdir().expect("a folder for the ready file");
        let ready = folder.path().join("ready.json");
        self.command.args(["--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready);
        let mut program = self.start();
        let what = format!("{} to be ready", program.name);
        let url = eventually_finds(&what, async || {
            if let Some(status) = program.ended() {
                panic!("expected {what}; it ended with {status}");
            }
            // It appears by rename, so it is whole as soon as it is there.
            let text = std::fs::read_to_string(&ready).map_err(|error| error.to_string())?;
            let value: Value = serde_json::from_str(&text).map_err(|error| format!("{error} in `{text}`"))?;
            value["url"].as_str().map(str::to_owned).ok_or(text)
        });
        let url = url.await;
        GatewayProgram { url, program, _ready: folder }
    }

    fn spawn(&mut self) -> Child {
        let name = &self.name;
        self.command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"))
    }
}

/// Collects what is written to a pipe, line by line.
fn follow(pipe: PipeReader) -> (watch::Receiver<String>, JoinHandle<()>) {
    let (sender, receiver) = watch::channel(String::new());
    let follower = std::thread::spawn(move || {
        for line in std::io::BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            sender.send_modify(|log| {
                let _ = writeln!(log, "{}", String::from_utf8_lossy(&line));
            });
        }
    });
    (receiver, follower)
}

// === impl CommandOutput ===

impl CommandOutput {
    /// The run went well and printed this.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn prints(&self, expected: &str) {
        assert_eq!((self.code, self.stdout.as_str(), self.stderr.as_str()), (0, expected, ""));
    }

    /// The run failed with this code and said these things on stderr, and nothing on stdout.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in:\n{}", self.stderr);
        }
    }
}

// === impl Program ===

impl Program {
    /// Everything that it logged so far.
    pub fn log(&self) -> String {
        self.log.borrow().clone()
    }

    /// Waits until it logs a line with this part, below the line that was waited for before; gives the line.
    ///
    /// # Panics
    /// When it ends without, or the line does not come in time.
    pub async fn logs(&mut self, part: &str) -> String {
        let seen = self.seen;
        let found = |log: &String| log[seen..].lines().any(|line| line.contains(part));
        let waited = timeout(DEADLINE, self.log.wait_for(found)).await;
        if !waited.is_ok_and(|waited| waited.is_ok()) {
            panic!("expected `{part}` in the log of {}", self.name);
        }
        let log = self.log();
        for line in log[seen..].lines() {
            self.seen += line.len() + 1;
            if line.contains(part) {
                return line.to_owned();
            }
        }
        unreachable!("the log only grows")
    }

    /// Reads its output until a line has this part; gives that line and those before it.
    ///
    /// # Panics
    /// When it ends without, or the line does not come in time.
    pub async fn reads_to(&mut self, part: &str) -> String {
        let mut output = String::new();
        let stdout = self.stdout.as_mut().expect("its output is open");
        let reading = async {
            while let Ok(Some(line)) = stdout.next_line().await {
                let _ = writeln!(output, "{line}");
                if line.contains(part) {
                    return true;
                }
            }
            false
        };
        let found = timeout(DEADLINE, reading).await.unwrap_or(false);
        assert!(found, "expected `{part}` in the output of {}; this came:\n{output}", self.name);
        output
    }

    /// As [`Program::reads_to`]; gives the one line.
    ///
    /// # Panics
    /// As that.
    pub async fn reads(&mut self, part: &str) -> String {
        let output = self.reads_to(part).await;
        output.lines().next_back().unwrap_or_default().to_owned()
    }

    /// The next line of its output.
    ///
    /// # Panics
    /// When it ends or none comes in time.
    pub async fn line(&mut self) -> String {
        self.reads("").await
    }

    /// Types a line.
    ///
    /// # Panics
    /// When it does not read any more.
    pub async fn types(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        let written = stdin.write_all(format!("{line}\n").as_bytes()).await;
        written.unwrap_or_else(|error| panic!("expected {} to read `{line}`; {error}", self.name));
    }

    /// Closes its input.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Closes its output: it has no reader any more.
    pub fn close_output(&mut self) {
        self.stdout = None;
    }

    /// Its process.
    ///
    /// # Panics
    /// When its end was waited for.
    pub fn pid(&self) -> Pid {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.unwrap_or_else(|| panic!("{} has ended", self.name))
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end and for its last lines in the log; gives how it ended.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn end(&mut self) -> ExitStatus {
        let waited = timeout(DEADLINE, self.child.wait()).await.ok().and_then(Result::ok);
        let status = waited.unwrap_or_else(|| panic!("expected the end of {}; it goes on", self.name));
        let last_lines = async { while self.log.changed().await.is_ok() {} };
        let _ = timeout(LAST_LINES, last_lines).await;
        status
    }

    /// Closes its input and waits for its end; gives what it left.
    ///
    /// # Panics
    /// When it does not end in time, or is ended by a signal.
    pub async fn finish(mut self) -> CommandOutput {
        self.close();
        let mut output = String::new();
        if let Some(mut stdout) = self.stdout.take() {
            let reading = async {
                while let Ok(Some(line)) = stdout.next_line().await {
                    let _ = writeln!(output, "{line}");
                }
            };
            let read = timeout(DEADLINE, reading).await;
            assert!(read.is_ok(), "expected the end of {}; this came:\n{output}", self.name);
        }
        let status = self.end().await;
        let code = status.code().unwrap_or_else(|| panic!("{} ended with {status}", self.name));
        CommandOutput { code, stdout: output, stderr: self.log() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        // With it ends its log, so that all of it is printed.
        let _ = self.child.start_kill();
        if let Some(follower) = self.follower.take() {
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let _ = (follower.join(), sender.send(()));
            });
            let _ = receiver.recv_timeout(LAST_LINES);
        }
        let log = self.log();
        eprintln!("the log of {}:\n{}", self.name, if log.is_empty() { "(empty)\n" } else { &log });
    }
}

// === impl GatewayProgram ===

impl GatewayProgram {
    /// `127.0.0.1:PORT`
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("https://").trim_start_matches("http://").split('/').next().unwrap_or_default()
    }

    /// The gateway as a program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Ends it by SIGTERM; it must end well.
    ///
    /// # Panics
    /// When it does not.
    pub async fn stop(mut self) {
        self.program.signal(Signal::TERM);
        let status = self.program.end().await;
        assert!(status.success(), "expected a good end of {}; it ended with {status}", self.program.name);
    }
}

/// Writes a file below a folder, with the folders in between.
///
/// # Panics
/// When it cannot be written.
pub fn write(folder: &Path, path: &str, text: &str) -> PathBuf {
    let file = folder.join(path);
    let parent = file.parent().expect("a file lies in a folder");
    let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&file, text));
    written.unwrap_or_else(|error| panic!("`{}`: {error}", file.display()));
    file
}

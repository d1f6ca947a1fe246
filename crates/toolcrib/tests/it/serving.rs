//! A real gateway of the tests, and commands that go on in the background.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolcrib_testkit::{eventually, eventually_finds};

use crate::toolcrib::run;

/// How long something may take that must come.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command in the background is listened to before what it should report is done again.
const AGAIN: Duration = Duration::from_secs(5);

/// A gateway with its own home.
pub(crate) struct Serving {
    home: tempfile::TempDir,
    child: Child,
    url: String,
}

/// A command that has not ended yet.
pub(crate) struct Background {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The practice server of the crate `testkit`.
pub(crate) use toolcrib_testkit::fake_server;

/// Starts a command that continues.
pub(crate) fn background(home: &Path, arguments: &[&str]) -> Background {
    let mut child = command(home, arguments).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Background { stdin: child.stdin.take(), child, lines }
}

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolcrib"));
    command
        .args(arguments)
        .env_clear()
        .env("TOOLCRIB_HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

// === impl Serving ===

impl Serving {
    /// Starts a gateway with these servers and waits until it is ready.
    pub(crate) async fn start(servers: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        for (name, text) in servers {
            std::fs::write(home.path().join(format!("servers/{name}.yaml")), text).unwrap();
        }
        let ready = home.path().join("ready.json");
        let flags = ["serve", "--listen", "127.0.0.1:0", "--ready-file", ready.to_str().unwrap()];
        let child = command(home.path(), &flags).spawn().unwrap();
        let url = eventually_finds("a gateway that is ready", async || {
            let value: Value = serde_json::from_str(&std::fs::read_to_string(&ready)?).unwrap();
            Ok::<_, std::io::Error>(value["url"].as_str().unwrap().to_owned())
        });
        let url = url.await;
        Self { home, child, url }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts a command that continues.
    pub(crate) fn background(&self, arguments: &[&str]) -> Background {
        background(self.home(), arguments)
    }

    /// Does something, again if need be, until the one in the background reports it: when it listens is not known.
    pub(crate) async fn until(&self, background: &mut Background, arguments: &[&str], part: &str) {
        let reported = async {
            loop {
                // That there is nothing more to do is no matter.
                run(self.home(), arguments, &[]).await;
                if tokio::time::timeout(AGAIN, background.reads(part)).await.is_ok() {
                    return;
                }
            }
        };
        eventually(part, reported).await;
    }

    pub(crate) async fn stop(mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        tokio::time::timeout(TIMEOUT, self.child.wait()).await.unwrap().unwrap();
    }
}

// === impl Background ===

impl Background {
    /// Reads lines until one has this part, and gives it.
    pub(crate) async fn reads(&mut self, part: &str) -> String {
        let reading = async {
            loop {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("it ended without `{part}`"));
                if line.contains(part) {
                    return line;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, reading).await.unwrap_or_else(|_| panic!("`{part}` never came"))
    }

    /// Types a line.
    pub(crate) async fn types(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
    }

    /// Presses Ctrl-C, and gives the exit code.
    pub(crate) async fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        tokio::time::timeout(TIMEOUT, self.child.wait()).await.unwrap().unwrap().code()
    }
}

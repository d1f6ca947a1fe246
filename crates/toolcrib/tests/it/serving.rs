//! A real gateway of the tests, and commands that go on in the background.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;
use toolcrib_testkit::eventually;
/// The practice server of the crate `testkit`.
pub(crate) use toolcrib_testkit::fake_server;
use toolcrib_testkit::launch::{GatewayProgram, Program, write};

use crate::toolcrib::{run, toolcrib};

/// How long a command in the background is listened to before what it should report is done again.
const AGAIN: Duration = Duration::from_secs(5);

/// A gateway with a home of its own.
pub(crate) struct GatewayFixture {
    home: tempfile::TempDir,
    gateway: GatewayProgram,
}

/// A command that has not ended yet.
pub(crate) struct Background(Program);

/// Starts a command that continues.
pub(crate) fn background(home: &Path, arguments: &[&str]) -> Background {
    Background(toolcrib(home, arguments).with_path().start())
}

// === impl GatewayFixture ===

impl GatewayFixture {
    /// Starts a gateway with these servers and waits until it is ready.
    pub(crate) async fn start(servers: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        for (name, text) in servers {
            write(home.path(), &format!("servers/{name}.yaml"), text);
        }
        let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
        Self { home, gateway }
    }

    /// A gateway of a person who has these files, in a home without servers that is the person's folder, too.
    pub(crate) async fn of_person(files: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(home.path(), path, text);
        }
        let gateway = toolcrib(home.path(), &["serve"]).with_path().env("HOME", home.path()).serve().await;
        Self { home, gateway }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn url(&self) -> &str {
        &self.gateway.url
    }

    pub(crate) fn address(&self) -> &str {
        self.gateway.address()
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
                if timeout(AGAIN, background.reads(part)).await.is_ok() {
                    return;
                }
            }
        };
        eventually(part, reported).await;
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
    }
}

// === impl Background ===

impl Background {
    /// Reads lines until one has this part, and gives it.
    pub(crate) async fn reads(&mut self, part: &str) -> String {
        self.0.reads(part).await
    }

    /// Types a line.
    pub(crate) async fn types(&mut self, line: &str) {
        self.0.types(line).await;
    }

    /// Presses Ctrl-C, and gives the exit code.
    pub(crate) async fn end(mut self) -> Option<i32> {
        self.0.signal(Signal::INT);
        self.0.end().await.code()
    }
}

//! The gateway under test: `serve` of the real binary on a home of its own and a port that the system chooses.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use toolcrib_base::task::Scope;
use toolcrib_transport::process::{self, GuardCommand, Process, Spec};

/// How long a gateway may take until it is ready: every mock server has been listed by then.
const READY: Duration = Duration::from_secs(60);
/// How often the file is looked at that tells.
const LOOK: Duration = Duration::from_millis(5);
/// How many of its last lines are told when something went wrong.
const LINES: usize = 40;

/// A running gateway. Dropping it kills the gateway and its servers.
#[derive(Debug)]
pub(crate) struct Gateway {
    process: Process,
    pub(crate) url: String,
    pub(crate) token_file: PathBuf,
}

/// Starts a gateway and waits until it is ready.
pub(crate) async fn start(program: &Path, guarded: bool, home: &Path, scope: &Scope) -> Result<Gateway, String> {
    let ready = home.join("ready.json");
    let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("the path of the temporary folder is not UTF-8");
    let args = ["serve", "--listen", "127.0.0.1:0", "--home", &text(home)?, "--ready-file", &text(&ready)?];
    let mut spec = Spec::new(text(program)?, args);
    "gateway".clone_into(&mut spec.name);
    if guarded {
        spec.guard = Some(GuardCommand::this_binary().map_err(|error| error.to_string())?);
    }
    let process = process::spawn(&spec, scope, |_| {}).map_err(|error| error.to_string())?;
    let until = Instant::now() + READY;
    let exited = process.exited();
    let mut exited = std::pin::pin!(exited);
    loop {
        tokio::select! {
            exit = &mut exited => {
                let log = process.stderr().last(LINES).join("\n");
                return Err(format!("the gateway ended with {exit} before it was ready:\n{log}"));
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        let told = std::fs::read_to_string(&ready).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        if let Some(told) = told {
            let word = |key: &str| told[key].as_str().map(str::to_owned).ok_or("the ready file lacks a key");
            let (url, token_file) = (word("url")?, word("token_file")?.into());
            return Ok(Gateway { process, url, token_file });
        }
        if Instant::now() > until {
            let log = process.stderr().last(LINES).join("\n");
            return Err(format!("the gateway was not ready after {} s:\n{log}", READY.as_secs()));
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// The last lines that it logged.
    pub(crate) fn log(&self) -> Vec<String> {
        self.process.stderr().last(LINES)
    }

    /// Ends it at once, or in good manners where its home is kept for people to look at.
    pub(crate) async fn end(&self, in_good_manners: bool) {
        let grace = if in_good_manners { Duration::from_secs(3) } else { Duration::ZERO };
        self.process.stop(grace).await;
    }
}

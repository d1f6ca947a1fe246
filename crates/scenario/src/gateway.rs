//! The gateway under test: `serve` of the real binary on its own home and a port that the system chooses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use toolcrib_base::Secret;
use toolcrib_base::task::Scope;
use toolcrib_transport::process::{self, GuardCommand, Process, Spec};

/// How long a gateway may take until it is ready: every mock server has been listed by then.
const READY: Duration = Duration::from_secs(60);
/// How often the file is looked at that tells.
const LOOK: Duration = Duration::from_millis(5);
/// How many of its last lines are reported when something went wrong.
const LINES: usize = 40;
/// A port that the system chooses.
const ANY_PORT: &str = "127.0.0.1:0";
/// How long the end cleanly may take.
const MANNERS: Duration = Duration::from_secs(3);
/// The same for a gateway that is started again: four times its own grace, and a little.
const RESTART: Duration = Duration::from_secs(60);

/// A running gateway. Dropping it kills the gateway and its servers.
#[derive(Debug)]
pub(crate) struct Gateway {
    place: Place,
    process: Process,
    pub(crate) url: String,
    pub(crate) token_file: PathBuf,
    /// Its own process, which is not that of its guard.
    pid: u32,
    /// What those before it logged last.
    past: Vec<String>,
}

/// What a gateway tells when it is ready.
struct GatewayAddress {
    url: String,
    token_file: PathBuf,
    pid: u32,
}

/// What a gateway is started from.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) program: PathBuf,
    /// Whether this process is that binary too, so that it can guard the gateway.
    pub(crate) guarded: bool,
    pub(crate) home: PathBuf,
    /// Where it listens, if not at a port that the system chooses.
    pub(crate) listen: Option<SocketAddr>,
    /// Variables of its own.
    pub(crate) env: Vec<(String, Secret)>,
    pub(crate) scope: Scope,
}

// === impl GatewayAddress ===

impl GatewayAddress {
    fn of(ready: &Value) -> Option<Self> {
        let word = |key: &str| ready[key].as_str().map(str::to_owned);
        let pid = u32::try_from(ready["pid"].as_u64()?).ok()?;
        Some(Self { url: word("url")?, token_file: word("token_file")?.into(), pid })
    }
}

// === impl Place ===

impl Place {
    /// Starts a gateway and waits until it is ready.
    pub(crate) async fn start(self) -> Result<Gateway, String> {
        let listen = self.listen.map_or_else(|| ANY_PORT.to_owned(), |address| address.to_string());
        let (process, told) = self.run(&listen).await?;
        let GatewayAddress { url, token_file, pid } = told;
        Ok(Gateway { place: self, process, url, token_file, pid, past: Vec::new() })
    }

    async fn run(&self, listen: &str) -> Result<(Process, GatewayAddress), String> {
        let ready = self.home.join("ready.json");
        // The one of a gateway that was here before tells nothing about this one.
        match std::fs::remove_file(&ready) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot take `{}` away: {error}", ready.display()));
            }
            _ => {}
        }
        let text =
            |path: &Path| path.to_str().map(str::to_owned).ok_or("the path of the temporary folder is not UTF-8");
        let args = ["serve", "--listen", listen, "--home", &text(&self.home)?, "--ready-file", &text(&ready)?];
        let mut spec = Spec::new(text(&self.program)?, args);
        "gateway".clone_into(&mut spec.name);
        spec.env.clone_from(&self.env);
        if self.guarded {
            spec.guard = Some(GuardCommand::this_binary().map_err(|error| error.to_string())?);
        }
        let process = process::spawn(&spec, &self.scope, |_| {}).map_err(|error| error.to_string())?;
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
                return Ok((process, GatewayAddress::of(&told).ok_or("the ready file lacks a key")?));
            }
            if Instant::now() > until {
                let log = process.stderr().last(LINES).join("\n");
                return Err(format!("the gateway was not ready after {} s:\n{log}", READY.as_secs()));
            }
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// Ends it, well or by SIGKILL, and starts another on the same home; at the same address, unless someone has taken
    /// that in between. Whether it is the same.
    pub(crate) async fn restart(&mut self, kill: bool) -> Result<bool, String> {
        if !kill {
            self.ask_to_end().await?;
        }
        self.process.stop(Duration::ZERO).await;
        self.past = self.log();
        let old = address(&self.url).unwrap_or(ANY_PORT).to_owned();
        let again = match self.place.run(&old).await {
            Ok(started) => Ok(started),
            // Another program may have been given the port; whatever else is wrong is wrong at any port.
            Err(_) if self.place.listen.is_none() => self.place.run(ANY_PORT).await,
            // Its settings name this one.
            Err(reason) => Err(reason),
        };
        let (process, told) = again.map_err(|reason| format!("after the restart {reason}"))?;
        let same = told.url == self.url;
        self.process = process;
        GatewayAddress { url: self.url, token_file: self.token_file, pid: self.pid } = told;
        Ok(same)
    }

    /// The last lines that it logged, and those before it.
    pub(crate) fn log(&self) -> Vec<String> {
        let mut lines = self.past.clone();
        lines.extend(self.process.stderr().last(LINES));
        lines
    }

    /// Ends it at once, or cleanly where its home is kept for people to look at.
    pub(crate) async fn end(&self, in_good_manners: bool) {
        let grace = if in_good_manners { MANNERS } else { Duration::ZERO };
        self.process.stop(grace).await;
    }

    /// Ends the gateway as a service manager does: it alone gets SIGTERM, and ends its servers itself.
    async fn ask_to_end(&self) -> Result<(), String> {
        process::ask_to_end(self.pid).map_err(|error| format!("the gateway cannot be told to end: {error}"))?;
        let ended = tokio::time::timeout(RESTART, self.process.exited()).await;
        ended.map(|_| ()).map_err(|_| format!("the gateway did not end within {} s of SIGTERM", RESTART.as_secs()))
    }
}

/// `127.0.0.1:PORT` of a URL.
fn address(url: &str) -> Option<&str> {
    url.split_once("://")?.1.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_address_of_a_url_is_listened_at_again() {
        assert_eq!(address("http://127.0.0.1:4711/mcp"), Some("127.0.0.1:4711"));
        assert_eq!(address("http://127.0.0.1:4711"), Some("127.0.0.1:4711"));
        assert_eq!(address("127.0.0.1"), None);
    }
}

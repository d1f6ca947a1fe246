//! Starts the gateway of this home where none answers: one, however many bridges look for it at the same time. It lives
//! on when they end.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::process::beside::{self, DetachedProgram};

use super::note;
use crate::autostart;
use crate::client::{ClientFlags, GatewayAddress, is_of_this_home, locate};
use crate::home::{Environment, Home};
use crate::text;

/// How long a gateway may take until it answers.
const START: Duration = Duration::from_secs(30);
/// How long another gateway may take that held the state folder when ours ended.
const OTHER: Duration = Duration::from_secs(5);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(50);
/// How long a look may take: only this machine is asked.
const CONNECT: Duration = Duration::from_secs(1);
/// Where the log is moved aside as `.log.1`, in bytes.
const LOG_BYTES: u64 = 1 << 20;
/// How much of the end of the log is read for the reason of a failure, in bytes.
const REASON_BYTES: u64 = 4 * 1024;

/// Which gateway is looked for.
pub(super) struct GatewayQuery {
    pub(super) flags: ClientFlags,
    pub(super) environment: Environment,
}

/// Starts the gateway of a home.
pub(super) struct GatewayStarter {
    query: Arc<GatewayQuery>,
    home: Home,
}

/// What was started, and the lock that keeps other bridges from doing the same.
enum StartedGateway {
    Nothing,
    /// By the system's service manager.
    Service(#[expect(dead_code, reason = "held until the gateway answers")] File),
    Program(DetachedProgram, #[expect(dead_code, reason = "held until the gateway answers")] File),
}

// === impl GatewayQuery ===

impl GatewayQuery {
    /// Where that gateway is. Reads files on a thread that may block; `None` where that thread was lost.
    pub(super) async fn locate(self: &Arc<Self>) -> Option<Result<GatewayAddress, Problem>> {
        let query = Arc::clone(self);
        tokio::task::spawn_blocking(move || locate(&query.flags, &query.environment)).await.ok()
    }
}

// === impl GatewayStarter ===

impl GatewayStarter {
    /// `None` where the gateway that is looked for is not that of this home.
    pub(super) fn new(query: &Arc<GatewayQuery>) -> Option<Self> {
        let GatewayQuery { flags, environment } = &**query;
        let home = Home::find(flags.home(), environment).ok()?;
        is_of_this_home(flags, environment).then(|| Self { query: Arc::clone(query), home })
    }

    /// Returns as soon as a gateway answers, which may have been there before.
    pub(super) async fn gateway(&self) -> Result<(), Problem> {
        if self.answers().await {
            return Ok(());
        }
        let begun = Instant::now();
        let log = self.home.logs().join(autostart::LOG_FILE);
        let (mut started, mut has_waited, mut ended) = (StartedGateway::Nothing, false, None);
        loop {
            if let StartedGateway::Nothing = started {
                match claim(&self.home).map_err(|error| not_started(&error.to_string(), &log))? {
                    Some(lock) => {
                        // Someone else may have started one before the lock was ours.
                        if self.answers().await {
                            return Ok(());
                        }
                        started = self.start(lock, &log).await?;
                    }
                    None if !has_waited => {
                        has_waited = true;
                        note("no gateway is running; waiting for another bridge to start it");
                    }
                    None => {}
                }
            }
            if self.answers().await {
                note(&format!("the gateway is up after {:.1} s", begun.elapsed().as_secs_f32()));
                return Ok(());
            }
            if let (StartedGateway::Program(program, _), None) = (&mut started, &ended) {
                ended = program.ended().map(|exit| (exit, Instant::now()));
            }
            match &ended {
                Some((exit, at)) if at.elapsed() > OTHER => {
                    return Err(not_started(&format!("it ended with {exit}: {}", reason(&log)), &log));
                }
                _ if begun.elapsed() > START => {
                    let why = format!("it did not answer within {} s", START.as_secs());
                    return Err(not_started(&why, &log));
                }
                _ => sleep(LOOK).await,
            }
        }
    }

    async fn start(&self, lock: File, log: &Path) -> Result<StartedGateway, Problem> {
        if let Some(service) = autostart::installed(&self.home, &self.query.environment) {
            note(&format!("no gateway is running; starting the service `{}`", service.name()));
            match service.start().await {
                Ok(()) => return Ok(StartedGateway::Service(lock)),
                Err(problem) => note(&format!("{problem}; starting the gateway without it")),
            }
        } else {
            note(&format!("no gateway is running; starting one in the background, log file `{}`", log.display()));
        }
        let failed = |why: String| not_started(&why, log);
        let file = open_log(log).map_err(|error| failed(error.to_string()))?;
        let person = self.query.environment.get("HOME").map(PathBuf::from).filter(|folder| folder.is_dir());
        let cwd = person.unwrap_or_else(|| PathBuf::from("/"));
        let args = ["serve".as_ref(), "--detached".as_ref(), "--home".as_ref(), self.home.path().as_os_str()];
        let program = beside::detach(args, &cwd, &file).map_err(|error| failed(error.to_string()))?;
        Ok(StartedGateway::Program(program, lock))
    }

    /// Whether something listens where the gateway is said to be.
    async fn answers(&self) -> bool {
        let Some(Ok(located)) = self.query.locate().await else { return false };
        let (host, port) = (located.uri.host().unwrap_or_default(), located.uri.port_u16().unwrap_or(80));
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        timeout(CONNECT, TcpStream::connect((host, port))).await.is_ok_and(|connected| connected.is_ok())
    }
}

/// The right to start a gateway of this home; `None` while someone else has it.
fn claim(home: &Home) -> io::Result<Option<File>> {
    DirBuilder::new().recursive(true).mode(0o700).create(home.state())?;
    let path = home.state().join("start.lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if fs::metadata(path).is_ok_and(|file| file.len() > LOG_BYTES) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// What the log ends with: the error if there is one, else its last line.
fn reason(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(REASON_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(REASON_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let end = read().unwrap_or_default();
    let lines = || end.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let line =
        lines().find(|line| line.starts_with("error:")).or_else(|| lines().next()).unwrap_or("it logged nothing");
    text::line(line.trim_start_matches("error:").trim()).into_owned()
}

fn not_started(why: &str, log: &Path) -> Problem {
    Problem::new(Kind::Unavailable, format!("no gateway is running, and starting one failed: {why}"))
        .hint(format!("run `toolcrib serve` to see the error; its log is `{}`", log.display()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn one_at_a_time_may_start_a_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let variables = [("TOOLCRIB_HOME".to_owned(), OsString::from(folder.path()))];
        let home = Home::find(None, &variables.into_iter().collect()).unwrap();
        let first = claim(&home).unwrap();
        assert!(first.is_some() && claim(&home).unwrap().is_none());
        drop(first);
        assert!(claim(&home).unwrap().is_some());
    }

    #[test]
    fn the_reason_is_the_last_error_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("logs/_gateway.log");
        assert_eq!(reason(&log), "it logged nothing");
        io::Write::write_all(&mut open_log(&log).unwrap(), b"one\nerror: address in use\nhint: stop it\n\n").unwrap();
        assert_eq!(reason(&log), "address in use");
        // A log that grew large is moved aside.
        File::options().write(true).open(&log).unwrap().set_len(LOG_BYTES + 1).unwrap();
        assert_eq!(open_log(&log).unwrap().metadata().unwrap().len(), 0);
        assert!(log.with_extension("log.1").exists());
    }
}

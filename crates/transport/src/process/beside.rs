//! Programs that are no servers: one that is run to its end for what it prints, and those that live on when we end. All
//! get our whole environment, because they are ours or the system's.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::program::SpawnError;
use super::{Exit, spec};

/// How much of what a program prints is kept, in bytes.
const OUTPUT_BYTES: u64 = 256 * 1024;

/// What a program left that was run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// What it printed, up to a bound.
    pub stdout: String,
    /// The same of its errors.
    pub stderr: String,
}

/// A program that lives on when this is dropped.
#[derive(Debug)]
pub struct DetachedProgram {
    child: Child,
}

/// Runs a program of `PATH` to its end, with nothing on its stdin. At the deadline it is killed. Must be called within a
/// tokio runtime.
pub async fn output(
    program: &str,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    deadline: Duration,
) -> Result<Output, SpawnError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound { program: program.to_owned(), looked_up: true },
        _ => SpawnError::System { program: program.to_owned(), source },
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ran = async { tokio::join!(text(stdout), text(stderr), child.wait()) };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("it did not end within {} s", deadline.as_secs()));
    let (stdout, stderr, status) = tokio::time::timeout(deadline, ran).await.map_err(late).map_err(failed)?;
    Ok(Output { exit: exit(status.map_err(failed)?), stdout, stderr })
}

/// Starts this binary once more so that it outlives us, in the working folder `cwd`, with its output in `log`. It leaves
/// our session by itself, with [`leave_session`]. Must be called within a tokio runtime.
pub fn detach(
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    cwd: &Path,
    log: &File,
) -> Result<DetachedProgram, SpawnError> {
    let start = || {
        let mut command = Command::new(spec::own_executable()?);
        command.arg0("toolcrib").args(args).current_dir(cwd).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        command.spawn()
    };
    let child = start().map_err(|source| SpawnError::System { program: "toolcrib".to_owned(), source })?;
    Ok(DetachedProgram { child })
}

/// Starts a program of `PATH` that lives on when we end: in a process group of its own, so that no Ctrl-C reaches it,
/// and with nothing on its stdin, stdout and stderr. How it ended, if it does so within `patience`. Must be called within
/// a tokio runtime.
pub async fn launch(
    program: &str,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    patience: Duration,
) -> Result<Option<Exit>, SpawnError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound { program: program.to_owned(), looked_up: true },
        _ => SpawnError::System { program: program.to_owned(), source },
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    match tokio::time::timeout(patience, child.wait()).await {
        Ok(status) => Ok(Some(exit(status.map_err(failed)?))),
        Err(_) => Ok(None),
    }
}

/// Leaves the session of the process that started this one, so that their end is not its end. One that leads a session,
/// or a group, stays where it is.
pub fn leave_session() {
    // It may only fail because there is nothing to leave.
    let _ = rustix::process::setsid();
}

async fn text(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read until an error is what there is.
        let _ = (&mut pipe).take(OUTPUT_BYTES).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn exit(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Lost,
    }
}

// === impl DetachedProgram ===

impl DetachedProgram {
    /// Its process id, as long as it was not waited for.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<Exit> {
        self.child.try_wait().ok().flatten().map(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(120);

    #[tokio::test]
    async fn a_program_is_run_to_its_end() {
        let ran = output("sh", ["-c", "echo out; echo err >&2; exit 3"], DEADLINE).await.unwrap();
        assert_eq!(ran, Output { exit: Exit::Code(3), stdout: "out\n".to_owned(), stderr: "err\n".to_owned() });
        let missing = output("no-such-program", [""; 0], DEADLINE).await.unwrap_err();
        assert!(matches!(missing, SpawnError::NotFound { looked_up: true, .. }), "{missing}");
        // More than is kept does not hang it.
        let long = output("sh", ["-c", "yes 0123456789abcdef | head -c 1000000"], DEADLINE).await.unwrap();
        assert_eq!((long.exit, long.stdout.len() as u64), (Exit::Code(0), OUTPUT_BYTES));
    }

    #[tokio::test]
    async fn a_launched_program_lives_on() {
        let ended = launch("sh", ["-c", "exit 3"], DEADLINE).await.unwrap();
        assert_eq!(ended, Some(Exit::Code(3)));
        let missing = launch("no-such-program", [""; 0], DEADLINE).await.unwrap_err();
        assert!(matches!(missing, SpawnError::NotFound { looked_up: true, .. }), "{missing}");
        let folder = tempfile::tempdir().unwrap();
        let (pipe, done) = (folder.path().join("pipe"), folder.path().join("done"));
        output("mkfifo", [&pipe], DEADLINE).await.unwrap();
        let script = r#"read line < "$0"; echo "$line" > "$1.new"; mv "$1.new" "$1"; echo > "$0""#;
        let args = ["-c".as_ref(), script.as_ref(), pipe.as_os_str(), done.as_os_str()];
        assert_eq!(launch("sh", args, Duration::ZERO).await.unwrap(), None);
        std::fs::write(&pipe, "still here\n").unwrap();
        std::fs::read(&pipe).unwrap();
        assert_eq!(std::fs::read_to_string(&done).unwrap(), "still here\n");
    }

    #[tokio::test]
    async fn one_that_never_ends_is_killed_at_its_deadline() {
        let error = output("sh", ["-c", "sleep 1000"], Duration::from_millis(50)).await.unwrap_err();
        assert!(error.to_string().contains("did not end within"), "{error}");
    }
}

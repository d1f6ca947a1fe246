//! From a [`Spec`] to a started program with its pipes, or to an error that names what is wrong with the definition.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use toolcrib_base::{Kind, Problem};

use super::spec::Spec;
use super::{environment, lifeline};

/// The room in a stdout pipe. The usual 64 KiB make a program that answers more stop and wait for us in the middle; the
/// memory is only used while it is full. A kernel that refuses keeps its default.
#[cfg(target_os = "linux")]
const STDOUT_PIPE: usize = 256 * 1024;

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The name is in no folder of `PATH`, or the path does not exist.
    #[error("start `{program}`: no such program")]
    NotFound {
        /// As the definition spells it.
        program: String,
        /// Whether it was looked up in `PATH`.
        looked_up: bool,
    },
    /// The file is there but may not be run, or is a folder.
    #[error("start `{program}`: `{path}` is not executable")]
    NotExecutable {
        /// As the definition spells it.
        program: String,
        /// The file that was found.
        path: PathBuf,
    },
    /// The working folder is missing, is a file or is closed to us.
    #[error("start `{program}`: no working folder `{cwd}`")]
    NoFolder {
        /// As the definition spells it.
        program: String,
        /// The folder as the definition spells it.
        cwd: PathBuf,
    },
    /// A variable's name or value, or an argument, that no program can be given.
    #[error("start `{program}`: {what} cannot be passed on")]
    BadText {
        /// As the definition spells it.
        program: String,
        /// The variable or the argument, without its value.
        what: String,
    },
    /// The operating system refused: too many processes, no memory, no pipes, or a file that is no program.
    #[error("start `{program}`: {source}")]
    System {
        /// As the definition spells it.
        program: String,
        /// What it said.
        source: io::Error,
    },
}

impl SpawnError {
    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            SpawnError::NotFound { looked_up: true, .. } => {
                "install it, correct `command`, or name the folder in `env: {PATH: …}`"
            }
            SpawnError::NotFound { .. } => "correct `command`; a relative path starts at `cwd`",
            SpawnError::NotExecutable { .. } => "make the file executable, or run it by its interpreter",
            SpawnError::NoFolder { .. } => "create the folder or correct `cwd`",
            SpawnError::BadText { .. } => "names must not be empty or hold `=`, and nothing may hold a NUL character",
            SpawnError::System { source, .. } => match source.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT) => "the interpreter that the file's first line names is missing",
                Some(Errno::NOEXEC) => "the file is not a program for this machine",
                _ => "see the limits on processes, memory and open files",
            },
        }
    }

    /// The error for a person or a model.
    pub fn problem(&self) -> Problem {
        let kind = if matches!(self, SpawnError::System { .. }) { Kind::Unavailable } else { Kind::Definition };
        Problem::new(kind, self.to_string()).hint(self.hint())
    }
}

/// A program that was just started.
pub(super) struct StartedProgram {
    pub(super) child: Child,
    pub(super) pid: u32,
    /// Our end of the guard's lifeline.
    pub(super) lifeline: Option<UnixStream>,
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

/// Starts the program, below its guard if it has one.
pub(super) fn start(spec: &Spec) -> Result<StartedProgram, SpawnError> {
    let environment = environment(spec)?;
    if let Some(number) = spec.args.iter().position(|arg| arg.contains('\0')) {
        return Err(bad_text(spec, format!("argument {}", number + 1)));
    }
    let path = environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let program = find(spec, path)?;
    spawn(spec, &program, environment).map_err(|source| SpawnError::System { program: spec.program.clone(), source })
}

fn spawn(spec: &Spec, program: &Path, environment: Vec<(OsString, OsString)>) -> io::Result<StartedProgram> {
    // All ends are close-on-exec, so no other child that is started meanwhile holds them open.
    let (stdin_theirs, stdin) = io::pipe()?;
    let (stdout, stdout_theirs) = io::pipe()?;
    let (stderr, stderr_theirs) = io::pipe()?;
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&stdout, STDOUT_PIPE);

    let (mut command, lifeline) = match &spec.guard {
        Some(guard) => {
            let (ours, theirs) = lifeline::open(&OwnedFd::from(stdin_theirs))?;
            let mut command = Command::new(&guard.program);
            command.arg0("toolcrib").args(&guard.args).args(super::guard::arguments(spec.limits.grace));
            command.arg(program).stdin(Stdio::from(OwnedFd::from(theirs)));
            (command, Some(ours))
        }
        None => {
            let mut command = Command::new(program);
            command.process_group(0).kill_on_drop(true).stdin(stdin_theirs);
            (command, None)
        }
    };
    command.args(&spec.args).stdout(stdout_theirs).stderr(stderr_theirs).env_clear().envs(environment);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    let child = command.spawn()?;
    // The command holds the other ends of the pipes; they must close here to be seen closed there.
    drop(command);
    Ok(StartedProgram {
        pid: child.id().unwrap_or(0),
        child,
        lifeline,
        stdin: pipe::Sender::from_owned_fd(stdin.into())?,
        stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
        stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
    })
}

fn environment(spec: &Spec) -> Result<Vec<(OsString, OsString)>, SpawnError> {
    let mut environment: Vec<_> = environment::inherited(std::env::vars_os(), &spec.inherit).collect();
    for (name, value) in &spec.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.expose().contains('\0') {
            return Err(bad_text(spec, format!("variable `{}`", name.escape_debug())));
        }
        environment.push((name.into(), value.expose().into()));
    }
    Ok(environment)
}

fn bad_text(spec: &Spec, what: String) -> SpawnError {
    SpawnError::BadText { program: spec.program.clone(), what }
}

/// Finds the program as an absolute path, so that the guard starts the same file and errors are known before.
fn find(spec: &Spec, path: Option<&OsStr>) -> Result<PathBuf, SpawnError> {
    let cwd = std::path::absolute(spec.cwd.as_deref().unwrap_or(Path::new("."))).unwrap_or_default();
    if !cwd.is_dir() || access(&cwd, Access::EXEC_OK).is_err() {
        let cwd = spec.cwd.clone().unwrap_or(cwd);
        return Err(SpawnError::NoFolder { program: spec.program.clone(), cwd });
    }
    let looked_up = !spec.program.contains('/');
    if spec.program.contains('\0') {
        return Err(bad_text(spec, "its name".into()));
    }
    let candidates: Vec<PathBuf> = match path {
        _ if spec.program.is_empty() => Vec::new(),
        _ if !looked_up => vec![cwd.join(&spec.program)],
        // An empty or relative folder in PATH would run what lies in the working folder: passed over.
        Some(path) => std::env::split_paths(path)
            .filter(|folder| folder.is_absolute() && !folder.as_os_str().as_bytes().contains(&0))
            .map(|folder| folder.join(&spec.program))
            .collect(),
        None => Vec::new(),
    };
    let mut found = None;
    for candidate in candidates {
        if candidate.is_file() && access(&candidate, Access::EXEC_OK).is_ok() {
            return Ok(candidate);
        }
        if found.is_none() && candidate.exists() {
            found = Some(candidate);
        }
    }
    let program = spec.program.clone();
    Err(match found {
        Some(path) => SpawnError::NotExecutable { program, path },
        None => SpawnError::NotFound { program, looked_up },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcrib_base::Secret;

    fn check(spec: &Spec) -> String {
        start(spec).err().map_or("started".into(), |error| error.problem().to_string())
    }

    #[test]
    fn a_wrong_definition_is_named_with_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plain.txt");
        std::fs::write(&file, "x").unwrap();
        let (file, at) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
        let none = [""; 0];
        let in_folder = |program: &str, cwd: &str| Spec { cwd: Some(cwd.into()), ..Spec::new(program, none) };
        let with_env =
            |name: &str, value: &str| Spec { env: vec![(name.into(), Secret::new(value))], ..Spec::new("sh", none) };
        for (spec, expected) in [
            (Spec::new("no-such-program", none), "start `no-such-program`: no such program (install it,".to_owned()),
            (Spec::new("", none), "start ``: no such program (".to_owned()),
            (with_env("PATH", ""), "start `sh`: no such program (install it,".to_owned()),
            (in_folder("./missing", at), "start `./missing`: no such program (correct `command`;".to_owned()),
            (Spec::new(file, none), format!("start `{file}`: `{file}` is not executable (make")),
            (Spec::new(at, none), format!("start `{at}`: `{at}` is not executable (make")),
            (in_folder("sh", file), format!("start `sh`: no working folder `{file}` (create")),
            (in_folder("sh", "/no/such"), "start `sh`: no working folder `/no/such` (create".to_owned()),
            (with_env("A=B", "x"), "start `sh`: variable `A=B` cannot be passed on (names".to_owned()),
            (with_env("A", "secret\0"), "start `sh`: variable `A` cannot be passed on (names".to_owned()),
            (Spec::new("sh", ["-c", "a\0b"]), "start `sh`: argument 2 cannot be passed on (names".to_owned()),
            (Spec::new("s\0h", none), "start `s\0h`: its name cannot be passed on (names".to_owned()),
        ] {
            let text = check(&spec);
            assert!(text.starts_with(&expected), "{text:?} instead of {expected:?}");
        }
    }
}

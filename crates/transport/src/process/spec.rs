//! What to start and within which bounds.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use toolcrib_base::{Limits, Secret};

/// A program to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Whose process this is, for the log: the server's name.
    pub name: String,
    /// A name that is looked up in `PATH` (that of `env`, else ours; relative folders in it are passed over), or a path;
    /// a relative path starts at `cwd`.
    pub program: String,
    /// The arguments, without the program.
    pub args: Vec<String>,
    /// Variables on top of those in [`super::INHERITED`]; they win over inherited ones of the same name.
    pub env: Vec<(String, Secret)>,
    /// Names of variables of ours that it inherits beside those in [`super::INHERITED`], where they are set.
    pub inherit: Vec<String>,
    /// The working folder; ours when absent.
    pub cwd: Option<PathBuf>,
    /// How to start the guard. Without one the process may outlive us when we are killed with SIGKILL.
    pub guard: Option<GuardCommand>,
    /// Bounds on what the program may send and how long it may take to end.
    pub limits: ProcessLimits,
}

impl Spec {
    /// A program with its arguments and nothing else: no guard, default limits.
    pub fn new(program: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let program = program.into();
        Self {
            name: program.clone(),
            program,
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            inherit: Vec::new(),
            cwd: None,
            guard: None,
            limits: ProcessLimits::default(),
        }
    }
}

/// Bounds on one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessLimits {
    /// The longest line on stdout, in bytes. A longer one is thrown away and reported.
    pub line_bytes: usize,
    /// How much of stderr is kept, in bytes.
    pub stderr_bytes: usize,
    /// The wait between SIGTERM and SIGKILL when no one names another: the scope is stopped, or we are gone.
    pub grace: Duration,
    /// The wait between closing stdin and SIGTERM when the scope is stopped; without it `grace`.
    pub closing: Option<Duration>,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        let line_bytes = Limits::default().message_bytes;
        Self { line_bytes, stderr_bytes: 64 * 1024, grace: Duration::from_secs(2), closing: None }
    }
}

/// How to start a guard: a program whose `main` calls [`super::guard::run`] with all that follows `args`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments up to where the guard's own begin.
    pub args: Vec<OsString>,
}

impl GuardCommand {
    /// The running binary with the hidden subcommand `guard`.
    pub fn this_binary() -> std::io::Result<Self> {
        Ok(Self { program: own_executable()?, args: vec!["guard".into()] })
    }
}

/// The running binary. On Linux a path that stays right when the file was replaced by an update meanwhile.
pub(super) fn own_executable() -> std::io::Result<PathBuf> {
    let executable = std::env::current_exe()?;
    Ok(if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { executable })
}

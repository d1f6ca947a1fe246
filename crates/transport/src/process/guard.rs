//! The guard: a small process between us and a program that ends the program, and all that descends from it, when we are
//! gone in whatever way. The same binary as ours; no runtime, one thread.
//!
//! What holds on Linux:
//! - We end, or are killed with SIGKILL: the lifeline closes, the guard sends SIGTERM to every descendant of the program,
//!   waits for the grace, sends SIGKILL until none is left, and ends. A descendant cannot leave by `setsid` or by forking
//!   twice, because the guard is the sub-reaper of all.
//! - The program ends by itself: what it left behind is ended in the same way, then the guard ends with its code.
//! - The guard is killed with SIGKILL: the kernel kills the program (unless that is a setuid program), and we kill what is
//!   left in the guard's session. Not promised then: a descendant that had called `setsid`, and, when we are killed in the
//!   same moment, the program's descendants.
//! - The guard reaps every orphan below it, and we reap the guard: no zombies.
//! - Not promised: a process of the same user that kills the guard on purpose, one that hangs in the kernel, and one that
//!   was started by someone else on the program's behalf (systemd, docker, cron).
//!
//! On other systems there is no sub-reaper: the guard ends the program's process group, and a descendant that leaves the
//! group escapes. Nothing ends the program when the guard itself is killed, but then its stdin closes with us.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::{Exit, files, lifeline};

#[cfg_attr(target_os = "linux", path = "guard/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "guard/group.rs")]
mod below;

/// The guard's options.
const GRACE: &str = "--grace-ms";
const PARENT: &str = "--parent";

/// The waits between two rounds of SIGKILL: the first, and the longest when something hangs in the kernel.
const ROUND_FIRST: Duration = Duration::from_millis(10);
const ROUND_LONGEST: Duration = Duration::from_secs(1);

/// The shell's codes for a command that cannot be run, and for a wrong command line.
const CANNOT_RUN: u8 = 126;
const WRONG_USE: u8 = 2;

/// What a guard's command line holds before the program: the grace, and how many open files the program may have where
/// we have raised that for ourselves.
pub(super) fn arguments(grace: Duration) -> [String; 3] {
    let files = files::before().map_or_else(String::new, |files| format!(",{files}"));
    [GRACE.into(), format!("{}{files}", grace.as_millis()), "--".into()]
}

/// Is the guard. The binary's `main` calls this before anything else when its first argument is the guard's hidden
/// subcommand, with the arguments after it.
///
/// Returns the program's exit code, or 128 and the number of the signal that ended it.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let outcome = match args.split_at_checked(3) {
        Some(([option, value, dashes], [program, rest @ ..])) if dashes == "--" => {
            let (number, files) = value.to_str().map_or(("", None), |value| match value.split_once(',') {
                Some((number, files)) => (number, files.parse().ok()),
                None => (value, None),
            });
            match number.parse() {
                Ok(number) if option == GRACE => {
                    if let Some(files) = files {
                        files::lower(files);
                    }
                    guard(Duration::from_millis(number), &args)
                }
                Ok(number) if option == PARENT => Err(become_program(number, program, rest)),
                _ => return wrong_use(),
            }
        }
        _ => return wrong_use(),
    };
    outcome.unwrap_or_else(|error| {
        let program = args[3].to_string_lossy();
        let _ = writeln!(io::stderr(), "toolcrib guard: cannot run `{program}`: {error}");
        ExitCode::from(CANNOT_RUN)
    })
}

fn wrong_use() -> ExitCode {
    let _ = writeln!(io::stderr(), "toolcrib guard: this subcommand is used by toolcrib itself to start servers");
    ExitCode::from(WRONG_USE)
}

/// Ties this process to its parent, then becomes the program. Only the program's own process can ask to die with its
/// parent, hence this step between the guard and the program.
fn become_program(parent: u64, program: &OsString, args: &[OsString]) -> io::Error {
    if let Err(error) = below::die_with(parent) {
        return error;
    }
    Command::new(program).args(args).exec()
}

fn guard(grace: Duration, args: &[OsString]) -> io::Result<ExitCode> {
    // A session of its own keeps the terminal's Ctrl-C away, which is for us to deal with. It fails when someone who
    // leads a group runs this by hand, which does no harm.
    let _ = rustix::process::setsid();
    below::prepare()?;
    let (lifeline, stdin) = lifeline::accept()?;
    let (children, children_tell) = UnixStream::pair()?;
    let (ending, ending_tell) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, children_tell)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, ending_tell.try_clone()?)?;
    }
    for stream in [&children, &ending] {
        stream.set_nonblocking(true)?;
    }
    let program = start(args, stdin)?;
    leave_pipes()?;
    let mut watch =
        Watch { program, status: None, grace, lifeline: Some(lifeline), ending: None, children, end_signal: ending };
    let status = watch.until_none_left();
    Ok(watch.report(status))
}

/// Starts the program in a process group of its own.
fn start(args: &[OsString], stdin: OwnedFd) -> io::Result<Pid> {
    let mut command = if cfg!(target_os = "linux") {
        // Our own command line up to the guard's arguments names the hidden subcommand.
        let all: Vec<OsString> = std::env::args_os().collect();
        let subcommand = all.get(1..all.len().saturating_sub(args.len())).unwrap_or_default();
        let mut command = Command::new(super::spec::own_executable()?);
        command.args(subcommand).args([PARENT, &std::process::id().to_string(), "--"]).args(&args[3..]);
        command
    } else {
        let mut command = Command::new(&args[3]);
        command.args(&args[4..]);
        command
    };
    let child = command.process_group(0).stdin(Stdio::from(stdin)).spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("a process without an id"))
}

/// Lets go of the program's pipes and folder, so that their other ends see them closed when the program closes them.
fn leave_pipes() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    let _ = rustix::process::chdir("/");
    Ok(())
}

/// What the guard watches over.
struct Watch {
    program: Pid,
    status: Option<WaitStatus>,
    grace: Duration,
    /// Gone once the other end has closed it.
    lifeline: Option<UnixStream>,
    /// Set when the end was ordered.
    ending: Option<Ending>,
    children: UnixStream,
    end_signal: UnixStream,
}

/// An end under way: when SIGKILL is due, and how long to wait after it before the next.
#[derive(Clone, Copy)]
struct Ending {
    due: Instant,
    round: Duration,
}

impl Watch {
    /// Waits until the program and all below have ended, and ends them when told.
    fn until_none_left(&mut self) -> Option<WaitStatus> {
        loop {
            let reaped = below::reap(self.program);
            self.status = self.status.or(reaped.program);
            if reaped.none_left {
                return self.status;
            }
            if self.status.is_some() && self.ending.is_none() {
                self.end(self.grace);
            }
            let now = Instant::now();
            if let Some(ending) = &mut self.ending
                && ending.due <= now
            {
                below::signal_all(self.program, self.status.is_some(), Signal::KILL);
                ending.due = now + ending.round;
                ending.round = (ending.round * 2).min(ROUND_LONGEST);
            }
            self.wait(now);
        }
    }

    /// Begins the end, or hastens one under way.
    fn end(&mut self, grace: Duration) {
        let due = Instant::now() + grace;
        match &mut self.ending {
            Some(ending) => ending.due = ending.due.min(due),
            None => {
                self.ending = Some(Ending { due, round: ROUND_FIRST });
                if !grace.is_zero() {
                    below::signal_all(self.program, self.status.is_some(), Signal::TERM);
                    // A program that was stopped sees SIGTERM only once it goes on.
                    below::signal_all(self.program, self.status.is_some(), Signal::CONT);
                }
            }
        }
    }

    /// Waits for a signal, an order or the time of the next SIGKILL.
    fn wait(&mut self, now: Instant) {
        let timeout = self.ending.map(|ending| ending.due.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = vec![PollFd::new(&self.children, PollFlags::IN), PollFd::new(&self.end_signal, PollFlags::IN)];
        fds.extend(self.lifeline.as_ref().map(|lifeline| PollFd::new(lifeline, PollFlags::IN)));
        // An interruption is a signal, which its pipe tells as well.
        let _ = poll(&mut fds, timeout.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        drain(&self.children);
        if drain(&self.end_signal) {
            self.end(self.grace);
        }
        if ready.get(2) == Some(&true)
            && let Some(lifeline) = &self.lifeline
        {
            let order = lifeline::read_order(lifeline);
            if order.is_none() {
                self.lifeline = None;
            }
            self.end(order.unwrap_or(self.grace));
        }
    }

    fn report(&self, status: Option<WaitStatus>) -> ExitCode {
        let code = status.and_then(WaitStatus::exit_status);
        let signal = status.and_then(WaitStatus::terminating_signal);
        let (exit, value) = match (code, signal) {
            (Some(code), _) => (Exit::Code(code), code),
            (None, Some(signal)) => (Exit::Signal(signal), 128 + signal),
            (None, None) => (Exit::Lost, 1),
        };
        if let Some(lifeline) = &self.lifeline {
            lifeline::report_exit(lifeline, exit);
        }
        ExitCode::from(u8::try_from(value & 0xff).unwrap_or(1))
    }
}

/// Empties a pipe of signals; whether there was one.
fn drain(mut pipe: &UnixStream) -> bool {
    use std::io::Read;
    let mut bytes = [0; 64];
    let mut any = false;
    while let Ok(1..) = pipe.read(&mut bytes) {
        any = true;
    }
    any
}

#[cfg(test)]
mod tests;

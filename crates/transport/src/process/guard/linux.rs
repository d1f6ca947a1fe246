//! What is below a guard on Linux: all descendants, because the guard is their sub-reaper.

use std::io;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getppid, set_child_subreaper, set_parent_process_death_signal, wait,
};

use super::super::table;

/// What [`reap`] found.
pub(super) struct ReapOutcome {
    /// The program's end, when this was the time.
    pub(super) program: Option<WaitStatus>,
    /// No descendant is left.
    pub(super) none_left: bool,
}

/// Orphans below become our children instead of leaving.
pub(super) fn prepare() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Asks the kernel to kill this process when its parent ends, which must be `parent` still.
pub(super) fn die_with(parent: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = getppid().and_then(|pid| u64::try_from(pid.as_raw_nonzero().get()).ok());
    if now == Some(parent) { Ok(()) } else { Err(io::Error::other("the guard has ended")) }
}

/// Reaps all that have ended.
pub(super) fn reap(program: Pid) -> ReapOutcome {
    let mut reaped = ReapOutcome { program: None, none_left: false };
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => reaped.program = Some(status),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return reaped,
            // ECHILD; another error would come again for ever.
            Err(_) => {
                reaped.none_left = true;
                return reaped;
            }
        }
    }
}

/// Sends a signal to every descendant.
pub(super) fn signal_all(_program: Pid, _program_ended: bool, signal: Signal) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for row in table::descendants(&table::rows(), own) {
        table::signal(row, signal);
    }
}

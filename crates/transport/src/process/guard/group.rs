//! What is below a guard where there is no sub-reaper: the program's process group.

use std::io;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, waitpid};

/// What [`reap`] found.
pub(super) struct ReapOutcome {
    /// The program's end, when this was the time.
    pub(super) program: Option<WaitStatus>,
    /// The program has ended; its group was told to.
    pub(super) none_left: bool,
}

pub(super) fn prepare() -> io::Result<()> {
    Ok(())
}

/// Not offered here, and not asked for by the guard.
pub(super) fn die_with(_parent: u64) -> io::Result<()> {
    Ok(())
}

/// Reaps the program and kills what it left in its group.
pub(super) fn reap(program: Pid) -> ReapOutcome {
    match waitpid(Some(program), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => {
            let _ = kill_process_group(program, Signal::KILL);
            ReapOutcome { program: Some(status), none_left: true }
        }
        Ok(None) | Err(rustix::io::Errno::INTR) => ReapOutcome { program: None, none_left: false },
        Err(_) => ReapOutcome { program: None, none_left: true },
    }
}

/// Sends a signal to the program's group.
pub(super) fn signal_all(program: Pid, program_ended: bool, signal: Signal) {
    if !program_ended {
        let _ = kill_process_group(program, signal);
    }
}

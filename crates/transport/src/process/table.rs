//! The kernel's table of processes, read from `/proc`.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// By SIGSTOP, its terminal or a debugger.
    is_stopped: bool,
    /// When it started, in ticks since the machine did. With the id this names one process for ever; its parent changes
    /// as soon as the parent ends.
    started: u64,
}

/// All processes that we can see. One that ends or starts meanwhile may be missing, so callers repeat.
pub(super) fn rows() -> Vec<Row> {
    let Ok(folders) = fs::read_dir("/proc") else { return Vec::new() };
    folders.flatten().filter_map(|folder| row(folder.file_name().to_str()?.parse().ok()?)).collect()
}

/// One process; `None` when it is gone.
fn row(pid: i32) -> Option<Row> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &stat)
}

/// Source: proc_pid_stat(5). The command in parentheses may hold blanks and parentheses itself.
fn parse(pid: i32, stat: &str) -> Option<Row> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let is_stopped = matches!(fields.next()?, "T" | "t");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(Row { pid, parent, session, is_stopped, started })
}

/// All below `ancestor`, parents before their children.
pub(super) fn descendants(rows: &[Row], ancestor: i32) -> Vec<Row> {
    let mut found: Vec<Row> = rows.iter().filter(|row| row.parent == ancestor).copied().collect();
    let mut next = 0;
    // Ids are unique and a process has one parent, but the table is no snapshot: the bound ends a circle.
    while next < found.len() && found.len() <= rows.len() {
        let parent = found[next].pid;
        found.extend(rows.iter().filter(|row| row.parent == parent));
        next += 1;
    }
    found
}

/// Sends a signal to the very process that `expected` describes: if its id was given to another one meanwhile, nothing
/// happens.
pub(super) fn signal(expected: Row, signal: Signal) {
    let Some(pid) = Pid::from_raw(expected.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        // No such process, or a kernel or a sandbox without pidfd: then by number, which is right but for the blink
        // between reading the table and this line.
        if is_still(expected) {
            let _ = kill_process(pid, signal);
        }
        return;
    };
    if is_still(expected) {
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Has a process and all below it go on where they were stopped.
pub(super) fn continue_stopped(pid: u32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    let rows = rows();
    let own = rows.iter().find(|row| row.pid == pid).copied();
    for row in own.into_iter().chain(descendants(&rows, pid)).filter(|row| row.is_stopped) {
        signal(row, Signal::CONT);
    }
}

fn is_still(expected: Row) -> bool {
    row(expected.pid).is_some_and(|now| now.started == expected.started)
}

/// After a guard was lost: kills what is left of the session that it led. Rounds are bounded: a process that forks faster
/// than this gets away.
pub(super) fn end_session(guard: u32) {
    const ROUNDS: usize = 10;
    let Ok(guard) = i32::try_from(guard) else { return };
    for _ in 0..ROUNDS {
        let left: Vec<Row> = rows().into_iter().filter(|row| row.session == guard).collect();
        if left.is_empty() {
            return;
        }
        for row in left {
            signal(row, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_cannot_forge_its_row() {
        let stat = "7 (a) S 1 2 3 (b) R 40 41 42 0 -1 4194560 10 11 12 13 14 15 16 17 20 0 1 0 99 19 20";
        assert_eq!(parse(7, stat).unwrap(), Row { pid: 7, parent: 40, session: 42, is_stopped: false, started: 99 });
        assert!(parse(7, &stat.replace(") R", ") T")).unwrap().is_stopped);
        for bad in ["", "7 (a", "7 (a) S", "7 (a) S x 2 3", "7 (a) S 1 2 3"] {
            assert_eq!(parse(7, bad), None, "{bad}");
        }
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_circles_end() {
        let row = |pid, parent| Row { pid, parent, session: 1, is_stopped: false, started: 0 };
        let rows = [row(2, 1), row(3, 2), row(4, 3), row(5, 1), row(6, 9), row(9, 6)];
        let found = |ancestor| descendants(&rows, ancestor).iter().map(|row| row.pid).collect::<Vec<_>>();
        assert_eq!(found(1), [2, 5, 3, 4]);
        assert_eq!(found(4), [0; 0]);
        assert!(found(6).len() <= rows.len() + 2);
    }

    #[test]
    fn we_are_in_the_table() {
        let own = i32::try_from(std::process::id()).unwrap();
        let rows = rows();
        let row = rows.iter().find(|row| row.pid == own).unwrap();
        // In a container the leader of the session may be outside, where it has no id: then the kernel says 0.
        assert!(row.parent > 0 && row.session >= 0 && row.started > 0 && is_still(*row), "{row:?}");
        assert!(!is_still(Row { started: row.started + 1, ..*row }));
    }
}

//! What the kernel says about a process: CPU time, memory, open files, threads. Linux only.

use std::fs;
use std::time::Duration;

/// The kernel's clock ticks per second in `/proc/PID/stat`; 100 on every Linux of today.
const TICKS_PER_SECOND: u64 = 100;

/// Where the two times of a process stand in its stat line, counted from its name on.
const OWN: usize = 11;
/// The same of the children that have ended.
const CHILDREN: usize = 13;

/// A process under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

/// CPU time of a process so far, from two clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    /// Exact, but without the threads that have ended.
    living_threads: Duration,
    /// All threads, in steps of 10 ms.
    whole_process: Duration,
}

impl CpuTime {
    /// The time since `earlier`: the exact clock, unless threads that ended in between make it miss too much.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let exact = self.living_threads.saturating_sub(earlier.living_threads);
        let coarse = self.whole_process.saturating_sub(earlier.whole_process);
        if coarse > exact + Duration::from_millis(30) { coarse } else { exact }
    }
}

/// Sizes of a process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    pub(crate) resident_kib: u64,
    /// Of the resident memory what is the process's own, and not pages of the program's file.
    pub(crate) own_kib: u64,
    pub(crate) peak_kib: u64,
    pub(crate) threads: u64,
    pub(crate) files: usize,
}

/// CPU time of all processes that this one has started and that have ended, in steps of 10 ms. `None` where this is not
/// Linux.
pub(crate) fn cpu_time_of_children() -> Option<Duration> {
    let ticks = stat_ticks(&fs::read_to_string("/proc/self/stat").ok()?, CHILDREN)?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

#[allow(clippy::cast_precision_loss)]
impl Sizes {
    pub(crate) fn resident_mib(&self) -> f64 {
        self.resident_kib as f64 / 1024.0
    }

    pub(crate) fn own_mib(&self) -> f64 {
        self.own_kib as f64 / 1024.0
    }

    /// As a number that is put beside others.
    pub(crate) fn thread_count(&self) -> f64 {
        self.threads as f64
    }
}

impl Process {
    /// `None` when the process is gone or this is not Linux.
    pub(crate) fn cpu_time(self) -> Option<CpuTime> {
        let mut nanos = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.0)).ok()?.flatten() {
            if let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) {
                nanos += schedstat_nanos(&text).unwrap_or(0);
            }
        }
        let ticks = stat_ticks(&fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?, OWN)?;
        let whole_process = Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND);
        Some(CpuTime { living_threads: Duration::from_nanos(nanos), whole_process })
    }

    /// `None` when the process is gone or this is not Linux.
    pub(crate) fn sizes(self) -> Option<Sizes> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let files = fs::read_dir(format!("/proc/{}/fd", self.0)).map_or(0, Iterator::count);
        Some(Sizes {
            resident_kib: status_number(&status, "VmRSS:")?,
            own_kib: status_number(&status, "RssAnon:")?,
            peak_kib: status_number(&status, "VmHWM:")?,
            threads: status_number(&status, "Threads:")?,
            files,
        })
    }

    /// The processes below this one, at any depth.
    pub(crate) fn descendants(self) -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parents: Vec<_> = ids
            .filter_map(|id| Some((id, stat_parent(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?)))
            .collect();
        let mut found = vec![self.0];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id));
            next += 1;
        }
        found.drain(..1);
        found.into_iter().map(Self).collect()
    }

    /// Whether its command line holds the text.
    pub(crate) fn is_called(self, text: &str) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    }

    /// Sends it a signal; one that is gone is not an error.
    pub(crate) fn signal(self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.0).ok().and_then(rustix::process::Pid::from_raw);
        let _ = id.map(|id| rustix::process::kill_process(id, signal));
    }
}

/// The first number of a schedstat line: nanoseconds on a CPU.
fn schedstat_nanos(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// User and system time of a stat line, the process's `OWN` or those of its `CHILDREN`. The name in brackets may hold
/// anything, blanks and brackets too.
fn stat_ticks(text: &str, first_field: usize) -> Option<u64> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(first_field);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The process above, of a stat line.
fn stat_parent(text: &str) -> Option<u32> {
    text[text.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse().ok()
}

fn status_number(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Lets this process and its children open as many files as the machine allows.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal shows itself soon enough, when a socket cannot be opened.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_times_are_found_behind_a_hostile_name() {
        let line = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 17 5 0 0 20 0 3 0 100 1000 200 18446744073709551615";
        assert_eq!(stat_ticks(line, OWN), Some(22));
        assert_eq!(stat_ticks(line, CHILDREN), Some(0));
        assert_eq!(stat_ticks("42 (short) S", OWN), None);
        assert_eq!(stat_parent(line), Some(1));
    }

    #[test]
    fn schedstat_and_status_lines_are_read() {
        assert_eq!(schedstat_nanos("123456 789 10\n"), Some(123_456));
        assert_eq!(schedstat_nanos(""), None);
        let status = "Name:\tx\nVmHWM:\t   200 kB\nVmRSS:\t   100 kB\nThreads:\t3\n";
        assert_eq!(status_number(status, "VmRSS:"), Some(100));
        assert_eq!(status_number(status, "Threads:"), Some(3));
        assert_eq!(status_number(status, "VmSwap:"), None);
    }

    #[test]
    fn ended_threads_make_the_coarse_clock_count() {
        let millis = Duration::from_millis;
        let before = CpuTime::default();
        let steady = CpuTime { living_threads: millis(105), whole_process: millis(110) };
        assert_eq!(steady.since(before), millis(105));
        let ended = CpuTime { living_threads: millis(5), whole_process: millis(110) };
        assert_eq!(ended.since(before), millis(110));
    }
}

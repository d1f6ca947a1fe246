//! Finds processes by a tag on their command line.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// A tag that no other test and no other run uses.
pub(crate) fn new_tag() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("tag-{}-{}-end", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes whose command line holds the tag, guards and the gateway's stand-in excepted.
pub(crate) fn tagged(tag: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let args: Vec<_> = line.split(|byte| *byte == 0).collect();
            let is_gateway = args.iter().any(|arg| [&b"guard"[..], b"hold"].contains(arg));
            (args.contains(&tag.as_bytes()) && !is_gateway).then_some(pid)
        })
        .collect()
}

/// The processes whose command line holds the tag, guards and stand-ins for gateways too.
pub(crate) fn all_tagged(tag: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|arg| arg == tag.as_bytes())).count()
}

pub(crate) fn session(pid: i32) -> Option<i32> {
    rustix::process::getsid(Pid::from_raw(pid)).ok().map(|pid| pid.as_raw_nonzero().get())
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

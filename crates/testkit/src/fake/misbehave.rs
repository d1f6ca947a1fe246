//! What a server should not do to its process, its pipes and its descendants.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::options::Options;

/// No fake process outlives a test run by more than this, whatever the test forgot.
const LIFETIME: Duration = Duration::from_secs(600);

/// How many generations `--fork-grandchildren` starts; the last one leaves the session.
const GENERATIONS: u64 = 3;

#[allow(clippy::disallowed_methods, reason = "a fake server is slow on purpose and has no runtime")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Ends the process after its lifetime.
#[allow(clippy::disallowed_methods, reason = "nothing is to be flushed, and `main` may be stuck on purpose")]
pub(super) fn watchdog() {
    std::thread::spawn(|| {
        pause(LIFETIME);
        std::process::exit(9);
    });
}

/// What happens before the first line is read.
pub(super) fn at_start(options: &Options) -> io::Result<()> {
    if options.ignore_sigterm {
        // A flag that no one reads replaces the default action.
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::new(AtomicBool::new(false)))?;
    }
    if options.fork_grandchildren {
        fork(options, GENERATIONS)?;
    }
    if let Some(bytes) = options.flood_stderr {
        flood(io::stderr().lock(), bytes, true)?;
    }
    if let Some(millis) = options.slow_start {
        pause(Duration::from_millis(millis));
    }
    Ok(())
}

/// Writes `bytes` bytes, as lines of 80 or as one line without its newline.
pub(super) fn flood(mut out: impl Write, bytes: usize, lines: bool) -> io::Result<()> {
    let mut block = vec![b'x'; 8_000];
    if lines {
        block.iter_mut().skip(79).step_by(80).for_each(|byte| *byte = b'\n');
    }
    let mut left = bytes;
    while left > 0 {
        let count = left.min(block.len());
        out.write_all(&block[..count])?;
        left -= count;
    }
    Ok(())
}

/// Starts a descendant that keeps stdout and stderr open and starts the next one.
fn fork(options: &Options, depth: u64) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--idle-child", &depth.to_string()]).stdin(Stdio::null());
    if let Some(tag) = &options.tag {
        command.args(["--tag", tag]);
    }
    if options.ignore_sigterm {
        command.arg("--ignore-sigterm");
    }
    command.spawn().map(drop)
}

/// Lives on as a descendant.
pub(super) fn idle(options: &Options, depth: u64) -> io::Result<()> {
    if depth == 1 {
        let _ = rustix::process::setsid();
    } else {
        fork(options, depth - 1)?;
    }
    pause(LIFETIME);
    Ok(())
}

/// Closes our end of stdin, so that the writer sees a broken pipe, and lives on.
pub(super) fn close_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    pause(LIFETIME);
    Ok(())
}

//! Runs other programs: their output goes to the person line by line, is kept for parsing, and a deadline ends them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Lines that may wait for the printer; a program that writes faster is slowed down, not buffered.
const LINES_IN_FLIGHT: usize = 1024;

/// The packages that cargo said it compiles, in every program that was run, until someone takes them.
static COMPILED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How a program ended and everything it printed (both streams, in order of arrival, without colours).
#[derive(Debug)]
pub struct Outcome {
    pub success: bool,
    pub lines: Vec<String>,
}

/// Runs `command` to its end or to `deadline`, whichever comes first, printing what it prints.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Outcome> {
    watch(command, deadline, true)
}

/// The same without printing; for programs that only matter when they fail.
pub fn quiet(command: &mut Command, deadline: Duration) -> Result<Outcome> {
    watch(command, deadline, false)
}

/// Whether `program argument` starts and ends well.
pub fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What the program prints on stdout, trimmed, if it starts and ends well.
pub fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What cargo has compiled or checked since the last call, in the order in which it said so.
pub fn take_compiled() -> Vec<String> {
    COMPILED.lock().map(|mut compiled| std::mem::take(&mut *compiled)).unwrap_or_default()
}

fn watch(command: &mut Command, deadline: Duration, print: bool) -> Result<Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("failed to start `{name}`"))?;
    let (sender, receiver) = sync_channel(LINES_IN_FLIGHT);
    forward(child.stdout.take(), sender.clone());
    forward(child.stderr.take(), sender);

    let end = Instant::now() + deadline;
    let mut lines = Vec::new();
    let mut late = false;
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if print {
                    println!("{line}");
                }
                let line = without_colours(&line);
                if let Some(package) = compiled(&line)
                    && let Ok(mut compiled) = COMPILED.lock()
                {
                    compiled.push(package);
                }
                lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                late = true;
                child.kill().with_context(|| format!("failed to end `{name}` at its deadline"))?;
                break;
            }
        }
    }
    let status = child.wait().with_context(|| format!("failed to wait for `{name}`"))?;
    if late {
        let line = format!("xtask: `{name}` was ended after {} s", deadline.as_secs());
        println!("{line}");
        lines.push(line);
    }
    Ok(Outcome { success: status.success() && !late, lines })
}

fn forward(pipe: Option<impl Read + Send + 'static>, sender: SyncSender<String>) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()).is_err() {
                break;
            }
        }
    });
}

/// The line without terminal escape sequences (`ESC [ … letter`).
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            if letters.next() == Some('[') {
                letters.by_ref().find(char::is_ascii_alphabetic);
            }
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// The package of a line by which cargo says that it compiles or checks one, without the folder of our own packages.
fn compiled(line: &str) -> Option<String> {
    let line = line.trim_start();
    let mut words = line.split(' ');
    let verb = words.next().filter(|verb| matches!(*verb, "Compiling" | "Checking"))?;
    let (name, version) = (words.next()?, words.next()?);
    version.starts_with('v').then(|| format!("{verb} {name} {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_name_a_package() {
        let check = |line: &str, expect: Option<&str>| assert_eq!(compiled(line).as_deref(), expect, "{line}");
        check("   Compiling serde v1.0.2", Some("Compiling serde v1.0.2"));
        check("    Checking toolcrib-base v0.1.0 (somewhere/crates/base)", Some("Checking toolcrib-base v0.1.0"));
        check("    Finished `dev` profile", None);
        check("Compiling the gateway from cold", None);
        check("Compiling", None);
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(without_colours("\u{1b}[32;1m  Summary\u{1b}[0m 3 tests"), "  Summary 3 tests");
    }

    #[test]
    fn output_of_both_streams_is_kept_and_failure_is_seen() {
        let outcome =
            quiet(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"]), Duration::from_secs(60)).unwrap();
        assert!(!outcome.success);
        let mut lines = outcome.lines;
        lines.sort();
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn a_program_that_never_ends_is_ended_at_its_deadline() {
        let outcome = quiet(Command::new("tail").args(["-f", "/dev/null"]), Duration::from_millis(50));
        assert!(!outcome.unwrap().success);
    }
}

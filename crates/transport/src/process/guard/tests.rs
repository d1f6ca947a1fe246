//! What is below a guard on platforms without a sub-reaper, built and tried here as well.

#[path = "group.rs"]
mod group;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, WaitStatus};

/// A shell in a group of its own that has said that it runs, and what it and its children write to.
fn start(script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    (child, output)
}

fn reaped(program: Pid) -> WaitStatus {
    loop {
        let outcome = group::reap(program);
        assert_eq!(outcome.none_left, outcome.program.is_some());
        if let Some(status) = outcome.program {
            return status;
        }
        std::thread::yield_now();
    }
}

/// The output has no writer left: every process of the group has ended.
fn is_over(mut output: BufReader<ChildStdout>) {
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_signal_reaches_the_whole_group() {
    group::prepare().unwrap();
    group::die_with(1).unwrap();
    let (child, output) = start("sleep 1000 & echo started; exec sleep 1000");
    let program = Pid::from_child(&child);
    // A program that has ended has no number any more.
    group::signal_all(program, true, Signal::KILL);
    assert!(!group::reap(program).none_left);
    group::signal_all(program, false, Signal::TERM);
    is_over(output);
    assert_eq!(reaped(program).terminating_signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn what_a_program_leaves_in_its_group_ends_with_it() {
    let (child, output) = start("sleep 1000 & echo started");
    let program = Pid::from_child(&child);
    assert_eq!(reaped(program).exit_status(), Some(0));
    is_over(output);
    assert!(group::reap(program).none_left, "there is nothing to wait for");
}

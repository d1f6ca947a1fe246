//! A process that starts others as the gateway does, for tests that kill it and look at what remains.
//!
//! `guard …` is the guard; `hold PROGRAM ARGS…` starts a program, prints its lines and waits to be killed;
//! `serve PROGRAM ARGS…` does so until stdin closes, and `client PROGRAM ARGS…` is a client of such a gateway, which
//! waits to be killed; `churn N PROGRAM ARGS…` starts and kills a program N times and prints what is left over;
//! `churn-families` does so without killing guards.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_transport::process::{self, GuardCommand, Line, Spec};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|mode| mode == "guard") {
        return process::guard::run(args.into_iter().skip(1));
    }
    let args: Vec<String> = args.into_iter().filter_map(|arg| arg.into_string().ok()).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match (runtime, args.as_slice()) {
        (Ok(runtime), ["hold", program, args @ ..]) => runtime.block_on(hold(&spec(program, args))),
        (Ok(runtime), ["serve", program, args @ ..]) => runtime.block_on(serve(&spec(program, args))),
        (_, ["client", args @ ..]) => client(args),
        (Ok(runtime), ["churn", count, program, args @ ..]) => {
            runtime.block_on(churn(count.parse().unwrap_or(1), &spec(program, args), true));
        }
        (Ok(runtime), ["churn-families", count, program, args @ ..]) => {
            runtime.block_on(churn(count.parse().unwrap_or(1), &spec(program, args), false));
        }
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

fn spec(program: &str, args: &[&str]) -> Spec {
    let guard = GuardCommand::this_binary().ok();
    Spec { guard, ..Spec::new(program, args.iter().copied()) }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

async fn hold(spec: &Spec) {
    let scope = Scope::new();
    let process = process::spawn(spec, &scope, |line| {
        if let Line::Text(line) = line {
            say(&String::from_utf8_lossy(&line));
        }
    });
    match process {
        Ok(process) => {
            say(&format!("guard {}", process.pid()));
            say(&process.exited().await.to_string());
        }
        Err(error) => say(&error.to_string()),
    }
}

/// What a gateway over stdio does: it ends in good manners when its client is gone.
async fn serve(spec: &Spec) {
    let scope = Scope::new();
    let process = process::spawn(spec, &scope, |line| {
        if let Line::Text(line) = line {
            say(&String::from_utf8_lossy(&line));
        }
    });
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
    if let Ok(process) = process {
        process.stop(Duration::from_secs(10)).await;
    }
    scope.close(Duration::from_secs(10)).await;
}

/// Holds the other end of a gateway's stdin.
fn client(args: &[&str]) {
    let Ok(program) = std::env::current_exe() else { return };
    let gateway =
        std::process::Command::new(program).arg("serve").args(args).stdin(std::process::Stdio::piped()).spawn();
    if let Ok(mut gateway) = gateway {
        // `wait` would close the pipe.
        let stdin = gateway.stdin.take();
        let _ = gateway.wait();
        drop(stdin);
    }
}

async fn churn(count: usize, spec: &Spec, kills_guards: bool) {
    let scope = Scope::new();
    // The first one opens what stays open: the runtime's signal pipe and the like.
    once(spec, &scope, 0, kills_guards).await;
    let before = open_files();
    for number in 0..count {
        once(spec, &scope, number, kills_guards).await;
    }
    let own = std::process::id().to_string();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    say(&format!("files {} children {}", open_files().abs_diff(before), children.split_whitespace().count()));
}

/// Starts a program, waits for its first line unless it is to be ended while it starts, and ends it in one of six ways.
async fn once(spec: &Spec, scope: &Scope, number: usize, kills_guards: bool) {
    let (sender, mut receiver) = mpsc::channel(1);
    let on_line = move |line| {
        if let Line::Text(line) = line {
            let _ = sender.try_send(String::from_utf8_lossy(&line).into_owned());
        }
    };
    let Ok(process) = process::spawn(spec, scope, on_line) else { return say("not started") };
    let ready = if number.is_multiple_of(2) { receiver.recv().await } else { None };
    let exited = process.exited();
    match number % 6 {
        // Somebody else kills the guard, which the program does not outlive.
        3 if kills_guards => kill(process.pid()),
        // Somebody else kills the program.
        4 => match ready.and_then(|line| line.strip_prefix("ready ")?.trim().parse().ok()) {
            Some(program) => kill(program),
            None => return say("it did not say which process it is"),
        },
        0 => drop(process),
        1 => drop(process.stop(Duration::ZERO).await),
        _ => drop(process.stop(Duration::from_secs(10)).await),
    }
    exited.await;
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

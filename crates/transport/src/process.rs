//! Child processes that speak lines over stdio: start, send, receive, stop. Knows bytes and newlines, not JSON-RPC.
//!
//! Every process is started through a guard (see [`guard`]) that ends it and all its descendants when we are gone.
//! Without a guard (tests of other crates) it is started directly, in a process group of its own.

pub mod beside;
mod environment;
mod files;
pub mod guard;
mod lifeline;
mod lines;
mod program;
mod sender;
mod spec;
mod stderr;
#[cfg(target_os = "linux")]
mod table;
mod task;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use toolcrib_base::Mask;
use toolcrib_base::task::Scope;

pub use environment::{INHERITED, inherited};
pub use files::raise_file_limit;
pub use lines::{Edges, Line};
pub use program::SpawnError;
pub use sender::{SendError, Sender, StdinClosed};
pub use spec::{GuardCommand, ProcessLimits, Spec};
pub use stderr::StderrTail;

/// How many orders to stop may wait; more are the same order again.
const ORDERS: usize = 4;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// No one knows: the guard was killed from outside, or the scope was aborted before the program had ended.
    Lost,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::Lost => f.write_str("unknown end"),
        }
    }
}

/// A running child process. Dropping it kills the program and all its descendants.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    sender: Sender,
    stderr: StderrTail,
    orders: mpsc::Sender<Duration>,
    exit: watch::Receiver<Option<Exit>>,
}

/// Starts a program. `on_line` is called for every line of its stdout, in order, in the task that reads it: it must
/// not block. [`Line::End`] comes once and last.
///
/// Must be called within a tokio runtime. All tasks belong to `scope`. When the scope is told to stop, the process is stopped with the grace of its limits.
pub fn spawn(spec: &Spec, scope: &Scope, on_line: impl FnMut(Line) + Send + 'static) -> Result<Process, SpawnError> {
    let started = program::start(spec)?;
    let pid = started.pid;
    let outbox = Arc::new(sender::Outbox::new(started.stdin));
    let stderr = StderrTail::new(spec.limits.stderr_bytes, Mask::new(spec.env.iter().map(|(_, value)| value.expose())));
    let (orders, orders_rx) = mpsc::channel(ORDERS);
    let (exit_tx, exit) = watch::channel(None);

    scope.spawn(sender::write_queued(Arc::clone(&outbox)));
    let readers = [
        scope.spawn(lines::read(started.stdout, spec.limits.line_bytes, on_line)),
        scope.spawn(stderr::read(started.stderr, stderr.clone(), spec.name.clone())),
    ];
    let task = task::ProcessTask {
        child: started.child,
        pid,
        lifeline: started.lifeline,
        grace: spec.limits.grace,
        closing: spec.limits.closing.unwrap_or(spec.limits.grace),
        outbox: Arc::clone(&outbox),
        readers,
        orders: orders_rx,
        exit: exit_tx,
    };
    scope.spawn(task.run(scope.stop_signal()));
    Ok(Process { pid, sender: Sender::new(outbox), stderr, orders, exit })
}

/// Asks one process to end, by SIGTERM: it alone, and not what it has started, unlike [`Process::stop`]. For a program
/// that told its own id, where the child is the program's guard.
///
/// # Errors
/// When there is no such process, or it belongs to someone else.
pub fn ask_to_end(pid: u32) -> std::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("a process id is a positive number"))?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
}

// === impl Process ===

impl Process {
    /// The process id of the program's guard, or of the program itself when it has none.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A handle that writes lines to the program's stdin.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// The last lines of the program's stderr; readable also after the program has ended.
    pub fn stderr(&self) -> StderrTail {
        self.stderr.clone()
    }

    /// Waits for the program's end. When this resolves, all that the program wrote has been handed to `on_line`
    /// (a descendant that keeps stdout open is waited for only shortly).
    pub fn exited(&self) -> impl Future<Output = Exit> + Send + use<> {
        let mut exit = self.exit.clone();
        async move { exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit).unwrap_or(Exit::Lost) }
    }

    /// Ends the program: closes its stdin, waits up to `grace`, sends SIGTERM, waits up to `grace`, sends SIGKILL.
    /// Without grace it sends SIGKILL at once. With a guard the signals reach every descendant. May be called again and from several tasks.
    ///
    /// Dropping the future does not take the order back.
    pub async fn stop(&self, grace: Duration) -> Exit {
        // A full queue holds an order to stop already; a closed one means that the program has ended.
        let _ = self.orders.try_send(grace);
        self.exited().await
    }
}

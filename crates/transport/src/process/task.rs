//! The task that owns a child: waits for its end, or brings it about step by step.

use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use toolcrib_base::task::Stop;

use super::sender::Outbox;
use super::{Exit, lifeline};

/// How long a guard may take beyond its grace: it ends as soon as nothing is left below it, which only a process that
/// hangs in the kernel can delay.
const GUARD_MARGIN: Duration = Duration::from_secs(5);

/// After how long a program that has not ended is made to go on where it was stopped (SIGSTOP, a terminal, a debugger),
/// since it notices neither the end of its stdin nor SIGTERM while it is. The waits between the attempts double.
const CONTINUE_AFTER: Duration = Duration::from_millis(250);

/// How long to read on after the program has ended, in case a descendant without guard keeps its pipes open.
const DRAIN: Duration = Duration::from_secs(1);

/// Owns one child until it is reaped.
pub(super) struct ProcessTask {
    pub(super) child: Child,
    pub(super) pid: u32,
    /// With a guard: our end of its lifeline. Without: the child leads its own process group.
    pub(super) lifeline: Option<UnixStream>,
    pub(super) grace: Duration,
    /// How long it may take after its stdin was closed, when the scope is stopped.
    pub(super) closing: Duration,
    pub(super) outbox: Arc<Outbox>,
    pub(super) readers: [JoinHandle<()>; 2],
    pub(super) orders: mpsc::Receiver<Duration>,
    pub(super) exit: watch::Sender<Option<Exit>>,
}

impl ProcessTask {
    pub(super) async fn run(mut self, mut stop: Stop) {
        let order = tokio::select! {
            // All three are cancel-safe: `Child::wait` documents it, the others keep no state in the future.
            status = self.child.wait() => {
                self.finish(status.ok()).await;
                return;
            }
            order = self.orders.recv() => order.map(|grace| (grace, grace)),
            () = stop.stopped() => Some((self.closing, self.grace)),
        };
        let status = match order {
            Some((closing, grace)) => self.end_gently(closing, grace).await,
            None => self.end_now().await,
        };
        self.finish(status).await;
    }

    /// Closes stdin, waits for `closing`, sends SIGTERM, waits for `grace`, sends SIGKILL.
    async fn end_gently(&mut self, closing: Duration, grace: Duration) -> Option<ExitStatus> {
        if grace.is_zero() {
            return self.end_now().await;
        }
        self.outbox.close();
        let (mut left, mut wait) = (closing, CONTINUE_AFTER);
        while !left.is_zero() {
            let now = left.min(wait);
            if let Some(status) = self.ended_within(now).await {
                return status;
            }
            self.continue_stopped();
            (left, wait) = (left - now, wait * 2);
        }
        let mut wait = grace;
        match &self.lifeline {
            Some(ours) => {
                lifeline::order_end(ours, grace);
                wait = grace.saturating_add(GUARD_MARGIN);
            }
            None => self.signal_group(Signal::TERM),
        }
        match self.ended_within(wait).await {
            Some(status) => status,
            None => self.end_now().await,
        }
    }

    /// SIGKILL for everything.
    async fn end_now(&mut self) -> Option<ExitStatus> {
        self.outbox.close();
        if let Some(ours) = &self.lifeline {
            lifeline::order_end(ours, Duration::ZERO);
            if let Ok(status) = timeout(GUARD_MARGIN, self.child.wait()).await {
                return status.ok();
            }
            // The guard hangs or was stopped. The program dies with it, its session is swept in `finish`.
            let _ = self.child.start_kill();
        } else {
            self.signal_group(Signal::KILL);
        }
        self.child.wait().await.ok()
    }

    /// Waits for the end, for the time to pass, or for the [`super::Process`] to be dropped.
    async fn ended_within(&mut self, time: Duration) -> Option<Option<ExitStatus>> {
        let dropped = async {
            // Further orders to stop change nothing: the first one is being carried out.
            while self.orders.recv().await.is_some() {}
        };
        tokio::select! {
            status = self.child.wait() => Some(status.ok()),
            () = sleep(time) => None,
            () = dropped => Some(self.end_now().await),
        }
    }

    /// Has whatever was stopped go on. To a process that runs SIGCONT means nothing.
    fn continue_stopped(&self) {
        if self.lifeline.is_none() {
            self.signal_group(Signal::CONT);
        }
        #[cfg(target_os = "linux")]
        super::table::continue_stopped(self.pid);
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// The child is reaped: takes in the last lines and notifies everyone.
    async fn finish(mut self, status: Option<ExitStatus>) {
        if self.lifeline.is_none() {
            // The group keeps its number while it has members. When it has none, the number would have to be given to a
            // new group within these microseconds to be hit by mistake.
            self.signal_group(Signal::KILL);
        }
        let exit = match &self.lifeline {
            Some(ours) => lifeline::read_exit(ours),
            None => status.map_or(Exit::Lost, |status| match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Lost,
            }),
        };
        #[cfg(target_os = "linux")]
        if exit == Exit::Lost && self.lifeline.is_some() {
            super::table::end_session(self.pid);
        }
        self.outbox.close();
        let drained = timeout(DRAIN, async {
            for reader in &mut self.readers {
                let _ = reader.await;
            }
        });
        if drained.await.is_err() {
            for reader in &self.readers {
                reader.abort();
            }
        }
        self.exit.send_replace(Some(exit));
    }
}

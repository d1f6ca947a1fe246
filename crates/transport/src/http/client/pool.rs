//! The connections that are open and not used, by origin. One that the server has closed, or that said something on its
//! own, is never given out.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::Uri;
use http::uri::{Authority, Scheme};
use tokio::time::Instant;
use toolcrib_base::task::{Scope, Stop};

use super::connection::Connection;
use crate::http::workers;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(90);
/// How often all are looked at. Until then one that the server has closed stays half open.
const SWEEP: Duration = Duration::from_secs(15);
/// How many unused connections are kept for one server: as many as it has calls running at a time unless its definition
/// says otherwise.
const PER_HOST: usize = 256;
/// How many stacks a host has: one for the threads that are no workers, and the workers share the others.
const STACKS: usize = 9;

/// Where connections lead to. To a URL without the two there is none, as an attempt to connect says.
type Origin = (Option<Scheme>, Option<Authority>);

/// The unused connections of all origins.
#[derive(Default)]
pub(super) struct Pool {
    hosts: Mutex<HashMap<Origin, Arc<Host>>>,
    /// Whether the task runs that looks at all of them. There is none while nothing is kept.
    is_sweeping: AtomicBool,
    scope: Scope,
}

/// The unused connections of one origin, in stacks. Those that were opened on one worker thread are kept together: used
/// on another one, they would wake both.
pub(super) struct Host {
    pool: Weak<Pool>,
    stacks: [Mutex<Vec<Idle>>; STACKS],
    /// How many are kept in all stacks.
    kept: AtomicUsize,
}

struct Idle {
    connection: Box<Connection>,
    since: Instant,
}

/// The stack of the thread on which this is called.
pub(super) fn stack() -> usize {
    match workers::current() {
        0 => 0,
        worker => 1 + (worker - 1) % (STACKS - 1),
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

// === impl Pool ===

impl Pool {
    /// The connections to the origin of `uri`.
    pub(super) fn host(self: &Arc<Self>, uri: &Uri) -> Arc<Host> {
        let origin = (uri.scheme().cloned(), uri.authority().cloned());
        let new = || Arc::new(Host::new(self));
        Arc::clone(self.hosts().entry(origin).or_insert_with(new))
    }

    /// Forgets what is too old or closed, and origins of which nothing is left; whether anything is left at all.
    fn sweep(&self) -> bool {
        let mut hosts = self.hosts();
        hosts.retain(|_, host| {
            host.sweep();
            !host.is_empty() || Arc::strong_count(host) > 1
        });
        hosts.values().any(|host| !host.is_empty())
    }

    /// Sees to it that a task sweeps as long as connections are kept.
    fn keep_swept(self: &Arc<Self>) {
        if !self.is_sweeping.swap(true, Ordering::AcqRel) {
            let (pool, stop) = (Arc::downgrade(self), self.scope.stop_signal());
            self.scope.spawn(sweep_often(pool, stop));
        }
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<Origin, Arc<Host>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep_often(pool: Weak<Pool>, mut stop: Stop) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            () = stop.stopped() => return,
        }
        let Some(pool) = pool.upgrade() else { return };
        if pool.sweep() {
            continue;
        }
        pool.is_sweeping.store(false, Ordering::Release);
        // One may have come in between, whose keeper saw this task still running.
        if !pool.sweep() || pool.is_sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
    }
}

// === impl Host ===

impl Host {
    fn new(pool: &Arc<Pool>) -> Self {
        Self::of(Arc::downgrade(pool))
    }

    /// One that keeps no connection.
    pub(super) fn unpooled() -> Self {
        Self::of(Weak::new())
    }

    fn of(pool: Weak<Pool>) -> Self {
        Self { pool, stacks: std::array::from_fn(|_| Mutex::default()), kept: AtomicUsize::new(0) }
    }

    /// The connection of this thread's stack that was used last, if it is open still.
    pub(super) fn take(&self) -> Option<Box<Connection>> {
        loop {
            let mut idle = self.stack(stack()).pop()?;
            self.kept.fetch_sub(1, Ordering::Relaxed);
            if idle.is_usable() {
                return Some(idle.connection);
            }
        }
    }

    /// Keeps a connection for the next request, unless there are enough.
    pub(super) fn keep(&self, mut connection: Box<Connection>) {
        let Some(pool) = self.pool.upgrade().filter(|_| connection.is_idle()) else { return };
        if self.kept.fetch_add(1, Ordering::Relaxed) >= PER_HOST {
            self.kept.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        connection.shrink();
        let stack = connection.stack();
        self.stack(stack).push(Idle { connection, since: Instant::now() });
        pool.keep_swept();
    }

    fn sweep(&self) {
        for stack in 0..STACKS {
            let mut idle = self.stack(stack);
            let before = idle.len();
            idle.retain_mut(Idle::is_usable);
            self.kept.fetch_sub(before - idle.len(), Ordering::Relaxed);
        }
    }

    fn is_empty(&self) -> bool {
        self.kept.load(Ordering::Relaxed) == 0
    }

    fn stack(&self, index: usize) -> MutexGuard<'_, Vec<Idle>> {
        self.stacks[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn is_usable(&mut self) -> bool {
        self.since.elapsed() < IDLE && self.connection.is_idle()
    }
}

//! Connections to a legacy server beside its main one: for other principals, for clients that can be asked, for
//! conversations of their own. Opened at the first call, closed when nobody uses them.
//!
//! Each has a task that owns it; callers wait for what it publishes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Era, Notification, Raw, method};
use toolcrib_transport::Aside;

use crate::client::Key;
use crate::event::Event;
use crate::live::Live;
use crate::open::{self, Opening, REPORTS, Report};
use crate::server::{Shared, Surroundings};

/// How many connections one server may have beside its main one: each may be a process.
pub(crate) const MOST: usize = 64;
/// How many connections calls that must be alone may have beside each other, less one.
const SLOTS: u8 = 15;
/// How long one stays open without a call. Shorter than most sessions, longer than most pauses.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// How long a notification may take to be sent.
const NOTIFY: Duration = Duration::from_secs(5);
/// How many connections were counted before the first of these, so that their numbers differ from the main one's.
const FIRST: u64 = 1 << 32;

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Pool {
    open: Mutex<HashMap<Key, Arc<Extra>>>,
    around: Surroundings,
    next: AtomicU64,
    scope: Scope,
}

/// One of them, in whatever state.
#[derive(Debug)]
struct Extra {
    state: watch::Receiver<Opened>,
    /// Ends it.
    quit: watch::Sender<bool>,
    used: Arc<Used>,
    /// Changes when the client's roots do.
    roots: watch::Sender<()>,
}

/// When it was last used, and by how many calls now.
#[derive(Debug)]
struct Used {
    calls: watch::Sender<usize>,
}

#[derive(Debug, Clone)]
enum Opened {
    Opening,
    Live(Arc<Live>),
    Failed(String),
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) live: Arc<Live>,
    _used: InUse,
}

/// Counts a use until it is dropped.
#[derive(Debug)]
struct InUse(Arc<Used>);

impl InUse {
    fn new(used: &Arc<Used>) -> Self {
        used.calls.send_modify(|calls| *calls += 1);
        Self(Arc::clone(used))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.calls.send_modify(|calls| *calls -= 1);
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoLease {
    Failed(String),
    Full,
    Timeout,
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(around: Surroundings) -> Self {
        Self { open: Mutex::default(), around, next: AtomicU64::new(FIRST), scope: Scope::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Extra>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a key, opened if need be. `owner` takes what the server says outside of calls. `not` is a
    /// connection that turned out to be of no use any more.
    pub(crate) async fn lease(
        &self,
        shared: &Arc<Shared>,
        key: &Key,
        owner: Option<&Arc<dyn Aside>>,
        not: Option<u64>,
    ) -> Result<Lease, NoLease> {
        let deadline = shared.config.timeouts.connect;
        // What it asks must belong to one call: each has a connection of its own, unless one session has them all.
        let alone = key.session.is_none() && key.offered.can_be_asked() && shared.asks.load(Ordering::Relaxed);
        let (extra, lease) = self.extra(shared, key, owner, (not, alone))?;
        let mut state = extra.state.clone();
        let wait = state.wait_for(|state| !matches!(state, Opened::Opening));
        let opened = match tokio::time::timeout(deadline, wait).await {
            Ok(Ok(opened)) => opened.clone(),
            Ok(Err(_)) => Opened::Failed("it is being stopped".into()),
            Err(_) => return Err(NoLease::Timeout),
        };
        match opened {
            Opened::Live(live) => Ok(Lease { live, _used: lease }),
            Opened::Failed(why) => Err(NoLease::Failed(why)),
            Opened::Opening => Err(NoLease::Timeout),
        }
    }

    fn extra(
        &self,
        shared: &Arc<Shared>,
        key: &Key,
        owner: Option<&Arc<dyn Aside>>,
        (not, alone): (Option<u64>, bool),
    ) -> Result<(Arc<Extra>, InUse), NoLease> {
        let mut open = self.lock();
        let mut key = key.clone();
        while let Some(extra) = open.get(&key) {
            let of_no_use = matches!(&*extra.state.borrow(), Opened::Live(live) if Some(live.generation) == not);
            if of_no_use || extra.state.has_changed().is_err() {
                extra.quit.send_replace(true);
                open.remove(&key);
                break;
            }
            if !alone || *extra.used.calls.borrow() == 0 {
                // Counted while the lock is held, so that no two calls take the same one alone.
                return Ok((Arc::clone(extra), InUse::new(&extra.used)));
            }
            if key.slot >= SLOTS {
                return Err(NoLease::Full);
            }
            key.slot += 1;
        }
        if open.len() >= MOST {
            return Err(NoLease::Full);
        }
        let key = &key;
        let (publish, state) = watch::channel(Opened::Opening);
        let used = Arc::new(Used { calls: watch::Sender::new(0) });
        let extra = Arc::new(Extra { state, quit: watch::Sender::new(false), used, roots: watch::Sender::new(()) });
        open.insert(key.clone(), Arc::clone(&extra));
        let task = ExtraTask {
            shared: Arc::clone(shared),
            around: self.around.clone(),
            generation: self.next.fetch_add(1, Ordering::Relaxed),
            key: key.clone(),
            owner: owner.filter(|_| key.session.is_some()).cloned(),
            extra: Arc::clone(&extra),
        };
        let in_use = InUse::new(&extra.used);
        self.scope.spawn(task.run(publish));
        Ok((extra, in_use))
    }

    /// Ends the connections of a session that has ended.
    pub(crate) fn forget_session(&self, session: &str) {
        self.lock().retain(|key, extra| {
            let ends = key.session.as_deref() == Some(session);
            if ends {
                extra.quit.send_replace(true);
            }
            !ends
        });
    }

    /// The roots of a session's client have changed: said on the connections that are its own.
    pub(crate) fn roots_changed(&self, session: &str) {
        let open = self.lock();
        let own = open.iter().filter(|(key, _)| key.session.as_deref() == Some(session) && key.offered.roots_changed);
        own.for_each(|(_, extra)| extra.roots.send_replace(()));
    }

    /// Where what happens is told.
    pub(crate) fn events(&self) -> &mpsc::Sender<Event> {
        &self.around.events
    }

    /// Ends the connection of a handle; `false` when there is none.
    pub(crate) fn forget_handle(&self, handle: &str) -> bool {
        let mut found = false;
        self.lock().retain(|key, extra| {
            let ends = key.handle.as_deref() == Some(handle);
            if ends {
                extra.quit.send_replace(true);
                found = true;
            }
            !ends
        });
        found
    }

    /// Ends all of them: the server is stopped, restarted or of another era now.
    pub(crate) fn clear(&self) {
        for (_, extra) in self.lock().drain() {
            extra.quit.send_replace(true);
        }
    }

    /// Ends all of them and waits for it.
    pub(crate) async fn close(&self) {
        self.clear();
        self.scope.close(self.around.grace * 3).await;
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn remove(&self, key: &Key, extra: &Arc<Extra>) {
        let mut open = self.lock();
        if open.get(key).is_some_and(|known| Arc::ptr_eq(known, extra)) {
            open.remove(key);
        }
    }
}

/// Owns one connection from its opening to its end.
struct ExtraTask {
    shared: Arc<Shared>,
    around: Surroundings,
    generation: u64,
    key: Key,
    owner: Option<Arc<dyn Aside>>,
    extra: Arc<Extra>,
}

impl ExtraTask {
    async fn run(self, publish: watch::Sender<Opened>) {
        let mut quit = self.extra.quit.subscribe();
        let mut stop = self.shared.pool.scope.stop_signal();
        let scope = Scope::new();
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let opening = Opening {
            config: &self.shared.config,
            around: &self.around,
            scope: &scope,
            generation: self.generation,
            reports,
            era: Some(Era::Legacy),
            offered: Arc::clone(&self.key.offered),
            owner: self.owner.clone(),
            asks: Arc::clone(&self.shared.asks),
            wishes: Arc::clone(&self.shared.wishes),
        };
        let opened = tokio::select! {
            biased;
            () = stop.stopped() => Err("it is being stopped".to_owned()),
            _ = quit.wait_for(|quit| *quit) => Err("it is being stopped".to_owned()),
            opened = open::open(&opening) => opened,
        };
        match opened {
            Err(why) => {
                publish.send_replace(Opened::Failed(self.shared.config.masked(&why)));
            }
            Ok((live, _)) => {
                let live = Arc::new(live);
                publish.send_replace(Opened::Live(Arc::clone(&live)));
                tokio::select! {
                    () = stop.stopped() => {}
                    _ = quit.wait_for(|quit| *quit) => {}
                    () = self.attend(&live, &mut reported) => {}
                }
                self.shared.pool.remove(&self.key, &self.extra);
                live.link.close(self.around.grace).await;
            }
        }
        self.shared.pool.remove(&self.key, &self.extra);
        scope.close(self.around.grace * 3).await;
    }

    /// Until the connection ends or nobody has used it for long.
    async fn attend(&self, live: &Live, reported: &mut mpsc::Receiver<Report>) {
        let mut calls = self.extra.used.calls.subscribe();
        let mut roots = self.extra.roots.subscribe();
        let mut idle_at = Instant::now() + IDLE;
        loop {
            let busy = *calls.borrow_and_update() > 0;
            tokio::select! {
                report = reported.recv() => match report {
                    Some(Report::Closed(_)) | None => return,
                    // What it shows here it shows on the main connection too, which is the one that lists.
                    Some(Report::ListChanged(_)) => self.shared.refresh(),
                },
                changed = calls.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    idle_at = Instant::now() + IDLE;
                }
                Ok(()) = roots.changed() => {
                    let news = Notification::new(method::ROOTS_CHANGED, Raw::empty_object());
                    // Changes that come meanwhile are told as one. Whether the server hears it is its own business.
                    let _ = tokio::time::timeout(NOTIFY, live.link.notify(news)).await;
                }
                () = tokio::time::sleep_until(idle_at), if !busy => return,
            }
        }
    }
}

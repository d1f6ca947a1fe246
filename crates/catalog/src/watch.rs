//! Reads the definitions again whenever something changes in their folders, and now and then in any case.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};
use toolcrib_base::task::{Scope, Stop};

use crate::catalog::{Catalog, Changes, reload};
use crate::kind::DefinitionKind;
use crate::pending_writes::PendingWrites;
use crate::write::POLICIES;

/// Editors write in several steps: files are read when nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(200);
/// Files that never come to rest are read after this long all the same: a key that was revoked beside them opens nothing a
/// second later.
const QUIET_AT_MOST: Duration = Duration::from_millis(600);
/// How often files are read without a sign: for links to elsewhere and for file systems that give no signs.
const RESCAN: Duration = Duration::from_secs(60);
/// The same where the system cannot watch the home folder.
const RESCAN_UNWATCHED: Duration = Duration::from_secs(5);
/// One sign is as good as many: each means "read everything again".
const NUDGES: usize = 1;

/// Reads the definitions under `home` and goes on doing so in a task of `scope`. The receiver has the first reading at
/// once and a new one when definitions or problems are different; [`crate::Changes::between`] says how. The task ends
/// with the scope or with the last receiver.
pub async fn watch(home: &Path, scope: &Scope) -> watch::Receiver<Arc<Catalog>> {
    let (nudge, nudged) = mpsc::channel(NUDGES);
    let writing = PendingWrites::default();
    let watcher = new_watcher(nudge.clone(), writing.clone());
    let mut task = WatchTask { home: home.to_owned(), watcher, _nudge: nudge, nudged };
    // Watched before it is read, so that nothing changes unseen in between.
    let is_watched = task.watch_folders();
    if !is_watched {
        tracing::warn!(
            "this system cannot watch files; checking definitions every {} seconds",
            RESCAN_UNWATCHED.as_secs()
        );
    }
    let first = task.read(Arc::new(Catalog::nothing(writing))).await;
    let (sender, receiver) = watch::channel(first);
    let stop = scope.stop_signal();
    scope.spawn(task.run(sender, stop, is_watched));
    receiver
}

struct WatchTask {
    home: PathBuf,
    /// `None` where the system has no watches to give; then only the timer remains.
    watcher: Option<RecommendedWatcher>,
    /// Keeps the channel open when there is no watcher.
    _nudge: mpsc::Sender<()>,
    nudged: mpsc::Receiver<()>,
}

fn new_watcher(nudge: mpsc::Sender<()>, writing: PendingWrites) -> Option<RecommendedWatcher> {
    let on_event = move |event: notify::Result<notify::Event>| {
        writing.note(&event);
        // An error or an overflow means that events were lost, which is a reason to look, too.
        if event.map_or(true, |event| event.need_rescan() || is_change(event.kind)) {
            // Full means that a nudge is waiting already.
            let _ = nudge.try_send(());
        }
    };
    notify::recommended_watcher(on_event)
        .inspect_err(|error| tracing::warn!(%error, "cannot watch definitions for changes; checking every few seconds"))
        .ok()
}

/// Reading a file gives signs as well, and must not be a reason to read it again.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

// === impl WatchTask ===

impl WatchTask {
    async fn run(mut self, sender: watch::Sender<Arc<Catalog>>, mut stop: Stop, mut is_watched: bool) {
        loop {
            let rescan = if is_watched { RESCAN } else { RESCAN_UNWATCHED };
            tokio::select! {
                () = stop.stopped() => return,
                () = sender.closed() => return,
                // Cancel-safe: a nudge that is not taken stays in the channel.
                _ = self.nudged.recv() => {
                    // Dropped half-way it only forgets nudges of a task that is ending.
                    tokio::select! {
                        () = stop.stopped() => return,
                        () = self.settle() => {}
                    }
                }
                () = sleep(rescan) => {}
            }
            // Folders may have come or may have been replaced. To watch one again is no harm.
            is_watched = self.watch_folders();
            let before = sender.borrow().clone();
            let mut after = self.read(before.clone()).await;
            let latest = Instant::now() + QUIET_AT_MOST;
            // What changed while it was read may have been read by halves: it is read again before it counts.
            while self.nudged.try_recv().is_ok() && Instant::now() < latest {
                // Dropped half-way it only forgets nudges of a task that is ending.
                tokio::select! {
                    () = stop.stopped() => return,
                    () = self.settle() => {}
                }
                after = self.read(before.clone()).await;
            }
            let changes = Changes::between(&before, &after);
            let is_different = after.problems != before.problems
                || after.warnings != before.warnings
                || after.stale != before.stale
                || !changes.is_empty();
            if is_different {
                // Problems are reported by whoever applies the definitions: sources find more of them.
                tracing::info!(%changes, "definitions reloaded");
                sender.send_replace(after);
            }
        }
    }

    /// Waits until nothing has changed for a while.
    async fn settle(&mut self) {
        let latest = Instant::now() + QUIET_AT_MOST;
        while let Ok(Some(())) = timeout_at(latest.min(Instant::now() + QUIET), self.nudged.recv()).await {
            if Instant::now() >= latest {
                return;
            }
        }
    }

    /// Whether everything that exists is watched.
    fn watch_folders(&mut self) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        // An inner folder may not exist; the home folder gives a sign when it comes.
        let folders = DefinitionKind::ALL.iter().flat_map(|kind| kind.row().folders).copied().chain([POLICIES]);
        let are_inner_watched = folders.map(|folder| self.home.join(folder)).fold(true, |all, folder| {
            let is_watched = watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok() || !folder.exists();
            all && is_watched
        });
        watcher.watch(&self.home, RecursiveMode::NonRecursive).is_ok() && are_inner_watched
    }

    /// Reads everything again on a thread that may block; what was before if that thread is gone.
    async fn read(&self, before: Arc<Catalog>) -> Arc<Catalog> {
        let (home, previous) = (self.home.clone(), before.clone());
        let reading = tokio::task::spawn_blocking(move || reload(&previous, &home).0);
        match reading.await {
            Ok(loaded) => Arc::new(loaded),
            Err(error) => {
                tracing::error!(%error, "reading the definitions was interrupted");
                before
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, ModifyKind, RemoveKind};

    use super::*;

    /// What a person revokes in a file has an effect within a second; reading and building views take their part of it.
    #[test]
    fn a_change_is_read_well_within_a_second() {
        let second = Duration::from_secs(1);
        assert!(QUIET < QUIET_AT_MOST && QUIET_AT_MOST <= second * 2 / 3, "{QUIET:?} {QUIET_AT_MOST:?}");
    }

    /// Otherwise every reading would be the reason for the next one.
    #[test]
    fn reading_a_file_is_no_change() {
        for access in [AccessKind::Read, AccessKind::Open(AccessMode::Any), AccessKind::Close(AccessMode::Read)] {
            assert!(!is_change(EventKind::Access(access)), "{access:?}");
        }
        assert!(is_change(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        for kind in [
            EventKind::Create(CreateKind::File),
            EventKind::Modify(ModifyKind::Any),
            EventKind::Remove(RemoveKind::Any),
            EventKind::Other,
        ] {
            assert!(is_change(kind), "{kind:?}");
        }
    }
}

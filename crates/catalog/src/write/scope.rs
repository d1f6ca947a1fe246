//! What one operation writes: only rehearsed, or only as it was seen before, and what came of it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::WriteError;
use super::change::FileChange;

/// The writes of one operation.
#[derive(Debug, Default)]
pub struct WriteScope {
    is_rehearsal: bool,
    /// The fingerprint of the changes that someone was shown; nothing else may be written then.
    seen: Option<String>,
    noted: Mutex<WriteNotes>,
}

/// What came of the writes.
#[derive(Debug, Default)]
struct WriteNotes {
    /// What a rehearsal did not write, if it came that far.
    rehearsed: Option<Vec<FileChange>>,
    /// The ids of the writes that can be undone.
    kept: Vec<String>,
    /// What the disk did not take.
    failed: Vec<FileChange>,
}

thread_local! {
    static SCOPE: RefCell<Option<Arc<WriteScope>>> = const { RefCell::new(None) };
}

// === impl WriteScope ===

impl WriteScope {
    /// One in which nothing is written: each write ends with [`WriteError::Rehearsed`].
    pub fn rehearsal() -> Self {
        Self { is_rehearsal: true, ..Self::default() }
    }

    /// One in which only the changes of this [fingerprint](Self::fingerprint) are written.
    pub fn of_seen(fingerprint: Option<&str>) -> Self {
        Self { seen: fingerprint.map(str::to_owned), ..Self::default() }
    }

    /// Does something on this thread whose writes belong here.
    pub fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct End(Option<Arc<WriteScope>>);
        impl Drop for End {
            fn drop(&mut self) {
                SCOPE.set(self.0.take());
            }
        }
        let _end = End(SCOPE.replace(Some(Arc::clone(self))));
        work()
    }

    /// Whether nothing is written.
    pub fn is_rehearsal(&self) -> bool {
        self.is_rehearsal
    }

    /// What a rehearsal would have written; `None` where it ended before.
    pub fn rehearsed(&self) -> Option<Vec<FileChange>> {
        self.noted().rehearsed.clone()
    }

    /// The ids of what was written, in order.
    pub fn kept(&self) -> Vec<String> {
        self.noted().kept.clone()
    }

    /// The changes that the disk did not take.
    pub fn failed(&self) -> Vec<FileChange> {
        self.noted().failed.clone()
    }

    /// What tells changes from others: of each file its path and its bytes before and after.
    pub fn fingerprint(changes: &[FileChange]) -> String {
        let mut digest = Sha256::new();
        for change in changes {
            let file = change.file.as_os_str().as_encoded_bytes();
            for part in [Some(file), change.before.as_deref(), change.after.as_deref()] {
                // A length before each part, and another number for none, so that no two lists read the same.
                let length = part.map_or(u64::MAX, |part| part.len() as u64);
                digest.update(length.to_be_bytes());
                digest.update(part.unwrap_or_default());
            }
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Called before changes are made: ends a rehearsal, and refuses what was not seen.
    pub(super) fn begin(changes: &[FileChange]) -> Result<(), WriteError> {
        let Some(scope) = Self::current() else { return Ok(()) };
        if scope.is_rehearsal {
            scope.noted().rehearsed.get_or_insert_default().extend_from_slice(changes);
            return Err(WriteError::Rehearsed);
        }
        match (&scope.seen, changes.first()) {
            (Some(seen), Some(first)) if *seen != Self::fingerprint(changes) => {
                Err(WriteError::Changed(first.file.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Notes a write that can be undone.
    pub(super) fn note_kept(id: &str) {
        if let Some(scope) = Self::current() {
            scope.noted().kept.push(id.to_owned());
        }
    }

    /// Notes what the disk did not take.
    pub(super) fn note_failed(changes: &[FileChange], error: &WriteError) {
        if let (Some(scope), WriteError::Io { .. }) = (Self::current(), error) {
            scope.noted().failed = changes.to_vec();
        }
    }

    fn current() -> Option<Arc<Self>> {
        SCOPE.with_borrow(Clone::clone)
    }

    fn noted(&self) -> MutexGuard<'_, WriteNotes> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

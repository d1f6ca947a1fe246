//! Which files someone has open and has written to, as far as the system reports it: half a file may be a valid one
//! that says something else, so such a file keeps what it said before until it is closed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::EventKind;
use notify::event::{AccessKind, AccessMode, ModifyKind};

/// After this long a file is read although no one closed it. A program that was killed has closed its files, so this is
/// for one that keeps a file open for good, and for signs that were lost.
const AT_MOST: Duration = Duration::from_secs(60);
/// How many files are followed at a time; more than this are read as they are.
const FILES: usize = 1_024;

/// The files that are being written. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingWrites(Arc<Mutex<BTreeMap<PathBuf, Instant>>>);

impl PendingWrites {
    /// Takes a sign of the system. Only Linux tells that a file was closed, so only there a writer is waited for.
    pub(crate) fn note(&self, event: &notify::Result<notify::Event>) {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = event.as_ref().ok().filter(|event| !event.need_rescan()) else {
            // Signs were lost, and with them perhaps the end of a writer.
            files.clear();
            return;
        };
        match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => {
                for path in &event.paths {
                    if files.len() < FILES || files.contains_key(path) {
                        files.entry(path.clone()).or_insert_with(Instant::now);
                    }
                }
            }
            // What has another name now, or none, is another file.
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Create(_)
            | EventKind::Remove(_) => {
                for path in &event.paths {
                    files.remove(path);
                }
            }
            _ => {}
        }
    }

    /// Whether the file must not be read yet.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).is_some_and(|since| since.elapsed() < AT_MOST)
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, Flag, RemoveKind, RenameMode};

    use super::*;

    const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));

    fn event(kind: EventKind, path: &str) -> notify::Result<notify::Event> {
        Ok(notify::Event::new(kind).add_path(path.into()))
    }

    #[test]
    fn a_file_is_being_written_until_it_is_closed_renamed_removed_or_signs_are_lost() {
        let lost = Ok(notify::Event::new(EventKind::Other).set_flag(Flag::Rescan));
        for end in [
            event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "a"),
            event(EventKind::Modify(ModifyKind::Name(RenameMode::To)), "a"),
            event(EventKind::Create(CreateKind::File), "a"),
            event(EventKind::Remove(RemoveKind::File), "a"),
            lost,
            Err(notify::Error::generic("x")),
        ] {
            let writing = PendingWrites::default();
            assert!(!writing.has(Path::new("a")));
            writing.note(&event(WRITTEN, "a"));
            writing.note(&event(EventKind::Access(AccessKind::Close(AccessMode::Read)), "a"));
            writing.note(&event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "b"));
            assert!(writing.clone().has(Path::new("a")) && !writing.has(Path::new("b")));
            writing.note(&end);
            assert!(!writing.has(Path::new("a")), "{end:?}");
        }
    }

    #[test]
    fn no_more_files_are_followed_than_there_is_room_for() {
        let writing = PendingWrites::default();
        for number in 0..2 * FILES {
            writing.note(&event(WRITTEN, &number.to_string()));
        }
        assert_eq!(writing.0.lock().unwrap().len(), FILES);
        assert!(writing.has(Path::new("0")) && !writing.has(Path::new("2000")));
    }
}

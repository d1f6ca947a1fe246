//! The state folder: private to its owner, and held by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::StoreError;

const LOCK_FILE: &str = "lock";
pub(crate) const DATABASE_FILE: &str = "toolcrib.db";
/// What is in the folder of every gateway that has served: its token.
const LATER_FILE: &str = "token";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A state folder that this process holds until the value is dropped; the kernel releases it when the process dies.
#[derive(Debug)]
pub(crate) struct ClaimedFolder {
    path: PathBuf,
    /// Open for as long as the claim holds. The file stays behind: removing it would let two processes each lock
    /// a file of that name.
    lock: File,
}

impl ClaimedFolder {
    /// Makes the folder if needed, closes it to others and takes its lock.
    pub(crate) fn claim(path: &Path) -> Result<Self, StoreError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Folder { path, source }
        };
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(at(path))?;
        restrict(path, FOLDER_MODE).map_err(at(path))?;
        let lock_path = path.join(LOCK_FILE);
        let mut lock = open_private(&lock_path).map_err(at(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse { path: path.to_owned(), pid: read_pid(&mut lock) });
            }
            Err(error) => return Err(at(&lock_path)(error.into())),
        }
        write_pid(&mut lock).map_err(at(&lock_path))?;
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Whether there was a database that has nothing in it any more: the file is empty, or it is not there and what a
    /// gateway makes after it is.
    pub(crate) fn has_lost_database(&self) -> bool {
        match fs::metadata(self.path.join(DATABASE_FILE)) {
            Ok(file) => file.len() == 0,
            Err(_) => self.path.join(LATER_FILE).exists(),
        }
    }

    /// The database file, made empty and private when it is not there: SQLite gives its side files the same mode.
    pub(crate) fn database(&self) -> Result<PathBuf, StoreError> {
        let path = self.path.join(DATABASE_FILE);
        match open_private(&path) {
            Ok(_) => Ok(path),
            Err(source) => Err(StoreError::Folder { path, source }),
        }
    }
}

impl Drop for ClaimedFolder {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that was forked a moment ago shares the lock until it runs its
        // program.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
    restrict(path, FILE_MODE)?;
    Ok(file)
}

/// Takes away what `mode` does not allow, from a folder or file that was there before.
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    let present = fs::metadata(path)?.permissions().mode() & 0o777;
    if present & !mode == 0 { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(present & mode)) }
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())
}

/// `None` when the holder has not written its id yet, or something else lies there.
fn read_pid(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

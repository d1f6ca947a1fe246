//! A client's settings file on disk: read once, replaced in one step, and only if no one else wrote to it since.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toolcrib_base::{Timestamp, random};

/// The largest file that is read, in bytes. Claude Code keeps more than settings in its own.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// Why a file could not be read or was not written. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a file", path.display())]
    NotAFile { path: PathBuf },
    #[error("`{}` has more than {FILE_MAX} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    #[error("`{}` was changed by another program in the meantime", path.display())]
    Changed { path: PathBuf },
    #[error("cannot keep a copy of `{}`: {source}", path.display())]
    NoBackup { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

/// A settings file as it was when it was read.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    /// As it was asked for.
    path: PathBuf,
    /// Where it really is: links are followed, so that they stay links.
    real: PathBuf,
    /// Nothing when there is no file.
    bytes: Option<Vec<u8>>,
}

/// Writes what a file should hold. A parameter, so that a test can have a full disk.
pub type WriteAll<'a> = &'a dyn Fn(&mut File, &[u8]) -> io::Result<()>;

/// What writes for real.
pub fn write_all_and_sync(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// What tells the contents of files apart.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A moment as a part of a file's name.
pub fn file_stamp(now: Timestamp) -> String {
    now.to_string().chars().filter(char::is_ascii_alphanumeric).collect()
}

// === impl SettingsFile ===

impl SettingsFile {
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
                return Ok(Self { path: path.to_owned(), real: path.to_owned(), bytes: None });
            }
            Err(error) => return Err(unreadable(error)),
        };
        // Looked at before it is opened: opening a pipe would wait for a writer.
        let metadata = fs::metadata(&real).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        File::open(&real).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(FileError::TooLarge { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), real, bytes: Some(bytes) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A digest of what it holds, to say later which file was looked at.
    pub fn revision(&self) -> String {
        self.bytes.as_deref().map_or_else(|| "none".to_owned(), digest)
    }

    pub fn exists(&self) -> bool {
        self.bytes.is_some()
    }

    /// What it holds; nothing when there is no file.
    pub fn text(&self) -> Result<&str, FileError> {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| FileError::NotText { path: self.path.clone() })
    }

    /// Keeps a copy that only its owner reads; `None` when there is nothing to keep.
    pub fn back_up(&self, folder: &Path, stamp: &str, write: WriteAll<'_>) -> Result<Option<PathBuf>, FileError> {
        let Some(bytes) = &self.bytes else { return Ok(None) };
        let failed = |source| FileError::NoBackup { path: self.path.clone(), source };
        let name = self.real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        private_folder(folder).map_err(failed)?;
        let copy = folder.join(format!("{stamp}-{}-{name}", &random::hex_128()[..8]));
        let kept = private_file(&copy).and_then(|mut file| write(&mut file, bytes));
        if kept.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&copy);
        }
        kept.map_err(failed)?;
        Ok(Some(copy))
    }

    /// Writes the new text in one step: anyone who reads the path sees the old text or the new one, and after an error
    /// the old one. Permissions stay.
    pub fn replace(&self, text: &str, write: WriteAll<'_>) -> Result<(), FileError> {
        let failed = |source| FileError::Unwritable { path: self.path.clone(), source };
        let folder = self.folder();
        let name = self.real.file_name().ok_or_else(|| failed(io::Error::other("the path has no file name")))?;
        let temporary = folder.join(format!(".{}.{}", name.to_string_lossy(), random::hex_128()));
        let written = private_file(&temporary)
            .and_then(|mut file| {
                if self.exists() {
                    file.set_permissions(fs::metadata(&self.real)?.permissions())?;
                }
                write(&mut file, text.as_bytes())
            })
            .map_err(failed)
            .and_then(|()| self.check_unchanged())
            .and_then(|()| fs::rename(&temporary, &self.real).map_err(failed));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
            return written;
        }
        sync_folder(folder);
        Ok(())
    }

    /// Takes away a file that we had made ourselves.
    pub fn remove(&self) -> Result<(), FileError> {
        self.check_unchanged()?;
        fs::remove_file(&self.real).map_err(|source| FileError::Unwritable { path: self.path.clone(), source })?;
        sync_folder(self.folder());
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn check_unchanged(&self) -> Result<(), FileError> {
        let now = Self::read(&self.path)?;
        if now.bytes == self.bytes && now.real == self.real {
            return Ok(());
        }
        Err(FileError::Changed { path: self.path.clone() })
    }
}

/// A crash after the rename may bring the old file back; that the folder could not be told to last is no error.
fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

#[cfg(unix)]
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(unix)]
fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

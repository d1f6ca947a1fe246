//! JSON Lines in files: one that grows, and older ones beside it, `audit.jsonl.1` the newest of them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde_json::Value;

use super::{Delivery, DeliveryError, DeliveryFuture, LastEntry, Target};
use crate::Entry;
use crate::format::json_line;

/// The longest line that is looked for at the end of a file, in bytes: more than a row has.
const LINE_MAX: u64 = 256 * 1024;
/// How lines begin, of events and of checkpoints. What begins otherwise is not ours to take off.
const LINE_BEGINS: [&[u8]; 2] = [b"{\"seq\":", b"{\"number\":"];

/// A file with those that it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileConfig {
    /// The file that grows.
    pub path: PathBuf,
    /// When it has so many bytes, the next line begins a new one.
    pub max_bytes: u64,
    /// How many older ones are kept.
    pub keep: u32,
}

/// The file, opened for the first lines.
#[derive(Debug)]
pub(super) struct FileTarget {
    config: FileConfig,
    open: Option<OpenFile>,
}

/// Locked for as long as it is open: two processes that write one file would tear its lines.
#[derive(Debug)]
struct OpenFile {
    file: File,
    /// What is in it for certain: whole lines.
    length: u64,
}

// === impl FileTarget ===

impl FileTarget {
    pub(super) fn new(config: FileConfig) -> Self {
        Self { config, open: None }
    }

    /// Does something with the file on a thread that may block.
    async fn with<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&FileConfig, OpenFile) -> io::Result<(OpenFile, T)> + Send + 'static,
    ) -> Result<T, DeliveryError> {
        let (config, open) = (self.config.clone(), self.open.take());
        let path = config.path.display().to_string();
        let done = tokio::task::spawn_blocking(move || {
            let open = match open {
                Some(open) => open,
                None => OpenFile::open(&config.path)?,
            };
            act(&config, open)
        });
        let done = done.await.map_err(|error| DeliveryError(error.to_string()))?;
        let (open, value) = done.map_err(|error| DeliveryError(format!("cannot write `{path}`: {error}")))?;
        self.open = Some(open);
        Ok(value)
    }
}

impl Target for FileTarget {
    fn last(&mut self) -> DeliveryFuture<'_, Option<LastEntry>> {
        Box::pin(self.with(|config, mut open| {
            let last = match last_entry(&tail(&mut open.file)?) {
                Some(last) => Some(last),
                // The one that grows may have just begun.
                None => match File::open(numbered(&config.path, 1)) {
                    Ok(mut older) => last_entry(&tail(&mut older)?),
                    Err(_) => None,
                },
            };
            Ok((open, last))
        }))
    }

    fn deliver<'a>(&'a mut self, entries: &'a [Entry]) -> DeliveryFuture<'a, Delivery> {
        let lines: Vec<String> = entries.iter().map(|entry| json_line(entry) + "\n").collect();
        Box::pin(async move {
            self.with(move |config, mut open| {
                let mut lines = lines.iter().peekable();
                if !open.is_at(&config.path) {
                    open = OpenFile::open(&config.path)?;
                }
                while lines.peek().is_some() {
                    if open.length >= config.max_bytes {
                        open = rotate(config, open)?;
                    }
                    let mut chunk = String::new();
                    while open.length + (chunk.len() as u64) < config.max_bytes
                        && let Some(line) = lines.next()
                    {
                        chunk.push_str(line);
                    }
                    open.append(chunk.as_bytes())?;
                }
                Ok((open, Delivery::Confirmed { rejected: 0 }))
            })
            .await
        })
    }
}

// === impl OpenFile ===

impl OpenFile {
    /// Opens or makes the file, for this user alone, and takes off a line that was not written to its end.
    fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        let no_links = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).custom_flags(no_links).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let in_use = |_| io::Error::other("another process writes it");
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(in_use)?;
        let mut open = Self { length: file.metadata()?.len(), file };
        open.take_off_torn_line()?;
        Ok(open)
    }

    /// Writes all of it to the disk, or leaves the file as it was.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Half a line must not stay; where this fails too, opening the file again takes it off.
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Whether the path still leads to this file: someone may have moved it away or removed it.
    fn is_at(&self, path: &Path) -> bool {
        let (Ok(there), Ok(here)) = (std::fs::symlink_metadata(path), self.file.metadata()) else { return false };
        (there.dev(), there.ino()) == (here.dev(), here.ino())
    }

    /// Takes off a line of ours that was not written to its end.
    fn take_off_torn_line(&mut self) -> io::Result<()> {
        let tail = tail(&mut self.file)?;
        let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let torn = &tail[end..];
        if torn.is_empty() {
            return Ok(());
        }
        if !LINE_BEGINS.iter().any(|begin| torn.starts_with(&begin[..torn.len().min(begin.len())])) {
            return Err(io::Error::other("its last line is not one of an audit log"));
        }
        self.length -= torn.len() as u64;
        self.file.set_len(self.length)
    }
}

/// The last bytes of a file, a line's length of them.
fn tail(file: &mut File) -> io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_MAX)))?;
    file.take(LINE_MAX).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Gives each older file the next number, the growing one the first, and begins a new one.
fn rotate(config: &FileConfig, full: OpenFile) -> io::Result<OpenFile> {
    for number in (1..config.keep).rev() {
        rename(&numbered(&config.path, number), &numbered(&config.path, number + 1))?;
    }
    match config.keep {
        0 => std::fs::remove_file(&config.path)?,
        _ => rename(&config.path, &numbered(&config.path, 1))?,
    }
    drop(full);
    let open = OpenFile::open(&config.path)?;
    // The names are on the disk before lines are: a power cut leaves no line in a file that has no name.
    if let Some(folder) = config.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(open)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

/// `audit.jsonl.2`
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The last event in whole lines, and the newest checkpoint after it.
fn last_entry(tail: &[u8]) -> Option<LastEntry> {
    let mut checkpoint = 0;
    for line in String::from_utf8_lossy(tail).lines().rev() {
        let line: Value = serde_json::from_str(line).ok()?;
        if let Some(number) = line["number"].as_u64() {
            checkpoint = checkpoint.max(number);
            continue;
        }
        return Some(LastEntry { seq: line["seq"].as_u64()?, hash: line["hash"].as_str()?.to_owned(), checkpoint });
    }
    None
}

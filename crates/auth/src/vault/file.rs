//! The file: what is in it as JSON, and how it is read, locked and replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use toolcrib_base::{ProfileName, Secret, ServerName, Timestamp};
use zeroize::Zeroizing;

use super::crypt::{Context, Key, NONCE_BYTES, SealedBytes};
use super::key::KeyPlace;
use super::{ENTRIES, EntryName, REACH, Reach, SecretEntry, VALUE_BYTES, VaultError};

/// The format that we write and read.
const VERSION: u32 = 1;
/// The largest file that is read, in bytes.
const FILE_BYTES: u64 = 64 << 20;
/// How long another process may hold the lock: it holds it for one reading and writing.
const LOCK: Duration = Duration::from_secs(10);
/// How often the lock is asked for again.
const LOCK_AGAIN: Duration = Duration::from_millis(10);
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Writes bytes into a new file.
pub(super) type Write = fn(&mut File, &[u8]) -> io::Result<()>;

/// What changes whenever the file is replaced: each writing makes a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
}

/// What the file holds.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    pub(super) key_id: String,
    pub(super) key_place: KeyPlace,
    /// By name.
    pub(super) entries: Vec<Entry>,
    /// Over the header and all entries.
    seal: SealedBytes,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: EntryName,
    pub(super) reach: Reach,
    pub(super) set_at: Timestamp,
    pub(super) value: SealedBytes,
}

/// The file as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFormat {
    toolcrib_vault: u32,
    key: String,
    key_in: KeyPlace,
    seal: String,
    entries: Vec<FileEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: EntryName,
    servers: Vec<String>,
    profiles: Vec<String>,
    set_at: i64,
    value: String,
}

/// The version alone, which later formats keep in its place.
#[derive(Deserialize)]
struct Header {
    toolcrib_vault: u32,
}

// === impl Contents ===

impl Contents {
    /// Nothing yet, under this key.
    pub(super) fn new(key: &Key, key_place: KeyPlace) -> Self {
        let seal = SealedBytes { nonce: [0; NONCE_BYTES], bytes: Vec::new() };
        Self { key_id: key.id(), key_place, entries: Vec::new(), seal }
    }

    /// Reads the file's bytes; the seal is not looked at yet.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let header: Header = serde_json::from_slice(bytes).map_err(|_| "it is not a vault".to_owned())?;
        if header.toolcrib_vault != VERSION {
            return Err(format!("it has format {}, and this toolcrib reads {VERSION}", header.toolcrib_vault));
        }
        let written: FileFormat = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if written.entries.len() > ENTRIES {
            return Err(format!("it has more than {ENTRIES} entries"));
        }
        let seal = sealed(&written.seal).ok_or("its seal is not readable")?;
        let entries = written.entries.into_iter().map(Entry::from_written).collect::<Option<Vec<_>>>();
        let entries = entries.ok_or("an entry is not readable")?;
        if entries.windows(2).any(|two| two[0].name >= two[1].name) {
            return Err("its entries are out of order".into());
        }
        Ok(Self { key_id: written.key, key_place: written.key_in, entries, seal })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let written = FileFormat {
            toolcrib_vault: VERSION,
            key: self.key_id.clone(),
            key_in: self.key_place,
            seal: text(&self.seal),
            entries: self.entries.iter().map(Entry::to_written).collect(),
        };
        let mut bytes = serde_json::to_vec_pretty(&written).expect("texts, numbers and lists have a JSON form");
        bytes.push(b'\n');
        bytes
    }

    pub(super) fn names(&self) -> Vec<EntryName> {
        self.entries.iter().map(|entry| entry.name.clone()).collect()
    }

    /// An entry with its value encrypted, bound to all the rest of it.
    pub(super) fn seal_entry(&self, listed: SecretEntry, value: &Secret, key: &Key) -> Entry {
        let context = self.entry_context(&listed.name, &listed.reach, listed.set_at);
        let value = key.seal(value.expose().as_bytes(), context.as_bytes());
        Entry { name: listed.name, reach: listed.reach, set_at: listed.set_at, value }
    }

    /// The value of an entry; `None` where it was not sealed with this key as this entry.
    pub(super) fn open(&self, entry: &Entry, key: &Key) -> Option<Zeroizing<String>> {
        let context = self.entry_context(&entry.name, &entry.reach, entry.set_at);
        let plain = key.open(&entry.value, context.as_bytes())?;
        Some(Zeroizing::new(std::str::from_utf8(&plain).ok()?.to_owned()))
    }

    /// Seals the whole, so that no entry can be taken out, added or put back as it once was.
    pub(super) fn seal(&mut self, key: &Key) {
        self.seal = key.seal(&[], self.whole_context().as_bytes());
    }

    pub(super) fn is_sealed_by(&self, key: &Key) -> bool {
        key.open(&self.seal, self.whole_context().as_bytes()).is_some_and(|plain| plain.is_empty())
    }

    fn entry_context(&self, name: &EntryName, reach: &Reach, set_at: Timestamp) -> Context {
        Context::default()
            .field(b"toolcrib vault entry")
            .field(&VERSION.to_le_bytes())
            .field(self.key_id.as_bytes())
            .field(name.as_str().as_bytes())
            .list(reach.servers().iter().map(ServerName::as_str))
            .list(reach.profiles().iter().map(ProfileName::as_str))
            .field(&set_at.0.to_le_bytes())
    }

    fn whole_context(&self) -> Context {
        let whole = Context::default()
            .field(b"toolcrib vault")
            .field(&VERSION.to_le_bytes())
            .field(self.key_id.as_bytes())
            .field(self.key_place.as_str().as_bytes())
            .field(&(self.entries.len() as u64).to_le_bytes());
        self.entries.iter().fold(whole, |whole, entry| {
            let context = self.entry_context(&entry.name, &entry.reach, entry.set_at);
            whole.field(context.as_bytes()).field(&entry.value.nonce).field(&entry.value.bytes)
        })
    }
}

// === impl Entry ===

impl Entry {
    pub(super) fn listed(&self) -> SecretEntry {
        SecretEntry { name: self.name.clone(), reach: self.reach.clone(), set_at: self.set_at }
    }

    fn to_written(&self) -> FileEntry {
        FileEntry {
            name: self.name.clone(),
            servers: self.reach.servers().iter().map(ToString::to_string).collect(),
            profiles: self.reach.profiles().iter().map(ToString::to_string).collect(),
            set_at: self.set_at.0,
            value: text(&self.value),
        }
    }

    fn from_written(written: FileEntry) -> Option<Self> {
        let FileEntry { name, servers, profiles, set_at, value } = written;
        let servers = servers.iter().map(|name| ServerName::new(name).ok()).collect::<Option<Vec<_>>>()?;
        let profiles = profiles.iter().map(|name| ProfileName::new(name).ok()).collect::<Option<Vec<_>>>()?;
        let value = sealed(&value)?;
        let is_bounded = servers.len() <= REACH && profiles.len() <= REACH && value.bytes.len() <= VALUE_BYTES + 16;
        is_bounded.then(|| Self { name, reach: Reach::new(servers, profiles), set_at: Timestamp(set_at), value })
    }
}

fn text(sealed: &SealedBytes) -> String {
    STANDARD.encode([sealed.nonce.as_slice(), &sealed.bytes].concat())
}

fn sealed(text: &str) -> Option<SealedBytes> {
    let all = STANDARD.decode(text).ok()?;
    let (nonce, bytes) = all.split_at_checked(NONCE_BYTES)?;
    Some(SealedBytes { nonce: nonce.try_into().ok()?, bytes: bytes.to_vec() })
}

// === the disk ===

impl Stamp {
    /// The file's stamp; `None` when there is none.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(Self::from(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl From<&fs::Metadata> for Stamp {
    fn from(metadata: &fs::Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A file that is there.
#[derive(Debug)]
pub(super) struct VaultFile {
    pub(super) stamp: Stamp,
    /// What is in it, where that was wanted.
    pub(super) bytes: Option<Vec<u8>>,
}

/// The file's stamp, with its bytes where `wanted`; `None` when there is none.
pub(super) fn read(path: &Path, wanted: impl FnOnce(&Stamp) -> bool) -> Result<Option<VaultFile>, VaultError> {
    let failed = |source| VaultError::Io { act: "read", path: path.to_owned(), source };
    let Some((file, metadata)) = open_private(path).map_err(failed)? else { return Ok(None) };
    let stamp = Stamp::from(&metadata);
    if !wanted(&stamp) {
        return Ok(Some(VaultFile { stamp, bytes: None }));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(failed(io::Error::other(format!("it has more than {FILE_BYTES} bytes"))));
    }
    Ok(Some(VaultFile { stamp, bytes: Some(bytes) }))
}

/// Opens a file that is no link and no pipe; `None` when there is none.
pub(super) fn open_private(path: &Path) -> io::Result<Option<(File, fs::Metadata)>> {
    // Not to wait for anyone who writes to a pipe that lies here.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok(Some((file, metadata))) } else { Err(io::Error::other("it is not a file")) }
}

/// Puts new bytes in place of the file in one step: after a failure or a power cut the old file is there.
///
/// Call it with the [`Lock`] held.
pub(super) fn replace(path: &Path, bytes: &[u8], write: Write) -> Result<(), VaultError> {
    let failed = |source| VaultError::Io { act: "write", path: path.to_owned(), source };
    let folder = folder(path);
    let temporary = beside(path, ".new");
    let written = (|| {
        // What a process that was killed left behind.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
        write(&mut file, bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path with something after its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// What lets one process at a time read and write; the kernel lets go of it when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(path: &Path) -> Result<Self, VaultError> {
        let failed = |source| VaultError::Io { act: "lock", path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder(path)).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = options.custom_flags(flags).open(beside(path, ".lock")).map_err(failed)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if begun.elapsed() < LOCK => {
                    // There is no lock of files with a deadline.
                    std::thread::park_timeout(LOCK_AGAIN);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(VaultError::Busy { path: path.to_owned() }),
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

//! The table of credentials in memory: in parts, each bounded by what its credentials take. What does not fit is read from
//! disk again when it is needed.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use tokio::sync::OnceCell;

use super::Credential;
use crate::grant::Grant;
use crate::pending::Key;

/// How many parts the table has, so that look-ups rarely wait for each other.
const SHARDS: usize = 64;
/// How many bytes the credentials of a part take: 32 MiB in all, which holds 50,000 with short tokens and 7,000 with
/// two tokens of 2 KiB each. `docs/performance.md` states it.
const SHARD_BYTES: usize = 512 * 1024;
/// What an entry takes beside its texts: its place in the map, which is half empty at times, and itself.
const ENTRY_BYTES: usize = 2 * size_of::<(Key, Arc<Entry>)>() + size_of::<Entry>();

/// The entries of all credentials that are in memory.
#[derive(Debug)]
pub(super) struct Table {
    hashes: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// A part of the table.
#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Key, Arc<Entry>>,
    /// What they take.
    bytes: usize,
}

/// One credential, or that there is none.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) key: Key,
    pub(super) is_read: OnceCell<()>,
    held: ArcSwapOption<Credential>,
    /// Held while the credential changes: by a renewal, a login, a logout.
    pub(super) change: tokio::sync::Mutex<UnstoredGrant>,
    pub(super) is_renewing: AtomicBool,
    pub(super) retry_at: AtomicI64,
    pub(super) failures: AtomicU32,
    /// What it takes, as its part counts it.
    bytes: AtomicUsize,
}

/// A grant that could not be stored yet, so that it is not used yet.
pub(super) type UnstoredGrant = Option<Box<Grant>>;

// === impl Table ===

impl Table {
    pub(super) fn new() -> Self {
        Self { hashes: RandomState::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// The entry of a key. A new one makes room where its part is full.
    pub(super) fn entry(&self, key: &Key) -> Arc<Entry> {
        let mut shard = self.shard(key);
        if let Some(entry) = shard.entries.get(key) {
            return Arc::clone(entry);
        }
        if shard.bytes >= SHARD_BYTES {
            shard.make_room();
        }
        let entry = Arc::new(Entry::new(key.clone()));
        shard.bytes += entry.bytes.load(Ordering::Relaxed);
        shard.entries.insert(key.clone(), Arc::clone(&entry));
        entry
    }

    /// Puts a credential into an entry, or takes it away.
    pub(super) fn hold(&self, entry: &Entry, credential: Option<Arc<Credential>>) {
        let bytes = Entry::bytes_of(&entry.key) + credential.as_ref().map_or(0, |credential| credential.bytes());
        // Who has an entry keeps it in its part.
        let mut shard = self.shard(&entry.key);
        let before = entry.bytes.swap(bytes, Ordering::Relaxed);
        shard.bytes = (shard.bytes + bytes).saturating_sub(before);
        entry.held.store(credential);
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hashes.hash_one(key) % SHARDS as u64).unwrap_or(0);
        self.shards[hash].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries there are, and what they take.
    #[cfg(test)]
    fn size(&self) -> (usize, usize) {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.fold((0, 0), |(entries, bytes), shard| (entries + shard.entries.len(), bytes + shard.bytes))
    }
}

// === impl Shard ===

impl Shard {
    /// Drops a quarter of what is not used at this moment. Nothing is lost: it is on disk.
    fn make_room(&mut self) {
        let is_idle = |entry: &Arc<Entry>| {
            Arc::strong_count(entry) == 1 && entry.change.try_lock().is_ok_and(|unstored| unstored.is_none())
        };
        let (wanted, bytes) = (SHARD_BYTES / 4 * 3, &mut self.bytes);
        self.entries.retain(|_, entry| {
            let goes = *bytes > wanted && is_idle(entry);
            if goes {
                *bytes = bytes.saturating_sub(entry.bytes.load(Ordering::Relaxed));
            }
            !goes
        });
    }
}

// === impl Entry ===

impl Entry {
    fn new(key: Key) -> Self {
        Self {
            bytes: AtomicUsize::new(Self::bytes_of(&key)),
            key,
            is_read: OnceCell::new(),
            held: ArcSwapOption::empty(),
            change: tokio::sync::Mutex::new(None),
            is_renewing: AtomicBool::new(false),
            retry_at: AtomicI64::new(0),
            failures: AtomicU32::new(0),
        }
    }

    /// What is held.
    pub(super) fn held(&self) -> Option<Arc<Credential>> {
        self.held.load_full()
    }

    fn bytes_of(key: &Key) -> usize {
        ENTRY_BYTES + key.server.as_str().len() + key.owner.as_str().len()
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{Secret, ServerName, Timestamp};

    use super::*;
    use crate::grant::{Client, ClientOrigin, Provider};
    use crate::owner::Owner;

    fn key(number: usize) -> Key {
        let owner = Owner::of(Some(&format!("user:acme/someone-{number}")));
        Key { server: ServerName::new("remote").unwrap(), owner }
    }

    fn credential(token_bytes: usize) -> Arc<Credential> {
        let provider = Provider {
            issuer: "https://login.example.com".into(),
            is_guessed: false,
            authorization_endpoint: String::new(),
            token_endpoint: String::new(),
            registration_endpoint: None,
            revocation_endpoint: None,
            client_methods: Vec::new(),
            offers_offline_access: false,
            names_itself: false,
            takes_documents: false,
            binds_tokens: false,
            reads_audience: false,
            resource: String::new(),
        };
        let client = Client { id: "c".into(), secret: None, method: None, origin: ClientOrigin::Registration };
        let grant = Grant {
            provider: Arc::new(provider),
            client: Arc::new(client),
            redirect_uri: "http://127.0.0.1/cb".into(),
            server_url: "https://mcp.example.com/".into(),
            access_token: Secret::new("a".repeat(token_bytes)),
            refresh_token: Some(Secret::new("r".repeat(token_bytes))),
            key: None,
            scopes: vec!["read".into()],
            received_at: Timestamp(0),
            expires_in: None,
            lapse: None,
            scope_rounds: 0,
        };
        Arc::new(Credential { grant, key: None, is_replacement: false })
    }

    /// Puts so many in, and says how many are left and what they take.
    fn filled(count: usize, token_bytes: usize) -> (usize, usize) {
        let (table, one) = (Table::new(), credential(token_bytes));
        for number in 0..count {
            let entry = table.entry(&key(number));
            table.hold(&entry, Some(Arc::clone(&one)));
        }
        table.size()
    }

    #[test]
    fn many_credentials_take_no_more_than_their_bound() {
        for (count, token_bytes) in [(30_000, 400), (12_000, 2_048), (600, 64 * 1_024)] {
            let (entries, bytes) = filled(count, token_bytes);
            // One more than fits is noticed when the next one comes.
            let one = credential(token_bytes).bytes() + Entry::bytes_of(&key(0));
            assert!(bytes <= SHARDS * (SHARD_BYTES + one), "{bytes} bytes of {count} with tokens of {token_bytes}");
            assert!(entries < count && bytes >= entries * one / 2, "{entries} of {count} are left");
        }
        assert_eq!(filled(10_000, 40).0, 10_000, "what fits is kept");
    }

    #[test]
    fn what_is_in_use_or_not_stored_yet_is_kept() {
        let table = Table::new();
        let (used, unstored) = (table.entry(&key(0)), table.entry(&key(1)));
        table.hold(&used, Some(credential(40)));
        *unstored.change.try_lock().unwrap() = Some(Box::new(credential(40).grant.clone()));
        drop(unstored);
        let other = credential(2_048);
        for number in 2..12_000 {
            table.hold(&table.entry(&key(number)), Some(Arc::clone(&other)));
        }
        assert!(table.entry(&key(0)).held().is_some(), "what is in use went");
        assert!(table.entry(&key(1)).change.try_lock().unwrap().is_some(), "what was not stored yet went");
    }

    #[test]
    fn what_is_taken_away_makes_room() {
        let table = Table::new();
        let entry = table.entry(&key(0));
        let empty = table.size();
        table.hold(&entry, Some(credential(4_096)));
        assert!(table.size().1 > empty.1 + 8_192);
        table.hold(&entry, None);
        assert_eq!(table.size(), empty);
    }
}

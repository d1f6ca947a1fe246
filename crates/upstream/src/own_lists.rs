//! The table of one server: what each principal was shown last, and whether that is still so.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use toolcrib_protocol::inventory::Listing;

use crate::inventory::Inventory;

/// How many principals are remembered at one server; the one that was not seen for longest goes first, and is listed
/// again when it comes back.
const MOST: usize = 16_384;
/// After how long what a principal was shown is read again when it asks: most servers do not tell what changes for whom.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// The same where there is no credential, or reading failed.
const AGAIN: Duration = Duration::from_secs(15);
/// The same where there was no credential and there is one by now: who comes with a newer token does not wait.
const SOON: Duration = Duration::from_secs(1);
/// How many lists of principals are read at a time.
const READERS: usize = 8;

/// What is known of a principal's credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CredentialState {
    /// Nothing yet.
    Unknown,
    /// It has one that the server takes.
    Given,
    /// It has none, or none that the server takes.
    Missing,
    /// It could not be had.
    Unproven,
    /// The server could not be listed with it.
    Failed,
}

/// What is known of a principal.
#[derive(Debug)]
pub(crate) struct KnownLists {
    pub(crate) inventory: Option<Arc<Inventory>>,
    pub(crate) standing: CredentialState,
    /// Whether it is time to find out again.
    pub(crate) is_due: bool,
    /// Whether it is time if there is a credential by now.
    pub(crate) is_due_if_proven: bool,
}

#[derive(Debug)]
struct Entry {
    inventory: Option<Arc<Inventory>>,
    standing: CredentialState,
    /// When it was found out; `None` is due.
    found: Option<Instant>,
    seen: Instant,
}

/// What principals see of one server.
#[derive(Debug)]
pub(crate) struct OwnLists {
    table: Mutex<Table>,
    pub(crate) readers: Semaphore,
    /// How many readings are under way, so that mostly no one asks whose.
    running: AtomicUsize,
    /// Changes when a reading ends.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Arc<str>, Entry>,
    /// Which reading of whom is under way: only its result counts.
    readings: HashMap<Arc<str>, u64>,
    /// Inventories that someone has, by their digest: equal ones are one.
    shared: HashMap<u64, Vec<Weak<Inventory>>>,
    next: u64,
}

/// The inventory of a server that shows nothing.
pub(crate) fn nothing() -> Arc<Inventory> {
    static NOTHING: LazyLock<Arc<Inventory>> = LazyLock::new(Arc::default);
    Arc::clone(&NOTHING)
}

impl Default for OwnLists {
    fn default() -> Self {
        let (running, ended) = (AtomicUsize::new(0), watch::Sender::new(0));
        Self { table: Mutex::default(), readers: Semaphore::new(READERS), running, ended }
    }
}

impl OwnLists {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a principal, who is there.
    pub(crate) fn look(&self, principal: &str) -> KnownLists {
        let now = Instant::now();
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(principal) else {
            let (inventory, standing) = (None, CredentialState::Unknown);
            return KnownLists { inventory, standing, is_due: true, is_due_if_proven: true };
        };
        entry.seen = now;
        let (inventory, standing, found) = (entry.inventory.clone(), entry.standing, entry.found);
        let is_reading = table.readings.contains_key(principal);
        let is_older = |most| !is_reading && found.is_none_or(|found| now.duration_since(found) >= most);
        let is_due = is_older(if standing == CredentialState::Given { FRESH } else { AGAIN });
        let is_unproven = matches!(standing, CredentialState::Missing | CredentialState::Unproven);
        KnownLists { inventory, standing, is_due, is_due_if_proven: is_unproven && is_older(SOON) }
    }

    /// All inventories that principals are shown, each once.
    pub(crate) fn all(&self) -> Vec<Arc<Inventory>> {
        let table = self.lock();
        let mut all: Vec<_> = table.entries.values().filter_map(|entry| entry.inventory.clone()).collect();
        all.sort_by_key(|inventory| Arc::as_ptr(inventory).addr());
        all.dedup_by(|one, other| Arc::ptr_eq(one, other));
        all
    }

    /// Whether a principal is about to be shown something for the first time. A server that failed for it before is not
    /// waited for.
    pub(crate) fn is_first(&self, principal: &str) -> bool {
        if self.running.load(Ordering::Acquire) == 0 {
            return false;
        }
        let table = self.lock();
        let entry = table.entries.get(principal).filter(|_| table.readings.contains_key(principal));
        entry.is_some_and(|entry| entry.inventory.is_none() && entry.standing != CredentialState::Failed)
    }

    /// Changes when a reading ends.
    pub(crate) fn watch_ended(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Ends the reading for a principal that is under way, if one is: its result counts no more.
    fn end(&self, table: &mut Table, principal: &str) {
        if table.readings.remove(principal).is_some() {
            self.running.store(table.readings.len(), Ordering::Release);
            self.ended.send_modify(|count| *count += 1);
        }
    }

    /// What all of these were shown, who may be thousands: the inventory is compared with others once.
    pub(crate) fn remember(&self, principals: &[&str], inventory: Arc<Inventory>) {
        let mut table = self.lock();
        let inventory = table.shared(inventory);
        for principal in principals {
            let entry = table.entry(principal);
            (entry.inventory, entry.found) = (Some(Arc::clone(&inventory)), None);
        }
    }

    /// What is known of a principal may not be so any more; a reading that is under way counts no more.
    pub(crate) fn doubt(&self, principal: &str) {
        let mut table = self.lock();
        let entry = table.entry(principal);
        if matches!(entry.standing, CredentialState::Failed | CredentialState::Unproven) {
            entry.standing = CredentialState::Unknown;
        }
        entry.found = None;
        self.end(&mut table, principal);
    }

    /// The same of all who have been listed.
    pub(crate) fn doubt_all(&self) {
        self.lock().entries.values_mut().for_each(|entry| entry.found = None);
    }

    /// Forgets what a principal was shown; whether it was shown something. Readings that are under way count no more.
    pub(crate) fn forget(&self, principal: &str) -> bool {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(principal) else { return false };
        let before = entry.inventory.take();
        let had = before.is_some() || entry.standing != CredentialState::Missing;
        (entry.standing, entry.found) = (CredentialState::Missing, None);
        self.end(&mut table, principal);
        had
    }

    /// A principal has no credential. What it was shown before stays.
    pub(crate) fn settle_missing(&self, principal: &str) {
        let mut table = self.lock();
        let entry = table.entry(principal);
        (entry.standing, entry.found) = (CredentialState::Missing, Some(Instant::now()));
    }

    /// Begins to read; gives the number of the reading, unless one is under way.
    pub(crate) fn begin(&self, principal: &str) -> Option<u64> {
        let mut table = self.lock();
        if table.readings.contains_key(principal) {
            return None;
        }
        table.next += 1;
        let number = table.next;
        table.entry(principal);
        table.readings.insert(principal.into(), number);
        self.running.store(table.readings.len(), Ordering::Release);
        Some(number)
    }

    /// Takes what a reading found: the lists, or why there are none. Gives whether anything changed; nothing does where
    /// the principal has logged out meanwhile. `main` is what everyone sees.
    pub(crate) fn settle(
        &self,
        principal: &str,
        number: u64,
        found: Result<Inventory, CredentialState>,
        main: &Arc<Inventory>,
    ) -> bool {
        let mut table = self.lock();
        if table.readings.get(principal) != Some(&number) {
            return false;
        }
        let (inventory, standing) = match found {
            Ok(inventory) if equal(&inventory, main) => (Some(Arc::clone(main)), CredentialState::Given),
            Ok(inventory) => (Some(table.shared(Arc::new(inventory))), CredentialState::Given),
            Err(standing) => (None, standing),
        };
        let entry = table.entry(principal);
        let same = match (&entry.inventory, &inventory) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (_, None) => true,
            (None, Some(_)) => false,
        };
        let is_news = !same || entry.standing != standing;
        if inventory.is_some() {
            entry.inventory = inventory;
        }
        (entry.standing, entry.found) = (standing, Some(Instant::now()));
        // After what was found is there for those who wait for it.
        self.end(&mut table, principal);
        is_news
    }
}

impl Table {
    fn entry(&mut self, principal: &str) -> &mut Entry {
        let now = Instant::now();
        if !self.entries.contains_key(principal) && self.entries.len() >= MOST {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.seen).map(|(who, _)| Arc::clone(who));
            oldest.and_then(|oldest| self.entries.remove(&oldest));
        }
        self.entries.entry(principal.into()).or_insert(Entry {
            inventory: None,
            standing: CredentialState::Unknown,
            found: None,
            seen: now,
        })
    }

    /// The inventory, or an equal one that someone has.
    fn shared(&mut self, inventory: Arc<Inventory>) -> Arc<Inventory> {
        let mut hasher = DefaultHasher::new();
        for listing in Listing::ALL {
            inventory.list(listing).iter().for_each(|entry| entry.raw.bytes().hash(&mut hasher));
        }
        let alike = self.shared.entry(hasher.finish()).or_default();
        alike.retain(|known| known.strong_count() > 0);
        if let Some(known) = alike.iter().filter_map(Weak::upgrade).find(|known| equal(known, &inventory)) {
            return known;
        }
        alike.push(Arc::downgrade(&inventory));
        if self.shared.len() > MOST {
            self.shared.retain(|_, alike| alike.iter().any(|known| known.strong_count() > 0));
        }
        inventory
    }
}

/// Whether two inventories show the same, whoever listed them.
fn equal(one: &Inventory, other: &Inventory) -> bool {
    Listing::ALL.iter().all(|listing| one.list(*listing) == other.list(*listing))
        && one.capabilities == other.capabilities
        && one.server_info == other.server_info
        && one.instructions == other.instructions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tool: &str) -> Inventory {
        let text = format!(r#"{{"tools":[{{"name":"{tool}"}}],"resources":[],"templates":[],"prompts":[]}}"#);
        Inventory::from_json(&text).unwrap()
    }

    fn read(lists: &OwnLists, principal: &str, tool: &str) -> Arc<Inventory> {
        let number = lists.begin(principal).unwrap();
        assert!(lists.settle(principal, number, Ok(of(tool)), &nothing()));
        lists.look(principal).inventory.unwrap()
    }

    #[test]
    fn equal_inventories_are_one_and_no_other_is_shown() {
        let lists = OwnLists::default();
        let (ann, bob, eve) = (read(&lists, "ann", "a"), read(&lists, "bob", "a"), read(&lists, "eve", "b"));
        assert!(Arc::ptr_eq(&ann, &bob) && !Arc::ptr_eq(&ann, &eve));
        assert_eq!(lists.look("eve").inventory.unwrap().tools[0].key, "b");
        assert!(lists.look("zoe").inventory.is_none());
    }

    #[test]
    fn what_is_read_for_someone_who_has_logged_out_counts_no_more() {
        let lists = OwnLists::default();
        let number = lists.begin("ann").unwrap();
        assert!(lists.begin("ann").is_none(), "one reading at a time");
        lists.forget("ann");
        assert!(!lists.settle("ann", number, Ok(of("a")), &nothing()));
        assert!(lists.look("ann").inventory.is_none());
    }

    #[test]
    fn a_lapsed_login_keeps_its_tools_and_a_logout_does_not() {
        let lists = OwnLists::default();
        read(&lists, "ann", "a");
        let number = lists.begin("ann").unwrap();
        assert!(lists.settle("ann", number, Err(CredentialState::Missing), &nothing()));
        assert!(lists.look("ann").inventory.is_some());
        assert_eq!(lists.look("ann").standing, CredentialState::Missing);
        assert!(lists.forget("ann") && lists.look("ann").inventory.is_none());
    }

    #[test]
    fn principals_are_bounded() {
        let lists = OwnLists::default();
        for index in 0..=MOST {
            lists.remember(&[&format!("p{index}")], nothing());
        }
        assert_eq!(lists.lock().entries.len(), MOST);
    }
}

//! When keys were used last, to the minute: so that people find those that no one needs any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolcrib_base::Timestamp;
use toolcrib_catalog::KeyHash;

/// How much later a use must be to be noted, in milliseconds: requests come by the thousand.
const STEP: u64 = 60_000;
/// How many keys are remembered.
const KEYS: usize = 100_000;

/// When which key was used last.
#[derive(Debug, Default)]
pub struct KeyUses(Mutex<KeyUseTable>);

#[derive(Debug, Default)]
struct KeyUseTable {
    by_key: HashMap<KeyHash, Timestamp>,
    has_changed: bool,
}

// === impl KeyUses ===

impl KeyUses {
    /// Those that were noted before.
    pub fn new(known: HashMap<KeyHash, Timestamp>) -> Self {
        Self(Mutex::new(KeyUseTable { by_key: known, has_changed: false }))
    }

    /// Notes a use.
    pub fn note(&self, key: KeyHash, now: Timestamp) {
        let mut table = self.lock();
        let is_new = match table.by_key.get(&key) {
            Some(last) => now.since(*last) >= STEP,
            None => table.by_key.len() < KEYS,
        };
        if is_new {
            table.by_key.insert(key, now);
            table.has_changed = true;
        }
    }

    /// All of them, if there are other ones than when this was asked last.
    pub fn take_changed(&self) -> Option<HashMap<KeyHash, Timestamp>> {
        let mut table = self.lock();
        std::mem::take(&mut table.has_changed).then(|| table.by_key.clone())
    }

    fn lock(&self) -> MutexGuard<'_, KeyUseTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_noted_to_the_minute() {
        let (uses, key) = (KeyUses::default(), KeyHash::of("a"));
        assert_eq!(uses.take_changed(), None);
        for (now, expected) in [(0, Some(0)), (59_999, None), (60_000, Some(60_000)), (60_001, None), (0, None)] {
            uses.note(key, Timestamp(now));
            assert_eq!(uses.take_changed().map(|table| table[&key].0), expected, "{now}");
        }
    }
}

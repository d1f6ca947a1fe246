//! Who called lately without a session: clients of the modern era, whose requests stand alone. In memory, bounded; the
//! audit log has what they called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::{PrincipalId, ProfileName, Timestamp};
use toolcrib_protocol::{Revision, method};
use toolcrib_session::Caller;
use toolcrib_store::Door;

/// How many are remembered; who was seen longest ago goes first.
const MOST: usize = 1_000;
/// How many characters of a client's name are kept.
const NAME_CHARS: usize = 64;

/// Who called lately.
#[derive(Debug, Default)]
pub(crate) struct RecentCallers(Mutex<HashMap<CallerKey, CallerRecord>>);

/// What tells callers apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallerKey {
    pub(crate) principal: PrincipalId,
    pub(crate) profile: ProfileName,
    pub(crate) revision: Revision,
    /// As it names itself; empty where it does not.
    pub(crate) client: Arc<str>,
}

/// How often one called, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallerRecord {
    pub(crate) requests: u64,
    pub(crate) calls: u64,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

// === impl RecentCallers ===

impl RecentCallers {
    /// Notes a request of a client, unless it belongs to a session.
    pub(crate) fn note(&self, caller: &Caller, method: &str, now: Timestamp) {
        let (None, Some(declared)) = (&caller.session, &caller.meta) else { return };
        if caller.door != Door::MCP {
            return;
        }
        let name = declared.client_info.as_ref().and_then(|info| info.text("name")).unwrap_or_default();
        let client: String = name.chars().take(NAME_CHARS).collect();
        let key = CallerKey {
            principal: caller.principal.id.clone(),
            profile: caller.profile.clone(),
            revision: caller.revision,
            client: client.into(),
        };
        self.count(key, method == method::TOOLS_CALL, now);
    }

    fn count(&self, key: CallerKey, is_call: bool, now: Timestamp) {
        let mut all = self.lock();
        if all.len() >= MOST && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, record)| record.last).map(|(key, _)| key.clone());
            oldest.and_then(|key| all.remove(&key));
        }
        let new = CallerRecord { requests: 0, calls: 0, first: now, last: now };
        let record = all.entry(key).or_insert(new);
        record.requests += 1;
        record.calls += u64::from(is_call);
        record.last = now;
    }

    /// All that are remembered, the one that was seen last first.
    pub(crate) fn all(&self) -> Vec<(CallerKey, CallerRecord)> {
        let mut all: Vec<_> = self.lock().iter().map(|(key, record)| (key.clone(), *record)).collect();
        all.sort_by_key(|(_, record)| std::cmp::Reverse(record.last));
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallerKey, CallerRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> CallerKey {
        CallerKey {
            principal: PrincipalId::new("local"),
            profile: ProfileName::new("default").unwrap(),
            revision: Revision::LATEST,
            client: format!("client {number}").into(),
        }
    }

    #[test]
    fn a_flood_of_names_takes_no_more_room_and_who_was_seen_last_stays() {
        let callers = RecentCallers::default();
        for number in 0..MOST + 10 {
            callers.count(key(number), number % 2 == 0, Timestamp(i64::try_from(number).unwrap()));
        }
        callers.count(key(MOST + 9), true, Timestamp(9_000));
        let all = callers.all();
        assert_eq!(all.len(), MOST);
        let (last, record) = &all[0];
        assert_eq!((last, record.requests, record.calls), (&key(MOST + 9), 2, 1));
        assert!(record.first < record.last && !all.iter().any(|(it, _)| *it == key(0)));
    }
}

//! Calls that were given up and that their server has not answered: taken back, or out of time. Their places are given
//! to others, so they are counted here; a tool with many of them hangs, and its server may run short of whatever each
//! of them holds there.
//!
//! Only of servers over ordered connections: over HTTP a call ends with its connection, as far as anyone can see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::ServerName;

/// How many are remembered for one server, some 64 bytes each. Of more, the oldest are forgotten: their answers, should
/// they still come, are reported as oddities.
pub const REMEMBERED: usize = 4_096;

/// From how many on the log says so; said again whenever they have doubled.
const NOTED: usize = 16;

/// Those of one server. Clones are handles to the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnansweredCalls(Arc<Mutex<State>>);

/// One call of one server. In order by connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CallKey {
    connection: u64,
    id: u64,
}

#[derive(Debug, Default)]
struct State {
    /// By age, with the tool.
    calls: BTreeMap<u64, (CallKey, Arc<str>)>,
    ages: BTreeMap<CallKey, u64>,
    tools: BTreeMap<Arc<str>, Tool>,
    next: u64,
}

/// Those of one tool.
#[derive(Debug, Default)]
struct Tool {
    count: usize,
    noted: usize,
}

/// Those of one connection, which are forgotten when it ends.
#[derive(Debug)]
pub(crate) struct ConnectionCalls {
    all: UnansweredCalls,
    server: ServerName,
    connection: u64,
}

// === impl UnansweredCalls ===

impl UnansweredCalls {
    pub(crate) fn on(&self, server: &ServerName, connection: u64) -> ConnectionCalls {
        ConnectionCalls { all: self.clone(), server: server.clone(), connection }
    }

    /// How many there are, by tool.
    pub(crate) fn by_tool(&self) -> Vec<(Arc<str>, usize)> {
        self.lock().tools.iter().map(|(tool, it)| (Arc::clone(tool), it.count)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// Counts one more; how many there are when that is worth a line in the log.
    fn add(&mut self, call: CallKey, tool: &str) -> Option<usize> {
        while self.calls.len() >= REMEMBERED {
            let Some((_, (oldest, _))) = self.calls.first_key_value() else { break };
            let oldest = *oldest;
            self.remove(oldest);
        }
        let known = self.tools.get_key_value(tool).map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| tool.into());
        let counted = self.tools.entry(Arc::clone(&name)).or_default();
        counted.count += 1;
        self.next += 1;
        self.calls.insert(self.next, (call, name));
        self.ages.insert(call, self.next);
        let worth = counted.count >= NOTED && counted.count >= counted.noted * 2;
        worth.then(|| {
            counted.noted = counted.count;
            counted.count
        })
    }

    fn remove(&mut self, call: CallKey) -> bool {
        let Some((_, tool)) = self.ages.remove(&call).and_then(|age| self.calls.remove(&age)) else { return false };
        if let Some(counted) = self.tools.get_mut(&tool) {
            counted.count = counted.count.saturating_sub(1);
            if counted.count == 0 {
                self.tools.remove(&tool);
            }
        }
        true
    }
}

// === impl ConnectionCalls ===

impl ConnectionCalls {
    fn key(&self, id: u64) -> CallKey {
        CallKey { connection: self.connection, id }
    }

    /// A call was given up.
    pub(crate) fn add(&self, id: u64, tool: &str) {
        let worth_telling = self.all.lock().add(self.key(id), tool);
        if let Some(count) = worth_telling {
            let server = &self.server;
            tracing::warn!(%server, tool, "{count} calls were never answered; restart it with `toolcrib restart \
                                           server {server}`");
        }
    }

    /// An answer came after all; `false` when no such call is remembered.
    pub(crate) fn answered(&self, id: u64) -> bool {
        self.all.lock().remove(self.key(id))
    }
}

impl Drop for ConnectionCalls {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        let of_this = self.key(0)..=self.key(u64::MAX);
        let calls: BTreeSet<_> = state.ages.range(of_this).map(|(call, _)| *call).collect();
        for call in calls {
            state.remove(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_tool_until_they_are_answered_or_their_connection_ends() {
        let all = UnansweredCalls::default();
        let counts = || all.by_tool().into_iter().map(|(tool, count)| format!("{tool} {count}")).collect::<Vec<_>>();
        let name = ServerName::new("a").unwrap();
        let (one, two) = (all.on(&name, 1), all.on(&name, 2));
        one.add(7, "hang");
        one.add(8, "hang");
        two.add(7, "hang");
        two.add(9, "slow");
        assert_eq!(counts(), ["hang 3", "slow 1"]);
        assert!(one.answered(7) && !one.answered(7) && !one.answered(99));
        assert_eq!(counts(), ["hang 2", "slow 1"]);
        drop(two);
        assert_eq!(counts(), ["hang 1"]);
    }

    #[test]
    fn they_are_bounded_and_told_of_ever_more_seldom() {
        let all = UnansweredCalls::default();
        let connection = all.on(&ServerName::new("a").unwrap(), 1);
        let told: Vec<usize> =
            (0..10_000).filter_map(|id| all.lock().add(CallKey { connection: 1, id }, "hang")).collect();
        assert_eq!(told, [16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096]);
        assert_eq!(all.by_tool(), [("hang".into(), REMEMBERED)]);
        assert!(!connection.answered(0) && connection.answered(9_999));
    }
}

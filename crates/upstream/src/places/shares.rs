//! How many calls of whom wait: for a queue that is full, and must know who has most of it.

use std::collections::{BTreeSet, HashMap};

use toolcrib_base::PrincipalId;

/// The calls that wait, by principal.
#[derive(Debug, Default)]
pub(super) struct Shares {
    total: usize,
    of: HashMap<PrincipalId, usize>,
    /// The same, the greatest number last.
    by_number: BTreeSet<(usize, PrincipalId)>,
}

// === impl Shares ===

impl Shares {
    /// All of them.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// One more of a principal.
    pub(super) fn add(&mut self, who: &PrincipalId) {
        self.total += 1;
        self.set(who, self.of(who) + 1);
    }

    /// One less of a principal.
    pub(super) fn remove(&mut self, who: &PrincipalId) {
        self.total = self.total.saturating_sub(1);
        self.set(who, self.of(who).saturating_sub(1));
    }

    /// Who has so many of the `most` that one less leaves no fewer than `who` has with one more: the one with most, if at
    /// all. None where there are more than may be, since other limits hold: then no one makes room for another.
    pub(super) fn above(&self, who: &PrincipalId, most: usize) -> Option<&PrincipalId> {
        let (greatest, greedy) = self.by_number.last()?;
        (self.total == most && *greatest > self.of(who) + 1).then_some(greedy)
    }

    fn of(&self, who: &PrincipalId) -> usize {
        self.of.get(who).copied().unwrap_or(0)
    }

    fn set(&mut self, who: &PrincipalId, number: usize) {
        let before = self.of.remove(who);
        if let Some(before) = before {
            self.by_number.remove(&(before, who.clone()));
        }
        if number > 0 {
            self.of.insert(who.clone(), number);
            self.by_number.insert((number, who.clone()));
        }
    }
}

//! Keys of objects: those that were seen while a text is scanned, and which ones a value may have. Knows no scanner.

use std::borrow::Cow;
use std::collections::HashSet;

/// From this many keys on an object's keys are looked up in a set instead of one by one.
const SET_FROM: usize = 16;
/// Which keys may stand in the outermost object of a text: noted while it is scanned or written, so that a large text is
/// not searched for a key that it does not have. It may say yes for a key that is not there, and never no for one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyFilter(u64);

impl KeyFilter {
    /// Nothing is known of the keys.
    pub(crate) const UNKNOWN: Self = Self(u64::MAX);
    /// There are no keys.
    pub(crate) const EMPTY: Self = Self(0);

    /// Notes a key, without its escapes.
    pub(crate) fn add(&mut self, key: &str) {
        self.0 |= Self::bit(key);
    }

    /// Notes a key as it is written, with its quotes.
    pub(crate) fn add_raw(&mut self, raw: &str) {
        match raw.get(1..raw.len().saturating_sub(1)) {
            Some(key) if !key.contains('\\') => self.add(key),
            _ => *self = Self::UNKNOWN,
        }
    }

    /// Whether there may be such a key.
    pub(crate) fn may_have(self, key: &str) -> bool {
        self.0 & Self::bit(key) != 0
    }

    fn bit(key: &str) -> u64 {
        let bytes = key.as_bytes();
        let (first, last) = (bytes.first().copied().unwrap_or_default(), bytes.last().copied().unwrap_or_default());
        1 << ((bytes.len() * 5 + usize::from(first) * 3 + usize::from(last)) % 64)
    }
}

/// The keys of the open objects, those of the outermost first: one list for all, so that an object costs no memory of its
/// own. Only kept where duplicates are refused.
#[derive(Default)]
pub(super) struct SeenKeys<'a> {
    pub(super) all: Vec<Cow<'a, str>>,
    open: Vec<OpenObject<'a>>,
}

/// Where the keys of one open object begin in the list, or all of them once they are many.
struct OpenObject<'a> {
    start: usize,
    many: Option<HashSet<Cow<'a, str>>>,
}

impl<'a> SeenKeys<'a> {
    pub(super) fn begin(&mut self) {
        self.open.push(OpenObject { start: self.all.len(), many: None });
    }

    pub(super) fn end(&mut self) {
        if let Some(object) = self.open.pop() {
            self.all.truncate(object.start);
        }
    }

    /// Adds a key of the innermost object; `false` when it was there.
    pub(super) fn add(&mut self, key: Cow<'a, str>) -> bool {
        let Some(object) = self.open.last_mut() else { return true };
        if let Some(many) = &mut object.many {
            return many.insert(key);
        }
        let seen = &self.all[object.start..];
        if seen.contains(&key) {
            return false;
        }
        if seen.len() + 1 < SET_FROM {
            self.all.push(key);
        } else {
            object.many = Some(self.all.drain(object.start..).chain([key]).collect());
        }
        true
    }
}

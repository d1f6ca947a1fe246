//! Which eras a server speaks, as far as it has shown, and in which of them a call is made.
//!
//! The main connection is modern wherever the server can be. Whether such a server takes `initialize` too is tried when
//! the first legacy client calls it, on its own connection: over stdio a program is of one era as long as it runs.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::Clock;
use toolcrib_protocol::Era;

/// How often an answer may make us doubt the era of a server, in milliseconds.
const DOUBT: i64 = 60_000;
/// How long a server that should take `initialize` and could not be asked is left alone, in milliseconds.
const RETRY: i64 = 60_000;

/// What is remembered of a server between two starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nature {
    /// The era of its main connection when it last answered: the modern one wherever it speaks that.
    pub era: Option<Era>,
    /// Whether one whose main connection is modern takes `initialize` too; `None` where that was not tried.
    pub also_legacy: Option<bool>,
    /// Whether it asks questions on connections that cannot say which call they belong to.
    pub asks: bool,
}

/// Whether a server whose main connection is modern takes `initialize` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LegacySupport {
    /// It does not name a legacy revision, and was not asked.
    Untried,
    /// It names one.
    Claimed,
    /// It did.
    Proven,
    /// It refused.
    Refused,
}

/// How an attempt to open a legacy connection beside a modern one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server does not take `initialize`.
    Refused,
    /// It was silent, or its program ended.
    Silent,
    /// It could not be asked.
    Unreached,
}

#[derive(Debug)]
struct State {
    beside: LegacySupport,
    /// When the last attempt failed that says nothing, on the clock.
    failed_at: Option<i64>,
}

/// What is known of one server.
#[derive(Debug)]
pub(crate) struct Eras {
    /// The only era that its definition allows.
    only: Option<Era>,
    /// The era of the main connection when it last answered; 0 is unknown.
    main: AtomicU8,
    beside: Mutex<State>,
    /// When an answer last made us doubt, on the clock; 0 is never.
    doubted: AtomicI64,
    /// Whether it is known to ask without saying in which call.
    asks: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

fn place_of(era: Option<Era>) -> u8 {
    match era {
        None => 0,
        Some(Era::Legacy) => 1,
        Some(Era::Modern) => 2,
    }
}

// === impl Eras ===

impl Eras {
    /// What is remembered, within what the definition allows.
    pub(crate) fn new(only: Option<Era>, known: Nature, clock: Arc<dyn Clock>) -> Self {
        let beside = match known.also_legacy {
            None => LegacySupport::Untried,
            Some(true) => LegacySupport::Proven,
            Some(false) => LegacySupport::Refused,
        };
        Self {
            only,
            main: AtomicU8::new(place_of(only.or(known.era))),
            beside: Mutex::new(State { beside, failed_at: None }),
            doubted: AtomicI64::new(0),
            asks: Arc::new(AtomicBool::new(known.asks)),
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The only era that its definition allows.
    pub(crate) fn only(&self) -> Option<Era> {
        self.only
    }

    /// Whether it is known to ask without saying in which call.
    pub(crate) fn asks(&self) -> &Arc<AtomicBool> {
        &self.asks
    }

    /// The era of the main connection when it last answered.
    pub(crate) fn main(&self) -> Option<Era> {
        match self.main.load(Ordering::Relaxed) {
            1 => Some(Era::Legacy),
            2 => Some(Era::Modern),
            _ => None,
        }
    }

    /// The era of the main connection is unknown from here on, unless the definition says it.
    pub(crate) fn forget(&self) {
        self.main.store(place_of(self.only), Ordering::Relaxed);
    }

    /// A main connection was opened. `names_legacy` is whether a modern server listed a legacy revision.
    pub(crate) fn opened(&self, era: Era, names_legacy: bool) {
        self.main.store(place_of(Some(era)), Ordering::Relaxed);
        let mut state = self.lock();
        match (era, state.beside) {
            (Era::Legacy, _) => state.beside = LegacySupport::Untried,
            // What it refused, an earlier version of it may have.
            (Era::Modern, LegacySupport::Untried | LegacySupport::Refused) if names_legacy => {
                state.beside = LegacySupport::Claimed;
            }
            (Era::Modern, _) => {}
        }
        state.failed_at = None;
    }

    /// The era in which a call of a client of era `wanted` is made; `None` where it is not known yet.
    pub(crate) fn choice(&self, wanted: Option<Era>) -> Option<Era> {
        let main = self.main();
        let beside = main == Some(Era::Modern) && wanted == Some(Era::Legacy) && self.may_open_beside();
        if beside { wanted } else { main }
    }

    /// Whether a legacy connection beside the modern main one may be had.
    fn may_open_beside(&self) -> bool {
        if self.only.is_some() {
            return false;
        }
        let state = self.lock();
        match state.beside {
            LegacySupport::Proven => true,
            LegacySupport::Refused => false,
            LegacySupport::Untried | LegacySupport::Claimed => {
                let now = self.clock.now().0;
                state.failed_at.is_none_or(|failed| now.saturating_sub(failed) >= RETRY)
            }
        }
    }

    /// Whether it is known to speak an era at all.
    pub(crate) fn speaks(&self, era: Era) -> bool {
        match (self.main(), era) {
            (Some(Era::Modern), Era::Legacy) => self.only.is_none() && self.lock().beside == LegacySupport::Proven,
            (main, era) => main == Some(era),
        }
    }

    /// Whether a session with it may be had: it takes `initialize`, says so, or nothing is known of it.
    pub(crate) fn may_have_sessions(&self) -> bool {
        let may_beside =
            || self.only.is_none() && matches!(self.lock().beside, LegacySupport::Claimed | LegacySupport::Proven);
        self.main() != Some(Era::Modern) || may_beside()
    }

    /// A legacy connection was opened beside the modern main one; `true` when that is news.
    pub(crate) fn opened_beside(&self) -> bool {
        let mut state = self.lock();
        state.failed_at = None;
        std::mem::replace(&mut state.beside, LegacySupport::Proven) != LegacySupport::Proven
    }

    /// A legacy connection could not be opened beside the modern main one; `true` when it is now known that none can
    /// be.
    ///
    /// A server that has taken `initialize` before is not doubted because its program ended once. One that never said
    /// that it does is not asked again after silence.
    pub(crate) fn failed_beside(&self, failure: Failure) -> bool {
        let mut state = self.lock();
        let refused = match (failure, state.beside) {
            (_, LegacySupport::Refused) => return false,
            (Failure::Refused, _) | (Failure::Silent, LegacySupport::Untried) => true,
            (Failure::Silent | Failure::Unreached, _) => false,
        };
        if refused {
            state.beside = LegacySupport::Refused;
        } else {
            state.failed_at = Some(self.clock.now().0);
        }
        refused
    }

    /// Whether an answer may make us doubt the era by now; not more often than once a minute.
    pub(crate) fn may_doubt(&self) -> bool {
        let now = self.clock.now().0;
        let last = self.doubted.load(Ordering::Relaxed);
        let long_ago = last == 0 || now.saturating_sub(last) >= DOUBT;
        long_ago && self.doubted.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// What of it is worth remembering.
    pub(crate) fn nature(&self) -> Nature {
        let era = self.main();
        let also_legacy = match self.lock().beside {
            _ if era != Some(Era::Modern) => None,
            LegacySupport::Untried | LegacySupport::Claimed => None,
            LegacySupport::Proven => Some(true),
            LegacySupport::Refused => Some(false),
        };
        Nature { era, also_legacy, asks: self.asks.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::Timestamp;

    use super::*;

    #[derive(Debug, Default)]
    struct StepClock(AtomicI64);

    impl Clock for StepClock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
    }

    fn eras(only: Option<Era>, known: Nature) -> (Eras, Arc<StepClock>) {
        let hand = Arc::new(StepClock(AtomicI64::new(1)));
        let clock: Arc<dyn Clock> = Arc::<StepClock>::clone(&hand);
        (Eras::new(only, known, clock), hand)
    }

    const LEGACY: Option<Era> = Some(Era::Legacy);
    const MODERN: Option<Era> = Some(Era::Modern);

    #[test]
    fn a_client_gets_its_own_era_where_the_server_may_have_it() {
        let (known, _) = eras(None, Nature::default());
        assert_eq!((known.choice(LEGACY), known.choice(MODERN), known.choice(None)), (None, None, None));
        known.opened(Era::Legacy, false);
        assert_eq!((known.choice(LEGACY), known.choice(MODERN), known.choice(None)), (LEGACY, LEGACY, LEGACY));
        for names_legacy in [false, true] {
            known.opened(Era::Modern, names_legacy);
            assert_eq!((known.choice(LEGACY), known.choice(MODERN), known.choice(None)), (LEGACY, MODERN, MODERN));
            assert!(!known.speaks(Era::Legacy) && known.speaks(Era::Modern), "it has not shown it yet");
        }
        assert!(known.opened_beside() && !known.opened_beside());
        assert!(known.speaks(Era::Legacy));
        assert_eq!(known.nature(), Nature { era: MODERN, also_legacy: Some(true), asks: false });
    }

    #[test]
    fn a_definition_has_the_last_word() {
        for only in [Era::Legacy, Era::Modern] {
            let (pinned, _) = eras(Some(only), Nature { era: MODERN, also_legacy: Some(true), asks: false });
            assert_eq!((pinned.choice(LEGACY), pinned.choice(MODERN)), (Some(only), Some(only)));
            pinned.forget();
            assert_eq!(pinned.main(), Some(only));
            assert!(pinned.speaks(only) && !pinned.speaks(if only == Era::Legacy { Era::Modern } else { Era::Legacy }));
        }
    }

    #[test]
    fn what_was_refused_is_not_asked_again_until_the_server_says_otherwise() {
        let (known, _) = eras(None, Nature { era: MODERN, ..Nature::default() });
        assert!(known.failed_beside(Failure::Silent), "it never said that it would answer");
        assert!(!known.failed_beside(Failure::Refused), "that is no news");
        assert_eq!((known.choice(LEGACY), known.nature().also_legacy), (MODERN, Some(false)));
        known.opened(Era::Modern, false);
        assert_eq!(known.choice(LEGACY), MODERN);
        known.opened(Era::Modern, true);
        assert_eq!(known.choice(LEGACY), LEGACY);
        assert!(known.opened_beside());
        assert!(known.failed_beside(Failure::Refused), "another version of it");
        assert_eq!(known.choice(LEGACY), MODERN);
    }

    #[test]
    fn a_failure_that_says_nothing_is_tried_again_later() {
        let (known, hand) = eras(None, Nature { era: MODERN, ..Nature::default() });
        assert!(!known.failed_beside(Failure::Unreached));
        assert_eq!(known.choice(LEGACY), MODERN, "for now");
        hand.0.fetch_add(RETRY, Ordering::Relaxed);
        assert_eq!(known.choice(LEGACY), LEGACY);
        known.opened_beside();
        assert!(!known.failed_beside(Failure::Silent), "its program may have failed for any reason");
        assert_eq!(
            known.choice(LEGACY),
            LEGACY,
            "a client of a server that speaks its era is not bridged now and then"
        );
    }
}

//! Canaries: tokens that no one has reason to send anywhere. What a client asks for is looked at where it comes in, whole,
//! before anything is written down; what sources call with, and what servers answer, on their way. Pieces of one principal
//! add up for [`WINDOW`]. What comes of a canary that was found is decided in `canary_guard`.

pub mod mint;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use toolcrib_base::{Kind, PrincipalId, Problem, Secret};
use toolcrib_protocol::Raw;
use toolcrib_scan::CanaryScanner;
use toolcrib_scan::canary::Piece;

use crate::halts::Halt;

/// How long pieces of a canary add up, in milliseconds.
pub const WINDOW: i64 = 10 * 60 * 1_000;
/// Of how many principals pieces are remembered: innocent ones have none. The one that was heard of longest ago gives way.
const PRINCIPALS: usize = 10_000;
/// How many pieces of one principal are remembered; of more, the last ones.
const PIECES: usize = 256;
/// Longer texts are looked at on a thread for what blocks: some milliseconds would hold up the calls of others.
pub(crate) const LONG: usize = 256 * 1024;

/// What is looked for, and what was seen of it lately.
pub struct Canaries {
    set: ArcSwap<CanarySet>,
    seen: Mutex<HashMap<PrincipalId, Vec<SeenPiece>>>,
}

#[derive(Default)]
struct CanarySet {
    scanner: CanaryScanner,
    ids: Vec<Arc<str>>,
}

struct SeenPiece {
    canary: Arc<str>,
    piece: Piece,
    /// Milliseconds of the clock.
    at: i64,
}

/// A canary that was found, and what came of it.
#[derive(Debug, Clone)]
pub struct FoundCanary {
    /// Its id.
    pub id: Arc<str>,
    /// Whoever sent it, or was sent it, is halted.
    pub halt: Arc<Halt>,
}

/// How much of a canary is in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanaryTrace {
    /// Nothing of any.
    None,
    /// A piece that alone is not enough.
    Piece,
    /// So much that it is the canary and nothing else.
    Whole,
}

impl fmt::Debug for Canaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canaries").field("canaries", &self.set.load().ids.len()).finish_non_exhaustive()
    }
}

impl Default for Canaries {
    fn default() -> Self {
        Self { set: ArcSwap::from_pointee(CanarySet::default()), seen: Mutex::default() }
    }
}

// === impl Canaries ===

impl Canaries {
    /// Looks for these from now on, each with its id. Takes some milliseconds for a hundred.
    pub fn look_for(&self, canaries: &[(Arc<str>, Secret)]) {
        let tokens: Vec<&str> = canaries.iter().map(|(_, token)| token.expose()).collect();
        let scanner = CanaryScanner::new(&tokens);
        let ids = canaries.iter().map(|(id, _)| Arc::clone(id)).collect();
        self.set.store(Arc::new(CanarySet { scanner, ids }));
    }

    /// The ids of those that are looked for.
    pub fn ids(&self) -> Vec<Arc<str>> {
        self.set.load().ids.clone()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.set.load().ids.is_empty()
    }

    /// The canary that a principal has shown with this text and those before it.
    pub(crate) async fn found(
        &self,
        principal: &PrincipalId,
        text: &Raw,
        now: i64,
    ) -> Result<Option<Arc<str>>, Problem> {
        let set = self.set.load_full();
        let pieces = if text.as_str().len() > LONG {
            let (set, long) = (Arc::clone(&set), text.clone());
            let scanning = tokio::task::spawn_blocking(move || set.scanner.scan(long.as_str()));
            // The gateway is ending, or the scanner failed: nothing goes on that was not looked at.
            scanning.await.map_err(|error| {
                tracing::error!(%error, "a message could not be scanned for canaries");
                Problem::new(Kind::Internal, "the message could not be scanned for canaries")
            })?
        } else {
            set.scanner.scan(text.as_str())
        };
        Ok(pieces.into_iter().find_map(|piece| {
            let id = set.ids.get(piece.canary as usize)?;
            (piece.is_enough() || self.adds_up(principal, id, piece, now)).then(|| Arc::clone(id))
        }))
    }

    /// Whether a piece of one is in a text.
    pub(crate) fn is_in(&self, text: &Raw) -> bool {
        self.trace(text) != CanaryTrace::None
    }

    /// How much of one is in a text.
    pub(crate) fn trace(&self, text: &Raw) -> CanaryTrace {
        let pieces = self.set.load().scanner.scan(text.as_str());
        if pieces.iter().any(Piece::is_enough) {
            CanaryTrace::Whole
        } else if pieces.is_empty() {
            CanaryTrace::None
        } else {
            CanaryTrace::Piece
        }
    }

    /// Remembers a piece; whether it and those before it are the whole.
    fn adds_up(&self, principal: &PrincipalId, canary: &Arc<str>, piece: Piece, now: i64) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= PRINCIPALS && !seen.contains_key(principal) {
            let last = |pieces: &[SeenPiece]| pieces.iter().map(|it| it.at).max();
            let oldest = seen.iter().min_by_key(|(_, pieces)| last(pieces)).map(|(who, _)| who.clone());
            oldest.map(|oldest| seen.remove(&oldest));
        }
        let pieces = seen.entry(principal.clone()).or_default();
        // A clock that was put back keeps pieces for longer, never shorter.
        pieces.retain(|it| now.saturating_sub(it.at) <= WINDOW);
        if pieces.len() >= PIECES {
            pieces.remove(0);
        }
        pieces.push(SeenPiece { canary: Arc::clone(canary), piece, at: now });
        let same = pieces.iter().filter(|it| it.canary == *canary && it.piece.core == piece.core);
        Piece { seen: same.fold(0, |all, it| all | it.piece.seen), ..piece }.is_enough()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canaries() -> Canaries {
        let canaries = Canaries::default();
        canaries.look_for(&[("can_1".into(), Secret::new("k3q7zd9xw5mtb2ra6hcvy4ne"))]);
        canaries
    }

    pub(crate) async fn found(canaries: &Canaries, who: &str, text: &str, now: i64) -> bool {
        let text = Raw::from_value(&json!({ "text": text }));
        canaries.found(&PrincipalId::new(who), &text, now).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn pieces_of_one_principal_add_up_for_ten_minutes() {
        let canaries = canaries();
        assert!(!found(&canaries, "ann", "k3q7zd9x", 0).await);
        assert!(!found(&canaries, "ann", "k3q7zd9x", 1).await, "the same piece again");
        assert!(!found(&canaries, "bob", "w5mtb2ra", 2).await, "of another");
        assert!(!found(&canaries, "bob", "w5mtb2ra", WINDOW + 3).await);
        assert!(!found(&canaries, "ann", "w5mtb2ra", WINDOW + 3).await, "too late");
        assert!(found(&canaries, "ann", "6hcvy4ne", WINDOW + 4).await);
        assert!(found(&canaries, "ann", "6hcvy4ne", 0).await, "a clock that was put back forgets nothing");
        assert!(found(&canaries, "carol", "k3q7zd9xw5mt", 0).await, "half of it is enough");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let canaries = canaries();
        for number in 0..PRINCIPALS + 10 {
            let now = i64::try_from(number).unwrap();
            assert!(!found(&canaries, &format!("p{number}"), "k3q7zd9x", now).await);
        }
        for _ in 0..PIECES + 10 {
            assert!(!found(&canaries, "p20", "k3q7zd9x", 30).await);
        }
        let seen = canaries.seen.lock().unwrap();
        assert_eq!((seen.len(), seen[&PrincipalId::new("p20")].len()), (PRINCIPALS, PIECES));
        assert!(!seen.contains_key(&PrincipalId::new("p0")), "the oldest one went");
    }
}

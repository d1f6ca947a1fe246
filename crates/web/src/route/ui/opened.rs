//! Pages that were loaded a moment ago. What such a page read is on record; that its live part, which begins with the
//! same reading, is opened then is no second one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many pages are remembered, and for how long: a browser opens the live part at once.
const MOST: usize = 256;
const LONGEST: Duration = Duration::from_secs(30);

/// Pages that wait for their live part to be opened.
#[derive(Debug, Default)]
pub(crate) struct OpenedPages(Mutex<VecDeque<OpenedPage>>);

#[derive(Debug)]
struct OpenedPage {
    session: String,
    place: String,
    at: Instant,
}

// === impl OpenedPages ===

impl OpenedPages {
    /// A browser has loaded a page.
    pub(super) fn put(&self, session: &str, place: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.truncate(MOST - 1);
        all.push_front(OpenedPage { session: session.to_owned(), place: place.to_owned(), at: Instant::now() });
    }

    /// Whether a browser has loaded a page just now, once for each time.
    pub(super) fn take(&self, session: &str, place: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|page| page.at.elapsed() <= LONGEST);
        let at = all.iter().position(|page| page.session == session && page.place == place);
        at.is_some_and(|at| all.remove(at).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_once_and_for_its_own_browser() {
        let opened = OpenedPages::default();
        opened.put("a", "/ui/audit?q=x");
        assert!(!opened.take("b", "/ui/audit?q=x"));
        assert!(!opened.take("a", "/ui/audit"));
        assert!(opened.take("a", "/ui/audit?q=x"));
        assert!(!opened.take("a", "/ui/audit?q=x"));
        (0..MOST * 2).for_each(|number| opened.put("a", &number.to_string()));
        assert!(!opened.take("a", "0") && opened.take("a", &(MOST * 2 - 1).to_string()));
    }
}

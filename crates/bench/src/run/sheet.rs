//! What a part with its own region in the document puts on paper: its aims, then its tables.

use std::time::Instant;

use crate::report::{Table, maybe, median};

use super::aims::verdict;

/// What is put on paper.
pub(super) struct Sheet {
    aims: Table,
    text: String,
}

impl Sheet {
    pub(super) fn new() -> Self {
        Self { aims: Table::new(&["measure", "aim, at most", "found", "met"]), text: String::new() }
    }

    pub(super) fn aim(&mut self, measure: &str, aim: Option<f64>, found: Option<f64>) {
        let verdict = verdict(aim, found).to_owned();
        self.aims.row(&[measure.to_owned(), maybe(aim), maybe(found), verdict]);
    }

    pub(super) fn section(&mut self, title: &str, body: &str) {
        self.text += &format!("### {title}\n\n{}\n\n", body.trim());
    }

    /// All of it, the aims first.
    pub(super) fn markdown(&self, title: &str) -> String {
        format!("### {title}\n\n{}\n{}", self.aims.markdown(), self.text)
    }
}

pub(super) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The value in the middle and the greatest one.
pub(super) fn middle_and_greatest(values: &[f64]) -> (Option<f64>, Option<f64>) {
    (median(values), values.iter().copied().reduce(f64::max))
}

//! What a part with its own region in the document puts on paper: its aims, then its tables.

use std::time::Instant;

use crate::report::{Table, maybe, median};

use super::aims::verdict;

/// What is put on paper.
pub(crate) struct Sheet {
    aims: Table,
    text: String,
}

impl Sheet {
    pub(crate) fn new() -> Self {
        Self { aims: Table::new(&["measure", "aim, at most", "found", "met"]), text: String::new() }
    }

    pub(crate) fn aim(&mut self, measure: &str, aim: Option<f64>, found: Option<f64>) {
        let verdict = verdict(aim, found).to_owned();
        self.aims.row(&[measure.to_owned(), maybe(aim), maybe(found), verdict]);
    }

    pub(crate) fn section(&mut self, title: &str, body: &str) {
        self.text += &format!("### {title}\n\n{}\n\n", body.trim());
    }

    /// All of it, the aims first.
    pub(crate) fn markdown(&self, title: &str) -> String {
        format!("### {title}\n\n{}\n{}", self.aims.markdown(), self.text)
    }
}

pub(crate) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The value in the middle and the greatest one.
pub(crate) fn middle_and_greatest(values: &[f64]) -> (Option<f64>, Option<f64>) {
    (median(values), values.iter().copied().reduce(f64::max))
}

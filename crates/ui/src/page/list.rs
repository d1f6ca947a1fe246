//! A list of things of one kind.

use askama::Template;

use crate::filters;
use crate::frame::Frame;
use crate::part::{Action, Filter, ManyForm, Table};

/// A list.
#[derive(Debug, Template)]
#[template(path = "page/list.html", blocks = ["live"])]
pub struct ListPage {
    /// What stands around it.
    pub frame: Frame,
    /// The page above it: its path and name.
    pub above: Option<(String, String)>,
    /// What the list is; empty where its title says it.
    pub intro: String,
    /// What can be done.
    pub actions: Vec<Action>,
    /// What narrows it.
    pub filters: Vec<Filter>,
    /// Its path, without filters.
    pub path: String,
    /// The rows.
    pub table: Table,
    /// The number of the first row, from 0, and how many match in all, if that is known.
    pub place: (usize, Option<usize>),
    /// The page of the list before this one.
    pub before: Option<String>,
    /// The page after it.
    pub after: Option<String>,
    /// What is said of rows that are not shown; empty for nothing.
    pub unseen: String,
    /// What is said where there is nothing at all, and what to do then.
    pub empty: (&'static str, &'static str),
    /// What can be done with those that are chosen.
    pub many: Option<ManyForm>,
    /// Where its live part is; empty where nothing changes.
    pub live: String,
}

// === impl ListPage ===

impl ListPage {
    /// Which rows are shown.
    pub fn range(&self) -> String {
        let (first, rows) = (self.place.0, self.table.rows.len());
        match self.place.1 {
            Some(total) if first == 0 && rows == total => format!("{total} in all"),
            Some(total) => format!("{} to {} of {total}", first + 1, first + rows),
            None => format!("{} to {}", first + 1, first + rows),
        }
    }

    /// Whether filters may hide rows.
    pub fn is_filtered(&self) -> bool {
        self.filters.iter().any(Filter::is_set) || self.place.0 > 0
    }
}

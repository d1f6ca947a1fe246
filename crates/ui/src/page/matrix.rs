//! A table of two kinds of things: one in rows, one in columns, and in each field how they stand to each other.

use askama::Template;

use crate::filters;
use crate::frame::Frame;
use crate::part::{Cell, Filter};

/// The table.
#[derive(Debug, Template)]
#[template(path = "page/matrix.html")]
pub struct MatrixPage {
    /// What stands around it.
    pub frame: Frame,
    /// The page above it: its path and name.
    pub above: (&'static str, &'static str),
    /// What it shows.
    pub intro: String,
    /// What narrows it.
    pub filters: Vec<Filter>,
    /// Its path, without filters.
    pub path: String,
    /// What the first column is.
    pub corner: &'static str,
    /// What stands above the others.
    pub columns: Vec<Cell>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<(Cell, Vec<Cell>)>,
    /// Which rows these are.
    pub range: String,
    /// What is not shown; empty for nothing.
    pub unseen: String,
    /// The pages before and after this one.
    pub around: (Option<String>, Option<String>),
    /// What is said without rows.
    pub empty: String,
}

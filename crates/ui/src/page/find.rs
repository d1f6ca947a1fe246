//! What was found by words: pages, servers, tools, operations.

use askama::Template;

use crate::filters;
use crate::frame::Frame;

/// What was found.
#[derive(Debug, Template)]
#[template(path = "page/find.html")]
pub struct FindPage {
    /// What stands around it.
    pub frame: Frame,
    /// What was asked for.
    pub query: String,
    /// The hits, the best first.
    pub hits: Vec<Hit>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// One of them.
#[derive(Debug)]
pub struct Hit {
    /// What kind of thing it is.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What it is; empty for nothing.
    pub note: String,
    /// Its page.
    pub path: String,
}

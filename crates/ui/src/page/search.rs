//! The search bench: a search as an agent makes it, in one profile or two side by side.

use askama::Template;

use crate::filters;
use crate::frame::Frame;
use crate::part::{Action, Filter, Section};

/// A search as an agent makes it.
#[derive(Debug, Template)]
#[template(path = "page/search.html")]
pub struct SearchPage {
    /// What stands around it.
    pub frame: Frame,
    /// What can be done.
    pub actions: Vec<Action>,
    /// What is asked, and how.
    pub filters: Vec<Filter>,
    /// Its path, without filters.
    pub path: String,
    /// Whether something was asked.
    pub is_asked: bool,
    /// What is said of the search as a whole.
    pub whole: Vec<Section>,
    /// Both sides of a comparison, or none.
    pub sides: Vec<SearchSide>,
    /// What stands below.
    pub below: Vec<Section>,
}

/// One side of a comparison.
#[derive(Debug)]
pub struct SearchSide {
    /// How it was asked.
    pub label: String,
    /// What it says.
    pub sections: Vec<Section>,
}

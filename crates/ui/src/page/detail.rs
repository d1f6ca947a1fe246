//! One thing.

use askama::Template;

use crate::filters;
use crate::frame::Frame;
use crate::part::{Action, Section};

/// One thing.
#[derive(Debug, Template)]
#[template(path = "page/detail.html", blocks = ["live"])]
pub struct DetailPage {
    /// What stands around it.
    pub frame: Frame,
    /// The list that it is in: its path and name.
    pub above: (&'static str, &'static str),
    /// Its name or id.
    pub name: String,
    /// What it says of itself; empty for nothing.
    pub intro: String,
    /// What can be done with it.
    pub actions: Vec<Action>,
    /// What changes while the page is open.
    pub changing: Vec<Section>,
    /// What does not.
    pub fixed: Vec<Section>,
    /// Where its live part is; empty where nothing changes.
    pub live: String,
}

//! Setting up for the first time, step by step. Which steps are done is what is on disk.

use askama::Template;

use crate::filters;
use crate::frame::Frame;
use crate::part::{Action, Level, Section};

/// The steps, and one of them.
#[derive(Debug, Template)]
#[template(path = "page/setup.html", blocks = ["live"])]
pub struct SetupPage {
    /// What stands around it.
    pub frame: Frame,
    /// All steps, in their order.
    pub steps: Vec<Step>,
    /// The heading of the step that is shown.
    pub title: &'static str,
    /// What it is for.
    pub intro: &'static str,
    /// What changes while the page is open.
    pub changing: Vec<Section>,
    /// What does not.
    pub fixed: Vec<Section>,
    /// Where its live part is; empty where nothing changes.
    pub live: String,
    /// The way back and on.
    pub ways: Vec<Action>,
}

/// A step.
#[derive(Debug)]
pub struct Step {
    /// Its name in the address.
    pub name: &'static str,
    /// What people read.
    pub label: &'static str,
    /// How it stands.
    pub level: Level,
    /// The same in a few words.
    pub word: String,
    /// Whether it is shown.
    pub is_current: bool,
}

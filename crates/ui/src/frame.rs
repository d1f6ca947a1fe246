//! What stands around every page: its title, the navigation, who is signed in, a notice of what was done.

use crate::diff;
use crate::part::{Action, RunningCalls};

/// Whether the pages may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything that the person's role may do.
    Full,
    /// They only show.
    Read,
}

/// The colours of a browser's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// As the system has it.
    #[default]
    System,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A page in the navigation.
#[derive(Debug, Clone)]
pub struct NavLink {
    /// Its path.
    pub path: &'static str,
    /// Its name.
    pub label: &'static str,
    /// Whether it is the page that is shown, or the one above it.
    pub is_current: bool,
}

/// Pages that belong together.
#[derive(Debug, Clone)]
pub struct NavGroup {
    /// Its name; empty for the first.
    pub label: &'static str,
    /// Its pages.
    pub links: Vec<NavLink>,
}

/// What came of the last action.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Whether it succeeded.
    pub is_ok: bool,
    /// In a sentence.
    pub text: String,
    /// The next step, if there is one.
    pub hint: Option<String>,
    /// Lines that differ, after ` `, `-` or `+`, with words between them; empty for none.
    pub details: String,
    /// What undoes it, or goes on from it.
    pub action: Option<Action>,
}

/// What stands around a page.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The title of the page.
    pub title: String,
    /// The path and query of the page, to come back to.
    pub here: String,
    /// The navigation; empty for who is not signed in.
    pub nav: Vec<NavGroup>,
    /// Who is signed in.
    pub principal: Option<String>,
    /// As what, in a word.
    pub role: &'static str,
    /// Whether the pages may change anything.
    pub mode: Mode,
    /// The colours.
    pub theme: Theme,
    /// What came of the last action.
    pub notice: Option<Notice>,
    /// The calls of this browser that run.
    pub running: Option<RunningCalls>,
    /// The program's version.
    pub version: &'static str,
}

// === impl Notice ===

impl Notice {
    /// That something was done.
    pub fn done(text: impl Into<String>) -> Self {
        Self { is_ok: true, text: text.into(), hint: None, details: String::new(), action: None }
    }

    /// That something failed, and the next step.
    pub fn failed(text: impl Into<String>, hint: Option<String>) -> Self {
        Self { is_ok: false, text: text.into(), hint, details: String::new(), action: None }
    }

    /// Its details as HTML.
    pub fn difference(&self) -> String {
        diff::unified(&self.details)
    }
}

// === impl Theme ===

impl Theme {
    /// The theme of a name; the system's for any other.
    pub fn named(name: &str) -> Self {
        match name {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

// === impl Frame ===

impl Frame {
    /// Where an asset is.
    pub fn asset(&self, index: usize) -> &str {
        &crate::asset::ASSETS[index].path
    }

    /// Whether the pages may change something.
    pub fn may_change(&self) -> bool {
        self.mode == Mode::Full
    }
}

//! One operation as a form, and the ways to do the same elsewhere.

use askama::Template;

use crate::filters;
use crate::form::Form;
use crate::frame::{Frame, Notice};

/// An operation.
#[derive(Debug, Template)]
#[template(path = "page/operation.html")]
pub struct OperationPage {
    /// What stands around it.
    pub frame: Frame,
    /// The name of its tool.
    pub tool: String,
    /// What people read of it.
    pub description: String,
    /// Whether it may overwrite or remove.
    pub destroys: bool,
    /// Whether the pages and the person's role allow it.
    pub is_allowed: bool,
    /// Its arguments.
    pub form: Form,
    /// What would change, before it is done.
    pub preview: Option<Preview>,
    /// Where to go on afterwards; empty to see the answer.
    pub next: String,
    /// Why the last try failed.
    pub problem: Option<Notice>,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

/// What a change would do to a definition.
#[derive(Debug)]
pub struct Preview {
    /// The lines that differ, as HTML.
    pub difference: String,
    /// Whether nothing differs.
    pub is_same: bool,
    /// The arguments as JSON, to be sent once more.
    pub arguments: String,
}

/// The same action by another door.
#[derive(Debug)]
pub struct Copy {
    /// Its id in the page.
    pub id: &'static str,
    /// The door.
    pub label: &'static str,
    /// What to copy.
    pub text: String,
}

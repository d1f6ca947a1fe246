//! One operation as a form, and the ways to do the same elsewhere.

use askama::Template;

use crate::filters;
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
    pub fields: Vec<OperationField>,
    /// Where to go on afterwards; empty to see the answer.
    pub next: String,
    /// Why the last try failed.
    pub problem: Option<Notice>,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

/// One argument.
#[derive(Debug)]
pub struct OperationField {
    /// Its name.
    pub name: String,
    /// What it is.
    pub note: String,
    /// Whether it must be given.
    pub is_required: bool,
    /// How it is put in.
    pub input: Input,
    /// What was put in.
    pub value: String,
}

/// How an argument is put in.
#[derive(Debug)]
pub enum Input {
    /// One line.
    Line,
    /// Several lines; what they are is said beside it.
    Lines(&'static str),
    /// A secret.
    Secret,
    /// One of these.
    Choice(Vec<String>),
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

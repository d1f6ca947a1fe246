//! The playground: a tool is called with a form made of its schema, and its result is shown.

mod questions;

use askama::Template;

use crate::filters;
use crate::form::Form;
use crate::frame::{Frame, Notice};
use crate::page::operation::Copy;
pub use questions::{Question, Questions};

/// A tool with its form, and what came of the last call.
#[derive(Debug, Template)]
#[template(path = "page/call.html")]
pub struct CallPage {
    /// What stands around it.
    pub frame: Frame,
    /// The id of the tool.
    pub tool: String,
    /// The profile in which it is called; empty for the default one.
    pub profile: String,
    /// What people read of it.
    pub description: String,
    /// Whether it says that it may destroy something.
    pub destroys: bool,
    /// Whether the pages may call it.
    pub is_allowed: bool,
    /// Its arguments.
    pub form: Form,
    /// Why there is no result.
    pub problem: Option<Notice>,
    /// What its server asks before the call goes on.
    pub questions: Option<Questions>,
    /// What came of the call.
    pub result: Option<CallResult>,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

/// The result of a call.
#[derive(Debug)]
pub struct CallResult {
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// How long it took, with its unit.
    pub took: String,
    /// Its parts.
    pub blocks: Vec<Block>,
    /// Its structured content, indented; empty without one.
    pub structured: String,
}

/// A part of a result.
#[derive(Debug)]
pub enum Block {
    /// A text.
    Text(String),
    /// A picture, as a `data:` URL of a media type that browsers draw.
    Image(String),
    /// A sound, as a `data:` URL.
    Audio(String),
    /// A resource that stands in the result, or a link to one: what it is, and its text.
    Resource(String, String),
    /// Of an unknown type, or not shown: its JSON.
    Raw(String),
}

//! The playground: a form that calls a tool, reads a resource or gets a prompt, and the parts of what came of it.

mod questions;

use askama::Template;

use crate::filters;
use crate::form::Form;
use crate::frame::{Frame, Notice};
use crate::markdown::Markdown;
use crate::page::operation::Copy;
use crate::part::Table;
pub use questions::{Question, Questions};

/// A form that asks something of a server.
#[derive(Debug, Template)]
#[template(path = "page/call.html")]
pub struct CallPage {
    /// What stands around it.
    pub frame: Frame,
    /// The pages above: paths and names.
    pub above: Vec<(String, String)>,
    /// Where the form is sent: the page itself, with its query.
    pub path: String,
    /// The word on the button.
    pub verb: &'static str,
    /// What people read of it; empty where there is nothing.
    pub description: String,
    /// Whether a tool says that it may destroy something.
    pub destroys: bool,
    /// Whether the pages may ask it.
    pub is_allowed: bool,
    /// Its arguments.
    pub form: Form,
    /// The page with all that the schema says; empty where this one has it.
    pub whole: String,
    /// Why there is no result.
    pub problem: Option<Notice>,
    /// The profiles that it may be asked as, and the chosen one.
    pub profiles: Vec<String>,
    /// See `profiles`.
    pub profile: String,
    /// As a client of which era: `modern` or `legacy`; empty where it makes no difference.
    pub era: &'static str,
    /// Calls of the same that this browser made before.
    pub earlier: Table,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

// === impl CallPage ===

impl CallPage {
    /// Whether this era is chosen.
    pub fn is_era(&self, name: &str) -> bool {
        self.era == name
    }
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
    /// Whether that is what the tool promises.
    pub fit: StructureFit,
    /// Where all of it is shown; empty where it is.
    pub whole: String,
}

/// Structured content against the schema that its tool promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StructureFit {
    /// The tool promises nothing.
    #[default]
    Free,
    /// It fits.
    Fits,
    /// What is wrong with it.
    Faults(String),
    /// There is none, although the tool promises it.
    Missing,
    /// To find out takes too long, or the schema is not valid.
    Unchecked,
}

/// A part of a result.
#[derive(Debug)]
pub enum Block {
    /// A text.
    Text(String),
    /// Markdown, and the text that it was sent as.
    Markdown(Markdown, String),
    /// A picture, as a `data:` URL of a media type that browsers draw.
    Image(String),
    /// A sound, as a `data:` URL.
    Audio(String),
    /// A resource that stands in the result, a link to one, or a source that is not drawn: what it is, and its text.
    Resource(String, String),
    /// Of an unknown type, or not shown: its JSON.
    Raw(String),
}

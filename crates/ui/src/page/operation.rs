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
    /// The definition as it was when the form was opened, as JSON; empty where there is none.
    pub base: String,
    /// Where the file was changed since the form was opened: what changed there, and what changed here.
    pub conflict: Option<BothChanges>,
    /// What the disk did not take.
    pub unwritten: Option<UnwrittenChanges>,
    /// Where to go on afterwards; empty to see the answer.
    pub next: String,
    /// Why the last try failed.
    pub problem: Option<Notice>,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

/// Two changes of the same files.
#[derive(Debug)]
pub struct BothChanges {
    /// What was changed in the file, as HTML.
    pub theirs: String,
    /// What was changed in the form, as HTML.
    pub ours: String,
}

/// What the disk did not take.
#[derive(Debug)]
pub struct UnwrittenChanges {
    /// The files.
    pub files: Vec<FilePreview>,
    /// The same as a patch; none where something in a file may be a secret.
    pub patch: Option<String>,
}

/// A file that would be written.
#[derive(Debug)]
pub struct FilePreview {
    /// Its path below the home folder.
    pub file: String,
    /// `added`, `changed` or `removed`.
    pub change: String,
    /// The lines that differ, as HTML.
    pub difference: String,
}

/// What an operation would write.
#[derive(Debug)]
pub struct Preview {
    /// The files.
    pub files: Vec<FilePreview>,
    /// The arguments as JSON, to be sent once more.
    pub arguments: String,
    /// What tells these changes from others.
    pub fingerprint: String,
    /// What the files say before, secrets as `****`.
    pub seen: Vec<SeenFile>,
}

/// The text of a file when a change of it was shown.
#[derive(Debug)]
pub struct SeenFile {
    /// The field that sends it back.
    pub field: String,
    /// The text.
    pub text: String,
}

// === impl UnwrittenChanges ===

impl UnwrittenChanges {
    /// The patch as HTML whose text is the patch, byte by byte: a browser reads a return as a line end unless it is escaped.
    pub(super) fn html(patch: &str) -> String {
        let mut html = String::with_capacity(patch.len());
        for character in patch.chars() {
            match character {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '\r' => html.push_str("&#13;"),
                other => html.push(other),
            }
        }
        html
    }
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

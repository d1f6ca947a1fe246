//! Editing something with what would come of it beside the form: it follows what is typed, before anything is written.

use askama::Template;

use crate::filters;
use crate::frame::{Frame, Notice};
use crate::page::operation::{BothChanges, Copy, UnwrittenChanges};
use crate::part::{Action, Section};

/// An editor.
#[derive(Debug, Template)]
#[template(path = "page/preview_editor.html")]
pub struct PreviewEditorPage {
    /// What stands around it.
    pub frame: Frame,
    /// The pages above it: path and name.
    pub above: Vec<(String, String)>,
    /// What it is about.
    pub intro: String,
    /// Where the form is sent.
    pub action: String,
    /// What else can be done with it.
    pub actions: Vec<Action>,
    /// What is put in.
    pub fields: Vec<EditorField>,
    /// What would come of it.
    pub outcome: Outcome,
}

/// One thing to put in.
#[derive(Debug)]
pub struct EditorField {
    /// Its name in the form.
    pub name: &'static str,
    /// Its label.
    pub label: &'static str,
    /// What it means.
    pub note: &'static str,
    /// What is put in.
    pub control: EditorControl,
}

/// How something is put in.
#[derive(Debug)]
pub enum EditorControl {
    /// A line.
    Line(String),
    /// Several lines: so many are shown.
    Lines(usize, String),
    /// One of these.
    Choice(Vec<String>, String),
    /// Yes or no.
    Check(bool),
}

/// What would come of an edit.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In a sentence, which is also said to who does not see it.
    pub summary: String,
    /// What is wrong.
    pub problem: Option<Notice>,
    /// Where the file was changed since it was opened: what changed there, and what changed here.
    pub conflict: Option<BothChanges>,
    /// What the disk did not take.
    pub unwritten: Option<UnwrittenChanges>,
    /// What is sent with the form as it is: which version of the file is meant.
    pub hidden: Vec<(&'static str, String)>,
    /// The details.
    pub sections: Vec<Section>,
    /// What writes it, if it can be written.
    pub write: Option<WriteForm>,
}

/// The button that writes an edit, as it was shown.
#[derive(Debug)]
pub struct WriteForm {
    /// What the form held when it was shown.
    pub fields: Vec<(String, String)>,
    /// What tells the changes that are shown from others.
    pub fingerprint: String,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

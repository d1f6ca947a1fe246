//! A list of cases for the search of a profile, and how well it answers them.

use askama::Template;

use crate::filters;
use crate::frame::{Frame, Notice};
use crate::part::Section;

/// A list of cases.
#[derive(Debug, Template)]
#[template(path = "page/cases.html", blocks = ["live"])]
pub struct CasesPage {
    /// What stands around it.
    pub frame: Frame,
    /// Its path.
    pub path: String,
    /// In which profile, and by which ranking.
    pub choices: Vec<CaseChoice>,
    /// The cases that were put in.
    pub cases: String,
    /// Why they cannot be asked.
    pub problem: Option<Notice>,
    /// How far it is, or what came of it.
    pub sections: Vec<Section>,
    /// Where its live part is; empty where nothing changes.
    pub live: String,
}

/// Something that the cases are asked with.
#[derive(Debug)]
pub struct CaseChoice {
    /// The field.
    pub name: &'static str,
    /// Its label.
    pub label: &'static str,
    /// What no choice means.
    pub none: &'static str,
    /// What there is.
    pub options: Vec<String>,
    /// What was chosen.
    pub value: String,
}

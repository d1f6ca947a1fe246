//! What went wrong, in place of a page.

use askama::Template;

use crate::filters;
use crate::frame::Frame;

/// A problem with its next step.
#[derive(Debug, Template)]
#[template(path = "page/problem.html")]
pub struct ProblemPage {
    /// What stands around it; its title names what failed.
    pub frame: Frame,
    /// What happened, as a sentence.
    pub text: String,
    /// What to do, as a sentence.
    pub hint: Option<String>,
}

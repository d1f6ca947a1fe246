//! What an operation answered.

use askama::Template;

use crate::filters;
use crate::frame::Frame;

/// An answer as JSON.
#[derive(Debug, Template)]
#[template(path = "page/result.html")]
pub struct ResultPage {
    /// What stands around it.
    pub frame: Frame,
    /// The name of the operation's tool.
    pub tool: String,
    /// The answer, indented.
    pub text: String,
}

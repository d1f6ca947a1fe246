//! What leads on after a sign-in.

use askama::Template;

use crate::filters;
use crate::frame::Frame;

/// Leads on by itself, and by a link.
#[derive(Debug, Template)]
#[template(path = "page/enter.html")]
pub struct EnterPage {
    /// What stands around it.
    pub frame: Frame,
    /// Where to go on.
    pub next: String,
}

//! Where people sign in.

use askama::Template;

use crate::filters;
use crate::frame::{Frame, Notice};

/// The ways to sign in.
#[derive(Debug, Template)]
#[template(path = "page/sign_in.html")]
pub struct SignInPage {
    /// What stands around it.
    pub frame: Frame,
    /// The issuers at which one can sign in.
    pub issuers: Vec<String>,
    /// Whether the gateway's token opens a session here.
    pub takes_token: bool,
    /// The path and query to go on to.
    pub next: String,
    /// Why the last try failed.
    pub problem: Option<Notice>,
    /// A form that was sent after its session had ended.
    pub kept: Option<KeptForm>,
}

/// What a form held that could not be taken: it is sent again after the next sign-in.
#[derive(Debug)]
pub struct KeptForm {
    /// Where it was sent.
    pub path: String,
    /// Its fields.
    pub fields: Vec<(String, String)>,
}

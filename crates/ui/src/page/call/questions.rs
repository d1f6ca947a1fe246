//! What a server asks in the course of a call: shown with one form for all answers.

use crate::form::Form;

/// The questions of a call that goes on with their answers.
#[derive(Debug)]
pub struct Questions {
    /// What is asked, in the server's order.
    pub asked: Vec<Question>,
    /// The answers.
    pub form: Form,
    /// What is wrong with the answers.
    pub problem: Option<crate::Notice>,
    /// What the call goes on with, as hidden fields: a name and a JSON text each.
    pub carried: Vec<(&'static str, String)>,
}

/// A question.
#[derive(Debug)]
pub enum Question {
    /// A form for the person: its message.
    Form(String),
    /// A page for the person to open: the message, and its `http` or `https` address; empty where it is neither.
    Page(String, String),
    /// A text that a model writes: what it was told, as the server sent it.
    Model(String),
    /// Of a kind that is not known here: its JSON.
    Unknown(String),
}

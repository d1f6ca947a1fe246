//! What a simulated server answers, as a value: the endpoints decide, this writes.

use serde_json::Value;

use super::form::Form;
use super::rules::{DocumentForm, Page};
use crate::http::Reply;

/// A body without an end sends so many pieces of this size, and then waits until the client has gone.
const PIECES: usize = 128;
static PIECE: [u8; 64 * 1024] = [b' '; 64 * 1024];

#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    headers: Vec<String>,
    body: String,
    is_endless: bool,
}

// === impl Answer ===

impl Answer {
    pub(super) fn new(status: u16, media_type: &str, body: impl Into<String>) -> Self {
        let headers = vec![format!("content-type: {media_type}")];
        Self { status, headers, body: body.into(), is_endless: false }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), is_endless: false }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub(super) fn form(status: u16, form: &Form) -> Self {
        Self::new(status, "application/x-www-form-urlencoded; charset=utf-8", form.encoded())
    }

    pub(super) fn page(page: Page) -> Self {
        Self::new(page.status, page.media_type, page.body)
    }

    pub(super) fn redirect(address: &str) -> Self {
        Self::empty(302).with(format!("location: {address}"))
    }

    /// A document in the form that the rules give it.
    pub(super) fn document(form: DocumentForm, document: &Value) -> Self {
        match form {
            DocumentForm::Json => Self::json(200, document),
            DocumentForm::Redirect(address) => Self::redirect(address),
            DocumentForm::Endless => Self { is_endless: true, ..Self::new(200, "application/json", "{\"issuer\": ") },
            DocumentForm::Html => Self::new(200, "text/html", "<!doctype html><title>Welcome</title>"),
            DocumentForm::Deep => Self::new(200, "application/json", "[".repeat(100_000)),
            DocumentForm::Status(status) => Self::empty(status),
        }
    }

    /// The same with one more header line.
    #[must_use]
    pub(super) fn with(mut self, line: String) -> Self {
        self.headers.push(line);
        self
    }

    pub(super) fn write(&self, reply: &mut Reply<'_>) {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        if !self.is_endless {
            return reply.full(self.status, &headers, &self.body);
        }
        reply.head(self.status, &headers);
        reply.chunk(&self.body);
        (0..PIECES).for_each(|_| reply.chunk(PIECE));
        reply.hang();
    }
}

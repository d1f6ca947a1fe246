//! Errors of a provider (RFC 6749, section 5.2).

use http::{Response, StatusCode};
use serde_json::json;
use toolcrib_transport::http::body::Body;

use super::endpoint;

#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
    description: String,
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn new(error: &str, description: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error: error.to_owned(), description: description.into() }
    }

    /// The client did not prove who it is.
    pub(super) fn of_client(description: &str) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, ..Self::new("invalid_client", description) }
    }

    /// What a scenario wants: the code of an error, or a description.
    pub(super) fn simulated(text: &str) -> Self {
        let is_code = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        Self::new(if is_code { text } else { "invalid_grant" }, text)
    }

    pub(super) fn to_response(&self) -> Response<Body> {
        endpoint::json(self.status, &json!({ "error": self.error, "error_description": self.description }))
    }
}

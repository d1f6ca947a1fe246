//! JSON-RPC errors: the codes that MCP fixes, and errors as raw JSON so that a server's `data` survives.

use toolcrib_base::{Kind, Problem};

use crate::raw::{Raw, Writer};

/// `HeaderMismatch`: a required header is missing or contradicts the body (2026-07-28, HTTP status 400).
pub const HEADER_MISMATCH: i64 = -32_020;
/// The request did not declare a capability that its answer needs (2026-07-28).
pub const CAPABILITY_MISSING: i64 = -32_021;
/// The revision is not spoken here (2026-07-28).
pub const REVISION_UNSUPPORTED: i64 = -32_022;
/// Resource not found, up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i64 = -32_002;
/// The user must open a page first, 2025-11-25 only; `data.elicitations` names the pages.
pub const URL_REQUIRED: i64 = -32_042;
/// A fault of the one that answers.
pub const INTERNAL: i64 = -32_603;
/// Unknown method.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// Wrong parameters.
pub const INVALID_PARAMS: i64 = -32_602;

/// An error object: `{code, message, data?}` and whatever else its sender put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The code; 0 when the sender gave none that is an integer.
    pub code: i64,
    /// The text for people.
    pub message: String,
    /// Whatever else.
    pub data: Option<Raw>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data.
    #[must_use]
    pub fn with_data(mut self, data: &impl serde::Serialize) -> Self {
        self.data = Some(Raw::from_value(data));
        self
    }

    /// Reads a raw error object; an odd one keeps what can be read.
    pub fn from_raw(raw: &Raw) -> Self {
        let code = raw.get("code").and_then(|code| code.as_str().parse().ok()).unwrap_or(0);
        let message = raw.text("message").unwrap_or_else(|| raw.as_str().chars().take(500).collect());
        Self { code, message, data: raw.get("data") }
    }

    /// The error as raw JSON.
    pub fn to_raw(&self) -> Raw {
        let mut out = Writer::object(64 + self.message.len());
        out.member("code", &self.code.to_string());
        out.text("message", &self.message);
        if let Some(data) = &self.data {
            out.member("data", data.as_str());
        }
        out.finish()
    }
}

impl From<&Problem> for RpcError {
    /// The code of the kind's row; the hint goes into the message, because many clients show nothing else.
    fn from(problem: &Problem) -> Self {
        let row = problem.kind.row();
        let message = match &problem.hint {
            Some(hint) => format!("{}. {hint}", problem.message),
            None => problem.message.clone(),
        };
        Self::new(row.code, message).with_data(&serde_json::json!({ "kind": row.name }))
    }
}

impl From<Kind> for RpcError {
    fn from(kind: Kind) -> Self {
        Self::from(&Problem::new(kind, kind.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_a_round_trip() {
        let error = RpcError::new(-32_602, "bad \"x\"").with_data(&serde_json::json!({"uri": "a:b"}));
        assert_eq!(error.to_raw().as_str(), r#"{"code":-32602,"message":"bad \"x\"","data":{"uri":"a:b"}}"#);
        assert_eq!(RpcError::from_raw(&error.to_raw()), error);
    }

    #[test]
    fn odd_errors_are_read_as_far_as_possible() {
        let odd = RpcError::from_raw(&Raw::from_value(&serde_json::json!({"code": "x", "detail": 1})));
        assert_eq!((odd.code, odd.message.as_str()), (0, r#"{"code":"x","detail":1}"#));
    }

    #[test]
    fn problems_carry_their_hint_and_kind() {
        let problem = Problem::new(Kind::UnknownTool, "no tool `x`").hint("Search with find_tools.");
        let error = RpcError::from(&problem);
        assert_eq!((error.code, error.message.as_str()), (-32_602, "no tool `x`. Search with find_tools."));
        assert_eq!(error.data.unwrap().as_str(), r#"{"kind":"unknown-tool"}"#);
    }
}

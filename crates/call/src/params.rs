//! Parameters that requests must have, and methods that nothing here answers.

use std::borrow::Cow;

use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::error::METHOD_NOT_FOUND;
use toolcrib_protocol::{Raw, RpcError, json};

/// A required text among the parameters.
///
/// # Errors
/// It is missing, or not a text.
pub(crate) fn required_text(params: &Raw, key: &str) -> Result<String, RpcError> {
    let text = json::find(&params.members(), key).and_then(json::text).map(Cow::into_owned);
    text.ok_or_else(|| RpcError::from(&Problem::new(Kind::InvalidParams, format!("`params.{key}` must be a string"))))
}

/// The error for a method that nothing here answers.
pub(crate) fn unknown_method(method: &str) -> RpcError {
    let shown: String = method.chars().take(128).collect();
    RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{shown}`"))
}

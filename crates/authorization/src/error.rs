//! Errors as OAuth names them.

use toolcrib_base::Problem;
use toolcrib_store::StoreError;

/// What is wrong, in the words of the specifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OAuthErrorCode {
    /// RFC 6749, section 5.2.
    InvalidRequest,
    /// RFC 6749, section 5.2.
    InvalidClient,
    /// RFC 6749, section 5.2.
    InvalidGrant,
    /// RFC 6749, section 5.2.
    UnauthorizedClient,
    /// RFC 6749, section 5.2.
    UnsupportedGrantType,
    /// RFC 6749, section 4.1.2.1.
    UnsupportedResponseType,
    /// RFC 6749, section 5.2.
    InvalidScope,
    /// RFC 8707, section 2.
    InvalidTarget,
    /// RFC 6749, section 4.1.2.1.
    AccessDenied,
    /// RFC 6749, section 4.1.2.1.
    TemporarilyUnavailable,
    /// RFC 6749, section 4.1.2.1.
    ServerError,
    /// RFC 7591, section 3.2.2.
    InvalidRedirectUri,
    /// RFC 7591, section 3.2.2.
    InvalidClientMetadata,
}

/// Why something is not given. The description repeats no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{description}")]
pub struct OAuthError {
    /// What is wrong.
    pub code: OAuthErrorCode,
    /// The same for people, a fragment in ASCII without quotes (RFC 6749, section 5.2).
    pub description: String,
}

// === impl OAuthErrorCode ===

impl OAuthErrorCode {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::ServerError => "server_error",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
        }
    }

    /// The status of an answer of the token endpoint.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidClient => 401,
            Self::ServerError => 500,
            Self::TemporarilyUnavailable => 503,
            _ => 400,
        }
    }
}

// === impl OAuthError ===

impl OAuthError {
    pub(crate) fn new(code: OAuthErrorCode, description: impl Into<String>) -> Self {
        let description: String = description.into();
        let is_plain = |character: &char| matches!(character, ' '..='~') && !matches!(character, '"' | '\\');
        Self { code, description: description.chars().filter(is_plain).take(300).collect() }
    }

    pub(crate) fn request(description: impl Into<String>) -> Self {
        Self::new(OAuthErrorCode::InvalidRequest, description)
    }

    pub(crate) fn grant(description: impl Into<String>) -> Self {
        Self::new(OAuthErrorCode::InvalidGrant, description)
    }

    pub(crate) fn client(description: impl Into<String>) -> Self {
        Self::new(OAuthErrorCode::InvalidClient, description)
    }

    /// A fault of ours, which is for the log.
    pub(crate) fn fault(what: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %what, "the authorization server failed");
        Self::new(OAuthErrorCode::ServerError, "internal error of the gateway; see its log")
    }
}

impl From<StoreError> for OAuthError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full { .. } => Self::new(OAuthErrorCode::TemporarilyUnavailable, error.to_string()),
            other => Self::fault(&Problem::from(other)),
        }
    }
}

//! What headers are made of beside their secrets.

use toolcrib_base::Secret;

/// What the value of a header is made of, beside its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderForm {
    /// `Bearer SECRET` (RFC 6750).
    Bearer,
    /// `Basic` with the user, a colon and the secret in base64 (RFC 7617).
    Basic { username: String },
}

// === impl HeaderForm ===

impl HeaderForm {
    /// The value of the header.
    pub fn value(&self, secret: &Secret) -> Secret {
        use base64::Engine as _;
        match self {
            Self::Bearer => Secret::new(format!("Bearer {}", secret.expose()).as_str()),
            Self::Basic { username } => {
                let pair = format!("{username}:{}", secret.expose());
                let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                Secret::new(format!("Basic {encoded}").as_str())
            }
        }
    }
}

//! The tokens that a principal proved itself with at our door, as single sign-on needs them. The composition root supplies
//! them; nothing here checks a token.

use std::fmt;

use toolcrib_base::{Secret, Timestamp};

/// Gives the tokens of principals. A token is given for the principal that presented it, never for another one.
pub trait SubjectTokens: fmt::Debug + Send + Sync {
    /// Whether a definition wants such tokens: otherwise none need to be kept.
    fn want(&self, is_wanted: bool);

    /// The tokens with which a principal proved itself and that are valid now, the newest first.
    fn tokens_of(&self, principal: &str) -> Vec<SubjectToken>;
}

/// A token with which a principal proved itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SubjectToken {
    /// The token, byte for byte.
    pub token: Secret,
    /// What it is for.
    pub kind: SubjectKind,
    /// The identifier of its issuer.
    pub issuer: Box<str>,
    /// For whom it is.
    pub audiences: Vec<Box<str>>,
    /// When it ends.
    pub expires: Timestamp,
}

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectKind {
    /// It opens a resource.
    Access,
    /// It says who signed in.
    Id,
}

/// Where there are no such tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSubjects;

// === impl SubjectTokens for NoSubjects ===

impl SubjectTokens for NoSubjects {
    fn want(&self, _: bool) {}

    fn tokens_of(&self, _: &str) -> Vec<SubjectToken> {
        Vec::new()
    }
}

// === impl SubjectKind ===

impl SubjectKind {
    /// Its name in an exchange (RFC 8693, section 3).
    pub(crate) fn token_type(self) -> &'static str {
        match self {
            Self::Access => "urn:ietf:params:oauth:token-type:access_token",
            Self::Id => "urn:ietf:params:oauth:token-type:id_token",
        }
    }
}

impl fmt::Debug for SubjectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SubjectToken");
        shown
            .field("kind", &self.kind)
            .field("issuer", &self.issuer)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

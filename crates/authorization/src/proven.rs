//! What is asked about someone who was proven, and what was proven a moment ago.

use std::collections::HashMap;
use std::sync::Arc;

use toolcrib_base::{Identity, PrincipalId};
use toolcrib_identity::{KnownToken, TokenGrant};

use crate::session::LiveSession;

/// Says what the settings grant to someone who was proven by an issuer.
pub trait FindGrants: std::fmt::Debug + Send + Sync {
    /// What is granted now.
    fn grants(&self, principal: &PrincipalId, identity: &Identity) -> Vec<TokenGrant>;
}

/// A token that was proven.
#[derive(Debug, Clone)]
pub(crate) struct ProvenToken {
    pub(crate) session: Arc<LiveSession>,
    pub(crate) known: Arc<KnownToken>,
}

pub(crate) type ProvenTokens = HashMap<[u8; 32], ProvenToken>;

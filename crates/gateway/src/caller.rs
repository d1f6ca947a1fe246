//! Who calls, through which door, in which profile and revision.

use std::sync::Arc;

use toolcrib_base::{PrincipalId, ProfileName};
use toolcrib_protocol::Revision;
use toolcrib_store::Door;

use crate::session::Session;

/// A proven identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Its id.
    pub id: PrincipalId,
    /// Whether it may administer.
    pub is_admin: bool,
}

/// The origin of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// In which profile.
    pub profile: ProfileName,
    /// By which door.
    pub door: Door,
    /// In which revision the answer must be written.
    pub revision: Revision,
    /// The session of a legacy client.
    pub session: Option<Arc<Session>>,
}

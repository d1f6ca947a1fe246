//! The yes that a call runs with, where the rules want one.

use toolcrib_base::PrincipalId;
use toolcrib_catalog::pin::Digest;
use toolcrib_policy::Demand;
use toolcrib_view::view::Tool;

/// The yes that a call runs with.
#[derive(Debug, Clone)]
pub struct Consent {
    /// What it was given to.
    pub(crate) demand: Demand,
    /// The approval that it was given in.
    pub(crate) approval: String,
    /// Who gave it.
    pub(crate) approver: PrincipalId,
    /// Of the tool's definition, as it was then.
    pub(crate) digest: String,
}

/// What was said yes to before, where the rules want a yes.
#[derive(Debug, Clone, Copy)]
pub enum GivenConsent<'a> {
    /// To nothing.
    Nothing,
    /// To exactly this.
    Yes(&'a Consent),
    /// It is about a call that has begun: whatever yes that needed was given.
    Begun,
}

// === impl Consent ===

impl Consent {
    /// Whether the tool is as it was when the yes was given.
    pub(crate) fn is_for(&self, tool: &Tool) -> bool {
        Digest::of(&tool.entry.raw).to_string() == self.digest
    }
}

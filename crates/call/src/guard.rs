//! Guards: code that looks at calls of tools beside the rules of the profile. The builder of the gateway hands in a
//! list. Each is asked in order before a call is made, and notified in order after one succeeded.
//!
//! A further guard is a type with [`CallGuard`] and a line in that list.

use std::fmt;

use toolcrib_base::Problem;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::view::{Tool, View};

/// A call of a tool, as guards see it.
#[derive(Debug, Clone, Copy)]
pub struct GuardedCall<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// What the caller's profile shows.
    pub view: &'a View,
    /// What is called.
    pub tool: &'a Tool,
    /// With what, an object.
    pub arguments: &'a Raw,
    /// Whether a run of an agent makes it itself.
    pub is_of_agent: bool,
}

/// Looks at each call of a tool. Neither function may wait: they run in the path of every call.
pub trait CallGuard: fmt::Debug + Send + Sync {
    /// Asked after the rules and the limits, before the arguments are checked and anything is sent.
    ///
    /// # Errors
    /// Why the call is not made; the caller reads it as the tool's result, and it is on record.
    fn before(&self, _call: &GuardedCall<'_>) -> Result<(), Problem> {
        Ok(())
    }

    /// Told of a call whose tool did what was asked.
    fn after(&self, _call: &GuardedCall<'_>) {}
}

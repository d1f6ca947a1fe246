//! The guard against canaries: whoever sends one, or is sent one, is halted by the setting of the profile.

use std::sync::Arc;

use toolcrib_base::{Kind, PrincipalId, Problem};
use toolcrib_catalog::CanaryHalt;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;

use crate::canaries::{CanaryTrace, FoundCanary, LONG};
use crate::halts::{Halt, HaltCause, HaltSubject};
use crate::path::CallPath;

/// What a record has in place of a name with a canary in it.
const HIDDEN: &str = "[canary]";

// === impl CallPath ===

impl CallPath {
    /// Looks for canaries in what goes by for a caller, and halts the caller where one is found: in `of`, such as
    /// `arguments`.
    ///
    /// # Errors
    /// The text could not be looked at.
    pub async fn look_for_canary(
        &self,
        caller: &Caller,
        text: &Raw,
        of: &'static str,
    ) -> Result<Option<FoundCanary>, Problem> {
        if self.canaries.is_empty() {
            return Ok(None);
        }
        let found = self.canaries.found(&caller.principal.id, text, self.clock.now().0).await?;
        let Some(id) = found else { return Ok(None) };
        // Boxed: it is rare, and the future of each call is moved.
        let halt = Box::pin(self.halt_for(caller, &id, of)).await?;
        Ok(Some(FoundCanary { id, halt }))
    }

    async fn halt_for(&self, caller: &Caller, id: &Arc<str>, of: &'static str) -> Result<Arc<Halt>, Problem> {
        let subject = self.subject_of(caller);
        let cause = HaltCause {
            reason: format!("canary `{id}` was found in {of}, in profile `{}`", caller.profile),
            canary: Some(id.to_string()),
            by: PrincipalId::new("toolcrib"),
        };
        let halts = Arc::clone(&self.halts);
        match tokio::task::spawn_blocking(move || halts.add(subject, cause)).await {
            Ok(added) => added.map(|(halt, _)| halt),
            Err(error) => Err(Problem::new(Kind::Internal, format!("the halt was interrupted: {error}"))),
        }
    }

    /// What is halted: by the setting of the profile the session, where the caller has one that no one else shares.
    fn subject_of(&self, caller: &Caller) -> HaltSubject {
        let setting = self.views.snapshot(&caller.profile).map(|snapshot| snapshot.profile().canary_halts);
        let own = caller.session.as_ref().map(|session| session.name().to_text());
        let session = own.or_else(|| caller.principal.identity.session.as_deref().map(Arc::from));
        match (setting, session) {
            (Ok(CanaryHalt::Session), Some(session)) => HaltSubject::Session(session),
            _ => HaltSubject::Principal(caller.principal.id.clone()),
        }
    }

    /// How much of a canary is in a short text, as it arrives piece by piece. Nothing is remembered, and no one is halted.
    pub fn trace_canary(&self, text: &Raw) -> CanaryTrace {
        if self.canaries.is_empty() { CanaryTrace::None } else { self.canaries.trace(text) }
    }

    /// Whether a text has a piece of a canary, or is too long to be looked through at once.
    pub fn may_have_canary(&self, text: &Raw) -> bool {
        !self.canaries.is_empty() && (text.as_str().len() > LONG || self.canaries.is_in(text))
    }

    /// A name as it may be recorded: not with a piece of a canary.
    pub fn without_canary(&self, name: &str) -> Arc<str> {
        if self.canaries.is_in(&Raw::from_value(&name)) { HIDDEN.into() } else { name.into() }
    }
}

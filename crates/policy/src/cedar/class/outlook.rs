//! What policies make of a thing before it is known how it is called: to compare policies, and for records that do not
//! have the arguments.

use toolcrib_base::Timestamp;

use super::{Class, PolicyVerdict};
use crate::Act;
use crate::cedar::label::LabelTable;
use crate::cedar::moment::Moment;
use crate::cedar::policy::{Effect, PolicyRule};

/// What is known of the decision about every call of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// Every call is decided like this.
    Settled(PolicyVerdict),
    /// It depends on the call, by these policies.
    Open(Vec<OpenPolicy>),
}

/// A policy that looks at the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPolicy {
    /// The policy.
    pub rule: PolicyRule,
    /// All of it, as it is written.
    pub text: String,
}

// === impl Class ===

impl Class {
    /// What becomes of calls of a thing whose arguments are not known, and neither is what led to them. With a time, what
    /// only that decides is settled.
    pub fn outlook(&self, act: &Act, labels: &LabelTable, at: Option<Timestamp>) -> Outlook {
        let moment = Moment::at(at.unwrap_or(Timestamp(0)));
        let decided = || Outlook::Settled(self.decide(act, labels, &moment));
        let Some(judgement) = self.judgement(act, labels) else { return decided() };
        if judgement.forbid.is_some() || !self.is_permitted_by_any(&judgement) {
            return decided();
        }
        let decides = |place: &usize| !self.rule(*place).records_only;
        let counting = at.map(|_| self.counting_now(&judgement, act, labels, &moment)).unwrap_or_default();
        let refuses = |place: &&usize| decides(place) && matches!(self.rule(**place).effect, Effect::Forbid { .. });
        if counting.iter().any(|place| refuses(&place)) {
            return decided();
        }
        let permits = |place: &usize| self.rule(*place).effect == Effect::Permit;
        let is_permitted = judgement.permit.is_some() || counting.iter().any(|place| decides(place) && permits(place));
        let timed = judgement.timed.iter().filter(|_| at.is_none());
        // One more permit changes nothing for what is permitted.
        let matters = |place: &&usize| decides(place) && !(is_permitted && permits(place));
        let open = timed.chain(&judgement.open).filter(matters).map(|place| OpenPolicy {
            rule: self.rule(*place).clone(),
            text: self.compiled.policies[*place].policy.to_string(),
        });
        let open: Vec<OpenPolicy> = open.collect();
        if open.is_empty() { decided() } else { Outlook::Open(open) }
    }
}

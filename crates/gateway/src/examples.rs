//! Examples from use: the arguments of calls that went well, for profiles with `examples: recorded` or `shared`. They are
//! kept in memory alone, without what looks like a secret, and shown by `describe_tool`.

mod redact;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use toolcrib_base::{PrincipalId, ProfileName, ToolId};
use toolcrib_call::{CallGuard, GuardedCall};
use toolcrib_catalog::{Examples as ExamplePolicy, ProfileDefinition};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;

use toolcrib_view::view::{Tool, View};

/// How many examples are kept in all, and how many of one principal in one profile.
const KEPT: usize = 2_048;
const OF_ONE: usize = 256;
/// How many of one tool are shown.
const SHOWN: usize = 3;
/// Larger arguments are no example, in bytes.
const BYTES: usize = 2 * 1024;

/// What was called well, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    kept: Mutex<VecDeque<RecordedExample>>,
}

#[derive(Debug)]
struct RecordedExample {
    profile: ProfileName,
    principal: PrincipalId,
    tool: ToolId,
    /// Redacted; an object.
    arguments: Value,
}

fn schema(tool: &Tool) -> Value {
    tool.entry.input_schema().map(|schema| schema.to_value()).unwrap_or_default()
}

// === impl RecordedExample ===

impl RecordedExample {
    fn is_of(&self, caller: &Caller) -> bool {
        self.principal == caller.principal.id && self.profile == caller.profile
    }

    /// Whether the same arguments are given, whatever their values: one of such is enough.
    fn is_like(&self, other: &Self) -> bool {
        let names = |kept: &Self| kept.arguments.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>());
        self.profile == other.profile
            && self.principal == other.principal
            && self.tool == other.tool
            && names(self) == names(other)
    }
}

// === impl CallGuard ===

impl CallGuard for Examples {
    fn after(&self, call: &GuardedCall<'_>) {
        // What sources run is shown by their definitions.
        if call.tool.server().is_some() {
            self.called(call.caller, call.view, call.tool, call.arguments);
        }
    }
}

// === impl Examples ===

impl Examples {
    /// Keeps the arguments of a call that went well, where the profile wants it.
    pub(crate) fn called(&self, caller: &Caller, view: &View, tool: &Tool, arguments: &Raw) {
        if view.profile.examples == ExamplePolicy::Given || arguments.as_str().len() > BYTES {
            return;
        }
        let Some(arguments) = redact::redacted(&arguments.to_value(), &schema(tool)) else { return };
        let (profile, principal) = (caller.profile.clone(), caller.principal.id.clone());
        let new = RecordedExample { profile, principal, tool: tool.id.clone(), arguments };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|old| !old.is_like(&new));
        // A principal that calls much pushes out the own examples first.
        let last = kept.iter().enumerate().filter(|(_, old)| old.is_of(caller)).map(|(at, _)| at).nth(OF_ONE - 1);
        last.and_then(|at| kept.remove(at));
        kept.truncate(KEPT - 1);
        kept.push_front(new);
    }

    /// The newest examples of a tool that a caller may see: the own ones, and where the profile shares them those of all
    /// who use it. Those with arguments that the tool has no more are left out.
    pub(crate) fn of(&self, caller: &Caller, view: &View, tool: &Tool) -> Vec<Value> {
        let may_see = |kept: &RecordedExample| match view.profile.examples {
            ExamplePolicy::Given => false,
            ExamplePolicy::Recorded => kept.is_of(caller),
            ExamplePolicy::Shared => kept.profile == view.profile.name,
        };
        let schema = schema(tool);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shown: Vec<Value> = Vec::new();
        for kept in kept.iter().filter(|kept| kept.tool == tool.id && may_see(kept)) {
            if !shown.contains(&kept.arguments) && redact::fits(&kept.arguments, &schema) {
                shown.push(kept.arguments.clone());
            }
        }
        shown.truncate(SHOWN);
        shown
    }

    /// Forgets what profiles do not want any more.
    pub(crate) fn keep_only<'p>(&self, profiles: impl Iterator<Item = &'p ProfileDefinition>) {
        let wanted: Vec<&ProfileName> =
            profiles.filter(|profile| profile.examples != ExamplePolicy::Given).map(|profile| &profile.name).collect();
        self.retain(|kept| wanted.contains(&&kept.profile));
    }

    /// Forgets what was called in a profile.
    pub(crate) fn forget(&self, profile: &ProfileName) {
        self.retain(|kept| kept.profile != *profile);
    }

    fn retain(&self, stays: impl Fn(&RecordedExample) -> bool) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).retain(stays);
    }
}

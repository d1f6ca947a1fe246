//! One policy: what its annotations ask for, whom and what it fits, and whether it is fulfilled.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cedar_policy::{Authorizer, Entities, Policy, PolicyId, PolicySet, Request};
use toolcrib_base::nearest::nearest;

use super::argument::{Arguments, expected};
use super::look::Look;
use super::scope::Scope;
use super::text::Fault;

/// The annotations that mean something, with what they say.
const ANNOTATIONS: [(&str, &str); 9] = [
    ("id", "the name of the policy"),
    ("description", "what it is for"),
    ("reason", "what a caller reads who is refused"),
    ("deny", "`hidden` or `said`"),
    ("mode", "`record`: it decides nothing and is only recorded"),
    ("confirm", "the caller's own person is asked"),
    ("approve", "the group whose members may approve"),
    ("expires", "how long an approval can be given"),
    ("remember", "how long an answer counts for the same tool"),
];

/// How many parts conditions may have to be evaluated on the stack of a task.
const SHORT: usize = 200;
/// The stack for longer ones.
const STACK: usize = 64 << 20;

/// What a policy does when it is fulfilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It permits.
    Permit,
    /// It refuses. Hidden things look as if they were not there.
    Forbid {
        /// `None`: hidden where it does not depend on the call, else said.
        hidden: Option<bool>,
    },
    /// It refuses until somebody has said yes.
    Ask(Ask),
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The caller's own person.
    Confirm {
        /// How long the answer counts for the same tool.
        remember: Option<Duration>,
    },
    /// Somebody else.
    Approve {
        /// Whose members may approve; anyone who may approve where it is empty.
        group: String,
        /// How long the approval can be given.
        expires: Option<Duration>,
    },
}

/// What people know of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// Its name: `@id`, or its file and place in it.
    pub id: Arc<str>,
    /// The name of the file.
    pub file: Arc<str>,
    /// Where it begins, from 1.
    pub line: usize,
    /// What it does.
    pub effect: Effect,
    /// `@mode("record")`: it decides nothing.
    pub records_only: bool,
    /// `@description`.
    pub description: Option<String>,
    /// `@reason`: what a caller reads who is refused.
    pub reason: Option<String>,
}

/// A policy, ready to be evaluated.
#[derive(Debug, Clone)]
pub(super) struct CompiledPolicy {
    pub(super) rule: PolicyRule,
    pub(super) scope: Scope,
    pub(super) look: Look,
    /// What it expects of arguments.
    pub(super) arguments: Arguments,
    /// In which way it reads arguments: a place in the table of all policies.
    pub(super) reading: usize,
    /// Whether Cedar recurses so deeply over its conditions that it needs more stack than a task has.
    is_long: bool,
    /// `None`: it has no conditions, its head says all.
    alone: Option<PolicySet>,
    pub(super) policy: Policy,
}

/// What became of the conditions of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Fulfilled,
    Unfulfilled,
    /// They do not fit what they are about, such as a text that is compared with a number.
    Failed,
}

// === impl CompiledPolicy ===

impl CompiledPolicy {
    pub(super) fn new(policy: &Policy, file: &Arc<str>, line: usize, place: usize) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new(file, Some(line), message);
        let id: Arc<str> = match policy.annotation("id") {
            Some("") => return Err(fault("the `@id` of a policy is empty".to_owned())),
            Some(id) => id.into(),
            None => format!("{file}#{place}").into(),
        };
        let policy = policy.new_id(PolicyId::new(&*id));
        let rule = rule(&policy, id, file, line).map_err(|(message, hint)| fault(message).hint(hint))?;
        let json = policy.to_json().map_err(|error| fault(error.to_string()))?;
        let alone = match policy.has_non_scope_constraint() {
            true => Some(PolicySet::from_policies([policy.clone()]).map_err(|error| fault(error.to_string()))?),
            false => None,
        };
        let is_long = policy.as_ref().condition().subexpressions().take(SHORT + 1).count() > SHORT;
        let (scope, mut look, arguments) = (Scope::of(&policy), Look::of(&json), expected(&json));
        look.names_label = policy.entity_literals().iter().any(|uid| uid.type_name().basename() == "Label");
        Ok(Self { rule, scope, look, arguments, reading: 0, is_long, alone, policy })
    }

    /// Whether its conditions are fulfilled, where its head fits.
    pub(super) fn evaluate(&self, authorizer: &Authorizer, request: &Request, entities: &Entities) -> Outcome {
        let Some(alone) = &self.alone else { return Outcome::Fulfilled };
        let answer = match self.is_long {
            false => authorizer.is_authorized(request, alone, entities),
            true => stacker::grow(STACK, || authorizer.is_authorized(request, alone, entities)),
        };
        match answer.diagnostics() {
            it if it.errors().next().is_some() => Outcome::Failed,
            it if it.reason().next().is_some() => Outcome::Fulfilled,
            _ => Outcome::Unfulfilled,
        }
    }
}

/// Names it with its place.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}` ({}:{})", self.id, self.file, self.line)
    }
}

impl PolicyRule {
    /// Whether the policy counts for what is decided, given what became of its conditions. A policy that refuses
    /// counts as well when it fails: arguments of an odd type must not get around it.
    pub(super) fn counts(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Fulfilled => true,
            Outcome::Unfulfilled => false,
            Outcome::Failed => self.effect != Effect::Permit,
        }
    }
}

/// What the annotations say; else what is wrong, and what to do.
fn rule(policy: &Policy, id: Arc<str>, file: &Arc<str>, line: usize) -> Result<PolicyRule, (String, String)> {
    for (name, _) in policy.annotations() {
        if !ANNOTATIONS.iter().any(|(known, _)| *known == name) {
            let known = ANNOTATIONS.iter().map(|(known, _)| *known);
            let hint = match nearest(name, known.clone()) {
                Some(near) => format!("Did you mean `@{near}`?"),
                None => format!("Annotations are: {}.", known.collect::<Vec<_>>().join(", ")),
            };
            return Err((format!("the annotation `@{name}` is unknown"), hint));
        }
    }
    let permits = policy.effect() == cedar_policy::Effect::Permit;
    let (confirm, approve) = (policy.annotation("confirm"), policy.annotation("approve"));
    let deny = policy.annotation("deny");
    if permits
        && let Some(name) = ["confirm", "approve", "deny", "reason"].iter().find(|it| policy.annotation(it).is_some())
    {
        let hint = "Write `forbid` with the annotation: all that is permitted is refused until someone says yes.";
        return Err((format!("`@{name}` has no effect on `permit`"), hint.to_owned()));
    }
    for (name, of, beside) in [("expires", "approve", approve), ("remember", "confirm", confirm)] {
        if policy.annotation(name).is_some() && beside.is_none() {
            let hint = format!("Remove it, or write `@{of}` beside it.");
            return Err((format!("`@{name}` has no effect without `@{of}`"), hint));
        }
    }
    let effect = match (permits, confirm, approve, deny) {
        (true, ..) => Effect::Permit,
        (false, Some(_), Some(_), _) => {
            return Err(("`@confirm` and `@approve` exclude each other".to_owned(), "Keep one of them.".to_owned()));
        }
        (false, Some(_), None, None) => Effect::Ask(Ask::Confirm { remember: duration(policy, "remember")? }),
        (false, None, Some(group), None) => {
            Effect::Ask(Ask::Approve { group: group.to_owned(), expires: duration(policy, "expires")? })
        }
        (false, None, None, None) => Effect::Forbid { hidden: None },
        (false, None, None, Some("hidden")) => Effect::Forbid { hidden: Some(true) },
        (false, None, None, Some("said")) => Effect::Forbid { hidden: Some(false) },
        (false, None, None, Some(other)) => {
            return Err((format!("`@deny(\"{other}\")` is unknown"), "Write `hidden` or `said`.".to_owned()));
        }
        (false, _, _, Some(_)) => {
            let hint = "Remove `@deny`: the refusal of what can be asked for is always said.";
            return Err(("`@deny` has no effect beside `@confirm` or `@approve`".to_owned(), hint.to_owned()));
        }
    };
    let records_only = match policy.annotation("mode") {
        None => false,
        Some("record") => true,
        Some(other) => return Err((format!("`@mode(\"{other}\")` is unknown"), "Write `record`.".to_owned())),
    };
    let text = |name: &str| policy.annotation(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let (description, reason) = (text("description"), text("reason"));
    Ok(PolicyRule { id, file: Arc::clone(file), line, effect, records_only, description, reason })
}

/// The value of an annotation such as `30m`.
fn duration(policy: &Policy, name: &str) -> Result<Option<Duration>, (String, String)> {
    let Some(text) = policy.annotation(name) else { return Ok(None) };
    let split = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => 0,
    };
    let whole = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).filter(|it| *it > 0);
    match whole {
        Some(seconds) => Ok(Some(Duration::from_secs(seconds))),
        None => {
            Err((format!("`@{name}(\"{text}\")` is no time"), "Write it like `30s`, `10m`, `2h` or `1d`.".to_owned()))
        }
    }
}

//! The proof that a request passed the rules, and the reason why it did not.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::{PrincipalId, ProfileName};

use crate::{Act, Ask, Demand, PolicyRule};

/// The rule that allowed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `servers` and `tools.allow` match and `tools.deny` does not.
    ToolAllowed,
    /// As [`Rule::ToolAllowed`], and the tool says that it only reads, as the profile demands.
    ReadOnlyToolAllowed,
    /// `servers` matches: resources, prompts, completion and forwarded methods.
    ServerAllowed,
    /// `servers` and `registry` match: the entry may become a server.
    EntryAllowed,
    /// Meta-tools are open to everyone who reaches the profile.
    MetaTool,
    /// An operation that needs no administering principal.
    OpenOperation,
    /// A call of somebody else may be approved, as far as roles say so.
    Approver,
    /// An operation by a principal that may administer.
    AdminOperation,
    /// An operation for administrators that only reads, by an operator.
    OperatorReads,
}

impl Rule {
    /// The stable name in audit events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolAllowed => "tool-allowed",
            Self::ReadOnlyToolAllowed => "read-only-tool-allowed",
            Self::ServerAllowed => "server-allowed",
            Self::EntryAllowed => "entry-allowed",
            Self::MetaTool => "meta-tool",
            Self::OpenOperation => "open-operation",
            Self::Approver => "approver",
            Self::AdminOperation => "admin-operation",
            Self::OperatorReads => "operator-reads",
        }
    }
}

/// The proof that one request passed the rules. Only [`crate::Rules::decide`] makes one, it cannot be copied, and
/// anyone who calls a server takes it by value: one decision, one call.
///
/// ```compile_fail
/// fn twice(permit: toolcrib_policy::Permit) -> [toolcrib_policy::Permit; 2] {
///     [permit.clone(), permit]
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit is for one call and one audit event"]
pub struct Permit {
    principal: PrincipalId,
    profile: ProfileName,
    act: Act,
    rule: Rule,
    policy: Option<Arc<str>>,
}

// === impl Permit ===

impl Permit {
    pub(crate) fn new(principal: PrincipalId, profile: ProfileName, act: Act, rule: Rule) -> Self {
        Self { principal, profile, act, rule, policy: None }
    }

    pub(crate) fn by_policy(mut self, policy: Option<Arc<str>>) -> Self {
        self.policy = policy;
        self
    }

    /// Who it was given to.
    pub fn principal(&self) -> &PrincipalId {
        &self.principal
    }

    /// The profile whose rules allowed it.
    pub fn profile(&self) -> &ProfileName {
        &self.profile
    }

    /// What it was given for. The callee compares it with what it is about to do, or takes its target from here.
    pub fn act(&self) -> &Act {
        &self.act
    }

    /// The rule that allowed it.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The policy that allowed it as well; `None` where policies do not decide.
    pub fn policy(&self) -> Option<&Arc<str>> {
        self.policy.as_ref()
    }
}

/// Why a request did not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No pattern of `servers` matches the server.
    ServerNotAllowed,
    /// No pattern of `registry` matches the entry.
    EntryNotAllowed,
    /// A pattern of `tools.deny` matches the tool.
    ToolDenied,
    /// No pattern of `tools.allow` matches the tool.
    ToolNotAllowed,
    /// The profile only reads, and the tool does not say that it does.
    NotReadOnly,
    /// The profile holds back what is not as it was approved.
    Held,
    /// The principal is a viewer, and the thing does not say that it only reads.
    ViewerOnlyReads,
    /// The operation needs a principal that may administer.
    NeedsAdmin,
    /// A policy forbids it whatever the call is, or none permits it.
    PolicyHides,
    /// A policy forbids this call, and what is called is no secret.
    PolicyForbids,
    /// A policy forbids it until somebody has said yes.
    PolicyAsks,
    /// A pattern of `tools.confirm` or `tools.approve` asks for a yes first.
    ProfileAsks,
    /// The principal is no operator, and no policy lets it approve.
    NeedsOperator,
}

impl Reason {
    /// The stable name in audit events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServerNotAllowed => "server-not-allowed",
            Self::EntryNotAllowed => "entry-not-allowed",
            Self::ToolDenied => "tool-denied",
            Self::ToolNotAllowed => "tool-not-allowed",
            Self::NotReadOnly => "not-read-only",
            Self::Held => "held",
            Self::ViewerOnlyReads => "viewer-only-reads",
            Self::NeedsAdmin => "needs-admin",
            Self::PolicyHides => "policy-hides",
            Self::PolicyForbids => "policy-forbids",
            Self::PolicyAsks => "policy-asks",
            Self::ProfileAsks => "profile-asks",
            Self::NeedsOperator => "needs-operator",
        }
    }

    /// Whether the caller must not learn that the thing exists. Then the answer is the one for an unknown name.
    pub const fn is_hidden(self) -> bool {
        match self {
            Self::NeedsAdmin
            | Self::NeedsOperator
            | Self::ViewerOnlyReads
            | Self::PolicyForbids
            | Self::PolicyAsks
            | Self::ProfileAsks => false,
            Self::ServerNotAllowed
            | Self::EntryNotAllowed
            | Self::ToolDenied
            | Self::ToolNotAllowed
            | Self::NotReadOnly
            | Self::Held
            | Self::PolicyHides => true,
        }
    }
}

/// The refusal of one request. `rule` is for audit events and administrators; it must not reach a caller from whom the
/// thing is hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// The rule in words, such as `` `tools.deny: files/write*` of profile `default` ``.
    pub rule: String,
    /// Whether the caller must not learn that the thing exists.
    pub hidden: bool,
    /// What the caller reads in place of the rule.
    pub said: Option<String>,
    /// The policy that refused.
    pub policy: Option<Arc<str>>,
    /// Whose yes would do, where somebody can give one.
    pub demand: Option<Box<Demand>>,
}

impl Denial {
    /// The refusal of a policy, or of all where none permits. What the audit log names, a caller reads only as it is said.
    pub(crate) fn by_policy(by: Option<PolicyRule>, hidden: bool) -> Self {
        let reason = if hidden { Reason::PolicyHides } else { Reason::PolicyForbids };
        let (rule, said) = match &by {
            Some(rule) => {
                (rule.to_string(), rule.reason.clone().unwrap_or_else(|| format!("policy `{}` forbids it", rule.id)))
            }
            None => ("policies, as none permits it".to_owned(), "no policy permits it".to_owned()),
        };
        Self { reason, rule, hidden, said: Some(said), policy: by.map(|rule| rule.id), demand: None }
    }

    /// The refusal until somebody has said yes.
    pub(crate) fn until_asked(by: PolicyRule, ask: &Ask) -> Self {
        let whose = match ask {
            Ask::Confirm { .. } => "the caller's person has to confirm it".to_owned(),
            Ask::Approve { group, .. } if group.is_empty() => "somebody else has to approve it".to_owned(),
            Ask::Approve { group, .. } => format!("somebody of `{group}` has to approve it"),
        };
        let (rule, said) = (by.to_string(), by.reason.unwrap_or(whose));
        Self { reason: Reason::PolicyAsks, rule, hidden: false, said: Some(said), policy: Some(by.id), demand: None }
    }

    /// The refusal of a profile until somebody has said yes.
    pub(crate) fn by_profile(demand: &Demand) -> Self {
        let rule = demand.by.first().map_or_else(String::new, ToString::to_string);
        Self {
            reason: Reason::ProfileAsks,
            rule,
            hidden: false,
            said: Some(demand.words()),
            policy: None,
            demand: None,
        }
    }

    /// The next step for a caller who may know of the thing; `None` when it is hidden.
    pub fn hint(&self) -> Option<&'static str> {
        match self.reason {
            Reason::NeedsAdmin => {
                Some("send the token of an admin, such as the gateway's token (`state/token` in the home folder)")
            }
            Reason::ViewerOnlyReads => Some("ask an administrator for the role `member` in this profile"),
            Reason::PolicyForbids | Reason::PolicyAsks | Reason::ProfileAsks => {
                Some("ask an administrator, who sees why with `toolcrib policy explain`")
            }
            _ => None,
        }
    }
}

/// Reads after "failed to …": the rule that refused.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.said {
            Some(said) => write!(f, "denied: {said}"),
            None => write!(f, "denied by {}", self.rule),
        }
    }
}

impl std::error::Error for Denial {}

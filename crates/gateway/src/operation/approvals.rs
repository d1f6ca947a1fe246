//! Approvals of calls: list those that wait, look at one, say yes or no. Who may is decided here; what a yes does is
//! `call`'s matter.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Proof};
use toolcrib_call::{ApprovalVerdict, ShownCall, name_at_servers, no_approval};
use toolcrib_catalog::AGENT_PRINCIPAL_PREFIX;
use toolcrib_policy::{Act, Annotations, Caller as PolicyCaller, Demand, Request};
use toolcrib_protocol::Raw;
use toolcrib_session::{Caller, Principal};
use toolcrib_store::{ApprovalKind, ApprovalState, CallApproval, Door};
use toolcrib_view::arguments::text;
use toolcrib_view::view::{annotations, digest};
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::{ROW, Row, Run, row};
use crate::approval_events::{add_summary, shown};
use crate::gateway::Gateway;
use crate::policies::labels;

/// By which doors something is decided: not by the one that agents come in by, nor in the course of a call.
const DECIDING: [Door; 3] = [Door::REST, Door::CLI, Door::UI];
/// How many a list shows.
const LISTED: usize = 200;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(decide(gateway, caller, arguments, true))),
        Operation {
            tool: "core_approval_approve",
            method: Method::Post,
            path: "/approvals/{id}/approve",
            tag: "approvals",
            summary: "Approve a call",
            description: "Say yes to a call that waits; it runs once, for its caller, with exactly its arguments. Nobody approves a call of one's own, and nothing is decided by MCP.",
            permission: Permission::Open,
            effect: Effect::Changes { idempotent: false },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Unavailable],
            input: DECISION,
            output: APPROVAL,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(decide(gateway, caller, arguments, false))),
        Operation {
            tool: "core_approval_deny",
            method: Method::Post,
            path: "/approvals/{id}/deny",
            tag: "approvals",
            summary: "Deny a call",
            description: "Say no to a call that waits; its caller reads the reason. A caller takes its own call back in this way.",
            permission: Permission::Open,
            effect: Effect::Changes { idempotent: false },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Unavailable],
            input: DECISION,
            output: APPROVAL,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(list(gateway, caller, arguments))),
        Operation {
            tool: "core_approval_list",
            path: "/approvals",
            tag: "approvals",
            summary: "List approvals of calls",
            description: "List calls that wait for a yes, and what became of those of the last day: the caller's own, and those that the caller may decide about. At most 200, the newest first.",
            permission: Permission::Open,
            input: r#"{"type":"object","properties":{"state":{"type":"string","enum":["open","approved","running","done","denied","expired","unknown"],"description":"Only those in this state"}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"approvals":{"type":"array","items":{"type":"object"}}},"required":["approvals"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(show(gateway, caller, arguments))),
        Operation {
            tool: "core_approval_show",
            path: "/approvals/{id}",
            tag: "approvals",
            summary: "Show an approval of a call",
            description: "Show a call that waits, with its whole arguments: secrets are left out, and characters that a screen does not show are written as `<U+200B>`. The caller itself sees the result, too.",
            permission: Permission::Open,
            problems: &[Kind::NotFound, Kind::Unavailable],
            input: r#"{"type":"object","properties":{"id":{"type":"string","minLength":1,"maxLength":64,"description":"Such as `apr_…`"}},"required":["id"],"additionalProperties":false}"#,
            output: APPROVAL,
            ..ROW
        },
    ),
];

const DECISION: &str = r#"{"type":"object","properties":{"id":{"type":"string","minLength":1,"maxLength":64,"description":"Such as `apr_…`"},"reason":{"type":"string","maxLength":1000,"description":"Why; the caller and the audit log read it"}},"required":["id"],"additionalProperties":false}"#;
const APPROVAL: &str = r#"{"type":"object","properties":{"id":{"type":"string"},"kind":{"enum":["confirm","approve"]},"state":{"enum":["open","approved","running","done","denied","expired","unknown"]},"tool":{"type":"string"},"principal":{"type":"string"},"profile":{"type":"string"},"createdAt":{"type":"string"},"expiresAt":{"type":"string"},"decidedAt":{"type":"string"},"approver":{"type":"string"},"reason":{"type":"string"},"endedAt":{"type":"string"},"own":{"type":"boolean"},"arguments":{"type":"string"},"targetType":{"type":"string","description":"What the call changes, as the definition of its tool says"},"targetLabel":{"type":"string","description":"Which one; made of the arguments"},"actionSummary":{"type":"string","description":"What the call does; made of the arguments, which stand beside it"},"askedBy":{"type":"array","items":{"type":"string"}},"groups":{"type":"array","items":{"type":"string"}},"door":{"type":"string"},"chain":{"type":"string","description":"The program that called, and who acts in whose name; the run and its call"},"outcome":{"type":"object"}},"required":["id","kind","state","tool","principal","profile","createdAt","expiresAt","own"]}"#;

/// What an approval is to someone who asks about it.
struct DecisionRights {
    /// Whether it is about a call of the same user.
    is_own: bool,
    /// Whether that one may say yes.
    may_approve: bool,
}

async fn list(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let state = text(arguments, "state")?.and_then(|state| ApprovalState::parse(&state));
    let mut rows = Vec::new();
    for listed in gateway.path.approvals.list(state).await? {
        let is_own = is_same_user(gateway, &caller.principal.id, &listed.call.principal);
        // What decides about others is sealed, and not in the list.
        let whole = gateway.path.approvals.get(&listed.id).await?;
        let call = match &whole {
            Some(whole) => gateway.path.approvals.shown(whole).await.ok(),
            None => None,
        };
        let may_see = |call: &ShownCall| rights_of(gateway, caller, &listed, call).is_visible();
        if is_own || call.as_ref().is_some_and(may_see) {
            rows.push(value(&listed, call.as_ref(), is_own));
        }
        if rows.len() >= LISTED {
            break;
        }
    }
    Ok(json!({ "approvals": rows }))
}

async fn show(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let (approval, call, rights) = find(gateway, caller, arguments).await?;
    let mut whole = value(&approval, None, rights.is_own);
    add_summary(&mut whole, &call.summary);
    whole["arguments"] = call.arguments.as_str().into();
    whole["askedBy"] = call.demand.by.iter().map(|by| &**by).collect::<Vec<&str>>().into();
    whole["groups"] = json!(call.demand.groups);
    whole["door"] = call.door.as_str().into();
    if !call.chain.is_empty() {
        whole["chain"] = call.chain.as_str().into();
    }
    if rights.is_own
        && let Some(end) = gateway.path.approvals.shown_end(&approval).await?
    {
        whole["outcome"] = end;
    }
    Ok(whole)
}

/// Whether a caller comes by a door at which people decide, and is no program that acts in a person's name.
///
/// # Errors
/// Why not, and what to do.
pub fn may_decide_here(caller: &Caller) -> Result<(), Problem> {
    if !DECIDING.contains(&caller.door) {
        let message = "what a person is asked is not answered by MCP, nor in the course of a call";
        let hint = "a person answers with `toolcrib run resume`, or in the dialog of the client";
        return Err(Problem::new(Kind::Forbidden, message).hint(hint));
    }
    if !caller.principal.identity.actors.is_empty() {
        let message = "a program that acts in a person's name does not answer what the person is asked";
        return Err(Problem::new(Kind::Forbidden, message).hint("the person answers with a token of its own"));
    }
    Ok(())
}

/// Whether two callers are one person: the same principal, keys of the same user, or the owner with the token and without.
pub fn is_same_person(gateway: &Gateway, one: &PrincipalId, other: &PrincipalId) -> bool {
    let owns_both = [one, other].iter().all(|it| name_at_servers(it).is_none());
    owns_both || is_same_user(gateway, one, other)
}

async fn decide(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw, says_yes: bool) -> Result<Value, Problem> {
    if !DECIDING.contains(&caller.door) {
        let message = "calls are not approved or denied by MCP, nor in the course of a call";
        let hint = "a person decides with `toolcrib approval approve` or `toolcrib approval deny`";
        return Err(Problem::new(Kind::Forbidden, message).hint(hint));
    }
    if !caller.principal.identity.actors.is_empty() {
        let message = "a program that acts in a person's name does not decide about calls";
        return Err(Problem::new(Kind::Forbidden, message).hint("the person decides with a token of its own"));
    }
    let (approval, _, rights) = find(gateway, caller, arguments).await?;
    if says_yes && !rights.may_approve {
        let message = format!("approval `{}` is of your own call", approval.id);
        return Err(Problem::new(Kind::Forbidden, message).hint("another person approves it, or you deny it"));
    }
    let reason = text(arguments, "reason")?.filter(|reason| !reason.is_empty());
    let by = &caller.principal.id;
    let verdict = ApprovalVerdict { id: &approval.id, says_yes, by, reason: reason.as_deref() };
    let decided = gateway.path.decide_approval(verdict).await?;
    Ok(value(&decided, None, rights.is_own))
}

/// The approval that the arguments name, if the caller may know of it: to anyone else it does not exist.
async fn find(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    arguments: &Raw,
) -> Result<(CallApproval, ShownCall, DecisionRights), Problem> {
    let id = text(arguments, "id")?.unwrap_or_default();
    let approval = gateway.path.approvals.get(&id).await?.ok_or_else(|| no_approval(&id))?;
    let call = match gateway.path.approvals.shown(&approval).await {
        Ok(call) => call,
        // Who may decide is sealed: what cannot be read is there for its caller and administrators alone.
        Err(problem) => {
            let principal = &caller.principal;
            let is_known = principal.is_admin() || is_same_user(gateway, &principal.id, &approval.call.principal);
            return Err(if is_known { problem } else { no_approval(&id) });
        }
    };
    let rights = rights_of(gateway, caller, &approval, &call);
    if rights.is_visible() { Ok((approval, call, rights)) } else { Err(no_approval(&id)) }
}

// === impl DecisionRights ===

impl DecisionRights {
    fn is_visible(&self) -> bool {
        self.is_own || self.may_approve
    }
}

/// What an approval is to a caller.
fn rights_of(gateway: &Gateway, caller: &Caller, approval: &CallApproval, call: &ShownCall) -> DecisionRights {
    let principal = &caller.principal;
    // An agent that runs as itself asks for those who have called it: their yes is one to their own call.
    let behind = || {
        let is_agent = approval.call.principal.as_str().starts_with(AGENT_PRINCIPAL_PREFIX);
        let actors = call.principal.identity.actors.iter().filter(|_| is_agent).map(|actor| PrincipalId::new(actor));
        actors.into_iter().any(|actor| is_same_user(gateway, &principal.id, &actor))
    };
    let is_own = is_same_user(gateway, &principal.id, &approval.call.principal) || behind();
    let owns_both = || [&principal.id, &approval.call.principal].iter().all(|it| name_at_servers(it).is_none());
    let may_approve = match approval.kind {
        ApprovalKind::Approve if is_own => false,
        // One's own person confirms; the owner of this installation is one person, with the token and without.
        ApprovalKind::Confirm if is_own || owns_both() => true,
        ApprovalKind::Confirm | ApprovalKind::Approve => may_approve(gateway, caller, approval, call),
    };
    DecisionRights { is_own, may_approve }
}

/// Whether policy and roles let a caller approve a call of somebody else, and it is in each group that is asked for.
fn may_approve(gateway: &Gateway, caller: &Caller, approval: &CallApproval, call: &ShownCall) -> bool {
    let Principal { id, role, identity } = &caller.principal;
    let (own, theirs) = (identity, &call.principal.identity);
    let tenants = own.tenant.is_some() && theirs.tenant.is_some();
    if tenants && (&own.issuer, &own.tenant) != (&theirs.issuer, &theirs.tenant) {
        return false;
    }
    if !is_in_groups(&caller.principal, &call.demand) {
        return false;
    }
    let tool = approval.call.tool.clone();
    let view = gateway.path.views.seen_by(&approval.call.profile, &call.principal, call.door);
    let found = view.as_ref().and_then(|view| view.tool_by_id(&tool));
    let annotations = found.map(|tool| Annotations { digest: Some(digest(&tool.entry)), ..annotations(&tool.entry) });
    let act = Act::Approve { tool, annotations: annotations.unwrap_or_default() };
    let rules = gateway.labelled_rules(caller, labels(&gateway.loaded()));
    let request = Request { caller: PolicyCaller { principal: id, role: *role }, act: &act };
    rules.decide(&request, &call.moment(gateway.path.clock.now())).is_ok()
}

/// The gateway's token stands for every group: who has it writes the policies.
fn is_in_groups(principal: &Principal, demand: &Demand) -> bool {
    let identity = &principal.identity;
    let is_in = |wanted: &String| {
        identity.groups.iter().any(|group| match &identity.issuer {
            Some(issuer) => **group == **wanted || format!("{issuer}/{group}") == *wanted,
            None => **group == **wanted,
        })
    };
    identity.proof == Proof::GatewayToken || demand.groups.iter().all(is_in)
}

/// Whether two principals are one user: the same one, or keys of the same one.
fn is_same_user(gateway: &Gateway, one: &PrincipalId, other: &PrincipalId) -> bool {
    one == other || user_of(gateway, one) == user_of(gateway, other)
}

impl Gateway {
    /// Whether two principals are one user: the same one, or keys of the same one.
    pub fn is_same_user(&self, one: &PrincipalId, other: &PrincipalId) -> bool {
        is_same_user(self, one, other)
    }
}

/// As whom a principal counts: a key as the user that its profile says it belongs to.
pub(super) fn user_of(gateway: &Gateway, principal: &PrincipalId) -> PrincipalId {
    let of_key = || {
        let (profile, _) = principal.as_str().strip_prefix("key:")?.split_once('/')?;
        let snapshot = gateway.snapshot(&ProfileName::new(profile).ok()?).ok()?;
        Some(snapshot.user_of(principal))
    };
    of_key().unwrap_or_else(|| principal.clone())
}

/// What everyone reads of it who may know of it.
fn value(approval: &CallApproval, call: Option<&ShownCall>, is_own: bool) -> Value {
    let mut value = shown(approval, call);
    value["own"] = is_own.into();
    value
}

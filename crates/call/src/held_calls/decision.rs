//! The yes and the no. At the yes the rights of the caller, the tool and the rules are looked at again; who may say it is
//! decided before, by those who know who asks.

use std::sync::Arc;

use toolcrib_base::{Kind, PrincipalId, Problem, Proof, Timestamp};
use toolcrib_catalog::pin::Digest;
use toolcrib_policy::{Moment, Request};
use toolcrib_session::Principal;
use toolcrib_store::{ApprovalDecision, ApprovalState, CallApproval};

use crate::approvals::blocking;
use crate::approvals::record::HeldCall;
use crate::path::CallPath;
use crate::snapshot::{ProfileSnapshot, key_principal};

/// How long a run may take until it makes a call that was approved, in milliseconds: a day, as results are kept.
const BEGIN_WITHIN: i64 = 24 * 60 * 60 * 1_000;

/// What somebody says to a call that waits.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalVerdict<'a> {
    /// To which one.
    pub id: &'a str,
    /// Whether the call is made.
    pub says_yes: bool,
    /// Who.
    pub by: &'a PrincipalId,
    /// Why.
    pub reason: Option<&'a str>,
}

/// Why a yes does not count.
pub(super) enum Objection {
    /// What is asked for is another thing by now: a new call asks for a new yes.
    Changed(String),
    /// It cannot be said at the moment.
    NotNow(Problem),
}

impl From<Problem> for Objection {
    fn from(problem: Problem) -> Self {
        Self::NotNow(problem)
    }
}

impl CallPath {
    /// Takes a yes or a no; after a yes the call runs, once, whoever waits for it. Gives the approval as it is then.
    ///
    /// # Errors
    /// There is no such approval; somebody else decided; it has expired; what was asked for has changed.
    pub async fn decide_approval(self: &Arc<Self>, verdict: ApprovalVerdict<'_>) -> Result<CallApproval, Problem> {
        let ApprovalVerdict { id, says_yes, by, reason } = verdict;
        let approval = self.approvals.get(id).await?.ok_or_else(|| no_approval(id))?;
        if approval.state == ApprovalState::Approved && says_yes && approval.approver.as_ref() == Some(by) {
            // The process may have ended between the yes and the run.
            if !self.approvals.held(&approval).await?.is_left_to_run {
                self.run_approved(id);
            }
            return Ok(approval);
        }
        if approval.state != ApprovalState::Open {
            return Err(not_open(&approval));
        }
        let mut is_left_to_run = false;
        if says_yes {
            match self.objection(&approval).await {
                Ok(held) => is_left_to_run = held.is_left_to_run,
                Err(Objection::NotNow(problem)) => return Err(problem),
                Err(Objection::Changed(why)) => {
                    self.expire_approval(id, &why).await?;
                    let message = format!("approval `{id}` counts no more: {why}");
                    return Err(
                        Problem::new(Kind::Stale, message).hint("The caller makes the call again to ask again.")
                    );
                }
            }
        }
        let store = self.approvals.store.clone();
        let decision = ApprovalDecision {
            id: id.to_owned(),
            state: if says_yes { ApprovalState::Approved } else { ApprovalState::Denied },
            approver: Some(by.clone()),
            reason: reason.map(str::to_owned),
            // A run makes the call when its turn has come: other calls may come first, and wait for a yes of their own.
            begin_until: is_left_to_run.then(|| Timestamp(self.clock.now().0.saturating_add(BEGIN_WITHIN))),
        };
        let counts = blocking(move || Ok(store.decide(decision)?)).await?;
        let decided = self.approvals.get(id).await?.ok_or_else(|| no_approval(id))?;
        if !counts {
            return Err(not_open(&decided));
        }
        self.approvals.changed(id).await;
        if says_yes && !is_left_to_run {
            self.run_approved(id);
        }
        Ok(decided)
    }

    /// What speaks against a yes now: the same is asked again when the call runs.
    pub(super) async fn objection(&self, approval: &CallApproval) -> Result<HeldCall, Objection> {
        let changed = |why: &str| Err(Objection::Changed(why.to_owned()));
        let held = self.approvals.held(approval).await?;
        if self.halt_of_held(&approval.call.profile, &held).is_some() {
            return changed("its caller is halted");
        }
        let principal = held.caller.principal();
        let Ok(snapshot) = self.views.snapshot(&approval.call.profile) else {
            return changed("the profile of the caller does not exist any more");
        };
        if let Some(why) = shut_out(&snapshot, &principal, &held).or(self.signed_out(&principal).await?) {
            return changed(why);
        }
        let snapshot = snapshot.seen_by(&principal, held.caller.door());
        let Some(tool) = snapshot.view().tool_by_id(&approval.call.tool) else {
            let message = format!("tool `{}` is not offered to the caller at the moment", approval.call.tool);
            let problem = Problem::new(Kind::Unavailable, message);
            return Err(problem.hint("Look at its server with `toolcrib list servers`, then try again.").into());
        };
        if Digest::of(&tool.entry.raw).to_string() != approval.digest {
            return changed("the definition of the tool was changed since the call was made");
        }
        let act = tool.act();
        let caller = toolcrib_policy::Caller { principal: &principal.id, role: principal.role };
        let (bridge, chain) = (held.caller.bridge(), held.caller.chain());
        let moment = Moment {
            at: self.clock.now(),
            arguments: Some(held.arguments.as_bytes()),
            actor: principal.identity.actors.first().map(|actor| &**actor),
            bridge: bridge.as_deref(),
            chain: chain.as_deref(),
        };
        let request = Request { caller, act: &act };
        match snapshot.rules().decide_given(&request, &moment, &held.demand.demand()) {
            Ok(_) => Ok(held),
            Err(denial) if denial.demand.is_some() => changed("the rules ask for another yes by now"),
            Err(_) => changed("the rules do not let the caller make this call any more"),
        }
    }

    /// Why a principal of our own authorization server is none any more.
    async fn signed_out(&self, principal: &Principal) -> Result<Option<&'static str>, Problem> {
        let Some(session) = principal.identity.session.as_deref().map(str::to_owned) else { return Ok(None) };
        let store = self.store.authorizations();
        let lasts = blocking(move || Ok(store.session(&session)?.is_some())).await?;
        Ok((!lasts).then_some("the session of the caller has ended"))
    }
}

/// Why a caller would not be let in by now.
fn shut_out(snapshot: &ProfileSnapshot, principal: &Principal, held: &HeldCall) -> Option<&'static str> {
    let is_key = principal.id.as_str().starts_with("key:");
    if is_key && keys_of(snapshot, &principal.id) != held.caller.key {
        return Some("the key of the caller was changed or revoked");
    }
    let came_without = principal.identity.proof == Proof::Loopback && !is_key;
    (came_without && snapshot.keys().is_some()).then_some("the profile requires a key by now")
}

/// The keys of a profile by which a principal comes, with their roles; `None` for anyone who comes without.
pub(super) fn keys_of(snapshot: &ProfileSnapshot, principal: &PrincipalId) -> Option<String> {
    let profile = &snapshot.profile().name;
    let own = snapshot.keys().unwrap_or_default().iter();
    let own = own.filter(|key| key_principal(profile, key.name.as_str()) == *principal);
    let words: Vec<String> = own.map(|key| format!("{} {}", key.hash, key.role.as_str())).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The answer to an id that leads nowhere, whatever the reason: no one can tell whether it is another's.
pub fn no_approval(id: &str) -> Problem {
    let shown: String = id.chars().take(60).collect();
    Problem::new(Kind::NotFound, format!("approval not found: `{shown}`"))
        .hint("`toolcrib approval list` shows those that you may decide about")
}

/// The answer to a decision that comes too late.
fn not_open(approval: &CallApproval) -> Problem {
    let CallApproval { id, state, .. } = approval;
    let by = approval.approver.as_ref().map(|by| format!(" by `{by}`", by = by.as_str())).unwrap_or_default();
    let message = match state {
        ApprovalState::Expired => format!("approval `{id}` has expired"),
        ApprovalState::Denied => format!("approval `{id}` was denied{by}"),
        _ => format!("approval `{id}` was given{by}, and the call is {}", state.as_str()),
    };
    Problem::new(Kind::Conflict, message).hint(format!("`toolcrib approval show {id}` shows how it ended"))
}

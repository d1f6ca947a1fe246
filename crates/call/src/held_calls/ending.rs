//! How approvals end that nobody decides about: at their time, with the process in which they ran, or with their caller,
//! who is halted. Each end is told without anyone asking, and is in the audit log.

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use toolcrib_base::task::Stop;
use toolcrib_base::{Kind, Problem, ProfileName, Timestamp};
use toolcrib_store::{ApprovalState, AuditEvent, CallApproval, Decision, Door, Outcome};

use crate::approvals::blocking;
use crate::approvals::record::HeldCall;
use crate::halts::{CallOrigin, Halt};
use crate::path::CallPath;

/// The door of what the gateway does to approvals by itself.
const DOOR: Door = Door::new("approval");
/// The longest wait for the next one that expires: the clock may be set, and the machine may sleep.
const LOOK: Duration = Duration::from_secs(60);

impl CallPath {
    /// Ends approvals at their time from now on, and tells of those that ended while no gateway ran. Call it once, when
    /// whoever observes is known.
    pub fn end_approvals_in_time(self: &Arc<Self>) {
        let scope = self.servers.scope();
        scope.spawn(follow(Arc::downgrade(self), scope.stop_signal()));
    }

    /// Ends the approvals of those who are halted, unless the call has begun. How many.
    ///
    /// # Errors
    /// The store says no.
    pub async fn cancel_halted_approvals(&self) -> Result<usize, Problem> {
        let mut count = 0;
        let mut waiting = self.approvals.list(Some(ApprovalState::Open)).await?;
        waiting.extend(self.approvals.list(Some(ApprovalState::Approved)).await?);
        for listed in waiting {
            // What decides about it is sealed, and not in the list.
            if let Some(whole) = self.approvals.get(&listed.id).await?
                && self.halt_of(&whole).await.is_some()
            {
                count += usize::from(self.withdraw_approval(&whole.id, "its caller is halted").await?);
            }
        }
        Ok(count)
    }

    /// The halt of the caller of an approval, of the session that it came by, or of the run that made it.
    pub(super) async fn halt_of(&self, approval: &CallApproval) -> Option<Arc<Halt>> {
        if self.halts.is_none() {
            return None;
        }
        match self.approvals.held(approval).await {
            Ok(held) => self.halt_of_held(&approval.call.profile, &held),
            Err(problem) => {
                tracing::warn!(approval = approval.id, "a call that waits cannot be read: {}", problem.message);
                None
            }
        }
    }

    /// The same of the call itself.
    pub(super) fn halt_of_held(&self, profile: &ProfileName, held: &HeldCall) -> Option<Arc<Halt>> {
        let caller = &held.caller;
        let principal = caller.principal();
        let (session, run) = (caller.mcp_session(), caller.run());
        self.halts.of_origin(&CallOrigin { principal: &principal, profile, session, run })
    }

    /// Those that wait at it look again, whoever observes learns of it, and the audit log has it.
    pub(super) async fn approval_ended(&self, id: &str) {
        self.approvals.changed(id).await;
        match self.approvals.get(id).await {
            Ok(Some(approval)) => self.store.audit().record_now(event(self.clock.now(), &approval)),
            Ok(None) => {}
            Err(problem) => tracing::warn!(approval = id, "its end is not in the audit log: {}", problem.message),
        }
    }

    /// Ends those whose time is over, and gives how long it is until the next one's is.
    async fn end_late(&self) -> Result<Option<Duration>, Problem> {
        loop {
            let store = self.approvals.store.clone();
            let Some(next) = blocking(move || Ok(store.next_expiry()?)).await? else { return Ok(None) };
            let wait = next.since(self.clock.now());
            if wait > 0 {
                return Ok(Some(Duration::from_millis(wait).min(LOOK)));
            }
            let store = self.approvals.store.clone();
            let ended = blocking(move || Ok(store.expire_late()?)).await?;
            if ended.is_empty() {
                return Ok(Some(LOOK));
            }
            for id in ended {
                self.approval_ended(&id).await;
            }
        }
    }
}

async fn follow(path: Weak<CallPath>, mut stop: Stop) {
    let opened = {
        let Some(path) = path.upgrade() else { return };
        for id in path.approvals.cut_off() {
            path.approval_ended(&id).await;
        }
        // Also those of a halt that was added a moment before the gateway ended the last time.
        if !path.halts.is_none()
            && let Err(problem) = path.cancel_halted_approvals().await
        {
            tracing::error!("approvals of who is halted stay open, though nothing of them runs: {problem}");
        }
        path.approvals.opened()
    };
    loop {
        let next = {
            let Some(path) = path.upgrade() else { return };
            path.end_late().await.unwrap_or_else(|problem| {
                tracing::error!("approvals whose time is over are not ended: {}", problem.message);
                Some(LOOK)
            })
        };
        // All are cancel-safe.
        tokio::select! {
            () = stop.stopped() => return,
            () = opened.notified() => {}
            () = tokio::time::sleep(next.unwrap_or(LOOK)), if next.is_some() => {}
        }
    }
}

fn event(at: Timestamp, approval: &CallApproval) -> AuditEvent {
    let (method, reason, outcome) = match approval.state {
        ApprovalState::Unknown => ("approval/cut-off", "cut-off", Outcome::Error(Kind::Unavailable)),
        _ => ("approval/expire", "approval-expired", Outcome::Denied),
    };
    let principal = approval.call.principal.clone();
    AuditEvent {
        profile: Some(approval.call.profile.clone()),
        decision: Decision::Deny(Cow::Borrowed(reason)),
        outcome,
        approval: Some(approval.id.clone()),
        approver: approval.approver.clone(),
        ..AuditEvent::new(at, principal, DOOR, Cow::Borrowed(method), approval.call.tool.to_string().into())
    }
}

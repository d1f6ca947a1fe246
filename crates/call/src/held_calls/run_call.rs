//! Calls of runs that wait for a yes without a task: each is answered at once, and made by its run after the yes. And what
//! ends with a run: what its calls wait for.

use std::sync::Arc;

use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::Raw;
use toolcrib_protocol::ask::{InputRequest, InputRequired};
use toolcrib_session::Caller;
use toolcrib_store::{ApprovalKind, ApprovalState, CallApproval};

use super::decision::Objection;
use super::request::{answer_of, denial, until_ended, waits};
use crate::answer::{CallAnswer, Withheld};
use crate::approvals::blocking;
use crate::approvals::question::{self, AskedCall, PersonAnswer, question};
use crate::approvals::record::run_chain;
use crate::context::RequestContext;
use crate::halts::CallOrigin;
use crate::login::LOGIN_QUESTION;
use crate::path::CallPath;
use crate::source::{ApprovalEnd, ApprovalOutcome, CallQuestion, InterruptedCall};
use crate::tool_call::{CallResult, ToolCall, problem_of};

/// Ends an approval with the call of a run that waited for it, whose future was dropped: its step took too long, or the
/// run was cancelled. What waits when the process ends is left to the next one.
#[derive(Debug)]
pub(super) struct WaitGuard {
    pub(super) path: Arc<CallPath>,
    /// `None` once the wait has ended by itself.
    pub(super) approval: Option<String>,
}

// === impl WaitGuard ===

impl WaitGuard {
    pub(super) fn disarm(mut self) {
        self.approval = None;
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let Some(id) = self.approval.take() else { return };
        let scope = self.path.servers.scope();
        if self.path.approvals.is_closing() || scope.stop_signal().is_stopped() {
            return;
        }
        let path = Arc::clone(&self.path);
        scope.spawn(async move {
            if let Err(problem) = path.expire_approval(&id, "its run does not wait for it any more").await {
                tracing::error!(approval = id, "nothing waits for it, and it stays open: {}", problem.message);
            }
        });
    }
}

// === impl RequestContext ===

impl RequestContext<'_> {
    /// A call of a run that comes with its approval: what came of it, or `None` where that counts no more and the call is
    /// to be decided once more. An approved call runs once, whoever asks how often.
    pub(crate) async fn granted_call(&self, call: &ToolCall, original: &Raw, id: &str) -> Option<CallResult> {
        let session = self.caller.session.as_ref().map(|session| session.name().to_string());
        let halts = &self.path.halts;
        let Caller { principal, profile, .. } = self.caller;
        let origin = CallOrigin { principal, profile, session: session.as_deref(), run: self.run_id() };
        if let Some(halt) = halts.of_origin(&origin) {
            return Some(Ok(CallAnswer::refused(halt.problem())));
        }
        match self.came_of(call, original, id).await {
            Ok(None) => None,
            Ok(Some(approval)) => Some(self.granted_answer(call, &approval).await),
            Err(problem) => Some(Ok(CallAnswer::refused(problem))),
        }
    }

    /// What is known of a call that was under way when the process before ended: its approval says whether it left.
    pub async fn interrupted_call(&self, call: &ToolCall, since: Timestamp) -> InterruptedCall {
        let (path, wanted) = (self.path, self.approved_call(&call.tool.id, &call.arguments));
        let store = path.approvals.store.clone();
        let found = match blocking(move || Ok(store.newest_of_call(&wanted)?)).await {
            Ok(found) => found.filter(|found| found.created_at >= since && !found.is_collected),
            Err(problem) => return InterruptedCall::Ended(Err(problem)),
        };
        match found {
            None => InterruptedCall::Unknown,
            Some(approval) if approval.state == ApprovalState::Expired => InterruptedCall::NotMade,
            Some(approval) => {
                let guard = WaitGuard { path: Arc::clone(path), approval: Some(approval.id.clone()) };
                let ended = until_ended(path, approval, None, |_, _| {}).await;
                guard.disarm();
                match ended {
                    Ok(approval) => {
                        let answer = answer_of(path, &approval, call.by).await;
                        InterruptedCall::Ended(answer.map(|answer| answer.result).map_err(|error| problem_of(&error)))
                    }
                    Err(problem) => InterruptedCall::Ended(Err(problem)),
                }
            }
        }
    }

    async fn came_of(&self, call: &ToolCall, original: &Raw, id: &str) -> Result<Option<CallApproval>, Problem> {
        let (path, wanted) = (self.path, self.approved_call(&call.tool.id, original));
        let Some(approval) = path.approvals.get(id).await?.filter(|found| found.call == wanted) else {
            let message = format!("approval `{id}` is for another call, or is not kept any more");
            return Err(Problem::new(Kind::NotFound, message));
        };
        match approval.state {
            ApprovalState::Open | ApprovalState::Denied => return Ok(Some(approval)),
            ApprovalState::Expired => return Ok(None),
            ApprovalState::Approved => match path.objection(&approval).await {
                Ok(_) => path.run_approved(id),
                Err(Objection::NotNow(problem)) => return Err(problem),
                Err(Objection::Changed(why)) => {
                    path.withdraw_approval(id, &why).await?;
                    return Ok(None);
                }
            },
            ApprovalState::Running | ApprovalState::Done | ApprovalState::Unknown => {}
        }
        until_ended(path, approval, None, |_, _| {}).await.map(Some)
    }

    async fn granted_answer(&self, call: &ToolCall, approval: &CallApproval) -> CallResult {
        let answer = match approval.state {
            ApprovalState::Open | ApprovalState::Approved => return Ok(held_answer(approval)),
            _ => answer_of(self.path, approval, call.by).await?,
        };
        let withheld = match approval.state {
            ApprovalState::Done => None,
            ApprovalState::Unknown | ApprovalState::Running => Some(Withheld::Unknown),
            _ => Some(Withheld::Refused),
        };
        Ok(CallAnswer { withheld, ..answer })
    }
}

/// The answer to a call of a run that waits without a task.
pub(super) fn held_answer(approval: &CallApproval) -> CallAnswer {
    if approval.state == ApprovalState::Denied {
        return CallAnswer::refused(denial(approval));
    }
    let problem = Problem::new(Kind::Forbidden, waits(approval));
    CallAnswer::withheld(Withheld::Held(approval.id.clone()), problem)
}

// === impl CallPath ===

impl CallPath {
    /// How an approval ended, if it did: for a source that was not there, or had not written down that it waits, when
    /// [`crate::Source::approval_ended`] said so. One that is not kept any more has expired.
    ///
    /// # Errors
    /// The store says no.
    pub async fn approval_end(&self, id: &str) -> Result<Option<ApprovalEnd>, Problem> {
        Ok(match self.approvals.get(id).await? {
            Some(approval) => ApprovalEnd::of(&approval),
            None => Some(ApprovalEnd {
                id: id.to_owned(),
                outcome: ApprovalOutcome::Expired,
                by: None,
                note: format!("approval `{id}` is not kept any more"),
            }),
        })
    }

    /// Ends what the calls of a run wait for, and what was approved of them and has not begun: the run has ended, and
    /// makes no call any more. How many.
    ///
    /// # Errors
    /// The store says no.
    pub async fn end_approvals_of_run(&self, run: &str, why: &str) -> Result<usize, Problem> {
        let (store, chain) = (self.approvals.store.clone(), run_chain(run));
        let mut count = 0;
        for id in blocking(move || Ok(store.waiting_in(&chain)?)).await? {
            count += usize::from(self.withdraw_approval(&id, why).await?);
        }
        Ok(count)
    }

    /// What a call of a run asks, from its result.
    ///
    /// # Errors
    /// What is wrong with the result, in words.
    pub fn question_of(&self, result: &Raw) -> Result<CallQuestion, String> {
        let InputRequired { questions, state } = InputRequired::read(result)?;
        if questions.is_empty() {
            return Err("the server asks for the same call again, and not for an answer".to_owned());
        }
        let in_process = state.as_ref().is_some_and(|state| self.parking.knows(state));
        let is_login = matches!(questions.as_slice(), [(key, _)] if key == LOGIN_QUESTION && state.is_none());
        let asked = result.get("inputRequests").unwrap_or_else(Raw::empty_object);
        Ok(CallQuestion { asked, state, in_process, is_login })
    }

    /// What a person is asked whose yes a call waits for; `None` where that is not the caller's own person, the approval
    /// has ended, or the arguments are too long to be asked in a form.
    ///
    /// # Errors
    /// The store says no, or what waits cannot be read.
    pub async fn confirmation(&self, id: &str) -> Result<Option<InputRequest>, Problem> {
        let approval = self.approvals.get(id).await?;
        let is_open = |it: &CallApproval| it.kind == ApprovalKind::Confirm && it.state == ApprovalState::Open;
        let Some(approval) = approval.filter(is_open) else { return Ok(None) };
        let shown = self.approvals.shown(&approval).await?;
        let about =
            AskedCall { demand: &shown.demand, labels: &[], said: "the call of a run", summary: &shown.summary };
        Ok(question(&approval, about, &shown.arguments))
    }

    /// What a person said to a confirmation: `None` where it is neither a yes nor a no.
    pub fn confirmed(answer: &Raw) -> Option<bool> {
        match question::answer(answer) {
            PersonAnswer::Yes => Some(true),
            PersonAnswer::No => Some(false),
            PersonAnswer::Nothing => None,
        }
    }

    /// The calls of a run that ask a person are taken back at their servers: the run has ended.
    pub fn end_questions_of_run(&self, run: &str) {
        self.parking.end_run(run);
    }

    /// Ends an approval whose call has not begun: whether it had not.
    pub(super) async fn withdraw_approval(&self, id: &str, reason: &str) -> Result<bool, Problem> {
        let (store, own, reason) = (self.approvals.store.clone(), id.to_owned(), reason.to_owned());
        let was_waiting = blocking(move || Ok(store.withdraw(&own, &reason)?)).await?;
        if was_waiting {
            self.approval_ended(id).await;
        }
        Ok(was_waiting)
    }
}

// === impl ApprovalEnd ===

impl ApprovalEnd {
    /// `None` for one that waits.
    pub fn of(approval: &CallApproval) -> Option<Self> {
        let by = approval.approver.as_ref().map(|by| format!(" by `{by}`")).unwrap_or_default();
        let reason = approval.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let (outcome, what) = match approval.state {
            ApprovalState::Open => return None,
            ApprovalState::Approved | ApprovalState::Running | ApprovalState::Done | ApprovalState::Unknown => {
                (ApprovalOutcome::Granted, "approved")
            }
            ApprovalState::Denied => (ApprovalOutcome::Refused, "denied"),
            ApprovalState::Expired => (ApprovalOutcome::Expired, "expired"),
        };
        let (id, by_whom) = (approval.id.clone(), approval.approver.clone());
        Some(Self { id, outcome, by: by_whom, note: format!("{what}{by}{reason}") })
    }
}

//! What happens to approvals of calls, as events: for people who follow, and for programs that pass it on to them.

use serde_json::{Value, json};
use toolcrib_call::{ApprovalEnd, CallSummary, ObserveApprovals, ShownCall};
use toolcrib_store::{ApprovalState, CallApproval};
use toolcrib_view::ObjectKind;

use crate::gateway::Gateway;
use crate::object_events::ObjectEvent;

/// The longest arguments in lists and news, in bytes; longer ones are shown with `core_approval_show`, and with them what
/// a definition says of the call.
const ARGUMENTS_MAX: usize = 4 * 1024;

impl ObserveApprovals for Gateway {
    fn changed(&self, approval: &CallApproval, call: Option<&ShownCall>) {
        self.happened(event(approval));
        if matches!(approval.state, ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Expired)
            && let Some(end) = ApprovalEnd::of(approval)
        {
            self.path.sources.iter().for_each(|source| source.approval_ended(&end));
        }
        let Some(news) = &self.approval_news else { return };
        if approval.state != ApprovalState::Running && news.try_send(shown(approval, call)).is_err() {
            tracing::warn!(approval = approval.id, "too much happens to approvals: what listens was not told");
        }
    }
}

/// What programs are told, which is what `core_approval_list` shows. What a definition says of the call is there where
/// its whole arguments can be beside it.
pub(crate) fn shown(approval: &CallApproval, call: Option<&ShownCall>) -> Value {
    let mut value = json!({
        "id": approval.id, "kind": approval.kind.as_str(), "state": approval.state.as_str(),
        "tool": approval.call.tool.to_string(), "principal": approval.call.principal.as_str(),
        "profile": approval.call.profile.as_str(), "createdAt": approval.created_at.to_string(),
        "expiresAt": approval.expires_at.to_string(),
    });
    let times = [("decidedAt", approval.decided_at), ("endedAt", approval.ended_at)];
    for (key, time) in times.into_iter().filter_map(|(key, time)| Some((key, time?))) {
        value[key] = time.to_string().into();
    }
    if let Some(approver) = &approval.approver {
        value["approver"] = approver.as_str().into();
    }
    if let Some(reason) = &approval.reason {
        value["reason"] = reason.as_str().into();
    }
    if let Some(call) = call.filter(|call| !call.summary.is_empty() && call.arguments.len() <= ARGUMENTS_MAX) {
        value["arguments"] = call.arguments.as_str().into();
        add_summary(&mut value, &call.summary);
    }
    value
}

/// What the definition of the tool says of a call, which never stands without its arguments.
pub(crate) fn add_summary(value: &mut Value, summary: &CallSummary) {
    let CallSummary { target_type, target_label, action_summary } = summary;
    let parts = [("targetType", target_type), ("targetLabel", target_label), ("actionSummary", action_summary)];
    for (key, text) in parts.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?))) {
        value[key] = text.into();
    }
}

/// An event without arguments and without a result.
fn event(approval: &CallApproval) -> ObjectEvent {
    let CallApproval { id, call, .. } = approval;
    let what = format!("the call of `{}` by `{}`", call.tool, call.principal.as_str());
    let by = approval.approver.as_ref().map(|by| format!(" by `{}`", by.as_str())).unwrap_or_default();
    let reason = approval.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let (word, message, warning) = match approval.state {
        ApprovalState::Open => ("Requested", format!("{what} waits for a yes"), false),
        ApprovalState::Approved => ("Approved", format!("{what} was approved{by}{reason}"), false),
        ApprovalState::Running => ("Running", format!("{what} runs"), false),
        ApprovalState::Done => ("Done", format!("{what} has ended"), false),
        ApprovalState::Denied => ("Denied", format!("{what} was denied{by}{reason}"), false),
        ApprovalState::Expired if reason.is_empty() => ("Expired", format!("the time of {what} is over"), false),
        ApprovalState::Expired => ("Expired", format!("{what} counts no more{reason}"), false),
        ApprovalState::Unknown => ("Unknown", format!("{what} was cut off"), true),
    };
    match warning {
        false => ObjectEvent::normal(ObjectKind::Approval, id, word, message),
        true => ObjectEvent::warning(ObjectKind::Approval, id, word, message),
    }
}

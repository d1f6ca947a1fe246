//! The one run of an approved call, in a task of its own: on behalf of its caller, by the path of every call, with the
//! yes in hand. Those who wait for the result attach to the approval.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::{Id, RequestTrace, RpcError};
use toolcrib_session::{Caller, Session};
use toolcrib_store::{ApprovalState, CallApproval, CallApprovals};

use crate::answer::CallAnswer;
use crate::approvals::blocking;
use crate::approvals::record::{EndedCall, HeldCall, result_row};
use crate::client::ClientOptions;
use crate::consent::Consent;
use crate::context::RequestContext;
use crate::path::CallPath;
use crate::reply::ReplyChannel;
use crate::source::CallLineage;
use crate::tool_call::{CallResult, ToolCall};

impl CallPath {
    /// Begins an approved call. Of many who do, one begins it.
    pub(super) fn run_approved(self: &Arc<Self>, id: &str) {
        self.servers.scope().spawn(run(Arc::clone(self), id.to_owned()));
    }
}

/// Boxed: a call of a tool may wait for an approval, which runs a call of a tool.
fn run(path: Arc<CallPath>, id: String) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        if let Err(problem) = run_once(&path, &id).await {
            tracing::error!(approval = id, "an approved call failed: {}", problem.message);
        }
    })
}

async fn run_once(path: &Arc<CallPath>, id: &str) -> Result<(), Problem> {
    let approvals = &path.approvals;
    let Some(approval) = approvals.get(id).await?.filter(|it| it.state == ApprovalState::Approved) else {
        return Ok(());
    };
    let held = approvals.held(&approval).await?;
    let session = approvals.session(id);
    let (store, own) = (approvals.store.clone(), id.to_owned());
    // On the disk before anything is sent: whatever happens from here on, it is not begun again.
    if !blocking(move || Ok(store.begin(&own)?)).await? {
        return Ok(());
    }
    approvals.changed(id).await;
    let ended = call(path, &approval, &held, session).await;
    if path.servers.scope().stop_signal().is_stopped() {
        // The gateway is ending, which may be all that the answer says: what the call has done is not known.
        return Ok(());
    }
    let text = serde_json::to_vec(&EndedCall::new(&ended)).unwrap_or_default();
    let text = if text.len() > CallApprovals::RESULT_MAX - 1_024 { too_large(text.len()) } else { text };
    let (store, sealing, own) = (approvals.store.clone(), Arc::clone(&approvals.sealing), id.to_owned());
    blocking(move || {
        let sealed = sealing.seal(&text, &result_row(&own))?;
        Ok(store.finish(&own, sealed)?)
    })
    .await?;
    approvals.changed(id).await;
    Ok(())
}

async fn call(
    path: &Arc<CallPath>,
    approval: &CallApproval,
    held: &HeldCall,
    session: Option<Arc<Session>>,
) -> CallResult {
    let lost = || RpcError::from(&Problem::new(Kind::Internal, "the call that waited cannot be read"));
    let (params, arguments) = (held.params().ok_or_else(lost)?, held.arguments().ok_or_else(lost)?);
    let caller = Caller {
        principal: held.caller.principal(),
        profile: approval.call.profile.clone(),
        door: held.caller.door(),
        revision: held.caller.revision(),
        session,
        meta: None,
        trace: RequestTrace { bridge: held.caller.bridge(), ..RequestTrace::default() },
        chain: held.caller.chain(),
    };
    // Of a session that is gone by now, admission would not know.
    if let Some(halt) = path.halt_of_held(&caller.profile, held) {
        return Ok(CallAnswer::failed(halt.problem()));
    }
    let snapshot = path.views.snapshot(&caller.profile).map_err(|problem| RpcError::from(&problem))?;
    let snapshot = snapshot.seen_by(&caller.principal, caller.door);
    let Some(tool) = snapshot.view().tool_by_id(&approval.call.tool) else {
        let message = format!("tool `{}` is not there any more; the call has not run", approval.call.tool);
        return Ok(CallAnswer::failed(Problem::new(Kind::Unavailable, message)));
    };
    let consent = approval.approver.clone().map(|approver| Consent {
        demand: held.demand.demand(),
        approval: approval.id.clone(),
        approver,
        digest: approval.digest.clone(),
    });
    let mut context = RequestContext {
        path,
        snapshot: &snapshot,
        caller: &caller,
        id: &Id::from_text(&held.request),
        running: None,
        reply: ReplyChannel::default(),
        // A modern client has gone with its request: nothing can be asked of it.
        client: ClientOptions::of_caller(&caller),
        depth: held.depth,
        consent,
        place: None,
        lineage: CallLineage::default(),
    };
    let tool = Arc::clone(tool);
    context.call_tool(ToolCall { tool, params, arguments, by: None }).await
}

/// What is kept in place of a result that is too large to be kept.
fn too_large(bytes: usize) -> Vec<u8> {
    let message = format!("the call was made, and its result of {bytes} bytes is too large to be kept");
    let problem = Problem::new(Kind::TooLarge, message).hint("Do not make it again only to read its result.");
    serde_json::to_vec(&EndedCall::new(&Ok(CallAnswer::failed(problem)))).unwrap_or_default()
}

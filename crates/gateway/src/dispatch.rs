//! The only place that calls servers. Everything here wants a [`Passage`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolcrib_base::Problem;
use toolcrib_policy::Act;
use toolcrib_protocol::{Era, Raw, RpcError};
use toolcrib_upstream::server::Call;
use toolcrib_upstream::{CallError, Server};

use crate::caller::Caller;
use crate::environment::NeedsEnvironment;
use crate::passage::Passage;
use crate::session::Running;
use crate::source::Errand;

/// How many calls one server may have running. Each holds a place in the audit log's queue, so a server that hangs must
/// not be able to take all of them from the others.
pub(crate) const PER_SERVER: usize = 256;

/// How a call at a server ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// The server answered.
    Answered(Result<Raw, RpcError>),
    /// The server could not be asked, or did not answer.
    Failed(CallError),
    /// The server has as many calls running as it may.
    Busy,
    /// The client took the call back.
    Cancelled,
    /// The server needs something that could not be had from the client.
    Unanswered(Problem),
}

/// What is sent to the server.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) server: &'a Server,
    pub(crate) method: &'a str,
    pub(crate) params: Raw,
    /// What the caller's profile adds to the server's environment.
    pub(crate) environment: Option<NeedsEnvironment>,
    /// For whom, and what is heard in its course.
    pub(crate) call: Call,
}

/// Calls the server that the passage was given for.
pub(crate) async fn call(
    passage: &Passage,
    caller: &Caller,
    running: Option<&Running>,
    outgoing: Outgoing<'_>,
) -> Ended {
    debug_assert_eq!(passage.act().server(), Some(&outgoing.server.config().name), "a permit for another server");
    if !permitted(passage.act(), outgoing.server) {
        // Cannot happen while every caller takes the server from what the passage was opened for.
        return Ended::Cancelled;
    }
    if outgoing.server.running() >= PER_SERVER {
        return Ended::Busy;
    }
    let mut call = outgoing.call;
    if let Some(needed) = outgoing.environment {
        // Boxed: only few profiles have one, and the future of each call is moved.
        match Box::pin(needed.get()).await {
            Ok(environment) => call.client.environment = Some(environment),
            Err(problem) => return Ended::Unanswered(problem),
        }
    }
    // A modern client that goes away cancels; a legacy one may come back for the answer. For that of an errand that was
    // dropped (a run that ended, a step whose time is over) nobody will.
    let cancels = caller.revision.era() == Era::Modern || caller.door == Errand::DOOR;
    let cancel_on_drop = Arc::new(AtomicBool::new(cancels));
    let call = Call { cancel_on_drop: Arc::clone(&cancel_on_drop), ..call };
    // Pinned here, so that it is dropped after the flag was set and not before.
    let mut asking = std::pin::pin!(outgoing.server.call(outgoing.method, &outgoing.params, call));
    let answered = match running {
        None => asking.await,
        // Biased: what was cancelled while it waited for its turn is not sent at all.
        Some(running) => tokio::select! {
            biased;
            () = running.cancelled() => {
                cancel_on_drop.store(true, Ordering::Relaxed);
                return Ended::Cancelled;
            }
            answered = &mut asking => answered,
        },
    };
    match answered {
        Ok(outcome) => Ended::Answered(outcome),
        Err(error) => Ended::Failed(error),
    }
}

fn permitted(act: &Act, server: &Server) -> bool {
    act.server() == Some(&server.config().name)
}

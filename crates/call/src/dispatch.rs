//! The only place that calls servers. Everything here wants an [`AdmittedCall`].

use std::sync::atomic::Ordering;

use toolcrib_base::{Kind, PrincipalId, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::error::HEADER_MISMATCH;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_session::{Caller, RunningRequest};
use toolcrib_store::Outcome;
use toolcrib_upstream::Call;
use toolcrib_upstream::places::{Lane, NoPlace};
use toolcrib_upstream::{CallError, Limit, Place, Server};

use crate::admission::AdmittedCall;
use crate::environment::NeedsEnvironment;

/// How a call at a server ended.
#[derive(Debug, Clone)]
pub(crate) enum CallOutcome {
    /// The server answered.
    Answered(Result<Raw, RpcError>),
    /// The server could not be asked, or did not answer.
    Failed(CallError),
    /// The client took the call back.
    Cancelled,
    /// There was no place for the call, or the server needs something that could not be had from the client.
    Unanswered(Problem),
}

// === impl CallOutcome ===

impl CallOutcome {
    /// Whether the call came to nothing, in whichever form its server says so.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Answered(Ok(result)) => toolcrib_view::reply::is_failure(result),
            Self::Answered(Err(_)) => true,
            _ => false,
        }
    }

    /// Whether a modern server refused the call because of its headers, so that what is known of the tool is out of date.
    pub(crate) fn is_out_of_date(&self) -> bool {
        matches!(self, Self::Answered(Err(error)) if error.code == HEADER_MISMATCH)
    }

    /// What the audit log has of it, where nothing more is made of the answer.
    pub(crate) fn audited(&self) -> Outcome {
        match self {
            Self::Answered(Ok(result)) if toolcrib_view::reply::is_failure(result) => Outcome::ToolError,
            Self::Answered(Ok(_)) => Outcome::Ok,
            Self::Answered(Err(_)) => Outcome::Error(Kind::BadServer),
            Self::Failed(error) => Outcome::Error(error.kind()),
            Self::Cancelled => Outcome::Cancelled,
            Self::Unanswered(problem) => Outcome::Error(problem.kind),
        }
    }
}

/// What is sent to the server.
#[derive(Debug)]
pub(crate) struct OutgoingCall<'a> {
    pub server: &'a Server,
    pub method: &'a str,
    pub params: Raw,
    /// As whom the caller takes turns with others.
    pub user: &'a PrincipalId,
    /// What the caller's profile adds to the server's environment.
    pub environment: Option<NeedsEnvironment>,
    /// For whom, and what is heard in its course.
    pub call: Call,
}

/// Calls the server that the call was admitted for, as soon as it has a place for the call.
///
/// Dropping the future cancels the call at the server. A caller that may return for the answer keeps the future.
pub(crate) async fn call(
    admitted: &AdmittedCall,
    caller: &Caller,
    running: Option<&RunningRequest>,
    outgoing: OutgoingCall<'_>,
) -> CallOutcome {
    let Some(act) = admitted.act().filter(|_| admitted.permits(&outgoing.server.config().name)) else {
        debug_assert!(false, "a permit for another server, or one that was detached");
        // Cannot happen while every caller takes the server from what was admitted.
        return CallOutcome::Cancelled;
    };
    outgoing.call.cancel_on_drop.store(true, Ordering::Relaxed);
    let asking = async {
        let place = match place(act, outgoing.user, outgoing.server).await {
            Ok(place) => place,
            Err(problem) => return CallOutcome::Unanswered(problem),
        };
        let mut call = Call { waited: place.waited, trace: caller.trace.clone(), ..outgoing.call };
        if let Some(needed) = outgoing.environment {
            // Boxed: only few profiles have one, and the future of each call is moved.
            match Box::pin(needed.get()).await {
                Ok(environment) => call.client.environment = Some(environment),
                Err(problem) => return CallOutcome::Unanswered(problem),
            }
        }
        match outgoing.server.call(outgoing.method, &outgoing.params, call).await {
            Ok(outcome) => CallOutcome::Answered(outcome),
            Err(error) => CallOutcome::Failed(error),
        }
    };
    let cancelled = async {
        match running {
            Some(running) => running.cancelled().await,
            None => std::future::pending().await,
        }
    };
    // Biased: what was cancelled while it waited for its turn is not sent at all. All three are cancel-safe, but for the
    // call, which is taken back at the server.
    tokio::select! {
        biased;
        () = cancelled => CallOutcome::Cancelled,
        outcome = asking => outcome,
        halt = admitted.halted(caller) => CallOutcome::Unanswered(halt.problem()),
    }
}

/// Waits for a place at the server, as long as a call of it may take.
async fn place(act: &Act, user: &PrincipalId, server: &Server) -> Result<Place, Problem> {
    let (lane, most) = (lane(act), server.config().timeouts.call);
    let taken = server.places().take(user, lane, most).await;
    taken.map_err(|why| no_place(server, lane, why))
}

/// What takes turns with others at a server: each tool, and everything else of one kind.
fn lane(act: &Act) -> Lane<'_> {
    Lane::method(match act {
        Act::CallTool { tool, .. } => return Lane::tool(&tool.tool),
        Act::ReadResource { .. } => method::RESOURCES_READ,
        Act::GetPrompt { .. } => method::PROMPTS_GET,
        Act::Complete { .. } => method::COMPLETE,
        Act::Forward { .. } => "other methods",
        Act::Approve { .. } | Act::Configure { .. } | Act::MetaTool { .. } | Act::Operation { .. } => {
            "the gateway itself"
        }
    })
}

/// A server that is asked too much, in words for the client. Nothing was sent to it.
fn no_place(server: &Server, lane: Lane<'_>, why: NoPlace) -> Problem {
    let (name, load, lane) = (&server.config().name, server.places().load(), lane.name);
    let limit = if matches!(why, NoPlace::Timeout(_)) { Limit::Concurrent } else { Limit::Queue };
    server.refusals().count(limit);
    let message = match why {
        NoPlace::Full { most } => {
            format!("`limits.queue` of server `{name}`: {most} calls may wait, and as many do")
        }
        NoPlace::ToolFull { most } => {
            format!("`limits.queue` of tool `{name}/{lane}`: {most} of its calls may wait, and as many do")
        }
        NoPlace::Timeout(waited) => {
            let (most, waiting) = (load.concurrency.calls, load.waiting);
            let whose = match server.places().running(lane) {
                running if load.running < most => format!("`{lane}` has {running} calls running, which is its share"),
                _ => format!("all {most} are taken"),
            };
            let waited = waited.as_secs_f64();
            format!("waited {waited} s for a place at server `{name}`: {whose}, and {waiting} more calls wait")
        }
    };
    let hint = format!(
        "Nothing was sent to the server, so the call can be repeated. `toolcrib get server {name}` shows what runs; \
         `limits` in `servers/{name}.yaml` says how many calls may run and wait."
    );
    Problem::new(Kind::Busy, message).hint(hint)
}

/// The hint of every problem behind which the call may have run.
pub const MAY_HAVE_RUN: &str = "The call may have run; check before you repeat it.";

/// A server that cannot be asked, in words for the client.
pub(crate) fn unavailable(error: &CallError) -> Problem {
    let problem = Problem::new(error.kind(), error.to_string());
    match error {
        CallError::Unavailable(away) => problem.hint(toolcrib_view::advice::for_caller_of(away)),
        CallError::NeedsLogin(server) => problem.hint(toolcrib_view::advice::for_login(server)),
        CallError::Full { .. } => {
            problem.hint("Other servers are not affected; try again when some of them have ended.")
        }
        CallError::Ended(_) => problem,
        CallError::Link { .. } if error.is_unproven() => problem
            .hint("The call has not run; another token is tried at once, and `core_auth_status` says how it stands."),
        CallError::Link { .. } => problem.hint(MAY_HAVE_RUN),
    }
}

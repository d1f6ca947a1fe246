//! The only place that calls servers. Everything here wants a [`Passage`].

use std::sync::atomic::Ordering;

use toolcrib_base::{Kind, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_session::{Caller, RunningRequest};
use toolcrib_upstream::places::{NoPlace, WAITING};
use toolcrib_upstream::server::Call;
use toolcrib_upstream::{CallError, Place, Server};

use crate::environment::NeedsEnvironment;
use crate::passage::Passage;

/// How a call at a server ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// The server answered.
    Answered(Result<Raw, RpcError>),
    /// The server could not be asked, or did not answer.
    Failed(CallError),
    /// The client took the call back.
    Cancelled,
    /// There was no place for the call, or the server needs something that could not be had from the client.
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

/// Calls the server that the passage was given for, as soon as it has a place for the call.
///
/// Dropping the future takes the call back at the server. Whoever may come back for the answer keeps it.
pub(crate) async fn call(
    passage: &Passage,
    caller: &Caller,
    running: Option<&RunningRequest>,
    outgoing: Outgoing<'_>,
) -> Ended {
    debug_assert_eq!(passage.act().server(), Some(&outgoing.server.config().name), "a permit for another server");
    if !permitted(passage.act(), outgoing.server) {
        // Cannot happen while every caller takes the server from what the passage was opened for.
        return Ended::Cancelled;
    }
    outgoing.call.cancel_on_drop.store(true, Ordering::Relaxed);
    let asking = async {
        let place = match place(passage.act(), caller, outgoing.server).await {
            Ok(place) => place,
            Err(problem) => return Ended::Unanswered(problem),
        };
        let mut call = Call { waited: place.waited, ..outgoing.call };
        if let Some(needed) = outgoing.environment {
            // Boxed: only few profiles have one, and the future of each call is moved.
            match Box::pin(needed.get()).await {
                Ok(environment) => call.client.environment = Some(environment),
                Err(problem) => return Ended::Unanswered(problem),
            }
        }
        match outgoing.server.call(outgoing.method, &outgoing.params, call).await {
            Ok(outcome) => Ended::Answered(outcome),
            Err(error) => Ended::Failed(error),
        }
    };
    match running {
        None => asking.await,
        // Biased: what was cancelled while it waited for its turn is not sent at all.
        Some(running) => tokio::select! {
            biased;
            () = running.cancelled() => Ended::Cancelled,
            ended = asking => ended,
        },
    }
}

/// Waits for a place at the server, as long as a call of it may take.
async fn place(act: &Act, caller: &Caller, server: &Server) -> Result<Place, Problem> {
    let (lane, patience) = (lane(act), server.config().timeouts.call);
    let taken = server.places().take(&caller.principal.id, lane, patience).await;
    taken.map_err(|why| no_place(server, lane, why))
}

/// What takes turns with others at a server: each tool, and everything else of one kind.
fn lane(act: &Act) -> &str {
    match act {
        Act::CallTool { tool, .. } => &tool.tool,
        Act::ReadResource { .. } => method::RESOURCES_READ,
        Act::GetPrompt { .. } => method::PROMPTS_GET,
        Act::Complete { .. } => method::COMPLETE,
        Act::Forward { .. } => "other methods",
        Act::Configure { .. } | Act::MetaTool { .. } | Act::Operation { .. } => "the gateway itself",
    }
}

/// A server that is asked too much, in words for the client. Nothing was sent to it.
fn no_place(server: &Server, lane: &str, why: NoPlace) -> Problem {
    let (name, load) = (&server.config().name, server.places().load());
    let message = match why {
        NoPlace::Full => format!("the queue of server `{name}` is full: {WAITING} calls are waiting"),
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
         `limits` in `servers/{name}.yaml` says how many calls may run at a time."
    );
    Problem::new(Kind::Busy, message).hint(hint)
}

fn permitted(act: &Act, server: &Server) -> bool {
    act.server() == Some(&server.config().name)
}

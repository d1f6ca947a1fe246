//! The one path of every call: admission, limits, exchange with servers and clients, parked calls, tasks, and the servers
//! themselves. Nothing reaches a server but by [`AdmittedCall`], and a caller is admitted by one [`ProfileSnapshot`].
//!
//! The steps of a call, from above to below:
//!
//! 1. [`snapshot`]: what decides about the request, taken once where its caller is proven.
//! 2. `context`: the request with all that it needs; `pending` waits for a server that is being listed.
//! 3. `secret_guard` (before anything is written), [`admission`]: rules and audit log; then `limits` and `throttle`,
//!    [`guard`], `checks` (arguments).
//! 4. `tool_call`, `offer`, `listen` (subscriptions), `exchange/tasks`: one file for each kind of request.
//! 5. `held_calls`: a call that needs a yes first waits there, and runs once somebody has said it.
//! 6. `exchange`: the call with all that may come in between; `dispatch` is the only place that calls a server.
//!
//! Knows sessions and views; knows no operation, no meta-tool and no door.

pub mod admission;
mod answer;
mod approvals;
mod build;
pub mod canaries;
mod canary_guard;
mod checks;
mod client;
mod consent;
mod context;
mod conversations;
mod dispatch;
mod environment;
mod exchange;
pub mod guard;
pub mod halts;
mod held_calls;
mod large_results;
mod limits;
mod listen;
mod listener;
pub mod live_events;
pub mod login;
mod offer;
mod own_resource;
pub mod own_tasks;
mod params;
mod parking;
mod path;
mod pending;
pub mod pins;
mod reply;
mod result_bound;
mod secret_guard;
pub mod servers;
pub mod snapshot;
pub mod source;
mod subscriptions;
mod talk_guard;
mod throttle;
mod ticket;
mod tool_call;
mod views;

pub use admission::{AdmittedCall, AuditContext, AuditedRequest, Refusal};
pub use answer::{CallAnswer, Withheld};
pub use approvals::{ApprovalTimes, Approvals, CallSummary, ObserveApprovals, SealRows, ShownCall};
pub use build::{Build, HeldBy, PolicySet, ViewMaker, Views};
pub use canaries::{Canaries, CanaryTrace, FoundCanary};
pub use client::{ClientOptions, name_at_servers, principal_at_servers};
pub use consent::{Consent, GivenConsent};
pub use context::RequestContext;
pub use dispatch::MAY_HAVE_RUN;
pub use environment::EnvironmentChange;
pub use guard::{CallGuard, GuardedCall};
pub use halts::{CallOrigin, Halt, HaltCause, HaltSubject, Halts};
pub use held_calls::{ApprovalVerdict, no_approval};
pub use live_events::{LiveEvent, LiveEvents};
pub use login::{
    LOGIN_QUESTION, LoginFailure, LoginHolder, LoginPlace, LoginRequest, LoginState, LoginStatus, LoginStep, Logins,
    SignOn, UserValue,
};
pub use own_tasks::{OwnTask, TaskStart};
pub use path::{CallPath, PathParts};
pub use reply::ReplyChannel;
pub use secret_guard::{SecretActions, SecretGuard};
pub use servers::Servers;
pub use snapshot::ProfileSnapshot;
pub use source::{
    AnsweredTools, ApprovalEnd, ApprovalOutcome, CallDecision, CallLineage, CallPlace, CallQuestion, CallReply,
    CallTool, ClientDialog, ClientRound, FollowRuns, InterruptedCall, Invocation, RunCallOutcome, RunPosition, Source,
    SourceCall, Sources, ToolFilter,
};
pub use ticket::{KnownTask, Ticket};
pub use tool_call::{CallResult, ToolCall, problem_of};
pub use views::ViewTable;

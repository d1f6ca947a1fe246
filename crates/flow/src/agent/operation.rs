//! What people ask for: operations on runs of agents, and on the definitions of agents, models and connectors.
//!
//! To add one: a row in [`ROWS`], and its arm in [`run`] with a function in a file of `operation/`; of definitions in
//! `operation/definition/row.rs` and `operation/definition.rs`.

mod activity;
mod connector;
mod definition;
mod journal;
mod model_test;
mod review;
mod runs;
mod schema;

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use toolcrib_base::{Kind, Problem, random};
use toolcrib_call::Invocation;
use toolcrib_call::admission::closing_problem;
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::source::Inner;
use crate::arguments::OperationArguments;
use schema::{
    ACTIVITY, ACTIVITY_OUTPUT, ENTRIES, ENTRIES_OUTPUT, EXPORT, EXPORT_OUTPUT, FORK, LIST, LIST_OUTPUT, MESSAGE, NAMED,
    REPLAY_OUTPUT, RESUME, REVIEW, SETTLE, SHOWN, START,
};

/// All of them.
static TABLE: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    ROWS.iter().chain(&definition::ROWS).chain(&definition::CONNECTOR_ROWS).map(|row| Operation { ..*row }).collect()
});

pub(super) fn rows() -> &'static [Operation] {
    &TABLE
}

/// The id of a new run, which no one can guess.
pub(super) fn new_id() -> String {
    random::hex_128()[..20].to_owned()
}

/// One operation that someone asks for.
pub(super) struct OperationCall {
    inner: Arc<Inner>,
    invocation: Invocation,
    given: OperationArguments,
}

/// Does one of them.
pub(super) async fn run(
    inner: Arc<Inner>,
    operation: &'static Operation,
    invocation: Invocation,
) -> Result<Value, Problem> {
    let given = OperationArguments::of(&invocation);
    inner.bridge.gateway().ok_or_else(closing_problem)?;
    let asking = OperationCall { inner, invocation, given };
    match operation.tool {
        "core_activity_list" => activity::list(&asking).await,
        "core_connector_rotate" => connector::rotate(&asking).await,
        "core_connector_test" => connector::test(&asking).await,
        "core_model_test" => model_test::run(&asking).await,
        "core_run_cancel" => runs::cancel(&asking).await,
        "core_run_entries" => journal::entries(&asking).await,
        "core_run_export" => journal::export(&asking).await,
        "core_run_fork" => journal::fork(&asking).await,
        "core_run_get" => runs::get(&asking).await,
        "core_run_list" => runs::list(&asking).await,
        "core_run_message" => runs::message(&asking).await,
        "core_run_pause" => runs::pause(&asking).await,
        "core_run_refuse" => review::review(&asking, false).await,
        "core_run_release" => review::review(&asking, true).await,
        "core_run_replay" => journal::replay(&asking).await,
        "core_run_resume" => runs::resume(&asking).await,
        "core_run_settle" => runs::settle(&asking).await,
        "core_run_start" => runs::start(&asking).await,
        other => match definition::run(&asking, other).await {
            Some(done) => done,
            None => Err(Problem::new(Kind::Internal, format!("unknown operation on agents `{other}`"))),
        },
    }
}

const RUN: Operation = Operation { tag: "agent runs", permission: Permission::Open, ..Operation::OF_SOURCE };

const ROWS: &[Operation] = &[
    Operation {
        tool: "core_activity_list",
        path: "/activity",
        summary: "List what agents did",
        description: "List what runs of agents did, newest first, from the audit log: messages, answers of models, calls \
                      of tools, approvals, what was blocked or halted, ends. Non-admins see only what was done on their \
                      behalf in this profile. For the next page give `next_before` as `before`.",
        problems: &[Kind::InvalidParams],
        input: ACTIVITY,
        output: ACTIVITY_OUTPUT,
        ..RUN
    },
    Operation {
        tool: "core_run_cancel",
        method: Method::Post,
        path: "/runs/{run}/cancel",
        summary: "Cancel a run",
        description: "Cancel a run of an agent: what is under way is cancelled, and a call that may have happened is \
                      recorded as unknown.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: NAMED,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_entries",
        path: "/runs/{run}/entries",
        summary: "Show what happened in a run",
        description: "Show the entries of a run's journal after a number, and what has arrived of an answer. With \
                      `wait` it answers as soon as there is more, or when that time is over.",
        problems: &[Kind::NotFound],
        input: ENTRIES,
        output: ENTRIES_OUTPUT,
        ..RUN
    },
    Operation {
        tool: "core_run_export",
        path: "/runs/{run}/export",
        summary: "Export a run",
        description: "Export what happened in a run as JSON (the journal, whole), as Markdown for people, or as spans \
                      of OpenTelemetry without content unless `content` is true.",
        problems: &[Kind::NotFound],
        input: EXPORT,
        output: EXPORT_OUTPUT,
        ..RUN
    },
    Operation {
        tool: "core_run_fork",
        method: Method::Post,
        path: "/runs/{run}/fork",
        summary: "Fork a run",
        description: "Start a new run that has everything of another one up to a round, with its results, and goes on \
                      from there, also with another model.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        problems: &[Kind::NotFound, Kind::InvalidParams],
        input: FORK,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_get",
        path: "/runs/{run}",
        summary: "Show a run",
        description: "Show one run of an agent: how far it is, what it waits for, what it spent, its output.",
        problems: &[Kind::NotFound],
        input: NAMED,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_list",
        path: "/runs",
        summary: "List runs of agents",
        description: "List runs of agents, newest first, optionally of one agent or status. Non-admins see only their \
                      own runs in this profile.",
        input: LIST,
        output: LIST_OUTPUT,
        ..RUN
    },
    Operation {
        tool: "core_run_message",
        method: Method::Post,
        path: "/runs/{run}/message",
        summary: "Say more in a run",
        description: "Go on with a run that is done, with another message: the conversation grows at its end. A run that \
                      is under way reads it after its turn. With `wait` the answer comes when the run has ended or waits \
                      for a person.",
        effect: Effect::Unknown,
        slow: true,
        problems: &[Kind::NotFound, Kind::Conflict],
        input: MESSAGE,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_pause",
        method: Method::Post,
        path: "/runs/{run}/pause",
        summary: "Pause a run",
        description: "Pause a run: what is under way ends, and nothing else leaves until the run is resumed.",
        effect: Effect::Changes { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: NAMED,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_refuse",
        method: Method::Post,
        path: "/runs/{run}/refuse",
        summary: "Refuse what is in quarantine",
        description: "Say that a run may not have a task or message that its sentinel holds: a message is left out, and \
                      without its task the run ends. Nothing is decided by MCP.",
        effect: Effect::Destroys { idempotent: false },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Forbidden],
        input: REVIEW,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_release",
        method: Method::Post,
        path: "/runs/{run}/release",
        summary: "Release what is in quarantine",
        description: "Say that a run may have a task or message that its sentinel holds: the run goes on with it. \
                      Operators and administrators do, but not for an input of their own, and not by MCP.",
        effect: Effect::Changes { idempotent: false },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Forbidden],
        input: REVIEW,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_replay",
        path: "/runs/{run}/replay",
        summary: "Replay a run",
        description: "Follow a run's journal entry by entry and report the first one that the loop would not have \
                      written. Nothing is executed.",
        problems: &[Kind::NotFound],
        input: NAMED,
        output: REPLAY_OUTPUT,
        ..RUN
    },
    Operation {
        tool: "core_run_resume",
        method: Method::Post,
        path: "/runs/{run}/resume",
        summary: "Resume a run",
        description: "Go on with a run that ended at a limit, with more; with one that was paused or interrupted; or, \
                      with `answer`, answer what it asks its person, which `waits` of the run shows. Answers are taken \
                      by REST, the command line and the pages, and not by MCP.",
        effect: Effect::Changes { idempotent: false },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::InvalidParams, Kind::Forbidden],
        input: RESUME,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_settle",
        method: Method::Post,
        path: "/runs/{run}/settle",
        summary: "Settle a call",
        description: "Say of a call whose end is not known whether it happened, did not happen, or may be repeated. \
                      Until then the same call is refused in this run.",
        effect: Effect::Changes { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: SETTLE,
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_start",
        method: Method::Post,
        path: "/runs",
        summary: "Start a run",
        description: "Give a task in words to an agent, or to a model with the tools of this profile. The answer comes \
                      at once with the id of the run; with `wait` it comes when the run has ended or waits for a \
                      person.",
        effect: Effect::Unknown,
        creates: true,
        slow: true,
        problems: &[Kind::NotFound, Kind::InvalidParams, Kind::Busy],
        input: START,
        output: SHOWN,
        ..RUN
    },
];

//! What people ask for: operations on runs of agents.
//!
//! To add one: a row in [`ROWS`], and its arm in [`run`] with a function in a file of `operation/`.

mod journal;
mod runs;

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Kind, Problem, random};
use toolcrib_call::Invocation;
use toolcrib_call::admission::closing_problem;
use toolcrib_gateway::Gateway;
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::source::Inner;
use crate::arguments::OperationArguments;

pub(super) fn rows() -> &'static [Operation] {
    ROWS
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
    let _gateway: Arc<Gateway> = inner.bridge.gateway().ok_or_else(closing_problem)?;
    let asking = OperationCall { inner, invocation, given };
    match operation.tool {
        "core_run_cancel" => runs::cancel(&asking).await,
        "core_run_entries" => journal::entries(&asking).await,
        "core_run_export" => journal::export(&asking).await,
        "core_run_fork" => journal::fork(&asking).await,
        "core_run_get" => runs::get(&asking).await,
        "core_run_list" => runs::list(&asking).await,
        "core_run_replay" => journal::replay(&asking).await,
        "core_run_resume" => runs::resume(&asking).await,
        "core_run_settle" => runs::settle(&asking).await,
        "core_run_start" => runs::start(&asking).await,
        other => Err(Problem::new(Kind::Internal, format!("unknown operation on runs `{other}`"))),
    }
}

const RUN: Operation = Operation { tag: "agent runs", permission: Permission::Open, ..Operation::OF_SOURCE };

/// The argument that names a run.
macro_rules! named {
    ($more:literal) => {
        concat!(
            r#"{"type":"object","properties":{"run":{"type":"string","description":"The id of the run, or its beginning"}"#,
            $more,
            r#"},"required":["run"],"additionalProperties":false}"#
        )
    };
    ($more:literal, $required:literal) => {
        concat!(
            r#"{"type":"object","properties":{"run":{"type":"string","description":"The id of the run, or its beginning"}"#,
            $more,
            r#"},"required":["run","#,
            $required,
            r#"],"additionalProperties":false}"#
        )
    };
}

/// Limits that a request may name.
macro_rules! limits {
    () => {
        r#""rounds":{"type":"integer","minimum":1,"maximum":1000,"description":"The most answers of the model"},"calls":{"type":"integer","minimum":1,"maximum":100000,"description":"The most calls of tools"},"tokens":{"type":"integer","minimum":1,"description":"The most tokens, read and written"},"cost":{"type":"string","description":"The most dollars, such as 0.50"},"time":{"type":"string","description":"The longest time, waiting aside, such as 10m"}"#
    };
}

/// A run.
const SHOWN: &str = r#"{"type":"object","properties":{"run":{"type":"string"},"agent":{"type":"string"},"model":{"type":"string"},"task":{"type":"string"},"status":{"type":"string","enum":["running","waiting","ended"]},"end":{"type":"string","description":"How it ended: done, stuck, denied, limit of rounds …"},"output":{"type":"string"},"waits":{"type":"array","items":{"type":"object","properties":{"for":{"type":"string"},"what":{"type":"string"},"next":{"type":"string"}}}},"unsettled":{"type":"array","items":{"type":"object"}},"rounds":{"type":"integer"},"calls":{"type":"integer"},"tokens":{"type":"integer"},"cost":{"type":"string"},"started_at":{"type":"string"},"changed_at":{"type":"string"},"ended_at":{"type":"string"},"parent":{"type":"string"},"forked_from":{"type":"string"},"principal":{"type":"string"},"profile":{"type":"string"}},"required":["run","agent","status"]}"#;

const ROWS: &[Operation] = &[
    Operation {
        tool: "core_run_cancel",
        method: Method::Post,
        path: "/runs/{run}/cancel",
        summary: "Cancel a run",
        description: "Cancel a run of an agent: what is under way is cancelled, and a call that may have happened is \
                      recorded as unknown.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: named!(""),
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
        input: named!(
            r#","after":{"type":"integer","minimum":0,"default":0,"description":"The number of the last entry that is known"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":200},"wait":{"type":"integer","minimum":0,"maximum":30000,"default":0,"description":"Milliseconds to wait for more"},"seen":{"type":"integer","minimum":0,"default":0,"description":"Characters of the answer that were seen already"}"#
        ),
        output: r#"{"type":"object","properties":{"run":{"type":"string"},"status":{"type":"string"},"entries":{"type":"array","items":{"type":"object"}},"next":{"type":"integer"},"partial":{"type":"string"}},"required":["run","status","entries","next"]}"#,
        ..RUN
    },
    Operation {
        tool: "core_run_export",
        path: "/runs/{run}/export",
        summary: "Export a run",
        description: "Export what happened in a run as JSON (the journal, whole), as Markdown for people, or as spans \
                      of OpenTelemetry without content unless `content` is true.",
        problems: &[Kind::NotFound],
        input: named!(
            r#","format":{"type":"string","enum":["json","markdown","otlp"],"default":"json"},"content":{"type":"boolean","default":false,"description":"Spans with texts, arguments and results"}"#
        ),
        output: r#"{"type":"object","properties":{"run":{"type":"string"},"format":{"type":"string"},"text":{"type":"string"},"journal":{"type":"array","items":{"type":"object"}},"spans":{"type":"object"}},"required":["run","format"]}"#,
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
        input: named!(
            r#","at":{"type":"integer","minimum":0,"description":"The last round that is kept"},"model":{"type":"string","description":"Another model"}"#,
            r#""at""#
        ),
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_get",
        path: "/runs/{run}",
        summary: "Show a run",
        description: "Show one run of an agent: how far it is, what it waits for, what it spent, its output.",
        problems: &[Kind::NotFound],
        input: named!(""),
        output: SHOWN,
        ..RUN
    },
    Operation {
        tool: "core_run_list",
        path: "/runs",
        summary: "List runs of agents",
        description: "List runs of agents, newest first, optionally of one agent or status. Non-admins see only their \
                      own runs in this profile.",
        input: r#"{"type":"object","properties":{"agent":{"type":"string"},"status":{"type":"string","enum":["running","waiting","ended"]},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50},"offset":{"type":"integer","minimum":0,"default":0}},"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"runs":{"type":"array","items":{"type":"object","properties":{"run":{"type":"string"},"agent":{"type":"string"},"status":{"type":"string"}},"required":["run","agent","status"]}},"total":{"type":"integer"},"has_more":{"type":"boolean"}},"required":["runs","total","has_more"]}"#,
        ..RUN
    },
    Operation {
        tool: "core_run_replay",
        path: "/runs/{run}/replay",
        summary: "Replay a run",
        description: "Follow a run's journal entry by entry and report the first one that the loop would not have \
                      written. Nothing is executed.",
        problems: &[Kind::NotFound],
        input: named!(""),
        output: r#"{"type":"object","properties":{"run":{"type":"string"},"entries":{"type":"integer"},"follows":{"type":"boolean"},"problem":{"type":"string"}},"required":["run","entries","follows"]}"#,
        ..RUN
    },
    Operation {
        tool: "core_run_resume",
        method: Method::Post,
        path: "/runs/{run}/resume",
        summary: "Resume a run",
        description: "Go on with a run that ended at a limit, with more; or with one that was interrupted.",
        effect: Effect::Changes { idempotent: false },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: concat!(
            r#"{"type":"object","properties":{"run":{"type":"string","description":"The id of the run, or its beginning"},"#,
            limits!(),
            r#"},"required":["run"],"additionalProperties":false}"#
        ),
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
        input: named!(
            r#","call":{"type":"string","description":"The call, such as 3.1"},"settlement":{"type":"string","enum":["happened","did_not","repeat"]},"result":{"type":"string","description":"What it gave, if it happened"}"#,
            r#""call","settlement""#
        ),
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
        input: concat!(
            r#"{"type":"object","properties":{"task":{"type":"string","minLength":1,"description":"What to do, in plain words"},"agent":{"type":"string","description":"The agent; without it a model with the tools of this profile"},"model":{"type":"string","description":"The model; `demo` needs no key"},"tools_shown":{"type":"string","enum":["menu","all","native","auto"],"description":"How tools are shown to the model"},"wait":{"type":"boolean","default":false},"#,
            limits!(),
            r#"},"required":["task"],"additionalProperties":false}"#
        ),
        output: SHOWN,
        ..RUN
    },
];

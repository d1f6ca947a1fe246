//! What people ask for: operations on workflows and on their runs.
//!
//! To add one: a row in [`ROWS`], and its arm in [`run`] with a function in `operation/definition.rs` or
//! `operation/execution.rs`.

mod definition;
mod execution;
mod schema;

use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::Invocation;
use toolcrib_call::admission::closing_problem;
use toolcrib_gateway::Gateway;
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::source::Inner;
use crate::arguments::OperationArguments;
use schema::{CHECKED, EXECUTION, EXECUTIONS, LIST, NAMED, SAID, WORKFLOW};

pub(super) fn rows() -> &'static [Operation] {
    ROWS
}

/// One operation that someone asks for.
pub(super) struct OperationCall {
    inner: Arc<Inner>,
    gateway: Arc<Gateway>,
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
    let gateway = inner.running.gateway().ok_or_else(closing_problem)?;
    let asking = OperationCall { inner, gateway, invocation, given };
    match operation.tool {
        "core_workflow_available" => definition::available(&asking),
        "core_workflow_create" => definition::create(&asking).await,
        "core_workflow_delete" => definition::delete(&asking).await,
        "core_workflow_execution_cancel" => execution::cancel(&asking).await,
        "core_workflow_execution_get" => execution::get(&asking).await,
        "core_workflow_execution_list" => execution::list(&asking).await,
        "core_workflow_get" => definition::get(&asking).await,
        "core_workflow_list" => Ok(definition::list(&asking)),
        "core_workflow_update" => definition::update(&asking).await,
        "core_workflow_validate" => definition::validate(&asking),
        other => Err(Problem::new(Kind::Internal, format!("unknown workflow operation `{other}`"))),
    }
}

const DEFINITION: Operation = Operation { tag: "workflows", ..Operation::OF_SOURCE };
const RUN: Operation = Operation { tag: "workflow executions", permission: Permission::Open, ..Operation::OF_SOURCE };

const ROWS: &[Operation] = &[
    Operation {
        tool: "core_workflow_available",
        path: "/workflows/{name}/available",
        summary: "Check a workflow is available",
        description: "Check whether every tool that a workflow calls is visible in this profile, and list missing \
                      ones.",
        permission: Permission::Open,
        problems: &[Kind::NotFound],
        input: NAMED,
        output: r#"{"type":"object","properties":{"name":{"type":"string"},"available":{"type":"boolean"},"missing":{"type":"array","items":{"type":"string"}}},"required":["name","available"]}"#,
        ..DEFINITION
    },
    Operation {
        tool: "core_workflow_create",
        method: Method::Post,
        path: "/workflows",
        summary: "Create a workflow",
        description: "Write a new workflow, workflows/<name>.yaml: its arguments, its steps (tool, forEach or \
                      parallel), its failure steps and its output. It is available immediately as the tool \
                      workflow_<name>.",
        effect: Effect::Changes { idempotent: false },
        creates: true,
        problems: &[Kind::Conflict, Kind::Definition],
        input: WORKFLOW,
        output: SAID,
        ..DEFINITION
    },
    Operation {
        tool: "core_workflow_delete",
        method: Method::Delete,
        path: "/workflows/{name}",
        summary: "Delete a workflow",
        description: "Delete the file of a workflow. Its runs remain listed.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: NAMED,
        output: SAID,
        ..DEFINITION
    },
    Operation {
        tool: "core_workflow_execution_cancel",
        method: Method::Post,
        path: "/workflow-executions/{execution_id}/cancel",
        summary: "Cancel a run",
        description: "Cancel a running workflow: its calls are cancelled, and the run is recorded as failed.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict],
        input: r#"{"type":"object","properties":{"execution_id":{"type":"string","description":"ID of the execution"}},"required":["execution_id"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"execution_id":{"type":"string"},"message":{"type":"string"}},"required":["execution_id","message"]}"#,
        ..RUN
    },
    Operation {
        tool: "core_workflow_execution_get",
        path: "/workflow-executions/{execution_id}",
        summary: "Show a run",
        description: "Show one run: its input, its steps with times, its result or error.",
        problems: &[Kind::NotFound],
        input: r#"{"type":"object","properties":{"execution_id":{"type":"string","description":"ID of the execution"},"include_steps":{"type":"boolean","description":"Include step details","default":true},"step_id":{"type":"string","description":"Get specific step details"}},"required":["execution_id"],"additionalProperties":false}"#,
        output: EXECUTION,
        ..RUN
    },
    Operation {
        tool: "core_workflow_execution_list",
        path: "/workflow-executions",
        summary: "List runs",
        description: "List workflow runs, newest first, optionally of one workflow or status. Non-admins see only \
                      their own runs in this profile.",
        input: r#"{"type":"object","properties":{"workflow_name":{"type":"string","description":"Filter by workflow name"},"status":{"type":"string","enum":["inprogress","completed","failed"],"description":"Filter by execution status"},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":50,"description":"Maximum number of executions to return"},"offset":{"type":"integer","minimum":0,"default":0,"description":"Number of executions to skip"}},"additionalProperties":false}"#,
        output: EXECUTIONS,
        ..RUN
    },
    Operation {
        tool: "core_workflow_get",
        path: "/workflows/{name}",
        summary: "Show a workflow",
        description: "Show the definition of a workflow, as JSON and as the text of its file; of a file that is \
                      wrong, its text and the error.",
        permission: Permission::Open,
        problems: &[Kind::NotFound],
        input: NAMED,
        output: r#"{"type":"object","properties":{"workflow":{"type":"object"},"available":{"type":"boolean"},"error":{"type":"string"},"yaml":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["workflow","yaml"]}"#,
        ..DEFINITION
    },
    Operation {
        tool: "core_workflow_list",
        path: "/workflows",
        summary: "List the workflows",
        description: "List the workflows and whether each is available in this profile.",
        permission: Permission::Open,
        input: r#"{"type":"object","properties":{"include_system":{"type":"boolean","default":true,"description":"Has no effect: there are no system workflows"}},"additionalProperties":false}"#,
        output: LIST,
        ..DEFINITION
    },
    Operation {
        tool: "core_workflow_update",
        method: Method::Put,
        path: "/workflows/{name}",
        summary: "Replace a workflow",
        description: "Replace the whole definition of a workflow. With `revision`, only if the file still has that \
                      revision. Comments in the file stay where what they stand by does; with `yaml` the text is \
                      yours.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
        input: schema::UPDATE,
        output: SAID,
        ..DEFINITION
    },
    Operation {
        tool: "core_workflow_validate",
        method: Method::Post,
        path: "/validate/workflow",
        summary: "Check a workflow",
        description: "Validate the definition of a workflow without writing it. What is wrong is an error; with `yaml` \
                      it is the answer, with its lines.",
        problems: &[Kind::Definition],
        input: WORKFLOW,
        output: CHECKED,
        ..DEFINITION
    },
];

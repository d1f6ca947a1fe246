//! Writes of definitions: what one would change, what was changed lately, and undoing it.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{FileChange, ListedWrite, WriteRecord, WriteScope};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::arguments::required;
use toolcrib_view::{Effect, Method, Operation};

use super::{OperationContext, ROW, Row, Run, blocking, definition, in_write_scope, row};
use crate::gateway::Gateway;

const NAMED: &str = r#"{"type":"object","properties":{"id":{"type":"string","minLength":1,"maxLength":64,
    "description":"As `core_write_list` names it"}},"required":["id"],"additionalProperties":false}"#;

/// The kinds of definitions whose operations do nothing before they write, or end there where they are rehearsed.
const KINDS: [&str; 8] = ["mcpserver", "profile", "workflow", "serviceclass", "service", "agent", "model", "connector"];
/// What they do.
const ACTS: [&str; 3] = ["create", "update", "delete"];
/// Others that write, and do nothing before.
const OTHERS: [&str; 12] = [
    "core_config_save",
    "core_mcpserver_tools_write",
    "core_policy_file_delete",
    "core_policy_file_write",
    "core_profile_allow",
    "core_profile_change",
    "core_profile_clone",
    "core_profile_import",
    "core_profile_key_revoke",
    "core_profile_tools",
    "core_registry_add",
    "core_write_undo",
];
/// How many files of a write are listed.
const LISTED: usize = 32;
/// The largest text of files that is given whole, in bytes.
const WHOLE: usize = 256 * 1024;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(get(gateway, arguments))),
        Operation {
            tool: "core_write_get",
            path: "/writes/{id}",
            tag: "writes",
            summary: "Show a write",
            description: "Show what a write of definitions changed, secrets as ****, and whether it can be undone; \
                          if a file was changed since, both differences.",
            problems: &[Kind::NotFound],
            input: NAMED,
            output: r#"{"type":"object","properties":{"id":{"type":"string"},"at":{"type":"string"},
    "files":{"type":"array","items":{"type":"object","properties":{"file":{"type":"string"},
    "change":{"enum":["added","changed","removed"]},"difference":{"type":"string"}},"required":["file","change",
    "difference"]}},"canUndo":{"type":"boolean"},"why":{"type":"string"}},"required":["id","at","files",
    "canUndo"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(list(gateway))),
        Operation {
            tool: "core_write_list",
            path: "/writes",
            tag: "writes",
            summary: "List the last writes",
            description: "List the last hundred writes of files by Toolcrib, the last one first, with their \
                          files (the first 32 of `fileCount`) and whether they can be undone. What people edit by \
                          hand is not among them.",
            output: r#"{"type":"object","properties":{"writes":{"type":"array","items":{"type":"object",
    "properties":{"id":{"type":"string"},"at":{"type":"string"},"files":{"type":"array","items":{"type":"object",
    "properties":{"file":{"type":"string"},"change":{"enum":["added","changed","removed"]}},"required":["file",
    "change"]}},"fileCount":{"type":"integer"},"canUndo":{"type":"boolean"}},"required":["id","at","files",
    "fileCount","canUndo"]}},"total":{"type":"integer"}},"required":["writes","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(preview(gateway, caller, arguments))),
        Operation {
            tool: "core_write_preview",
            method: Method::Post,
            path: "/write-preview",
            tag: "writes",
            summary: "Show what an operation would write",
            description: "Show the files that an operation (core_mcpserver_create, core_profile_update, \
                          core_registry_add, core_config_save …) would write with these arguments, and the lines \
                          that would change, secrets as ****; what a file says before, and the change as `patch -p1` \
                          takes it in the home folder, where no secret is in it. It answers the operation's own \
                          errors, and writes nothing.",
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition, Kind::Internal],
            is_secret: true,
            input: r#"{"type":"object","properties":{"operation":{"type":"string",
    "description":"The name of its tool"},"arguments":{"type":"object","description":"Its arguments"}},
    "required":["operation"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"files":{"type":"array","items":{"type":"object",
    "properties":{"file":{"type":"string"},"change":{"enum":["added","changed","removed"]},
    "difference":{"type":"string"},"before":{"type":"string"},"patch":{"type":"string"}},"required":["file","change",
    "difference"]}},"fingerprint":{"type":"string"}},"required":["files","fingerprint"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(undo(gateway, arguments))),
        Operation {
            tool: "core_write_undo",
            method: Method::Post,
            path: "/writes/{id}/undo",
            tag: "writes",
            summary: "Undo a write",
            description: "Make the files of a write what they were before it, byte for byte. Where a file was \
                          changed since, nothing is written, and both differences are shown. Undoing is a write, \
                          and can be undone.",
            effect: Effect::Destroys { idempotent: false },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Internal],
            input: NAMED,
            output: r#"{"type":"object","properties":{"id":{"type":"string"},"files":{"type":"array",
    "items":{"type":"string"}}},"required":["id","files"]}"#,
            ..ROW
        },
    ),
];

/// Whether an operation writes files, and does nothing else before: `core_write_preview` shows what.
pub fn is_previewed(tool: &str) -> bool {
    let is_of_kind =
        |rest: &str| rest.rsplit_once('_').is_some_and(|(kind, act)| KINDS.contains(&kind) && ACTS.contains(&act));
    OTHERS.contains(&tool) || tool.strip_prefix("core_").is_some_and(is_of_kind)
}

async fn list(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let writes = gateway.files.writes();
        Ok(json!({ "total": writes.len(), "writes": writes.iter().map(listed).collect::<Vec<_>>() }))
    })
    .await
}

fn listed(write: &ListedWrite) -> Value {
    let files = write.files.iter().take(LISTED).map(|it| json!({ "file": it.file, "change": it.change }));
    json!({
        "id": write.id, "at": moment(&write.at), "files": files.collect::<Vec<_>>(), "fileCount": write.files.len(),
        "canUndo": write.can_undo,
    })
}

async fn get(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (gateway, id) = (Arc::clone(gateway), required(arguments, "id")?);
    blocking(move || {
        let record: WriteRecord = gateway.files.write_record(&id)?;
        let mut shown = json!({
            "id": record.id, "at": moment(&record.at), "canUndo": true,
            "files": record.files.iter().map(changed).collect::<Vec<_>>(),
        });
        if let Err(error) = gateway.files.check_undo(&record) {
            shown["canUndo"] = false.into();
            shown["why"] = error.to_string().into();
        }
        Ok(shown)
    })
    .await
}

async fn undo(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (gateway, id) = (definition::writing(gateway)?, required(arguments, "id")?);
    blocking(move || {
        let record = gateway.files.undo(&id)?;
        gateway.take_in();
        let files: Vec<_> = record.files.iter().map(|change| change.file.clone()).collect();
        Ok(json!({ "id": record.id, "files": files }))
    })
    .await
}

async fn preview(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let tool = required(arguments, "operation")?;
    let unknown = || definition::unknown("operation", &tool, gateway.operations.iter().map(|operation| operation.tool));
    let operation = gateway.operations.by_tool(&tool).ok_or_else(unknown)?;
    if !is_previewed(operation.tool) {
        let message = format!("`{tool}` does not write a definition, or does more before, so there is nothing to show");
        return Err(Problem::new(Kind::InvalidParams, message));
    }
    let given = arguments.get("arguments").unwrap_or_else(|| Raw::from_value(&json!({})));
    let rehearsal = Arc::new(WriteScope::rehearsal());
    let context = OperationContext { snapshot: None, caller, depth: 0, reply: None };
    // Boxed: an operation in an operation.
    let run = Box::pin(super::run(operation, gateway, context, &given));
    let done = in_write_scope(&rehearsal, run).await;
    match (rehearsal.rehearsed(), done) {
        // What it says of a write that did not happen means nothing.
        (Some(changes), _) => Ok(previewed(&changes)),
        (None, Err(problem)) => Err(problem),
        (None, Ok(_)) => Ok(previewed(&[])),
    }
}

/// What is shown of changes before they are made.
fn previewed(changes: &[FileChange]) -> Value {
    let mut room = WHOLE;
    let files = changes.iter().map(|change| {
        let mut shown = changed(change);
        let before = change.shown_before();
        if let Some(left) = room.checked_sub(before.len()) {
            room = left;
            shown["before"] = before.into();
        }
        if let Some(patch) = change.patch().filter(|patch| patch.len() <= WHOLE) {
            shown["patch"] = patch.into();
        }
        shown
    });
    let files: Vec<Value> = files.collect();
    json!({ "files": files, "fingerprint": WriteScope::fingerprint(changes) })
}

fn changed(change: &FileChange) -> Value {
    json!({ "file": change.file, "change": change.word(), "difference": change.difference() })
}

/// The moment in an id, as ISO 8601 writes it: `20261127T234500123Z`.
fn moment(stamp: &str) -> String {
    let part = |from: usize, to: usize| stamp.get(from..to).unwrap_or_default();
    let (date, time) = ([part(0, 4), part(4, 6), part(6, 8)], [part(9, 11), part(11, 13), part(13, 15)]);
    format!("{}T{}Z", date.join("-"), time.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_only_write_definitions_are_previewed() {
        for tool in [
            "core_mcpserver_create",
            "core_profile_import",
            "core_profile_tools",
            "core_service_delete",
            "core_mcpserver_tools_write",
            "core_config_save",
        ] {
            assert!(is_previewed(tool), "{tool}");
        }
        for tool in ["core_mcpserver_verify", "core_mcpserver_start", "core_secret_set", "core_halt_add", "x_create"] {
            assert!(!is_previewed(tool), "{tool}");
        }
        assert_eq!(moment("20261127T234500123Z"), "2026-11-27T23:45:00Z");
    }
}

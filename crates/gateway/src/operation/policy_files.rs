//! Files of policies: read, write and remove one. What would lock people out because it is no policy is not written.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{PolicyFileName, read_policies};
use toolcrib_policy::Fault;
use toolcrib_protocol::Raw;
use toolcrib_view::arguments::{required, text};
use toolcrib_view::{Effect, Method, Operation};

use super::policies::{fault, with_file};
use super::servers::WRITTEN;
use super::{ROW, Row, Run, blocking, definition, row};
use crate::gateway::Gateway;
use crate::policies::compiled;

/// The largest text, in bytes.
const TEXT_MAX: usize = 1024 * 1024;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(delete(gateway, arguments))),
        Operation {
            tool: "core_policy_file_delete",
            method: Method::Delete,
            path: "/policies/files/{name}",
            tag: "policies",
            summary: "Remove a file of policies",
            description: "Remove `policies/<name>`. Its policies count no more; without any file profiles and roles \
                          decide alone.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"Such as `prod.cedar`"},
    "revision":{"type":"string","description":"The one that core_policy_file_get showed"}},
    "required":["name","revision"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},
    "deleted":{"const":true}},"required":["name","file","deleted"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(get(gateway, arguments))),
        Operation {
            tool: "core_policy_file_get",
            path: "/policies/files/{name}",
            tag: "policies",
            summary: "Show a file of policies",
            description: "Show the text of a file of policies, its revision, and what is wrong with it.",
            problems: &[Kind::NotFound, Kind::Conflict],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"Such as `prod.cedar`"}},
    "required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},
    "revision":{"type":"string"},"text":{"type":"string"},"problems":{"type":"array"}},"required":["name","file",
    "revision","text","problems"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(write(gateway, arguments))),
        Operation {
            tool: "core_policy_file_write",
            method: Method::Put,
            path: "/policies/files/{name}",
            tag: "policies",
            summary: "Write a file of policies",
            description: "Write `policies/<name>`, a new one or in the place of the one with `revision`. Refused where \
                          all files together would not be policies. `core_write_preview` shows the lines, \
                          `core_policy_diff` who would gain or lose what.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"Such as `prod.cedar`"},
    "text":{"type":"string"},"revision":{"type":"string",
    "description":"The one that core_policy_file_get showed; without it the file must be new"}},
    "required":["name","text"],"additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
];

fn name(arguments: &Raw) -> Result<PolicyFileName, Problem> {
    let name = required(arguments, "name")?;
    PolicyFileName::new(&name).ok_or_else(|| {
        Problem::new(Kind::InvalidParams, "`name` must be that of a file of policies")
            .hint("Such as `prod.cedar`: a-z, 0-9, `-`, `_` and dots, and `.cedar` at the end.")
    })
}

async fn get(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let name = name(arguments)?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let Some(there) = gateway.files.read_policy(&name)? else {
            let loaded = gateway.loaded();
            let known = loaded.policies.iter().map(|file| file.name.as_str());
            return Err(definition::unknown("file of policies", name.as_str(), known));
        };
        let faults = gateway.policies.faults();
        let own = faults.iter().filter(|fault| fault.file == name.as_str());
        Ok(json!({
            "name": name.as_str(), "file": there.file, "revision": there.revision, "text": there.text(),
            "problems": own.map(fault).collect::<Vec<_>>(),
        }))
    })
    .await
}

async fn write(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (name, new) = (name(arguments)?, required(arguments, "text")?);
    let revision = text(arguments, "revision")?;
    if new.len() > TEXT_MAX {
        return Err(Problem::new(Kind::TooLarge, format!("the text has more than {TEXT_MAX} bytes")));
    }
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let all = with_file(read_policies(gateway.files.home()), name.as_str(), Some(&new));
        compiled(&all, gateway.policies.operations()).map_err(|faults| bad(&faults))?;
        let written = gateway.files.write_policy(&name, &new, revision.as_deref())?;
        gateway.take_in();
        Ok(json!({ "name": name.as_str(), "file": written.file, "revision": written.revision }))
    })
    .await
}

async fn delete(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (name, revision) = (name(arguments)?, required(arguments, "revision")?);
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let all = with_file(read_policies(gateway.files.home()), name.as_str(), None);
        compiled(&all, gateway.policies.operations()).map_err(|faults| bad(&faults))?;
        let file = gateway.files.remove_policy(&name, &revision)?;
        gateway.take_in();
        Ok(json!({ "name": name.as_str(), "file": file, "deleted": true }))
    })
    .await
}

/// What is wrong, each with its file and line.
fn bad(faults: &[Fault]) -> Problem {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let problem = Problem::new(Kind::Definition, lines.join("\n"));
    match faults.iter().find_map(|fault| fault.hint.clone()) {
        Some(hint) => problem.hint(hint),
        None => problem.hint("Nothing was written: the policies before stay in force."),
    }
}

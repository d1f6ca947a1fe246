//! The servers: their definitions, and how they are. A definition is given whole (`definition`, `yaml`) or in muster's
//! form, as flat arguments.

mod flat;
mod shown;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_catalog::{DefinitionId, DefinitionKind, Dialect};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::{Effect, Method, Operation, Permission, ServerEntry};

use super::{ROW, Row, Run, Words, blocking, definition, page, row};
use crate::gateway::Gateway;
use flat::{Flat, flat_properties};
use toolcrib_view::Visibility;
use toolcrib_view::arguments::{flag, text};

pub(crate) use shown::{limited, unanswered};
pub(super) use shown::{shown, shown_to};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(create(gateway, arguments))),
        Operation {
            tool: "core_mcpserver_create",
            method: Method::Post,
            path: "/servers",
            tag: "servers",
            summary: "Add a server",
            description: "Write the definition of a new server, `servers/<name>.yaml`, and take it in. Give its `type` with `command` or `url`, or the whole definition as a value or as YAML.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            problems: &[Kind::Conflict, Kind::Definition],
            input: NEW,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| {
            Box::pin(async {
                definition::delete(gateway, definition::known(DefinitionKind::Server, arguments)?, arguments).await
            })
        }),
        Operation {
            tool: "core_mcpserver_delete",
            method: Method::Delete,
            path: "/servers/{name}",
            tag: "servers",
            summary: "Remove a server",
            description: "Stop a server and remove the file of its definition.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"revision":{"type":"string","description":"Only if the file still has this revision"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},"deleted":{"const":true}},"required":["name","file","deleted"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(get(gateway, caller, arguments))),
        Operation {
            tool: "core_mcpserver_get",
            path: "/servers/{name}",
            tag: "servers",
            summary: "Show a server",
            description: "Show one server: its state and settings, and its definition with its revision. Values that may be secrets are shown as ****. Who does not administer sees of the servers of the profile what they are and how they are.",
            permission: Permission::Open,
            problems: &[Kind::NotFound, Kind::Definition],
            input: NAMED,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"state":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"},"definition":{"type":["object","null"]},"yaml":{"type":["string","null"],"description":"The text of the file, secrets as ****"},"problems":{"type":"array"}},"required":["name"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(std::future::ready(list(gateway, caller, arguments)))),
        Operation {
            tool: "core_mcpserver_list",
            path: "/servers",
            tag: "servers",
            summary: "List the servers",
            description: "List the servers with their state, tools and last error. With `showAll` false, which the muster dialect takes for granted, those that failed are only counted. Who does not administer sees the servers of the profile.",
            permission: Permission::Open,
            input: r#"{"type":"object","properties":{"showAll":{"type":"boolean","description":"Also those that failed"},"verbose":{"type":"boolean","description":"Also why"},"query":{"type":"string","description":"Words of its name or title, in any order"},"state":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"At most so many; the answer then also names all states"},"offset":{"type":"integer","minimum":0,"default":0}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"mcpServers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"state":{"type":"string","description":"idle, starting, installing, ready, failed, needs-login, stopped; in the muster dialect muster's words"}},"required":["name","state"]}},"total":{"type":"integer"},"states":{"type":"array","items":{"type":"string"}},"mode":{"const":"filesystem"},"hiddenFailed":{"type":"integer"},"hint":{"type":"string"},"problems":{"type":"array"}},"required":["mcpServers","total","mode","problems"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(update(gateway, arguments))),
        Operation {
            tool: "core_mcpserver_update",
            method: Method::Put,
            path: "/servers/{name}",
            tag: "servers",
            summary: "Replace the definition of a server",
            description: "Change a server. With `definition` or `yaml` its whole definition is replaced: `revision` is the one that core_mcpserver_get showed, and a file that has changed since is left alone; what it says as **** stays what it is. Otherwise what is given (`type`, `command`, `url` …) is changed and the rest stays. Comments in the file stay, except within a key that is changed; with `yaml` the text is yours.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
            input: CHANGED,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(validate(gateway, arguments))),
        Operation {
            tool: "core_mcpserver_validate",
            method: Method::Post,
            path: "/validate/server",
            tag: "servers",
            summary: "Check the definition of a server",
            description: "Validate the definition of a server, with places and hints, without writing it.",
            input: NEW,
            output: VALIDATED,
            ..ROW
        },
    ),
];

/// What is there already. A text that can be no one's name is not found, so its form is not checked.
pub(super) const NAMED: &str =
    r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}"#;
pub(super) const WRITTEN: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","file","revision"]}"#;
pub(super) const VALIDATE: &str = r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"definition":{"type":"object"},"yaml":{"type":"string"}},"required":["name"],"oneOf":[{"required":["definition"]},{"required":["yaml"]}],"additionalProperties":false}"#;
pub(super) const VALIDATED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"valid":{"type":"boolean"},"problems":{"type":"array","items":{"type":"object","properties":{"problem":{"type":"string"},"message":{"type":"string"},"field":{"type":"string"},"file":{"type":"string"},"line":{"type":"integer"},"column":{"type":"integer"},"hint":{"type":["string","null"]}},"required":["problem","file"]}}},"required":["name","valid","problems"]}"#;

/// A new server, or one that is checked.
const NEW: &str = concat!(
    r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"definition":{"type":"object","description":"The definition, such as {\"command\":\"npx\",\"args\":[\"-y\",\"…\"]}"},"yaml":{"type":"string","description":"The text of the file"},"#,
    flat_properties!(),
    r#"},"required":["name"],"additionalProperties":false}"#
);
/// Changes of a server.
const CHANGED: &str = concat!(
    r#"{"type":"object","properties":{"name":{"type":"string"},"revision":{"type":"string","description":"Required with `definition` and `yaml`"},"definition":{"type":"object"},"yaml":{"type":"string"},"#,
    flat_properties!(),
    r#"},"required":["name"],"additionalProperties":false}"#
);

async fn create(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::named(DefinitionKind::Server, arguments)?;
    if !flat::is_flat(arguments)? {
        return definition::create(gateway, which, arguments).await;
    }
    let Flat { text, ignored } = flat::new(&which, arguments)?;
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let written = gateway.files.create(&which, &text)?;
        gateway.take_in();
        let message = format!("MCP server '{}' was created successfully", which.name());
        Ok(json!({
            "name": which.name(), "file": written.file, "revision": written.revision, "message": message,
            "ignored": ignored,
        }))
    })
    .await
}

async fn update(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Server, arguments)?;
    if !flat::is_flat(arguments)? {
        return definition::update(gateway, which, arguments).await;
    }
    let wanted = text(arguments, "revision")?;
    let (gateway, arguments) = (definition::writing(gateway)?, arguments.clone());
    blocking(move || {
        let known = gateway.loaded();
        let known = known.servers.keys().map(ServerName::as_str);
        let before = gateway.files.read(&which)?.ok_or_else(|| definition::unknown("server", which.name(), known))?;
        let value = before.value(&which).unwrap_or_default();
        let Flat { text, ignored } = flat::changed(&which, value, &arguments)?;
        let text = before.amended(&which, &text);
        // What was read is what is replaced, no matter who else writes meanwhile.
        let revision = wanted.unwrap_or(before.revision);
        let written = gateway.files.replace(&which, &text, &revision)?;
        gateway.take_in();
        let message = format!("MCP server '{}' was updated successfully", which.name());
        Ok(json!({
            "name": which.name(), "file": written.file, "revision": written.revision, "message": message,
            "ignored": ignored,
        }))
    })
    .await
}

/// In muster's form what is wrong is an error; in ours it is the answer.
async fn validate(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::named(DefinitionKind::Server, arguments)?;
    if !flat::is_flat(arguments)? {
        return definition::validate(gateway, which, arguments).await;
    }
    let Flat { text, ignored } = flat::new(&which, arguments)?;
    which.check(&text).map_err(|problems| Problem::from(toolcrib_catalog::WriteError::Bad(problems)))?;
    let message = format!("Validation successful for MCP server '{}'", which.name());
    Ok(json!({ "name": which.name(), "valid": true, "problems": [], "message": message, "ignored": ignored }))
}

fn is_in_muster(gateway: &Gateway, caller: &Caller) -> bool {
    gateway.view(caller.profile.as_str()).is_some_and(|view| view.profile.dialect == Dialect::Muster)
}

/// A server as its caller may see it.
fn info(gateway: &Gateway, caller: &Caller, scope: &Visibility, running: &ServerEntry) -> Value {
    let seen = shown::as_seen(scope, running);
    shown::stripped(shown::info(&seen, is_in_muster(gateway, caller)), scope, running)
}

fn list(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let in_muster = is_in_muster(gateway, caller);
    let shows_all = flag(arguments, "showAll")?.unwrap_or(!in_muster);
    let explains = flag(arguments, "verbose")?.unwrap_or(!in_muster);
    let (table, scope) = (gateway.path.servers.table(), gateway.visibility(caller));
    let known = table.values().filter(|running| scope.has_server(running.definition.name.as_str()));
    let (hidden, listed): (Vec<_>, Vec<_>) = known.partition(|it| !shows_all && shown::is_hidden(it));
    let (words, state, (limit, offset)) = (Words::of(arguments)?, text(arguments, "state")?, page(arguments)?);
    let states: BTreeSet<&str> = listed.iter().map(|running| running.server.status().state.as_str()).collect();
    let wanted: Vec<_> = listed
        .into_iter()
        .filter(|running| {
            let definition = &running.definition;
            words.fit(&[definition.name.as_str(), definition.title.as_deref().unwrap_or_default()])
                && state.as_deref().is_none_or(|state| state == running.server.status().state.as_str())
        })
        .collect();
    let total = wanted.len();
    let servers: Vec<Value> = wanted
        .into_iter()
        .skip(offset)
        .take(limit.unwrap_or(usize::MAX))
        .map(|running| {
            let mut server = info(gateway, caller, &scope, running);
            if let Some(members) = server.as_object_mut().filter(|_| !explains) {
                members.retain(|key, _| !matches!(key.as_str(), "error" | "lastError" | "warnings"));
            }
            server
        })
        .collect();
    let problems = &gateway.loaded().problems;
    let problems: Vec<Value> = problems.iter().filter(|_| scope.is_everything()).map(definition::problem).collect();
    let mut value = json!({ "mcpServers": servers, "total": total, "mode": "filesystem", "problems": problems });
    if limit.is_some() {
        value["states"] = states.into_iter().collect();
    }
    if !hidden.is_empty() {
        value["hiddenFailed"] = hidden.len().into();
        value["hint"] = "Servers that failed are not shown; use showAll: true to see them.".into();
    }
    Ok(value)
}

async fn get(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Server, arguments)?;
    let (table, scope) = (gateway.path.servers.table(), gateway.visibility(caller));
    if !scope.has_server(which.name()) {
        let known = table.keys().map(ServerName::as_str).filter(|name| scope.has_server(name));
        return Err(definition::unknown("server", which.name(), known));
    }
    // A caller who does not administer sees no file.
    let file = if scope.is_everything() { definition::file(gateway, &which).await? } else { None };
    let running = table.get(which.name()).map(|running| info(gateway, caller, &scope, running));
    if file.is_none() && running.is_none() {
        let known = table.keys().map(ServerName::as_str).filter(|name| scope.has_server(name));
        return Err(definition::unknown("server", which.name(), known));
    }
    let mut value = running.unwrap_or_else(|| json!({ "name": which.name() }));
    for (key, member) in file.iter().filter_map(Value::as_object).flatten() {
        value[key] = member.clone();
    }
    // What a file says of signing in is kept as it is.
    if let Some(auth) = value.pointer("/definition/auth").cloned() {
        value["auth"] = auth;
    }
    Ok(value)
}

/// The running server that the argument `name` names.
pub(super) fn running(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<ServerEntry, Problem> {
    let which: DefinitionId = definition::known(DefinitionKind::Server, arguments)?;
    let table = gateway.path.servers.table();
    let unknown = || definition::unknown("server", which.name(), table.keys().map(ServerName::as_str));
    table.get(which.name()).cloned().ok_or_else(unknown)
}

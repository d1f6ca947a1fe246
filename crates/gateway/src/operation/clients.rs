//! Clients on this machine: which there are, their servers as definitions of ours, and Toolcrib in their settings.
//! What reads and writes their files is put in at the composition root, as [`EditClients`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, Proof, Secret, ServerName};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::arguments::{flag, required, text, texts};
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, blocking, definition, row};
use crate::clients::{
    ClientEdit, EditAction, EditClients, EditReport, FoundClient, ImportAnswers, ImportCandidate, ImportQuestion,
    WantedImport,
};
use crate::gateway::Gateway;

const PROBLEMS: &[Kind] = &[
    Kind::InvalidParams,
    Kind::NotFound,
    Kind::Forbidden,
    Kind::Conflict,
    Kind::Stale,
    Kind::Definition,
    Kind::Internal,
    Kind::Unavailable,
];

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(edit(gateway, caller, arguments, EditAction::Connect))),
        Operation {
            tool: "core_client_connect",
            method: Method::Post,
            path: "/clients/{name}/connect",
            tag: "clients",
            summary: "Connect a client",
            description: "Write Toolcrib into the settings of a client on this machine, and nothing else. A copy \
                          of the file is kept. With `revision` from core_client_preview only if the file still is \
                          what the preview showed. Only with the gateway's token, at a gateway that serves this \
                          machine alone.",
            effect: Effect::Changes { idempotent: true },
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"name":{"type":"string",
    "description":"The client, such as `cursor`"},"profile":{"type":"string",
    "pattern":"^[a-z0-9][a-z0-9-]{0,63}$","description":"The client's profile; the default one without it"},
    "move":{"type":"boolean",
    "description":"Remove servers from the client that Toolcrib provides; undoing restores them"},
    "create":{"type":"boolean","description":"Create the file and its folder if missing"},
    "revision":{"type":"string","description":"As core_client_preview answered it"}},"required":["name"],
    "additionalProperties":false}"#,
            output: EDITED,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(edit(gateway, caller, arguments, EditAction::Disconnect))),
        Operation {
            tool: "core_client_disconnect",
            method: Method::Post,
            path: "/clients/{name}/disconnect",
            tag: "clients",
            summary: "Disconnect a client",
            description: "Take Toolcrib out of the settings of a client, and put back what it had taken out. What \
                          else was changed in the file since stays.",
            effect: Effect::Destroys { idempotent: true },
            problems: PROBLEMS,
            input: NAMED,
            output: EDITED,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(import(gateway, caller, arguments))),
        Operation {
            tool: "core_client_import",
            method: Method::Post,
            path: "/client-imports",
            tag: "clients",
            summary: "Import servers of clients",
            description: "Write servers of clients on this machine as definitions, by the names that \
                          core_client_import_preview answers. Their secrets go into the vault. Existing \
                          definitions stay, and clients' files are not changed. `answers` and `secrets` stand in \
                          for what the clients would ask for; secrets go into the vault.",
            effect: Effect::Changes { idempotent: true },
            creates: true,
            is_secret: true,
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"clients":{"type":"array","items":{"type":"string"},
    "description":"Whose files are read; those of all clients without it"},"servers":{"type":"array",
    "items":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"minItems":1,
    "description":"Which servers, by the names of their definitions"},"answers":{"type":"object",
    "additionalProperties":{"type":"string"},"description":"What stands in for placeholders of the clients, by the names of `questions`"},
    "secrets":{"type":"object","additionalProperties":{"type":"string"},
    "description":"The same for those that are secret"}},"required":["servers"],
    "additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"written":{"type":"array","items":{"type":"object",
    "properties":{"name":{"type":"string"},"file":{"type":"string"}},"required":["name","file"]}},
    "total":{"type":"integer"}},"required":["written","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(preview_import(gateway, caller, arguments))),
        Operation {
            tool: "core_client_import_preview",
            method: Method::Post,
            path: "/client-imports/preview",
            tag: "clients",
            summary: "Show what an import would write",
            description: "Show the servers of clients on this machine with the definitions that they would become, \
                          which are there already, and which cannot be taken and why. Nothing is written.",
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"clients":{"type":"array","items":{"type":"string"},
    "description":"Whose files are read; those of all clients without it"},"answers":{"type":"object",
    "additionalProperties":{"type":"string"},"description":"What stands in for placeholders of the clients, by the names of `questions`"}},
    "additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"servers":{"type":"array","items":{"type":"object",
    "properties":{"name":{"type":"string"},"key":{"type":"string"},"client":{"type":"string"},
    "title":{"type":"string"},"transport":{"type":"string"},"state":{"enum":["new","present","skipped"]},
    "why":{"type":"string"},"file":{"type":"string"},"text":{"type":"string"},"notes":{"type":"array",
    "items":{"type":"string"}}},"required":["name","key","client","title","transport","state","notes"]}},
    "new":{"type":"integer"},"problems":{"type":"array"},"warnings":{"type":"array"},"questions":{"type":"array",
    "items":{"type":"object","properties":{"name":{"type":"string"},"title":{"type":"string"},
    "description":{"type":"string"},"default":{"type":"string"},"secret":{"type":"boolean"}},
    "required":["name","title","secret"]}}},"required":["servers","new","problems","warnings","questions"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, _| Box::pin(list(gateway, caller))),
        Operation {
            tool: "core_client_list",
            path: "/clients",
            tag: "clients",
            summary: "List the clients on this machine",
            description: "List the clients found on this machine: their settings file, their servers, and whether \
                          Toolcrib is in it. Only with the gateway's token, at a gateway that serves this machine \
                          alone.",
            problems: PROBLEMS,
            output: r#"{"type":"object","properties":{"clients":{"type":"array","items":{"type":"object",
    "properties":{"name":{"type":"string"},"title":{"type":"string"},"path":{"type":"string"},
    "state":{"enum":["connected","not connected","no settings","read only","unreadable"]},
    "way":{"type":"string"},"servers":{"type":"array","items":{"type":"string"}},"canUndo":{"type":"boolean"},
    "reload":{"type":"string"},"problem":{"type":"string"},"hint":{"type":"string"}},"required":["name","title",
    "path","state","servers","canUndo","reload"]}},"total":{"type":"integer"}},"required":["clients","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(preview(gateway, caller, arguments))),
        Operation {
            tool: "core_client_preview",
            path: "/clients/{name}/preview",
            tag: "clients",
            summary: "Show what connecting would change",
            description: "Show what connecting a client, disconnecting it, or undoing the connection would change \
                          in its settings: the file, the lines with secrets as ****, where the copy goes. Nothing \
                          is written.",
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"name":{"type":"string",
    "description":"The client, such as `cursor`"},"action":{"enum":["connect","disconnect","undo"],
    "description":"connect without it"},"profile":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},
    "move":{"type":"boolean"},"create":{"type":"boolean"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"path":{"type":"string"},
    "difference":{"type":"string"},"isSame":{"type":"boolean"},"backups":{"type":"string"},
    "revision":{"type":"string"},"notes":{"type":"array","items":{"type":"string"}}},"required":["name","path",
    "difference","isSame","backups","revision","notes"]}"#,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(edit(gateway, caller, arguments, EditAction::Undo))),
        Operation {
            tool: "core_client_undo",
            method: Method::Post,
            path: "/clients/{name}/undo",
            tag: "clients",
            summary: "Undo the connection of a client",
            description: "Make the settings file of a client what it was before it was connected, byte for byte. \
                          Where the file was changed since, nothing is written, and both differences are shown; \
                          core_client_disconnect keeps such changes.",
            effect: Effect::Destroys { idempotent: true },
            problems: PROBLEMS,
            input: NAMED,
            output: EDITED,
            ..ROW
        },
    ),
];

const NAMED: &str = r#"{"type":"object","properties":{"name":{"type":"string",
    "description":"The client, such as `cursor`"},"revision":{"type":"string",
    "description":"As core_client_preview answered it"}},"required":["name"],"additionalProperties":false}"#;
const EDITED: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"path":{"type":"string"},
    "changed":{"type":"boolean"},"message":{"type":"string"},"backup":{"type":"string"}},"required":["name",
    "path","changed","message"]}"#;

/// The files of clients, for the holder of the gateway's token, who is the person whose files they are.
fn clients(gateway: &Gateway, caller: &Caller) -> Result<Arc<dyn EditClients>, Problem> {
    let clients = gateway.clients.clone().ok_or_else(|| {
        let message = "this gateway serves other machines too, so it does not touch clients' settings";
        Problem::new(Kind::Conflict, message).hint("Run `toolcrib connect --endpoint URL` on the client's machine.")
    })?;
    if caller.principal.identity.proof != Proof::GatewayToken {
        let message = "clients' settings belong to the person at this machine: only the gateway's token opens them";
        return Err(Problem::new(Kind::Forbidden, message)
            .hint("Run `toolcrib connect` on the client's machine, or sign in with `toolcrib ui`."));
    }
    Ok(clients)
}

async fn list(gateway: &Arc<Gateway>, caller: &Caller) -> Result<Value, Problem> {
    let clients = clients(gateway, caller)?;
    let found = blocking(move || clients.list()).await?;
    let rows: Vec<Value> = found.iter().map(shown).collect();
    Ok(json!({ "total": rows.len(), "clients": rows }))
}

fn shown(client: &FoundClient) -> Value {
    let mut row = json!({
        "name": client.name, "title": client.title, "path": client.path, "state": client.state.as_str(),
        "servers": client.servers, "canUndo": client.can_undo, "reload": client.reload,
    });
    if let Some(way) = &client.way {
        row["way"] = way.as_str().into();
    }
    if let Some(problem) = &client.problem {
        row["problem"] = problem.message.as_str().into();
        row["hint"] = problem.hint.as_deref().unwrap_or_default().into();
    }
    row
}

/// The change that the arguments ask for.
fn asked(arguments: &Raw, action: EditAction) -> Result<ClientEdit, Problem> {
    let profile = text(arguments, "profile")?.map(|name| ProfileName::new(&name)).transpose();
    let profile = profile.map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
    let is_set = |key| Ok::<_, Problem>(flag(arguments, key)?.unwrap_or_default());
    let (moves, creates) = (is_set("move")?, is_set("create")?);
    Ok(ClientEdit { client: required(arguments, "name")?, action, profile, moves, creates })
}

async fn preview(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let clients = clients(gateway, caller)?;
    let action = text(arguments, "action")?.and_then(|word| EditAction::named(&word));
    let edit = asked(arguments, action.unwrap_or(EditAction::Connect))?;
    blocking(move || {
        let shown = clients.preview(&edit)?;
        Ok(json!({
            "name": edit.client, "path": shown.path, "difference": shown.difference,
            "isSame": shown.difference.is_empty(), "backups": shown.backups, "revision": shown.revision,
            "notes": shown.notes,
        }))
    })
    .await
}

async fn edit(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw, action: EditAction) -> Result<Value, Problem> {
    let clients = clients(gateway, caller)?;
    let (edit, revision) = (asked(arguments, action)?, text(arguments, "revision")?);
    blocking(move || {
        let EditReport { path, is_changed, message, backup } = clients.write(&edit, revision.as_deref())?;
        let mut done = json!({ "name": edit.client, "path": path, "changed": is_changed, "message": message });
        if let Some(backup) = backup {
            done["backup"] = backup.into();
        }
        Ok(done)
    })
    .await
}

async fn preview_import(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let clients = clients(gateway, caller)?;
    let names = texts(arguments, "clients").unwrap_or_default();
    let answers = ImportAnswers { plain: members(arguments, "answers"), ..ImportAnswers::default() };
    let shown = blocking(move || clients.preview_import(&names, &answers)).await?;
    let new = shown.servers.iter().filter(|it| it.text.is_some()).count();
    let problems: Vec<Value> =
        shown.problems.iter().map(|it| json!({ "problem": it.message, "hint": it.hint })).collect();
    let servers: Vec<Value> = shown.servers.iter().map(candidate).collect();
    let questions: Vec<Value> = shown.questions.iter().map(question).collect();
    Ok(json!({
        "servers": servers, "new": new, "problems": problems, "warnings": shown.warnings, "questions": questions,
    }))
}

/// The texts of an argument that is an object of texts.
fn members(arguments: &Raw, key: &str) -> BTreeMap<String, String> {
    let value = arguments.get(key).map(|value| value.to_value()).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

fn question(question: &ImportQuestion) -> Value {
    let mut row = json!({ "name": question.name, "title": question.title, "secret": question.is_secret });
    for (key, text) in [("description", &question.description), ("default", &question.default)] {
        if let Some(text) = text {
            row[key] = text.as_str().into();
        }
    }
    row
}

fn candidate(server: &ImportCandidate) -> Value {
    let mut row = json!({
        "name": server.name, "key": server.key, "client": server.client, "title": server.title,
        "transport": server.transport, "state": server.state.as_str(), "notes": server.notes,
    });
    if let Some(why) = &server.why {
        row["why"] = why.as_str().into();
    }
    if let Some(text) = &server.text {
        row["file"] = format!("servers/{}.yaml", server.name).into();
        row["text"] = text.as_str().into();
    }
    row
}

async fn import(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let clients = clients(gateway, caller)?;
    let names = texts(arguments, "clients").unwrap_or_default();
    let servers = texts(arguments, "servers").unwrap_or_default();
    let name =
        |text: &String| ServerName::new(text).map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()));
    let servers = servers.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    let secret = members(arguments, "secrets").into_iter().filter(|(_, value)| !value.is_empty());
    let secret = secret.map(|(name, value)| (name, Secret::new(value))).collect();
    let answers = ImportAnswers { plain: members(arguments, "answers"), secret };
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let wanted = WantedImport { clients: &names, servers: &servers, answers: &answers };
        let written = clients.import(&wanted, &gateway.files)?;
        gateway.take_in();
        let written: Vec<Value> = written.iter().map(|it| json!({ "name": it.name, "file": it.file })).collect();
        Ok(json!({ "total": written.len(), "written": written }))
    })
    .await
}

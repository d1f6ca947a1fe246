//! The profiles: their definitions, and what they show.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::DefinitionKind;
use toolcrib_protocol::Raw;
use toolcrib_view::view::View;
use toolcrib_view::{Effect, Method, Operation};

use super::servers::{NAMED, VALIDATE, VALIDATED, WRITTEN};
use super::{ROW, Row, Run, definition, row};
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| {
            Box::pin(async {
                definition::create(gateway, definition::named(DefinitionKind::Profile, arguments)?, arguments).await
            })
        }),
        Operation {
            tool: "core_profile_create",
            method: Method::Post,
            path: "/profiles",
            tag: "profiles",
            summary: "Add a profile",
            description: "Write the definition of a new profile, `profiles/<name>.yaml`, and take it in. Give it as a value or as YAML.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            problems: &[Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"definition":{"type":"object","description":"The definition, such as {\"servers\":[\"*\"],\"exposure\":\"direct\"}"},"yaml":{"type":"string","description":"The text of the file"}},"required":["name"],"oneOf":[{"required":["definition"]},{"required":["yaml"]}],"additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| {
            Box::pin(async {
                definition::delete(gateway, definition::known(DefinitionKind::Profile, arguments)?, arguments).await
            })
        }),
        Operation {
            tool: "core_profile_delete",
            method: Method::Delete,
            path: "/profiles/{name}",
            tag: "profiles",
            summary: "Remove a profile",
            description: "Remove the file of a profile. Without a file the built-in `default` is there again.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"revision":{"type":"string","description":"Only if the file still has this revision"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"file":{"type":"string"},"deleted":{"const":true}},"required":["name","file","deleted"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(get(gateway, arguments))),
        Operation {
            tool: "core_profile_get",
            path: "/profiles/{name}",
            tag: "profiles",
            summary: "Show a profile",
            description: "Show one profile: what it shows, and its definition with its revision.",
            problems: &[Kind::NotFound, Kind::Definition],
            input: NAMED,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"url":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"},"definition":{"type":["object","null"]},"problems":{"type":"array"}},"required":["name"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(std::future::ready(Ok(list(gateway))))),
        Operation {
            tool: "core_profile_list",
            path: "/profiles",
            tag: "profiles",
            summary: "List the profiles",
            description: "List the profiles with what they show.",
            output: r#"{"type":"object","properties":{"profiles":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"exposure":{"type":"string"},"dialect":{"type":"string"},"servers":{"type":"integer"},"tools":{"type":"integer"},"url":{"type":"string"}},"required":["name","exposure","dialect","servers","tools","url"]}},"total":{"type":"integer"}},"required":["profiles","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| {
            Box::pin(async {
                definition::update(gateway, definition::known(DefinitionKind::Profile, arguments)?, arguments).await
            })
        }),
        Operation {
            tool: "core_profile_update",
            method: Method::Put,
            path: "/profiles/{name}",
            tag: "profiles",
            summary: "Replace the definition of a profile",
            description: "Replace the whole definition of a profile. `revision` is the one that core_profile_get showed; a file that has changed since is left alone.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"revision":{"type":"string"},"definition":{"type":"object"},"yaml":{"type":"string"}},"required":["name","revision"],"oneOf":[{"required":["definition"]},{"required":["yaml"]}],"additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| {
            Box::pin(async {
                let which = definition::named(DefinitionKind::Profile, arguments)?;
                definition::validate(gateway, which, arguments).await
            })
        }),
        Operation {
            tool: "core_profile_validate",
            method: Method::Post,
            path: "/validate/profile",
            tag: "profiles",
            summary: "Check the definition of a profile",
            description: "Validate the definition of a profile, with places and hints, without writing it.",
            input: VALIDATE,
            output: VALIDATED,
            ..ROW
        },
    ),
];

fn list(gateway: &Arc<Gateway>) -> Value {
    let views = gateway.views();
    let profiles: Vec<Value> = views.values().map(|view| shown(view)).collect();
    json!({ "profiles": profiles, "total": profiles.len() })
}

async fn get(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let file = definition::file(gateway, &which).await?;
    let views = gateway.views();
    let view = views.get(which.name()).map(|view| shown(view));
    if file.is_none() && view.is_none() {
        return Err(definition::unknown_profile(gateway, which.name()));
    }
    let mut value = view.unwrap_or_else(|| json!({ "name": which.name() }));
    for (key, member) in file.iter().filter_map(Value::as_object).flatten() {
        value[key] = member.clone();
    }
    Ok(value)
}

fn shown(view: &View) -> Value {
    let profile = &view.profile;
    let name = profile.name.as_str();
    let url = if name == "default" { "/mcp".to_owned() } else { format!("/mcp/p/{name}") };
    let mut value = json!({
        "name": name, "title": profile.title,
        "exposure": view.declared.as_str(), "dialect": profile.dialect.as_str(),
        "servers": view.servers.len(), "tools": view.tools.len(), "url": url,
    });
    if view.declared != profile.exposure {
        value["exposureNow"] = profile.exposure.as_str().into();
    }
    value
}

//! A profile in one file: made from the definitions here, or taken over from others. Neither holds a secret.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, ServerName};
use toolcrib_catalog::{
    Bundle, Change, DefinitionFile, DefinitionId, DefinitionKind, DefinitionProblem, Need, SecretRef, WriteError,
    says_the_same,
};
use toolcrib_protocol::Raw;
use toolcrib_view::{Effect, Method, Operation};

use super::servers::NAMED;
use super::{ROW, Row, Run, blocking, definition, row};
use crate::gateway::Gateway;
use toolcrib_view::arguments::{flag, required};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(export(gateway, arguments))),
        Operation {
            tool: "core_profile_export",
            path: "/export/profile/{name}",
            tag: "profiles",
            summary: "Export a profile as a bundle",
            description: "Give a profile, the servers that it shows and the registry entries that it needs as one \
                          YAML text without secrets and keys. `needs` lists the secrets that the importing user needs.",
            problems: &[Kind::NotFound, Kind::Definition],
            input: NAMED,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"bundle":{"type":"string","description":"The text of the file"},"servers":{"type":"array","items":{"type":"string"}},"registry":{"type":"array","items":{"type":"string"}},"needs":{"type":"array","items":{"type":"object"}}},"required":["name","bundle","servers","registry","needs"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(import(gateway, arguments))),
        Operation {
            tool: "core_profile_import",
            method: Method::Post,
            path: "/import/profile",
            tag: "profiles",
            summary: "Import a profile from a bundle",
            description: "Write the definitions of a bundle, all of them or none, and take them in. Its servers run commands: look at it first with `dry_run`, which writes nothing. What is there already and says something else is only replaced with `replace`. `references` says where the secrets are that it needs, by the `id` of each need, such as {\"github/GITHUB_TOKEN\":\"env:GITHUB_TOKEN\"}; without a word on it a need keeps the reference of the bundle.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::Conflict, Kind::Stale, Kind::Definition],
            input: r#"{"type":"object","properties":{"bundle":{"type":"string","description":"The text of the file"},"dry_run":{"type":"boolean"},"replace":{"type":"boolean"},"references":{"type":"object","additionalProperties":{"type":"string"}}},"required":["bundle"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"written":{"type":"boolean"},"changes":{"type":"array","items":{"type":"object","properties":{"kind":{"enum":["entry","server","profile"]},"name":{"type":"string"},"file":{"type":"string"},"change":{"enum":["new","same","different"]},"definition":{"type":"object"}},"required":["kind","name","file","change","definition"]}},"needs":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"variable":{"type":"string"},"reference":{"type":"string"},"vault_name":{"type":"string"}},"required":["id","variable","reference","vault_name"]}}},"required":["name","written","changes","needs"]}"#,
            ..ROW
        },
    ),
];

/// What problems call the text that was given.
const FILE: &str = "bundle";

/// What becomes of one definition.
struct ImportItem {
    which: DefinitionId,
    value: Value,
    there: Option<DefinitionFile>,
    is_same: bool,
}

async fn export(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let DefinitionId::Profile(name) = definition::known(DefinitionKind::Profile, arguments)? else {
        return Err(Problem::new(Kind::InvalidParams, "expected the name of a profile"));
    };
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let loaded = gateway.loaded();
        let Some(profile) = loaded.profiles.get(&name) else {
            return Err(definition::unknown("profile", name.as_str(), loaded.profiles.keys().map(ProfileName::as_str)));
        };
        let shows = |server: &ServerName| profile.servers.iter().any(|glob| glob.matches(server.as_str()));
        let mut servers = Vec::new();
        for server in loaded.servers.keys().filter(|server| shows(server)) {
            // One that is gone in this moment is in no bundle.
            if let Some(written) = gateway.files.read(&DefinitionId::Server(server.clone()))? {
                servers.push((server.clone(), written));
            }
        }
        let written = gateway.files.read(&DefinitionId::Profile(name.clone()))?;
        let bundle = Bundle::of(&name, written.as_ref(), &servers, &loaded)?;
        let of_kind = |kind: DefinitionKind| -> Vec<String> {
            let all = bundle.definitions();
            all.iter().filter(|(which, _)| which.kind() == kind).map(|(which, _)| which.name().to_owned()).collect()
        };
        Ok(json!({
            "name": name.as_str(), "bundle": bundle.to_yaml()?, "servers": of_kind(DefinitionKind::Server),
            "registry": of_kind(DefinitionKind::Entry), "needs": needs(&bundle),
        }))
    })
    .await
}

async fn import(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let text = required(arguments, "bundle")?;
    let is_dry = flag(arguments, "dry_run")?.unwrap_or(false);
    let replaces = flag(arguments, "replace")?.unwrap_or(false);
    let references = references(arguments)?;
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let mut bundle = Bundle::read(Path::new(FILE), &text).map_err(|problems| wrong(&problems))?;
        bundle.refer(&references)?;
        let planned = plan(&gateway, &bundle)?;
        let different = |it: &&ImportItem| it.there.is_some() && !it.is_same;
        let conflicts: Vec<String> =
            planned.iter().filter(different).map(|it| format!("{} `{}`", it.which.kind(), it.which.name())).collect();
        if !is_dry && !replaces && !conflicts.is_empty() {
            let message = format!("there already, with another definition: {}", conflicts.join(", "));
            let hint =
                "Nothing was written. Rename yours, or replace them (`replace`, on the command line `--replace`).";
            return Err(Problem::new(Kind::Conflict, message).hint(hint));
        }
        if !is_dry {
            let changes: Vec<Change> = planned.iter().filter(|it| !it.is_same).map(ImportItem::change).collect();
            gateway.files.put_all(&changes)?;
            gateway.take_in();
        }
        let changes: Vec<Value> = planned.iter().map(|planned| planned.shown(&gateway)).collect();
        Ok(json!({
            "name": bundle.name().as_str(), "written": !is_dry, "changes": changes, "needs": needs(&bundle),
        }))
    })
    .await
}

/// Where the caller says that the secrets are.
fn references(arguments: &Raw) -> Result<BTreeMap<String, SecretRef>, Problem> {
    let given = arguments.to_value();
    let given = given["references"].as_object().into_iter().flatten();
    let read = |(id, text): (&String, &Value)| match text.as_str().unwrap_or_default().parse() {
        Ok(reference) => Ok((id.clone(), reference)),
        Err(error) => Err(Problem::new(Kind::InvalidParams, format!("`references.{id}`: {error}"))),
    };
    given.map(read).collect()
}

/// What the bundle changes here; each definition is checked as the file that it will be.
fn plan(gateway: &Gateway, bundle: &Bundle) -> Result<Vec<ImportItem>, Problem> {
    let planned = bundle.definitions().into_iter().map(|(which, mut value)| {
        let there = gateway.files.read(&which)?;
        let now = there.as_ref().and_then(|written| written.value(&which));
        // Anyone who replaces a profile does not open it.
        if let (DefinitionId::Profile(_), Some(keys)) = (&which, now.as_ref().and_then(|now| now.get("keys"))) {
            value["keys"] = keys.clone();
        }
        let is_same = now.is_some_and(|now| says_the_same(&which, &now, &value));
        which.check(&which.text_of(&value)).map_err(WriteError::Bad)?;
        Ok(ImportItem { which, value, there, is_same })
    });
    planned.collect()
}

impl ImportItem {
    fn change(&self) -> Change {
        Change {
            which: self.which.clone(),
            text: self.which.text_of(&self.value),
            revision: self.there.as_ref().map(|there| there.revision.clone()),
        }
    }

    fn shown(&self, gateway: &Gateway) -> Value {
        let change = match (&self.there, self.is_same) {
            (None, _) => "new",
            (Some(_), true) => "same",
            (Some(_), false) => "different",
        };
        let mut definition = self.value.clone();
        if let Some(members) = definition.as_object_mut() {
            members.shift_remove("keys");
        }
        let file = self.there.as_ref().map_or_else(|| self.which.new_file(), |there| there.file.clone());
        let mut shown = json!({
            "kind": self.which.kind().as_str(), "name": self.which.name(), "file": file, "change": change,
            "definition": definition,
        });
        if let DefinitionId::Entry(name) = &self.which
            && let Some(hidden) =
                gateway.loaded().registry.get(name).filter(|it| it.origin.to_string() != file.to_string_lossy())
        {
            shown["hides"] = hidden.origin.to_string().into();
        }
        shown
    }
}

fn needs(bundle: &Bundle) -> Vec<Value> {
    let need = |need: &Need| {
        let mut value = need.to_value();
        value["id"] = need.id().into();
        value["vault_name"] = need.vault_name(bundle.name()).into();
        value
    };
    bundle.needs.iter().map(need).collect()
}

fn wrong(problems: &[DefinitionProblem]) -> Problem {
    let line = |problem: &DefinitionProblem| match &problem.hint {
        Some(hint) => format!("{problem}\n  hint: {hint}"),
        None => problem.to_string(),
    };
    Problem::new(Kind::Definition, problems.iter().map(line).collect::<Vec<_>>().join("\n"))
}

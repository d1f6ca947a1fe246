//! The registry: which entries there are, what each needs, and a server made of one.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_catalog::{
    Answers, AuthorizationKind, Available, Catalog, DefinitionId, DefinitionKind, RegistryEntry, SecretRef,
    SecretRefError,
};
use toolcrib_protocol::Raw;
use toolcrib_view::{Effect, Method, Operation};

use super::servers::{NAMED, VALIDATE, VALIDATED, WRITTEN};
use super::{ROW, Row, Run, blocking, definition, row};
use crate::gateway::Gateway;
use crate::vault::KeptSecret;
use toolcrib_view::arguments::{required, text};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(add(gateway, arguments))),
        Operation {
            tool: "core_registry_add",
            method: Method::Post,
            path: "/registry/{name}/add",
            tag: "registry",
            summary: "Make a server of an entry",
            description: "Write `servers/<name>.yaml` from an entry of the registry and take it in. A secret is given in `values` as a reference such as vault:NAME or env:NAME, or in `secrets` as itself: then it goes into the vault, for this server alone, and the definition refers to it. A definition that is there already stays as it is.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            is_secret: true,
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$","description":"The entry"},"server":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$","description":"The server's name; the entry's without it"},"values":{"type":"object","additionalProperties":{"type":"string"},"description":"The entry's variables: references for secrets, texts or references for others"},"secrets":{"type":"object","additionalProperties":{"type":"string"},"description":"Secrets themselves, by variable; never shown, logged or recorded"}},"required":["name"],"additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(get(gateway, arguments)))),
        Operation {
            tool: "core_registry_get",
            path: "/registry/{name}",
            tag: "registry",
            summary: "Show an entry",
            description: "Show an entry of the registry: what it is, where it comes from, how it runs, and which \
                          values it requires, with patterns and where to get keys. Values that may be secrets are \
                          shown as ****.",
            problems: &[Kind::NotFound],
            input: NAMED,
            output: ENTRY,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(std::future::ready(list(gateway, arguments)))),
        Operation {
            tool: "core_registry_list",
            path: "/registry",
            tag: "registry",
            summary: "List the entries of the registry",
            description: "List what could become a server, with where each entry comes from, what it hides, what it needs and whether a server of its name is configured.",
            input: r#"{"type":"object","properties":{"query":{"type":"string","description":"Words that name, title, description or tags have"},"category":{"type":"string"},"tag":{"type":"string"}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"entries":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"source":{"enum":["official","community","enterprise","local","custom"]},"origin":{"type":"string"},"shadows":{"type":"array","items":{"type":"string"}},"needs":{"type":"array","items":{"type":"string"}},"configured":{"type":"boolean"}},"required":["name","source","origin","shadows","needs","configured"]}},"total":{"type":"integer"},"problems":{"type":"array"}},"required":["entries","total","problems"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|_, arguments| Box::pin(std::future::ready(validate(arguments)))),
        Operation {
            tool: "core_registry_validate",
            method: Method::Post,
            path: "/validate/entry",
            tag: "registry",
            summary: "Check an entry of the registry",
            description: "Validate an entry of the registry, including missing information, with places and hints, \
                          without writing it.",
            input: VALIDATE,
            output: VALIDATED,
            ..ROW
        },
    ),
];

const ENTRY: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"source":{"type":"string"},"origin":{"type":"string"},"shadows":{"type":"array","items":{"type":"string"}},"needs":{"type":"array","items":{"type":"string"}},"configured":{"type":"boolean"},"authorization":{"type":"object","properties":{"type":{"type":"string"},"help_url":{"type":"string"},"variables":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"secret":{"type":"boolean"},"required":{"type":"boolean"}},"required":["name","secret","required"]}}},"required":["type","variables"]},"runtime":{"type":"object"}},"required":["name","source","origin","shadows","needs","configured","authorization"]}"#;

fn list(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (category, tag) = (text(arguments, "category")?, text(arguments, "tag")?);
    let query = text(arguments, "query")?.unwrap_or_default().to_lowercase();
    let is_wanted = |entry: &RegistryEntry| {
        let labels = [entry.title.as_deref(), entry.description.as_deref(), entry.category.as_deref()];
        let texts = labels.into_iter().flatten().chain(entry.tags.iter().map(String::as_str));
        let all = texts.fold(entry.name.to_string(), |all, text| all + "\n" + &text.to_lowercase());
        category.as_ref().is_none_or(|category| entry.category.as_ref() == Some(category))
            && tag.as_ref().is_none_or(|tag| entry.tags.contains(tag))
            && query.split_whitespace().all(|word| all.contains(word))
    };
    let loaded = gateway.loaded();
    let wanted = loaded.registry.values().filter(|available| is_wanted(&available.entry));
    let entries: Vec<Value> = wanted
        .map(|available| {
            let entry = &available.entry;
            let mut row = json!({
                "name": entry.name, "title": entry.title, "description": entry.description,
                "category": entry.category, "tags": entry.tags,
            });
            stand(&loaded, available, &mut row);
            row
        })
        .collect();
    let problems = loaded.problems.iter().filter(|problem| problem.file.starts_with("registry"));
    let problems: Vec<Value> = problems.map(definition::problem).collect();
    Ok(json!({ "total": entries.len(), "entries": entries, "problems": problems }))
}

fn get(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let loaded = gateway.loaded();
    let available = find(&loaded, &required(arguments, "name")?)?;
    let authorization = &available.entry.authorization;
    let mut value = available.entry.to_shown_value();
    // All of it, also what has a default: the caller wants to know what is required.
    if !value["authorization"].is_object() {
        value["authorization"] = json!({ "type": authorization.kind.as_str() });
    }
    let variables = authorization.variables.iter().map(|variable| {
        json!({
            "name": variable.name, "title": variable.title, "description": variable.description,
            "help_url": variable.help_url.as_ref().or(authorization.help_url.as_ref()).map(toolcrib_catalog::Link::as_str),
            "pattern": variable.pattern.as_ref().map(toolcrib_catalog::Pattern::as_str),
            "secret": variable.secret, "required": variable.required, "default": variable.default,
            "options": variable.options, "header": variable.header,
        })
    });
    value["authorization"]["variables"] = variables.collect();
    stand(&loaded, available, &mut value);
    Ok(value)
}

/// Where an entry comes from, what it hides, what it wants, and whether there is such a server.
fn stand(loaded: &Catalog, available: &Available, row: &mut Value) {
    let entry = &available.entry;
    let required = entry.authorization.variables.iter().filter(|variable| variable.required);
    let mut needs: Vec<&str> = required.map(|variable| variable.name.as_str()).collect();
    if entry.authorization.kind == AuthorizationKind::OAuth2 && needs.is_empty() {
        needs.push("login");
    }
    row["source"] = entry.source.as_str().into();
    row["origin"] = available.origin.to_string().into();
    row["shadows"] = available.shadows.iter().map(ToString::to_string).collect();
    row["needs"] = needs.into();
    row["configured"] = loaded.servers.contains_key(&entry.name).into();
}

fn find<'a>(loaded: &'a Catalog, name: &str) -> Result<&'a Arc<Available>, Problem> {
    let unknown = || definition::unknown("entry", name, loaded.registry.keys().map(ServerName::as_str));
    loaded.registry.get(name).ok_or_else(unknown)
}

async fn add(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let loaded = gateway.loaded();
    let available = find(&loaded, &required(arguments, "name")?)?;
    let mut answers = Answers { name: text(arguments, "server")?, values: values(arguments)? };
    let kept = secrets(arguments, &available.entry, &mut answers)?;
    let configured = available.entry.to_definition(&answers).map_err(|error| Problem::from(&error))?;
    let gateway = definition::writing(gateway)?;
    let vault = if kept.is_empty() { None } else { Some(super::secrets::vault(&gateway)?) };
    blocking(move || {
        let which = DefinitionId::Server(configured.name.clone());
        let written = gateway.files.create(&which, &configured.text)?;
        for (entry, value) in kept {
            let secret = KeptSecret {
                name: entry,
                servers: vec![configured.name.clone()],
                profiles: Vec::new(),
                set_at: String::new(),
            };
            let set = vault.as_ref().map_or(Ok(false), |vault| vault.set(&secret, &value));
            if let Err(problem) = set {
                // A server without its secret is not what was asked for.
                let _ = gateway.files.remove(&which, Some(&written.revision));
                return Err(problem);
            }
        }
        gateway.take_in();
        Ok(json!({ "name": configured.name, "file": written.file, "revision": written.revision }))
    })
    .await
}

/// The secrets that are given themselves, under the names of their entries in the vault, which the answers refer to.
fn secrets(arguments: &Raw, entry: &RegistryEntry, answers: &mut Answers) -> Result<Vec<(String, Secret)>, Problem> {
    let given = arguments.get("secrets").map(|values| values.to_value());
    let server = answers.name.clone().unwrap_or_else(|| entry.name.to_string());
    let mut kept = Vec::new();
    for (name, value) in given.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let variable = entry.authorization.variables.iter().find(|variable| variable.name == *name);
        if variable.and_then(|variable| variable.pattern.as_ref()).is_some_and(|pattern| !pattern.matches(value)) {
            // It is not repeated: it is a secret.
            return Err(Problem::new(Kind::InvalidParams, format!("the value of `{name}` does not fit its pattern"))
                .hint(format!("see what it looks like with `toolcrib registry show {}`", entry.name)));
        }
        let word = name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let in_vault = format!("{server}-{word}");
        answers.values.insert(name.clone(), SecretRef::Vault(in_vault.clone()));
        kept.push((in_vault, Secret::new(value)));
    }
    Ok(kept)
}

/// The answers to the entry's questions. What is wrong with one is told without it: it may be a secret.
fn values(arguments: &Raw) -> Result<std::collections::BTreeMap<String, SecretRef>, Problem> {
    let given = arguments.get("values").map(|values| values.to_value());
    let members = given.as_ref().and_then(Value::as_object).into_iter().flatten();
    members
        .map(|(name, value)| {
            let value = value.as_str().unwrap_or_default().parse();
            let value = value.map_err(|error: SecretRefError| Problem::new(Kind::InvalidParams, error.to_string()))?;
            Ok((name.clone(), value))
        })
        .collect()
}

fn validate(arguments: &Raw) -> Result<Value, Problem> {
    let entry = definition::named(DefinitionKind::Entry, arguments)?;
    let found = entry.findings(&definition::given(&entry, arguments)?);
    let values = |findings: &[_]| findings.iter().map(definition::problem).collect::<Vec<Value>>();
    Ok(json!({
        "name": entry.name(), "valid": found.problems.is_empty(), "problems": values(&found.problems),
        "warnings": values(&found.warnings),
    }))
}

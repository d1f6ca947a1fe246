//! The secrets of the vault: names and who may use them, never their values.
//!
//! The vault itself is put in at the composition root, as [`KeepSecrets`].

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, Secret, ServerName};
use toolcrib_protocol::Raw;
use toolcrib_view::{Effect, Method, Operation};

use super::{ROW, Row, Run, blocking, row};
use crate::gateway::Gateway;
use crate::vault::{KeepSecrets, KeptSecret};
use toolcrib_view::arguments::{required, texts};

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(delete(gateway, arguments))),
        Operation {
            tool: "core_secret_delete",
            method: Method::Delete,
            path: "/secrets/{name}",
            tag: "secrets",
            summary: "Remove a secret",
            description: "Remove a secret from the vault. Servers whose definitions refer to it are restarted and say what they miss.",
            effect: Effect::Destroys { idempotent: true },
            problems: PROBLEMS,
            input: r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"deleted":{"const":true}},"required":["name","deleted"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, _| Box::pin(list(gateway))),
        Operation {
            tool: "core_secret_list",
            path: "/secrets",
            tag: "secrets",
            summary: "List the secrets",
            description: "List the secrets of the vault: names and who may use them, never their values.",
            problems: PROBLEMS,
            output: r#"{"type":"object","properties":{"secrets":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"servers":{"type":"array","items":{"type":"string"}},"profiles":{"type":"array","items":{"type":"string"}},"set_at":{"type":"string"}},"required":["name","servers","profiles","set_at"]}},"total":{"type":"integer"}},"required":["secrets","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(set(gateway, arguments))),
        Operation {
            tool: "core_secret_set",
            method: Method::Put,
            path: "/secrets/{name}",
            tag: "secrets",
            summary: "Set a secret",
            description: "Set a secret of the vault, encrypted at rest. Definitions refer to it as vault:NAME; servers that do are restarted. The value is never shown, logged or recorded.",
            effect: Effect::Destroys { idempotent: true },
            problems: PROBLEMS,
            is_secret: true,
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"},"servers":{"type":"array","items":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"description":"Only these servers may use it; every server without it"},"profiles":{"type":"array","items":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$"},"description":"Only through these profiles it may be used; every profile without it"}},"required":["name","value"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"reference":{"type":"string"},"replaced":{"type":"boolean"}},"required":["name","reference","replaced"]}"#,
            ..ROW
        },
    ),
];

const PROBLEMS: &[Kind] =
    &[Kind::InvalidParams, Kind::NotFound, Kind::Forbidden, Kind::Conflict, Kind::TooLarge, Kind::Busy, Kind::Internal];

async fn list(gateway: &Arc<Gateway>) -> Result<Value, Problem> {
    let vault = vault(gateway)?;
    let secrets: Vec<Value> = blocking(move || vault.list()).await?.iter().map(shown).collect();
    Ok(json!({ "secrets": secrets, "total": secrets.len() }))
}

async fn set(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let vault = vault(gateway)?;
    let name = required(arguments, "name")?;
    let servers = names(arguments, "servers", ServerName::new)?;
    let profiles = names(arguments, "profiles", ProfileName::new)?;
    let value = Secret::new(arguments.text("value").unwrap_or_default());
    let secret = KeptSecret { name, servers, profiles, set_at: String::new() };
    blocking(move || {
        let replaced = vault.set(&secret, &value)?;
        Ok(json!({ "name": secret.name, "reference": format!("vault:{}", secret.name), "replaced": replaced }))
    })
    .await
}

/// A new value of an entry that is the secret of a server.
#[derive(Debug)]
pub struct SecretRotation<'a> {
    /// The entry of the vault.
    pub entry: &'a str,
    /// The server that has it alone, where the entry is new.
    pub server: &'a ServerName,
    /// The value.
    pub value: Secret,
}

impl Gateway {
    /// The names of the entries of the vault.
    ///
    /// # Errors
    /// There is no vault, or it cannot be read.
    pub async fn secret_names(&self) -> Result<Vec<String>, Problem> {
        let vault = vault(self)?;
        blocking(move || Ok(vault.list()?.into_iter().map(|entry| entry.name).collect())).await
    }

    /// Puts another value into an entry of the vault, which stays with those who may use it; a new one is its server's
    /// alone. Servers that have it are restarted. Gives whether there was one before.
    ///
    /// # Errors
    /// There is no vault, it cannot be written, or its entry is not for this server.
    pub async fn rotate_secret(self: &Arc<Self>, rotation: SecretRotation<'_>) -> Result<bool, Problem> {
        let SecretRotation { entry, server, value } = rotation;
        let (gateway, vault, entry, server) = (Arc::clone(self), vault(self)?, entry.to_owned(), server.clone());
        blocking(move || {
            let known = vault.list()?.into_iter().find(|kept| kept.name == entry);
            let is_closed = known.as_ref().is_some_and(|it| !it.servers.is_empty() && !it.servers.contains(&server));
            if is_closed {
                let message = format!("the secret `{entry}` is not for the server `{server}`");
                let hint = format!("set it with `toolcrib secret set {entry} --server {server}`, or name another one");
                return Err(Problem::new(Kind::Forbidden, message).hint(hint));
            }
            let new = KeptSecret { name: entry, servers: vec![server], profiles: Vec::new(), set_at: String::new() };
            let replaced = vault.set(&known.unwrap_or(new), &value)?;
            gateway.renew_secrets();
            Ok(replaced)
        })
        .await
    }
}

async fn delete(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let (vault, name) = (vault(gateway)?, required(arguments, "name")?);
    blocking(move || {
        vault.remove(&name)?;
        Ok(json!({ "name": name, "deleted": true }))
    })
    .await
}

pub(super) fn vault(gateway: &Gateway) -> Result<Arc<dyn KeepSecrets>, Problem> {
    gateway.vault.clone().ok_or_else(|| Problem::new(Kind::Conflict, "this gateway has no vault"))
}

fn shown(secret: &KeptSecret) -> Value {
    json!({
        "name": secret.name, "set_at": secret.set_at,
        "servers": secret.servers.iter().map(ServerName::as_str).collect::<Vec<_>>(),
        "profiles": secret.profiles.iter().map(ProfileName::as_str).collect::<Vec<_>>(),
    })
}

/// A list of names; none when it is left out. An empty one would come to mean everything, so it is refused.
fn names<N>(
    arguments: &Raw,
    key: &str,
    new: impl Fn(&str) -> Result<N, toolcrib_base::id::IdError>,
) -> Result<Vec<N>, Problem> {
    if arguments.get(key).is_none() {
        return Ok(Vec::new());
    }
    let wrong = |why: String| Problem::new(Kind::InvalidParams, format!("`{key}`: {why}"));
    let texts = texts(arguments, key).ok_or_else(|| wrong("expected names, or nothing for all".to_owned()))?;
    texts.iter().map(|text| new(text).map_err(|error| wrong(error.to_string()))).collect()
}

//! `[identity.server]`: our own authorization server, and the clients that need no registration there.

use toml::Value;
use toolcrib_base::{Kind, Problem, ProfileName, Role};
use toolcrib_catalog::SecretRef;

use super::{Part, ROLES};

pub(super) const KEYS: [&str; 3] = ["registration", "assertions", "client"];
const CLIENT_KEYS: [&str; 8] = ["id", "name", "redirect_uris", "client_secret", "jwks", "role", "profiles", "exchange"];

/// Our own authorization server.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ServerConfig {
    /// Whether clients may register themselves.
    pub(crate) registration: bool,
    /// The names of the issuers whose statements about their users are taken.
    pub(crate) assertions: Vec<String>,
    /// Clients that need no registration.
    pub(crate) clients: Vec<ClientConfig>,
}

/// A client of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientConfig {
    /// `client_id`.
    pub(crate) id: String,
    /// What people read.
    pub(crate) name: String,
    /// Where its answers may go.
    pub(crate) redirects: Vec<String>,
    /// Where its secret is.
    pub(crate) secret: Option<SecretRef>,
    /// Its public keys, if it signs instead.
    pub(crate) keys: Option<serde_json::Value>,
    /// What it may do in its own name.
    pub(crate) grant: Option<(Role, Vec<ProfileName>)>,
    /// Whether it may exchange tokens of people.
    pub(crate) exchanges: bool,
}

/// Reads the table.
pub(super) fn read(part: &Part<'_>) -> Result<ServerConfig, Problem> {
    let clients = part.parts("client", &CLIENT_KEYS)?;
    let clients = clients.iter().map(client).collect::<Result<Vec<_>, _>>()?;
    for (at, one) in clients.iter().enumerate() {
        if clients[..at].iter().any(|other| other.id == one.id) {
            let message = format!("{}: `{}.client[{at}].id`: another client has the same one", part.place, part.name);
            return Err(Problem::new(Kind::Definition, message).hint("give each client an id of its own"));
        }
    }
    Ok(ServerConfig { registration: switch(part, "registration")?, assertions: part.texts("assertions")?, clients })
}

fn client(part: &Part<'_>) -> Result<ClientConfig, Problem> {
    let id = part.required("id")?.to_owned();
    if id.len() > 255 || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(part.wrong("id", "an id of at most 255 letters and digits, without blanks"));
    }
    let keys = part.text("jwks")?.map(|text| {
        let read = serde_json::from_str::<serde_json::Value>(text).ok().filter(|keys| keys.get("keys").is_some());
        read.ok_or_else(|| part.wrong("jwks", "a set of public keys as JSON: `{\"keys\": [...]}`"))
    });
    let role = part.text("role")?.map(|role| role.parse().map_err(|_| part.wrong("role", ROLES))).transpose()?;
    let profiles = part.texts("profiles")?.iter().map(|name| ProfileName::new(name)).collect::<Result<Vec<_>, _>>();
    let profiles = profiles.map_err(|_| part.wrong("profiles", "names of profiles"))?;
    let secret = part.text("client_secret")?.map(|text| part.secret("client_secret", text)).transpose()?;
    let (keys, redirects) = (keys.transpose()?, part.texts("redirect_uris")?);
    if redirects.is_empty() && role.is_none() && !switch(part, "exchange")? {
        return Err(part.wrong("redirect_uris", "where its answers go, or a `role` for what it does in its own name"));
    }
    Ok(ClientConfig {
        name: part.text("name")?.unwrap_or(&id).to_owned(),
        redirects,
        secret,
        keys,
        grant: role.map(|role| (role, profiles)),
        exchanges: switch(part, "exchange")?,
        id,
    })
}

fn switch(part: &Part<'_>, key: &str) -> Result<bool, Problem> {
    match part.table.get(key) {
        None => Ok(false),
        Some(Value::Boolean(value)) => Ok(*value),
        Some(_) => Err(part.wrong(key, "`true` or `false`")),
    }
}

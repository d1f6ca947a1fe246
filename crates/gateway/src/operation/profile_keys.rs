//! The keys that open a profile: make, list, change over and revoke them. A key is answered once, to who asked for it, and
//! kept nowhere; the profile's file has its hash.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Role, Secret, Timestamp};
use toolcrib_catalog::{
    DefinitionFile, DefinitionId, DefinitionKind, GatewayKey, KeyName, ProfileDefinition, WriteError, day_of, edit,
    key_expiry, user_named,
};
use toolcrib_protocol::Raw;
use toolcrib_view::arguments::{flag, required, text};
use toolcrib_view::{Effect, Method, Operation};

use super::servers::NAMED;
use super::{ROW, Row, Run, blocking, definition, row};
use crate::gateway::Gateway;

const MADE: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"keyName":{"type":"string"},
    "key":{"type":"string","description":"The key. It is shown this once and kept nowhere"},
    "principal":{"type":"string"},"role":{"type":"string"},"expires":{"type":["string","null"]},
    "url":{"type":"string"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","keyName","key",
    "principal","role","expires","url","file","revision"]}"#;
const EXPIRES: &str = "expected a date such as `2027-01-31`, a time, or a period such as `90d`, still to come";

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(add(gateway, arguments))),
        Operation {
            tool: "core_profile_key_add",
            method: Method::Post,
            path: "/profiles/{name}/keys",
            tag: "profiles",
            summary: "Create a key of a profile",
            description: "Create a key that opens a profile, and answer it: once, it is kept nowhere. With its first \
                          key the profile requires one.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The profile"},
    "key":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,63}$","description":"The name of the key, such as `laptop`"},
    "role":{"enum":["viewer","member","operator","admin"],"default":"member"},"expires":{"type":"string",
    "description":"A date, a time, or a period such as `90d`; without it the key lasts until it is revoked"},
    "user":{"type":"string","description":"Whose key it is, such as `user:acme/ann`"}},"required":["name","key"],
    "additionalProperties":false}"#,
            output: MADE,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(list(gateway, arguments))),
        Operation {
            tool: "core_profile_key_list",
            path: "/profiles/{name}/keys",
            tag: "profiles",
            summary: "List the keys of a profile",
            description: "List the keys of a profile: their names, roles and ends, never the keys themselves.",
            problems: &[Kind::NotFound, Kind::Definition],
            input: NAMED,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"takesKey":{"type":"boolean",
    "description":"Whether the profile requires a key"},"keys":{"type":"array","items":{"type":"object","properties":{
    "key":{"type":"string"},"principal":{"type":"string"},"role":{"type":"string"},
    "created":{"type":["string","null"]},"expires":{"type":["string","null"]},"lasts":{"type":"boolean"},
    "user":{"type":["string","null"]}},"required":["key","principal","role","lasts"]}},"total":{"type":"integer"}},
    "required":["name","takesKey","keys","total"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(revoke(gateway, arguments))),
        Operation {
            tool: "core_profile_key_revoke",
            method: Method::Delete,
            path: "/profiles/{name}/keys/{key}",
            tag: "profiles",
            summary: "Revoke a key of a profile",
            description: "Revoke the keys of a name, or all of them but the newest. The profile still requires a \
                          key, also when none is left.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The profile"},
    "key":{"type":"string","description":"The name of the key"},"old":{"type":"boolean","default":false,
    "description":"All but the newest of this name"}},"required":["name","key"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"key":{"type":"string"},
    "revoked":{"type":"integer"},"file":{"type":"string"},"revision":{"type":"string"}},"required":["name","key",
    "revoked","file","revision"]}"#,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(rotate(gateway, arguments))),
        Operation {
            tool: "core_profile_key_rotate",
            method: Method::Post,
            path: "/profiles/{name}/keys/{key}/rotate",
            tag: "profiles",
            summary: "Change a key of a profile over",
            description: "Create a second key of the same name, role and user, so that clients can change over, and \
                          answer it once. `keep` says how long the older one still counts; without it until it is \
                          revoked.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The profile"},
    "key":{"type":"string","description":"The name of the key"},"keep":{"type":"string",
    "description":"Such as `24h` or `7d`"}},"required":["name","key"],"additionalProperties":false}"#,
            output: MADE,
            ..ROW
        },
    ),
];

/// The file of a profile and the profile itself.
struct KeyRing {
    which: DefinitionId,
    name: ProfileName,
    /// None for the built-in profile, which has no file until it gets a key.
    there: Option<DefinitionFile>,
    text: String,
    profile: ProfileDefinition,
}

// === impl KeyRing ===

impl KeyRing {
    fn open(gateway: &Gateway, which: DefinitionId) -> Result<Self, Problem> {
        let DefinitionId::Profile(name) = which.clone() else {
            return Err(Problem::new(Kind::InvalidParams, "expected the name of a profile"));
        };
        let there = gateway.files.read(&which)?;
        if there.is_none() && name != ProfileDefinition::built_in().name {
            return Err(definition::unknown_profile(gateway, name.as_str()));
        }
        let text = there.as_ref().map_or_else(|| format!("name: {name}\n"), |there| there.text().to_owned());
        let profile = edit::read_profile(&which.new_file(), name.as_str(), &text)
            .map_err(|problems| Problem::from(WriteError::Bad(problems)))?;
        Ok(Self { which, name, there, text, profile })
    }

    /// The keys of a name, the newest last.
    fn named(&self, key: &KeyName) -> Vec<&GatewayKey> {
        self.profile.keys.iter().flatten().filter(|it| it.name == *key).collect()
    }

    fn no_key(&self, key: &KeyName) -> Problem {
        let known = self.profile.keys.iter().flatten().map(|it| it.name.as_str());
        definition::unknown(&format!("key of profile `{}`", self.name), key.as_str(), known)
    }

    fn file(&self) -> &Path {
        self.there.as_ref().map_or(Path::new(""), |there| &there.file)
    }

    fn put(&self, gateway: &Arc<Gateway>, text: Result<String, edit::KeyEditError>) -> Result<DefinitionFile, Problem> {
        let text = text.map_err(|error| {
            Problem::new(Kind::Definition, format!("cannot edit profile `{}`: {error}", self.name))
                .hint("Write each key on its own line; nothing was changed.")
        })?;
        let written = match &self.there {
            Some(there) => gateway.files.replace(&self.which, &text, &there.revision)?,
            None => gateway.files.create(&self.which, &text)?,
        };
        gateway.take_in();
        Ok(written)
    }

    /// Writes a new key, and answers it.
    fn add(&self, gateway: &Arc<Gateway>, text: &str, secret: &Secret, key: &GatewayKey) -> Result<Value, Problem> {
        let written = self.put(gateway, edit::add_key(self.file(), self.name.as_str(), text, key))?;
        let profile = self.name.as_str();
        let url = if profile == "default" { "/mcp".to_owned() } else { format!("/mcp/p/{profile}") };
        Ok(json!({
            "name": profile, "keyName": key.name.as_str(), "key": secret.expose(), "principal": principal(profile, key),
            "role": key.role.as_str(), "expires": key.expires.map(|it| it.to_string()), "url": url,
            "file": written.file, "revision": written.revision,
        }))
    }
}

fn principal(profile: &str, key: &GatewayKey) -> String {
    format!("key:{profile}/{}", key.name)
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidParams, message)
}

fn key_named(arguments: &Raw) -> Result<KeyName, Problem> {
    let name = required(arguments, "key")?;
    KeyName::new(&name).ok_or_else(|| {
        invalid("`key` must have at most 64 characters of a-z, 0-9 and `-`, the first not `-`")
            .hint("It is the key's name, not the key.")
    })
}

/// A moment to come that an argument names.
fn moment(arguments: &Raw, argument: &str, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    let given = text(arguments, argument)?.filter(|text| !text.is_empty());
    given.map(|text| key_expiry(&text, now).ok_or_else(|| invalid(format!("`{argument}`: {EXPIRES}")))).transpose()
}

async fn add(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let now = gateway.path.clock.now();
    let (key, expires) = (key_named(arguments)?, moment(arguments, "expires", now)?);
    let role = text(arguments, "role")?.unwrap_or_else(|| Role::Member.to_string());
    let role: Role = role.parse().map_err(|error| invalid(format!("role `{role}` is unknown: {error}")))?;
    let user = text(arguments, "user")?.filter(|user| !user.is_empty());
    let wrong_user = || invalid("`user`: expected a user such as `user:acme/ann`, without spaces");
    let user: Option<PrincipalId> = user.map(|user| user_named(&user).ok_or_else(wrong_user)).transpose()?;
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let ring = KeyRing::open(&gateway, which)?;
        if !ring.named(&key).is_empty() {
            return Err(Problem::new(Kind::Conflict, format!("key `{key}` already exists"))
                .hint("Choose another name, or change it over with `core_profile_key_rotate`."));
        }
        let (secret, made) = GatewayKey::generate(key, Some(day_of(now)));
        ring.add(&gateway, &ring.text, &secret, &GatewayKey { role, expires, user, ..made })
    })
    .await
}

async fn list(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let ring = KeyRing::open(&gateway, which)?;
        let now = gateway.path.clock.now();
        let keys = ring.profile.keys.iter().flatten().map(|key| {
            json!({
                "key": key.name.as_str(), "principal": principal(ring.name.as_str(), key), "role": key.role.as_str(),
                "created": key.created, "expires": key.expires.map(|it| it.to_string()), "lasts": key.lasts(now),
                "user": key.user.as_ref().map(PrincipalId::as_str),
            })
        });
        let keys: Vec<Value> = keys.collect();
        let total = keys.len();
        Ok(json!({
            "name": ring.name.as_str(), "takesKey": ring.profile.keys.is_some(), "keys": keys, "total": total,
        }))
    })
    .await
}

async fn revoke(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let (key, old) = (key_named(arguments)?, flag(arguments, "old")?.unwrap_or(false));
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let ring = KeyRing::open(&gateway, which)?;
        let given = ring.named(&key);
        let newest = given.last().ok_or_else(|| ring.no_key(&key))?.hash;
        let goes = |it: &GatewayKey| it.name == key && !(old && it.hash == newest);
        let count = given.iter().filter(|it| goes(it)).count();
        if count == 0 {
            let message = format!("profile `{}` has one key `{key}`, and it is the newest", ring.name);
            return Err(Problem::new(Kind::Conflict, message).hint("Revoke it without `old`, or rotate it first."));
        }
        let written = ring.put(&gateway, edit::remove_keys(ring.file(), ring.name.as_str(), &ring.text, goes))?;
        Ok(json!({
            "name": ring.name.as_str(), "key": key.as_str(), "revoked": count, "file": written.file,
            "revision": written.revision,
        }))
    })
    .await
}

async fn rotate(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let now = gateway.path.clock.now();
    let (key, keep) = (key_named(arguments)?, moment(arguments, "keep", now)?);
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let ring = KeyRing::open(&gateway, which)?;
        let given = ring.named(&key);
        let lasting = given.iter().filter(|it| it.lasts(now)).count();
        let newest = *given.last().ok_or_else(|| ring.no_key(&key))?;
        if lasting > 1 {
            return Err(Problem::new(Kind::Conflict, format!("there are already {lasting} keys `{key}`"))
                .hint("Revoke the older one first."));
        }
        let text = match keep {
            Some(end) => edit::expire_keys(ring.file(), ring.name.as_str(), &ring.text, &key, end)
                .map_err(|error| Problem::new(Kind::Definition, error.to_string()))?,
            None => ring.text.clone(),
        };
        let (secret, key) = newest.successor(now);
        ring.add(&gateway, &text, &secret, &key)
    })
    .await
}

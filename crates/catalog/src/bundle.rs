//! A profile in one file, to be given to others: the profile, its servers, the registry entries that it needs, and which
//! secrets are missing. It holds none of them, and no gateway keys. Text in, text out; nothing is read or written here.

mod protect;
mod read;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ProfileName, ServerName};

use crate::catalog::Catalog;
use crate::definition_id::DefinitionId;
use crate::endpoint::{Endpoint, Link};
use crate::entry::RegistryEntry;
use crate::problem::DefinitionProblem;
use crate::registry::{Available, Origin};
use crate::secret::SecretRef;
use crate::write::DefinitionFile;
use crate::yaml;

/// The form of bundles that is written and read.
const FORM: u32 = 1;
/// The largest bundle, in bytes.
pub const BUNDLE_BYTES: usize = 1024 * 1024;
/// How many servers, and how many entries, a bundle may hold.
const MOST: usize = 500;
/// A bundle whose definitions are right.
#[derive(Debug, Clone)]
pub struct Bundle {
    profile: (ProfileName, Value),
    servers: Vec<(ServerName, Value)>,
    registry: Vec<(ServerName, Value)>,
    /// The secrets that its definitions refer to.
    pub needs: Vec<Need>,
}

/// A secret that a definition refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The server whose definition it is; `None` is the profile.
    pub server: Option<ServerName>,
    /// The variable, the header, or `url`; of several references in one address `url-2` and so on.
    pub variable: String,
    pub place: NeedPlace,
    pub reference: SecretRef,
    /// What people call it, and where to get it, where someone said so.
    pub title: Option<String>,
    pub help_url: Option<Link>,
}

/// Where in a definition a secret is referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedPlace {
    /// A variable of the environment.
    Variable,
    /// A header.
    Header,
    /// The address, in the path or the query.
    Address,
}

/// Why there is no bundle of a profile.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("`{}` is wrong: {}", .0.name(), .1.first().map(ToString::to_string).unwrap_or_default())]
    Wrong(DefinitionId, Vec<DefinitionProblem>),
    #[error("`{place}` of {} looks like a secret; bundles must not contain secrets", named(.which))]
    Secret { which: DefinitionId, place: String },
    #[error("the bundle would have {0}")]
    TooLarge(String),
}

fn named(which: &DefinitionId) -> String {
    format!("{} `{}`", which.kind().noun(), which.name())
}

impl From<BundleError> for Problem {
    fn from(error: BundleError) -> Self {
        let text = error.to_string();
        match error {
            BundleError::Wrong(_, problems) => {
                let hint = problems.into_iter().find_map(|problem| problem.hint);
                Problem { kind: Kind::Definition, message: text, hint }
            }
            BundleError::Secret { place, .. } if place == "url" => Problem::new(Kind::Definition, text)
                .hint("write it as a reference in its place, such as `${vault:key}` or `${env:KEY}`, or use `headers`"),
            BundleError::Secret { .. } => Problem::new(Kind::Definition, text)
                .hint("move it into `env` or `headers`, as a reference such as `env:KEY` or `vault:key`"),
            BundleError::TooLarge(_) => {
                Problem::new(Kind::TooLarge, text).hint("name fewer servers in the profile's `servers`")
            }
        }
    }
}

// === impl NeedPlace ===

impl NeedPlace {
    const ALL: [Self; 3] = [Self::Variable, Self::Header, Self::Address];

    /// Its word in a bundle.
    fn as_str(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::Header => "header",
            Self::Address => "url",
        }
    }
}

// === impl Need ===

impl Need {
    /// How it is named among others: `server/VARIABLE`, or `VARIABLE` of the profile.
    pub fn id(&self) -> String {
        match &self.server {
            Some(server) => format!("{server}/{}", self.variable),
            None => self.variable.clone(),
        }
    }

    /// Where the vault would keep it for a profile.
    pub fn vault_name(&self, profile: &ProfileName) -> String {
        format!("{profile}/{}", self.id())
    }

    /// As a value, as it stands in a bundle.
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        if let Some(server) = &self.server {
            members.insert("server".to_owned(), server.as_str().into());
        }
        members.insert("variable".to_owned(), self.variable.as_str().into());
        members.insert("kind".to_owned(), self.place.as_str().into());
        members.insert("reference".to_owned(), self.reference.to_string().into());
        if let Some(title) = &self.title {
            members.insert("title".to_owned(), title.as_str().into());
        }
        if let Some(link) = &self.help_url {
            members.insert("help_url".to_owned(), link.as_str().into());
        }
        Value::Object(members)
    }

    /// Adds what the registry's entry of its server knows.
    fn learn(&mut self, registry: &BTreeMap<ServerName, std::sync::Arc<Available>>) {
        let Some(entry) = self.server.as_ref().and_then(|server| registry.get(server)).map(|it| &it.entry) else {
            return;
        };
        let authorization = &entry.authorization;
        let (is_variable, is_header) = (self.place == NeedPlace::Variable, self.place == NeedPlace::Header);
        let is_it = |header: &String| is_header && header.eq_ignore_ascii_case(&self.variable);
        let variable = authorization
            .variables
            .iter()
            .find(|it| (is_variable && it.name == self.variable) || it.header.as_ref().is_some_and(is_it));
        self.title = variable.and_then(|variable| variable.title.clone());
        let own = variable.and_then(|variable| variable.help_url.clone());
        self.help_url = own.or_else(|| authorization.help_url.clone());
    }
}

// === impl Bundle ===

impl Bundle {
    /// Makes the bundle of a profile from the files of its definitions. What looks like a secret in `env` and `headers`
    /// becomes a reference to the vault; anywhere else it is refused.
    ///
    /// # Errors
    /// A file is wrong, holds a secret in the wrong place, or there is too much.
    pub fn of(
        name: &ProfileName,
        written: Option<&DefinitionFile>,
        servers: &[(ServerName, DefinitionFile)],
        loaded: &Catalog,
    ) -> Result<Self, BundleError> {
        let which = DefinitionId::Profile(name.clone());
        let mut own = match written {
            Some(written) => definition(&which, written)?,
            None => json!({ "name": name.as_str() }),
        };
        let mut needs = protect::definition(&which, name, &mut own)?;
        let mut all = Vec::new();
        for (server, written) in servers {
            let which = DefinitionId::Server(server.clone());
            let mut value = definition(&which, written)?;
            let mut of_server = protect::definition(&which, name, &mut value)?;
            of_server.iter_mut().for_each(|need| need.learn(&loaded.registry));
            needs.extend(of_server);
            all.push((server.clone(), value));
        }
        let read = loaded.profiles.get(name);
        let is_wanted = |entry: &RegistryEntry| {
            read.is_some_and(|profile| profile.registry.iter().any(|glob| glob.matches(entry.name.as_str())))
                || servers.iter().any(|(server, _)| *server == entry.name)
        };
        let custom = loaded.registry.values().filter(|it| it.origin != Origin::BuiltIn && is_wanted(&it.entry));
        let mut registry = Vec::new();
        for available in custom {
            let which = DefinitionId::Entry(available.entry.name.clone());
            let mut value = available.entry.to_value();
            forget(&which, &mut value);
            protect::definition(&which, name, &mut value)?;
            registry.push((available.entry.name.clone(), value));
        }
        if all.len() > MOST || registry.len() > MOST {
            return Err(BundleError::TooLarge(format!("more than {MOST} servers or entries")));
        }
        Ok(Self { profile: (name.clone(), own), servers: all, registry, needs })
    }

    /// Reads the text of a bundle; `file` is what problems call it.
    ///
    /// # Errors
    /// Everything that is wrong with it, with its place.
    pub fn read(file: &Path, text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        read::bundle(file, text)
    }

    /// The text of the file.
    ///
    /// # Errors
    /// It would be too large to be read again.
    pub fn to_yaml(&self) -> Result<String, BundleError> {
        let values = |all: &[(ServerName, Value)]| all.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        let mut members = Map::new();
        members.insert("bundle".to_owned(), FORM.into());
        members.insert("profile".to_owned(), self.profile.1.clone());
        members.insert("servers".to_owned(), values(&self.servers).into());
        members.insert("registry".to_owned(), values(&self.registry).into());
        members.insert("needs".to_owned(), self.needs.iter().map(Need::to_value).collect());
        members.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
        let body = yaml::render(&Value::Object(members));
        let text = format!(
            "# The profile `{}` of Toolcrib with its servers, without secrets: `toolcrib profile import FILE`.\n{body}",
            self.profile.0
        );
        if text.len() > BUNDLE_BYTES {
            return Err(BundleError::TooLarge(format!("more than {BUNDLE_BYTES} bytes")));
        }
        Ok(text)
    }

    /// The name of the profile.
    pub fn name(&self) -> &ProfileName {
        &self.profile.0
    }

    /// All definitions as they are to be written: what others need first, the profile last.
    pub fn definitions(&self) -> Vec<(DefinitionId, Value)> {
        let registry = self.registry.iter().map(|(name, value)| (DefinitionId::Entry(name.clone()), value.clone()));
        let servers = self.servers.iter().map(|(name, value)| (DefinitionId::Server(name.clone()), value.clone()));
        let profile = (DefinitionId::Profile(self.profile.0.clone()), self.profile.1.clone());
        registry.chain(servers).chain([profile]).collect()
    }

    /// Puts other references in the place of those that the bundle names; keys as [`Need::id`].
    ///
    /// # Errors
    /// A key that is no need of this bundle, or a plain text, which would lie in a file.
    pub fn refer(&mut self, references: &BTreeMap<String, SecretRef>) -> Result<(), Problem> {
        let mut in_addresses: BTreeMap<ServerName, Vec<(SecretRef, SecretRef)>> = BTreeMap::new();
        for (id, reference) in references {
            let Some(need) = self.needs.iter_mut().find(|need| need.id() == *id) else {
                let known: Vec<String> = self.needs.iter().map(|need| format!("`{}`", need.id())).collect();
                let problem = Problem::new(Kind::InvalidParams, format!("the bundle needs no secret `{id}`"));
                let hint = if known.is_empty() {
                    "it needs none".to_owned()
                } else {
                    format!("it needs {}", known.join(", "))
                };
                return Err(problem.hint(hint));
            };
            if matches!(reference, SecretRef::Literal(_)) {
                let message = format!("the value of `{id}` is plain text and would lie in a file");
                let hint = "give a reference such as `env:KEY` or `vault:key`";
                return Err(Problem::new(Kind::InvalidParams, message).hint(hint));
            }
            let before = std::mem::replace(&mut need.reference, reference.clone());
            let value = match &need.server {
                None => Some(&mut self.profile.1),
                Some(server) => self.servers.iter_mut().find(|(name, _)| name == server).map(|(_, value)| value),
            };
            let key = match (need.place, &need.server) {
                (NeedPlace::Address, Some(server)) => {
                    in_addresses.entry(server.clone()).or_default().push((before, reference.clone()));
                    continue;
                }
                (NeedPlace::Header, _) => "headers",
                (NeedPlace::Variable | NeedPlace::Address, _) => "env",
            };
            if let Some(place) = value.and_then(|value| value.get_mut(key)?.get_mut(&need.variable)) {
                *place = reference.to_string().into();
            }
        }
        for (name, value) in &mut self.servers {
            let Some(changes) = in_addresses.get(name) else { continue };
            // All in one step: one may be what another was.
            let other =
                |reference: &SecretRef| changes.iter().find(|(before, _)| before == reference).map(|(_, it)| it);
            if let Some((place, address)) = value.get_mut("url").and_then(|url| Some((address(url)?, url))) {
                let referred = place.refer(other).map_err(|error| {
                    Problem::new(Kind::InvalidParams, format!("the address of server `{name}`: {error}"))
                        .hint("give a reference without braces, such as `vault:key`")
                })?;
                *address = referred.expose().into();
            }
        }
        Ok(())
    }
}

/// The address of a server's definition.
fn address(url: &Value) -> Option<Endpoint> {
    url.as_str()?.parse().ok()
}

/// Whether two values of a definition say the same, as far as bundles say anything.
pub fn says_the_same(which: &DefinitionId, one: &Value, other: &Value) -> bool {
    let comparable = |value: &Value| {
        let mut value = value.clone();
        forget(which, &mut value);
        value
    };
    comparable(one) == comparable(other)
}

/// Takes out what is in no bundle.
fn forget(which: &DefinitionId, value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        which.kind().row().local.iter().for_each(|key| drop(members.shift_remove(*key)));
    }
}

/// What a file says, if it is right.
fn definition(which: &DefinitionId, written: &DefinitionFile) -> Result<Value, BundleError> {
    which.check(written.text()).map_err(|problems| BundleError::Wrong(which.clone(), problems))?;
    let mut value = written.value(which).unwrap_or_default();
    forget(which, &mut value);
    Ok(value)
}

/// What a definition refers to in `env`, `headers` and its address.
fn needs_of(which: &DefinitionId, value: &Value) -> Vec<Need> {
    let server = match which {
        DefinitionId::Server(name) => Some(name.clone()),
        DefinitionId::Profile(_) => None,
        // An entry refers to nothing; the person who configures it does. Other kinds are in no bundle.
        _ => return Vec::new(),
    };
    let mut needs = Vec::new();
    let mut add = |variable: String, place, reference| {
        needs.push(Need { server: server.clone(), variable, place, reference, title: None, help_url: None });
    };
    for (key, place) in [("env", NeedPlace::Variable), ("headers", NeedPlace::Header)] {
        for (variable, value) in value.get(key).and_then(Value::as_object).into_iter().flatten() {
            if let Some(reference) = value.as_str().and_then(reference) {
                add(variable.clone(), place, reference);
            }
        }
    }
    let mut in_address: Vec<SecretRef> = Vec::new();
    for reference in value.get("url").and_then(address).iter().flat_map(Endpoint::references) {
        if !in_address.contains(&reference) {
            in_address.push(reference);
        }
    }
    for (index, reference) in in_address.into_iter().enumerate() {
        let variable = if index == 0 { "url".to_owned() } else { format!("url-{}", index + 1) };
        add(variable, NeedPlace::Address, reference);
    }
    needs
}

/// The reference that a text is, if it is one that somebody here must fill; `user:` is filled by each caller.
fn reference(text: &str) -> Option<SecretRef> {
    text.parse().ok().filter(SecretRef::is_shared_secret)
}

#[cfg(test)]
mod tests;

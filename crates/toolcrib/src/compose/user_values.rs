//! Values of headers that each owner has of its own (`user:NAME` in a definition): which servers want which, and what
//! was given, read once from the store and sealed with the vault's key there.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_auth::{KeyPreference, Sealer, Vault};
use toolcrib_base::nearest::nearest;
use toolcrib_base::{Kind, PrincipalId, Problem, Secret, ServerName};
use toolcrib_call::UserValue;
use toolcrib_catalog::{Catalog, Transport};
use toolcrib_login::Owner;
use toolcrib_store::Store;
use toolcrib_upstream::{NoCredential, Proof};

use crate::secrets;

/// How many values are kept in memory; beyond that all are read again when they are needed.
const KNOWN: usize = 65_536;
/// The longest value, in bytes: servers take hardly more than that of all headers together.
const VALUE_BYTES: usize = 8 * 1024;

/// The values of all owners. Clones are the same values.
#[derive(Clone)]
pub(super) struct UserValues(Arc<Inner>);

struct Inner {
    rows: toolcrib_store::UserValues,
    vault: Vault,
    /// The headers of servers that have some.
    wanted: RwLock<BTreeMap<ServerName, Arc<[WantedHeader]>>>,
    /// What was read, by owner and name; `None` where there is no such value.
    known: Mutex<HashMap<(Owner, String), Option<HeaderValue>>>,
}

/// A header of a server, and the name of the value that it takes.
struct WantedHeader {
    header: HeaderName,
    value: String,
}

/// What the headers of a server are for an owner.
enum Lookup {
    Found(HeaderMap),
    Missing,
    /// Some must be read.
    Unread,
}

impl fmt::Debug for UserValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserValues").finish_non_exhaustive()
    }
}

// === impl UserValues ===

impl UserValues {
    pub(super) fn new(store: &Store, vault: Vault) -> Self {
        let inner = Inner { rows: store.user_values(), vault, wanted: RwLock::default(), known: Mutex::default() };
        Self(Arc::new(inner))
    }

    /// Takes what definitions want from now on.
    pub(super) fn define(&self, catalog: &Catalog) {
        let wanted = catalog.servers.values().filter_map(|server| {
            let (Transport::Http(remote) | Transport::Sse(remote)) = &server.transport else { return None };
            // Its reader has checked the header's name.
            let headers = remote
                .user_headers()
                .filter_map(|it| Some(WantedHeader { header: it.header.parse().ok()?, value: it.value.to_owned() }));
            let headers: Arc<[WantedHeader]> = headers.collect();
            (!headers.is_empty()).then(|| (server.name.clone(), headers))
        });
        *self.0.wanted.write().unwrap_or_else(PoisonError::into_inner) = wanted.collect();
    }

    /// Whether a server has such headers.
    pub(super) fn has(&self, server: &ServerName) -> bool {
        self.wanted(server).is_some()
    }

    /// The headers of a request: those that are at hand already, and those of the owner's values.
    pub(super) fn add<'a>(&self, proof: Proof<'a>, server: &ServerName, owner: impl FnOnce() -> Owner) -> Proof<'a> {
        let Some(wanted) = self.wanted(server) else { return proof };
        let owner = owner();
        match self.lookup(&wanted, &owner) {
            Lookup::Missing => Proof::Awaited(Box::pin(std::future::ready(Err(NoCredential::NeedsLogin)))),
            Lookup::Found(own) => match proof {
                Proof::Known(mut headers) => {
                    headers.extend(own);
                    Proof::Known(headers)
                }
                Proof::Awaited(awaited) => Proof::Awaited(Box::pin(async move {
                    let mut headers = awaited.await?;
                    headers.extend(own);
                    Ok(headers)
                })),
            },
            Lookup::Unread => {
                let values = self.clone();
                Proof::Awaited(Box::pin(async move {
                    let mut headers = match proof {
                        Proof::Known(headers) => headers,
                        Proof::Awaited(awaited) => awaited.await?,
                    };
                    let read = tokio::task::spawn_blocking(move || values.read(&wanted, &owner)).await;
                    let own = read.map_err(|error| NoCredential::Unavailable(error.to_string()))?;
                    match own.map_err(|problem| NoCredential::Unavailable(problem.to_string()))? {
                        Lookup::Found(own) => headers.extend(own),
                        Lookup::Missing | Lookup::Unread => return Err(NoCredential::NeedsLogin),
                    }
                    Ok(headers)
                }))
            }
        }
    }

    /// The names of the values that an owner has not given to a server. Blocks.
    pub(super) fn missing(&self, server: &ServerName, owner: &Owner) -> Result<Vec<String>, Problem> {
        let mut missing = Vec::new();
        for wanted in self.wanted(server).iter().flat_map(|wanted| wanted.iter()) {
            if self.value(owner, &wanted.value)?.is_none() && !missing.contains(&wanted.value) {
                missing.push(wanted.value.clone());
            }
        }
        Ok(missing)
    }

    /// Keeps values of an owner for a server, all or, where one is wrong, none. Blocks.
    pub(super) fn put(&self, server: &ServerName, owner: &Owner, values: &[UserValue]) -> Result<(), Problem> {
        let wanted = self.wanted(server);
        let names: Vec<&str> = wanted.iter().flat_map(|it| it.iter()).map(|it| it.value.as_str()).collect();
        let mut checked = Vec::new();
        for UserValue { name, value } in values {
            if !names.contains(&name.as_str()) {
                let shown: String = name.chars().take(100).collect();
                let problem =
                    Problem::new(Kind::InvalidParams, format!("server `{server}` has no header of `user:{shown}`"));
                return Err(match nearest(name, names.iter().copied()) {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem.hint(format!("see `headers` in `servers/{server}.yaml`")),
                });
            }
            checked.push(header_value(name, value.expose())?);
        }
        for (UserValue { name, value }, header) in values.iter().zip(checked) {
            let sealer = self.0.vault.sealer(KeyPreference::Keyring).map_err(|error| secrets::problem(&error))?;
            let sealed = sealer.seal(value.expose().as_bytes(), &row(owner, name));
            self.0.rows.put(&PrincipalId::new(owner.as_str()), name, &sealed)?;
            self.note(owner, name, Some(header));
        }
        Ok(())
    }

    /// Deletes the values of an owner that only this server wants; whether there was one. Blocks.
    pub(super) fn forget(&self, server: &ServerName, owner: &Owner) -> Result<bool, Problem> {
        let is_shared = |name: &str| {
            let all = self.0.wanted.read().unwrap_or_else(PoisonError::into_inner);
            all.iter().any(|(other, wanted)| other != server && wanted.iter().any(|it| it.value == name))
        };
        let mut had_one = false;
        for wanted in self.wanted(server).iter().flat_map(|wanted| wanted.iter()) {
            if !is_shared(&wanted.value) {
                had_one |= self.0.rows.remove(&PrincipalId::new(owner.as_str()), &wanted.value)?;
                self.note(owner, &wanted.value, None);
            }
        }
        Ok(had_one)
    }

    fn wanted(&self, server: &ServerName) -> Option<Arc<[WantedHeader]>> {
        self.0.wanted.read().unwrap_or_else(PoisonError::into_inner).get(server).cloned()
    }

    fn lookup(&self, wanted: &[WantedHeader], owner: &Owner) -> Lookup {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut headers = HeaderMap::with_capacity(wanted.len());
        for WantedHeader { header, value } in wanted {
            match known.get(&(owner.clone(), value.clone())) {
                Some(Some(found)) => drop(headers.insert(header.clone(), found.clone())),
                Some(None) => return Lookup::Missing,
                None => return Lookup::Unread,
            }
        }
        Lookup::Found(headers)
    }

    fn read(&self, wanted: &[WantedHeader], owner: &Owner) -> Result<Lookup, Problem> {
        let mut headers = HeaderMap::with_capacity(wanted.len());
        for WantedHeader { header, value } in wanted {
            match self.value(owner, value)? {
                Some(found) => drop(headers.insert(header.clone(), found)),
                None => return Ok(Lookup::Missing),
            }
        }
        Ok(Lookup::Found(headers))
    }

    /// One value; `None` where there is none that can be opened.
    fn value(&self, owner: &Owner, name: &str) -> Result<Option<HeaderValue>, Problem> {
        let known =
            self.0.known.lock().unwrap_or_else(PoisonError::into_inner).get(&(owner.clone(), name.to_owned())).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let sealed = self.0.rows.get(&PrincipalId::new(owner.as_str()), name)?;
        let value = match sealed {
            None => None,
            Some(sealed) => {
                let sealer = self.0.vault.existing_sealer().map_err(|error| secrets::problem(&error))?;
                let text = opened(sealer.as_ref(), &sealed, &row(owner, name));
                text.and_then(|text| header_value(name, text.expose()).ok())
            }
        };
        self.note(owner, name, value.clone());
        Ok(value)
    }

    fn note(&self, owner: &Owner, name: &str, value: Option<HeaderValue>) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert((owner.clone(), name.to_owned()), value);
    }
}

/// What a sealed value is. One that the key does not open is as good as none: its owner gives it again.
fn opened(sealer: Option<&Sealer>, sealed: &[u8], row: &[&str]) -> Option<Secret> {
    let name = row.join(" ");
    let Some(sealer) = sealer else {
        tracing::warn!(row = name, "a value cannot be read: the vault with its key is gone");
        return None;
    };
    match sealer.open(sealed, row) {
        Ok(text) => std::str::from_utf8(&text).ok().map(Secret::new),
        Err(error) => {
            tracing::warn!(row = name, "a value cannot be read: {error} ({})", error.hint());
            None
        }
    }
}

fn row<'a>(owner: &'a Owner, name: &'a str) -> [&'a str; 3] {
    ["user_value", owner.as_str(), name]
}

/// A value as a header that nobody prints.
fn header_value(name: &str, value: &str) -> Result<HeaderValue, Problem> {
    let wrong = |what: &str| {
        Problem::new(Kind::InvalidParams, format!("the value of `user:{name}` {what}"))
            .hint(format!("give one line of 1 to {VALUE_BYTES} bytes"))
    };
    if value.trim().is_empty() {
        return Err(wrong("is empty"));
    }
    if value.len() > VALUE_BYTES {
        return Err(wrong("is too long"));
    }
    let mut header = HeaderValue::from_str(value).map_err(|_| wrong("cannot stand in a header"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests;

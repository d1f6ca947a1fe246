//! What profiles add to the environment of their servers: resolved at the first call that needs it, kept until the
//! profile or a secret changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::{Kind, Problem, ProfileName, ServerName};
use toolcrib_catalog::{ProfileDefinition, ResolveSecret, SecretRef, SecretUser, Transport};
use toolcrib_upstream::Environment;
use toolcrib_view::ServerTable;

/// The environments that are in use, by profile and server.
#[derive(Debug)]
pub struct Environments {
    known: Mutex<HashMap<(ProfileName, ServerName), KnownEnvironment>>,
    secrets: Arc<dyn ResolveSecret>,
}

/// One of them, and what it was resolved from.
#[derive(Debug)]
struct KnownEnvironment {
    references: BTreeMap<String, SecretRef>,
    environment: Arc<Environment>,
}

/// After what environments may be others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentChange {
    /// The profiles that say what is in them.
    Profiles,
    /// The vault, from which some of it comes.
    Vault,
}

/// That a call needs the environment of a profile.
#[derive(Debug, Clone)]
pub struct NeedsEnvironment {
    environments: Arc<Environments>,
    profile: Arc<ProfileDefinition>,
    server: ServerName,
}

// === impl Environments ===

impl Environments {
    pub fn new(secrets: Arc<dyn ResolveSecret>) -> Self {
        Self { known: Mutex::default(), secrets }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(ProfileName, ServerName), KnownEnvironment>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves the variables of a profile for one server. Blocks. Nothing is given out in part.
    fn resolve(&self, profile: &ProfileDefinition, server: &ServerName) -> Result<Environment, Problem> {
        let user = SecretUser { server, profile: Some(&profile.name) };
        let variables = profile.env.iter().map(|(name, reference)| match self.secrets.resolve(reference, &user) {
            Ok(secret) => Ok((name.clone(), secret)),
            Err(error) => {
                let message = format!("variable `{name}` of profile `{}` for server `{server}`: {error}", profile.name);
                Err(Problem::new(Kind::Unavailable, message).hint(error.hint()))
            }
        });
        Ok(Environment::new(profile.name.clone(), variables.collect::<Result<_, _>>()?))
    }

    /// Drops what is not as the profiles say by now, and after a change of the vault what comes from it and is not the
    /// same any more. Blocks. Gives what was dropped, to be told to the servers.
    pub fn settle(
        &self,
        profiles: &BTreeMap<ProfileName, Arc<ProfileDefinition>>,
        change: EnvironmentChange,
    ) -> Vec<(ServerName, Arc<Environment>)> {
        let known: Vec<_> = {
            let known = self.lock();
            known.iter().map(|(key, it)| (key.clone(), it.references.clone(), Arc::clone(&it.environment))).collect()
        };
        let is_good =
            |(profile, server): &(ProfileName, ServerName), references: &BTreeMap<_, _>, now: &Environment| {
                let Some(profile) = profiles.get(profile).filter(|profile| profile.env == *references) else {
                    return false;
                };
                let from_vault = references.values().any(|reference| matches!(reference, SecretRef::Vault(_)));
                let is_affected = from_vault && change == EnvironmentChange::Vault;
                !is_affected || self.resolve(profile, server).is_ok_and(|renewed| renewed == *now)
            };
        let mut dropped = Vec::new();
        for (key, references, environment) in known {
            if is_good(&key, &references, &environment) {
                continue;
            }
            let mut known = self.lock();
            if known.get(&key).is_some_and(|it| Arc::ptr_eq(&it.environment, &environment)) {
                known.remove(&key);
            }
            dropped.push((key.1, environment));
        }
        dropped
    }
}

// === impl NeedsEnvironment ===

impl NeedsEnvironment {
    /// What a call of this server in this profile needs; nothing where the profile adds nothing, or the server is no
    /// program of ours.
    pub fn of(
        environments: &Arc<Environments>,
        profile: &Arc<ProfileDefinition>,
        server: &ServerName,
        servers: &ServerTable,
    ) -> Option<Self> {
        if profile.env.is_empty() {
            return None;
        }
        let running = servers.get(server)?;
        matches!(running.definition.transport, Transport::Stdio(_)).then(|| Self {
            environments: Arc::clone(environments),
            profile: Arc::clone(profile),
            server: server.clone(),
        })
    }

    /// The environment.
    ///
    /// # Errors
    /// A reference that leads to nothing: names the profile, the variable and the next step.
    pub async fn get(self) -> Result<Arc<Environment>, Problem> {
        let key = (self.profile.name.clone(), self.server.clone());
        if let Some(known) = self.environments.lock().get(&key).filter(|known| known.references == self.profile.env) {
            return Ok(Arc::clone(&known.environment));
        }
        let resolving = tokio::task::spawn_blocking(move || {
            let environment = Arc::new(self.environments.resolve(&self.profile, &self.server)?);
            let mut known = self.environments.lock();
            if let Some(there) = known.get(&key).filter(|it| it.environment == environment) {
                return Ok(Arc::clone(&there.environment));
            }
            let references = self.profile.env.clone();
            known.insert(key, KnownEnvironment { references, environment: Arc::clone(&environment) });
            Ok(environment)
        });
        resolving.await.unwrap_or_else(|_| {
            Err(Problem::new(Kind::Internal, "resolving the environment of the profile was interrupted"))
        })
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::Secret;
    use toolcrib_catalog::SecretError;

    use super::*;

    /// A vault with one entry for one profile.
    #[derive(Debug, Default)]
    struct OneEntry(Mutex<String>);

    impl ResolveSecret for OneEntry {
        fn resolve(&self, reference: &SecretRef, user: &SecretUser<'_>) -> Result<Secret, SecretError> {
            match user.profile.map(ProfileName::as_str) {
                Some("work") => Ok(Secret::new(self.0.lock().unwrap().clone())),
                _ => Err(SecretError::NotAvailable { reference: reference.clone() }),
            }
        }
    }

    fn profile(name: &str) -> Arc<ProfileDefinition> {
        let env = BTreeMap::from([("KEY".to_owned(), SecretRef::Vault("key".into()))]);
        Arc::new(ProfileDefinition { name: ProfileName::new(name).unwrap(), env, ..ProfileDefinition::built_in() })
    }

    #[tokio::test]
    async fn an_environment_is_resolved_once_until_its_secret_changes() {
        let vault = Arc::new(OneEntry::default());
        let environments = Arc::new(Environments::new(Arc::<OneEntry>::clone(&vault)));
        let get = |name| {
            let (environments, server) = (Arc::clone(&environments), ServerName::new("alpha").unwrap());
            NeedsEnvironment { environments, profile: profile(name), server }.get()
        };
        let first = get("work").await.unwrap();
        assert!(Arc::ptr_eq(&first, &get("work").await.unwrap()));
        assert!(get("home").await.unwrap_err().to_string().contains("variable `KEY` of profile `home`"));
        let profiles = BTreeMap::from([("work", profile("work"))].map(|(_, it)| (it.name.clone(), it)));
        assert!(environments.settle(&profiles, EnvironmentChange::Vault).is_empty(), "the same value");
        "other".clone_into(&mut vault.0.lock().unwrap());
        assert!(environments.settle(&profiles, EnvironmentChange::Profiles).is_empty(), "no request has looked at it");
        assert_eq!(environments.settle(&profiles, EnvironmentChange::Vault).len(), 1);
        let second = get("work").await.unwrap();
        assert_ne!(first, second);
        assert_eq!(
            environments.settle(&BTreeMap::new(), EnvironmentChange::Profiles),
            [(ServerName::new("alpha").unwrap(), second)]
        );
    }
}

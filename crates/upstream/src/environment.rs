//! What a profile adds to the environment of the servers that run for it. Connections are keyed by it, so that two
//! profiles with different variables never share a process.

use std::fmt;
use std::hash::{Hash, Hasher};

use toolcrib_base::{ProfileName, Secret};

use crate::config::{Endpoint, ServerConfig};

/// The variables of one profile for one server, secrets resolved. Prints their names only.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    profile: ProfileName,
    variables: Vec<(String, Secret)>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Environment").field("profile", &self.profile).field("variables", &names).finish()
    }
}

impl Hash for Environment {
    /// Of the names only: a digest of a secret is not made where none is needed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.profile.as_str().hash(state);
        self.variables.iter().for_each(|(name, _)| name.hash(state));
    }
}

// === impl Environment ===

impl Environment {
    /// The variables of a profile.
    pub fn new(profile: ProfileName, variables: Vec<(String, Secret)>) -> Self {
        Self { profile, variables }
    }

    /// The profile.
    pub fn profile(&self) -> &ProfileName {
        &self.profile
    }

    /// The server as it runs with them: the profile's value wins over the definition's own. Only a program has an
    /// environment.
    pub(crate) fn over(&self, config: &ServerConfig) -> ServerConfig {
        let mut config = config.clone();
        if let Endpoint::Stdio { env, .. } = &mut config.endpoint {
            env.retain(|(name, _)| self.variables.iter().all(|(own, _)| own != name));
            env.extend(self.variables.iter().cloned());
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_no_value() {
        let variables = vec![("KEY".to_owned(), Secret::new("sk-12345"))];
        let text = format!("{:?}", Environment::new(ProfileName::new("work").unwrap(), variables));
        assert!(text.contains("work") && text.contains("KEY") && !text.contains("sk-"), "{text}");
    }
}

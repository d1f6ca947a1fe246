//! Whose login it is. Knows no profiles and no keys: it takes principals as they are proven.

use std::fmt;

use toolcrib_base::PrincipalId;

/// The text of the owner of this installation.
const INSTALLATION: &str = "owner";

/// Who has a credential of their own at a server.
///
/// `local` and `admin` are one owner, `owner`; any other principal is one by itself, such as `key:<profile>/<name>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(PrincipalId);

impl Owner {
    /// The owner of this installation.
    pub fn installation() -> Self {
        Self(PrincipalId::new(INSTALLATION))
    }

    /// The owner that a principal is; `None` is the owner of this installation, as in `upstream::Credentials`.
    pub fn of(principal: Option<&str>) -> Self {
        match principal {
            None | Some("local" | "admin" | INSTALLATION) => Self::installation(),
            Some(other) => Self(PrincipalId::new(other)),
        }
    }

    /// The owner as text, as it is stored.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it is the owner of this installation.
    pub fn is_installation(&self) -> bool {
        self.as_str() == INSTALLATION
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_admin_are_one_owner_and_keys_have_their_own() {
        for principal in [None, Some("local"), Some("admin"), Some("owner")] {
            assert_eq!(Owner::of(principal), Owner::installation(), "{principal:?}");
        }
        let key = Owner::of(Some("key:work/claude"));
        assert_eq!((key.as_str(), key.is_installation()), ("key:work/claude", false));
        assert_ne!(key, Owner::of(Some("key:home/claude")));
    }
}

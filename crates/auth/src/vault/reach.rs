//! Names of entries, and who may use which: all, or the servers and profiles that an entry names.

use std::fmt;

use serde::{Deserialize, Serialize};
use toolcrib_base::{ProfileName, ServerName};

/// The longest name, in bytes.
const NAME_BYTES: usize = 256;

/// The name of an entry, as it stands after `vault:`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntryName(String);

/// The text is no name of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a name of 1 to {NAME_BYTES} bytes without spaces and control characters, such as `github` or \
     `team/github`"
)]
pub struct NameError;

/// Who may use an entry. Both lists count: empty is everyone, else those that it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    servers: Vec<ServerName>,
    profiles: Vec<ProfileName>,
}

/// Who asks for an entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct User<'a> {
    /// The server that would get the value; `None` where it is for no server.
    pub server: Option<&'a ServerName>,
    /// The profile through which it is used; `None` where it would serve every profile.
    pub profile: Option<&'a ProfileName>,
}

// === impl EntryName ===

impl EntryName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let is_name = !name.is_empty()
            && name.len() <= NAME_BYTES
            && !name.chars().any(|letter| letter.is_control() || letter.is_whitespace());
        if is_name { Ok(Self(name.to_owned())) } else { Err(NameError) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for EntryName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl TryFrom<String> for EntryName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl From<EntryName> for String {
    fn from(name: EntryName) -> Self {
        name.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Reach ===

impl Reach {
    /// These servers and these profiles; order and repetition do not matter.
    pub fn new(mut servers: Vec<ServerName>, mut profiles: Vec<ProfileName>) -> Self {
        servers.sort();
        servers.dedup();
        profiles.sort();
        profiles.dedup();
        Self { servers, profiles }
    }

    /// The servers that may use it; none named are all.
    pub fn servers(&self) -> &[ServerName] {
        &self.servers
    }

    /// The profiles that may use it; none named are all.
    pub fn profiles(&self) -> &[ProfileName] {
        &self.profiles
    }

    /// The rule by which `user` may not use it; `None` where it may.
    pub fn refusal(&self, user: &User<'_>) -> Option<String> {
        let quoted = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if !self.servers.is_empty() && !user.server.is_some_and(|server| self.servers.contains(server)) {
            let allowed = quoted(self.servers.iter().map(ServerName::as_str).collect());
            let who = user.server.map_or("no server".to_owned(), |server| format!("server `{server}`"));
            return Some(format!("its `servers` are {allowed}, but this is {who}"));
        }
        if !self.profiles.is_empty() && !user.profile.is_some_and(|profile| self.profiles.contains(profile)) {
            let allowed = quoted(self.profiles.iter().map(ProfileName::as_str).collect());
            let who = user.profile.map_or("for every profile".to_owned(), |profile| format!("profile `{profile}`"));
            return Some(format!("its `profiles` are {allowed}, but this is {who}"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_blanks() {
        for name in ["github", "team/github", "ä", &"x".repeat(256)] {
            assert_eq!(EntryName::new(name).unwrap().as_str(), name);
        }
        for name in ["", "a b", "a\n", "\u{a0}", "a\0", &"x".repeat(257)] {
            assert_eq!(EntryName::new(name), Err(NameError), "{name:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_rule() {
        let (files, mail) = (ServerName::new("files").unwrap(), ServerName::new("mail").unwrap());
        let (work, home) = (ProfileName::new("work").unwrap(), ProfileName::new("home").unwrap());
        let check = |reach: &Reach, server, profile, expected: Option<&str>| {
            assert_eq!(reach.refusal(&User { server, profile }).as_deref(), expected);
        };
        check(&Reach::default(), None, None, None);
        let reach = Reach::new(vec![files.clone(), files.clone()], vec![]);
        assert_eq!(reach.servers(), std::slice::from_ref(&files));
        check(&reach, Some(&files), None, None);
        check(&reach, Some(&mail), None, Some("its `servers` are `files`, but this is server `mail`"));
        check(&reach, None, None, Some("its `servers` are `files`, but this is no server"));
        let reach = Reach::new(vec![files.clone(), mail.clone()], vec![work.clone()]);
        check(&reach, Some(&files), Some(&work), None);
        check(&reach, Some(&files), Some(&home), Some("its `profiles` are `work`, but this is profile `home`"));
        check(&reach, Some(&files), None, Some("its `profiles` are `work`, but this is for every profile"));
    }
}

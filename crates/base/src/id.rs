//! Names and ids as types, so that a server's name cannot be passed where a tool's is wanted.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest name of a server or a profile, in bytes.
pub const NAME_MAX: usize = 64;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a name: expected at most {NAME_MAX} characters of a-z, 0-9 and `-`, not starting with `-`")]
pub struct IdError {
    text: String,
}

fn check_name(text: &str) -> Result<(), IdError> {
    let bytes = text.as_bytes();
    let fits = !bytes.is_empty()
        && bytes.len() <= NAME_MAX
        && bytes[0] != b'-'
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-');
    if fits { Ok(()) } else { Err(IdError { text: text.chars().take(80).collect() }) }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// 1 to 64 characters of `[a-z0-9][a-z0-9-]*`; cheap to clone.
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and makes a name of it.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check_name(text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name_type! {
    /// The name of a server: the stem of its definition file.
    ServerName
}
name_type! {
    /// The name of a profile: the stem of its file and the last part of its URL.
    ProfileName
}

/// The exact id of a tool, `server/tool`. The tool's part is the server's own text and is never changed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId {
    /// The server that owns the tool.
    pub server: ServerName,
    /// The tool's name as the server spells it.
    pub tool: Arc<str>,
}

impl ToolId {
    /// Joins a server and the name that it gives its tool.
    pub fn new(server: ServerName, tool: &str) -> Self {
        Self { server, tool: tool.into() }
    }

    /// Reads `server/tool`; `None` when there is no `/` or the part before it is not a server's name.
    pub fn parse(text: &str) -> Option<Self> {
        let (server, tool) = text.split_once('/')?;
        if tool.is_empty() {
            return None;
        }
        Some(Self::new(ServerName::new(server).ok()?, tool))
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Who the client is, proven: `local`, a token's subject, a service account.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PrincipalId(Arc<str>);

impl PrincipalId {
    /// Any text that the proof of identity named.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The public name of a session, for logs and keys: a digest of its id, which is a credential. Never the id itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SessionName(Arc<str>);

impl SessionName {
    /// Any text that names one session and opens none.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The name as shared text, for a record.
    pub fn to_text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "files", "0x", "my-server-2", &"a".repeat(64)] {
            assert_eq!(ServerName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "A", "a b", "..", "a/b", "../x", "ä", "a_b", &"a".repeat(65)] {
            assert!(ServerName::new(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn tool_ids_split_at_the_first_slash() {
        let id = ToolId::parse("files/read/all").unwrap();
        assert_eq!((id.server.as_str(), &*id.tool), ("files", "read/all"));
        assert_eq!(id.to_string(), "files/read/all");
        assert!(ToolId::parse("files").is_none());
        assert!(ToolId::parse("files/").is_none());
        assert!(ToolId::parse("Files/x").is_none());
    }
}

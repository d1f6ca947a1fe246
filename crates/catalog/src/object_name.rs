//! Names of service classes and of services: freer than those of servers, as other gateways' files have them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// What these names look like, as a regular expression.
pub(crate) const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$";
const LONGEST: usize = 63;

/// The name of a service class or of a service: the stem of its file. 1 to 63 characters of A-Z, a-z, 0-9, `_`, `.` and
/// `-`, the first a letter or a digit, so that it never leaves its folder; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName(Arc<str>);

/// Why a text is not such a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a name: expected at most {LONGEST} characters of A-Z, a-z, 0-9, `_`, `.` and `-`, the first a letter or a digit"
)]
pub struct ObjectNameError {
    text: String,
}

// === impl ObjectName ===

impl ObjectName {
    /// Checks `text` and makes a name of it.
    pub fn new(text: &str) -> Result<Self, ObjectNameError> {
        let fits = text.len() <= LONGEST
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
            && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if fits {
            Ok(Self(text.into()))
        } else {
            let text = text.chars().filter(|c| !c.is_control()).take(80).collect();
            Err(ObjectNameError { text })
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for ObjectName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&ObjectName> for Value {
    fn from(name: &ObjectName) -> Self {
        name.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for good in ["a", "A1", "0.x", "web_app-2.b", &"a".repeat(63)] {
            assert_eq!(ObjectName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "../a", "a/b", "-a", "_a", "a b", "ä", "a\0", "a\\b", &"a".repeat(64)] {
            assert!(ObjectName::new(bad).is_err(), "{bad:?} passed");
        }
    }
}

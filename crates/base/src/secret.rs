//! Values that must not be printed.

use std::fmt;

/// A secret: prints as `****` and is wiped neither from swap nor from a core dump, only from logs and answers.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Call it only where the secret is used.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in time that depends only on the length of `other`.
    pub fn matches(&self, other: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.as_bytes());
        let mut difference = ours.len() ^ theirs.len();
        for (index, byte) in theirs.iter().enumerate() {
            difference |= usize::from(byte ^ ours.get(index).copied().unwrap_or(0));
        }
        difference == 0 && !ours.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_stars_and_compares() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "**** ****");
        assert!(secret.matches("hunter2"));
        for wrong in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!secret.matches(wrong), "{wrong:?} matched");
        }
        assert!(!Secret::new("").matches(""));
    }
}

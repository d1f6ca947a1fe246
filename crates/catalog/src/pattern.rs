//! Regular expressions in entries, compiled with a bound on their size.

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

/// The largest compiled pattern, in bytes.
pub(crate) const PATTERN_BYTES: usize = 1024 * 1024;

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a regular expression such as `^sk-[a-z0-9]+$`, got one that does not compile")]
pub struct PatternError;

/// A regular expression as JSON Schema has them, matched in linear time. It matches anywhere unless it has `^` and `$`.
/// Only its text is kept: thousands of entries are read, and few are ever matched with.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern(String);

// === impl Pattern ===

impl Pattern {
    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is found in `text`.
    pub fn matches(&self, text: &str) -> bool {
        compile(&self.0).is_ok_and(|validator| validator.is_valid(&Value::from(text)))
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        compile(text).map(|_| Self(text.to_owned()))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn compile(text: &str) -> Result<Validator, PatternError> {
    let bounds = PatternOptions::regex().size_limit(PATTERN_BYTES);
    let schema = json!({ "type": "string", "pattern": text });
    jsonschema::options().with_pattern_options(bounds).build(&schema).map_err(|_| PatternError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_bounded() {
        let pattern: Pattern = "^BSA[A-Za-z0-9]{3,}$".parse().unwrap();
        assert!(pattern.matches("BSAabc") && !pattern.matches("xBSAabc"));
        for text in ["(", "a{100000}{100000}", r"(a)\1"] {
            assert_eq!(text.parse::<Pattern>(), Err(PatternError), "{text}");
        }
    }
}

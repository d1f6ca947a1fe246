//! How grave a log message is: the eight levels of RFC 5424 that MCP took over.

use std::fmt;

use crate::raw::Raw;

/// A level, least grave first: `Debug < Emergency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}

impl Level {
    /// All, least grave first.
    pub const ALL: [Level; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of a name, which is lower case on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The level of a `notifications/message`, or that a `logging/setLevel` asks for.
    pub fn of_message(params: &Raw) -> Option<Self> {
        Self::parse(&params.text("level")?)
    }

    /// Whether a message of this level goes to someone who asked for `threshold` and graver.
    pub fn passes(self, threshold: Level) -> bool {
        self >= threshold
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_read_as_written() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.as_str()), Some(level));
            assert_eq!(Level::parse(&level.to_string().to_uppercase()), None);
        }
        for (params, level) in [
            (json!({"level": "warning", "data": 1}), Some(Level::Warning)),
            (json!({"level": "trace"}), None),
            (json!({"level": 3}), None),
            (json!({}), None),
            (json!([]), None),
        ] {
            assert_eq!(Level::of_message(&Raw::from_value(&params)), level, "{params}");
        }
    }

    #[test]
    fn graver_ones_pass() {
        for (low, level) in Level::ALL.into_iter().enumerate() {
            for (high, threshold) in Level::ALL.into_iter().enumerate() {
                assert_eq!(level.passes(threshold), low >= high, "{level} {threshold}");
            }
        }
    }
}

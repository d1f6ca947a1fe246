//! The table of revisions. No one outside asks which one it is, only what it can do.

use std::fmt;

/// A published revision of MCP that is spoken here, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

/// The two ways of opening: with a handshake, or without any state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Up to 2025-11-25: `initialize`, sessions, requests from the server.
    Legacy,
    /// From 2026-07-28 on: each request carries all that it needs.
    Modern,
}

impl Revision {
    /// All, oldest first.
    pub const ALL: [Revision; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The newest that opens with `initialize`.
    pub const LATEST_LEGACY: Revision = Self::V2025_11_25;
    /// The newest.
    pub const LATEST: Revision = Self::V2026_07_28;

    /// The date.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of a date.
    pub fn parse(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == date)
    }

    /// The answer to `initialize` that asks for `date`: the same where it is spoken, else the newest legacy one.
    pub fn negotiate_legacy(date: &str) -> Self {
        Self::parse(date).filter(|revision| revision.era() == Era::Legacy).unwrap_or(Self::LATEST_LEGACY)
    }

    /// Which way of opening it has.
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// Whether a client may send several messages in one array.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether results may carry `structuredContent` and `resource_link`, and tools an `outputSchema`.
    pub fn has_structured_content(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether servers may show the user a form.
    pub fn has_elicitation(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether servers may ask the user to open a page, and clients name the modes that they have.
    pub fn has_url_elicitation(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether an error may say that a page must be opened first.
    pub fn has_url_error(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether servers may hand tools to the client's model.
    pub fn has_sampling_tools(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether events of a session's streams have ids, so that a stream can be taken up again.
    pub fn has_resumption(self) -> bool {
        self >= Self::V2025_03_26 && self.era() == Era::Legacy
    }

    /// Whether a stream begins with an event that only says where to take it up again.
    pub fn has_primed_streams(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether the version header is required after the handshake.
    pub fn has_version_header(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether a date looks like a modern revision, known to us or not. Dates compare as texts.
    pub fn is_modern_date(date: &str) -> bool {
        date.len() == 10 && date >= Self::V2026_07_28.as_str() && date.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiation_never_leaves_the_legacy_era() {
        for (asked, given) in [
            ("2024-11-05", Revision::V2024_11_05),
            ("2025-06-18", Revision::V2025_06_18),
            ("2026-07-28", Revision::V2025_11_25),
            ("1999-01-01", Revision::V2025_11_25),
            ("", Revision::V2025_11_25),
        ] {
            assert_eq!(Revision::negotiate_legacy(asked), given, "{asked}");
        }
    }

    #[test]
    fn the_table() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            assert_eq!(revision.era() == Era::Modern, Revision::is_modern_date(revision.as_str()));
        }
        assert!(Revision::is_modern_date("2027-01-01") && !Revision::is_modern_date("zzzz-zz-zz"));
        assert!(Revision::V2025_03_26.has_batches() && !Revision::V2025_06_18.has_batches());
        assert!(!Revision::V2025_03_26.has_structured_content() && Revision::LATEST.has_structured_content());
    }
}

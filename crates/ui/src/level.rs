//! How a state looks.

/// How a state looks: its shape and colour. The word beside it says what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Neither good nor bad.
    #[default]
    Idle,
    /// As it should be.
    Ok,
    /// Somebody should look.
    Warn,
    /// It failed.
    Bad,
    /// Something is under way.
    Work,
}

// === impl Level ===

impl Level {
    /// Its class in the style.
    pub fn class(self) -> &'static str {
        match self {
            Self::Idle => "",
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Work => "work",
        }
    }
}

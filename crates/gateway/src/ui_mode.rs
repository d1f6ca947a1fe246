//! What the pages of the web user interface may do, whoever opens them.

use toolcrib_base::{Kind, Problem};
use toolcrib_session::Caller;
use toolcrib_store::Door;
use toolcrib_view::{Effect, Operation};

/// What the pages may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UiMode {
    /// Everything that the person's role may do.
    #[default]
    Full,
    /// They show, and change nothing.
    Read,
    /// There are none.
    Off,
}

// === impl UiMode ===

impl UiMode {
    /// The mode of a name of the settings.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "full" => Some(Self::Full),
            "read" => Some(Self::Read),
            "off" => Some(Self::Off),
            _ => None,
        }
    }

    /// Its name in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Read => "read",
            Self::Off => "off",
        }
    }

    /// Refuses what the pages may not do. Other doors are as they are.
    ///
    /// # Errors
    /// The operation does not only read, and the pages only show.
    pub(crate) fn check(self, operation: &Operation, caller: &Caller) -> Result<(), Problem> {
        let is_fine = caller.door != Door::UI
            || match self {
                Self::Full => true,
                Self::Read => operation.effect == Effect::Reads,
                Self::Off => false,
            };
        if is_fine {
            return Ok(());
        }
        Err(Problem::new(Kind::Forbidden, format!("`{}` changes something, and the pages only show", operation.tool))
            .hint("Use the command line, or set `ui = \"full\"` in config.toml and restart the gateway."))
    }
}

//! What the pages of the web user interface may do, for everyone.

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

#[cfg(test)]
mod tests {
    use toolcrib_base::ProfileName;
    use toolcrib_session::Principal;

    use super::*;

    fn caller(door: Door) -> Caller {
        Caller::without_message(Principal::admin("admin"), ProfileName::new("default").unwrap(), door)
    }

    #[test]
    fn pages_that_only_show_change_nothing_whatever_the_form() {
        const READS: Operation = Operation { tool: "core_status", ..Operation::ROW };
        const CHANGES: Operation = Operation { effect: Effect::Changes { idempotent: true }, ..READS };
        const DESTROYS: Operation = Operation { effect: Effect::Destroys { idempotent: true }, ..READS };
        const CALLS: Operation = Operation { effect: Effect::Unknown, ..READS };
        for (mode, allowed) in
            [(UiMode::Full, [true; 4]), (UiMode::Read, [true, false, false, false]), (UiMode::Off, [false; 4])]
        {
            for (operation, allowed) in [&READS, &CHANGES, &DESTROYS, &CALLS].into_iter().zip(allowed) {
                assert_eq!(mode.check(operation, &caller(Door::UI)).is_ok(), allowed, "{mode:?} {operation:?}");
                for door in [Door::REST, Door::CLI, Door::MCP] {
                    assert!(mode.check(operation, &caller(door)).is_ok(), "another door");
                }
            }
            assert_eq!(UiMode::named(mode.as_str()), Some(mode));
        }
        assert_eq!(UiMode::named("on"), None);
    }
}

//! The kinds of definitions and their words. Not here: their folders and readers, which each kind has in its own module.

use crate::reader::{Choice, choice};

choice! {
    /// What the file of a definition defines.
    DefinitionKind {
        Entry = "entry",
        Server = "server",
        Profile = "profile",
        ServiceClass = "service-class",
        Service = "service",
        Workflow = "workflow",
    }
}

impl std::str::FromStr for DefinitionKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(word, _)| *word == text).map(|(_, kind)| *kind);
        found
            .ok_or_else(|| "expected `entry`, `server`, `profile`, `service-class`, `service` or `workflow`".to_owned())
    }
}

//! What happens to servers, told to whoever composes the program.

use std::sync::Arc;

use toolcrib_base::ServerName;
use toolcrib_protocol::{Era, Raw};

use crate::inventory::Inventory;
use crate::status::Status;

/// What is remembered of a server between two starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nature {
    /// The era of its main connection when it last answered: the modern one wherever it speaks that.
    pub era: Option<Era>,
    /// Whether one whose main connection is modern takes `initialize` too; `None` where that was not tried.
    pub also_legacy: Option<bool>,
    /// Whether it asks questions on connections that cannot say which call they belong to.
    pub asks: bool,
}

/// Something that happened to a server.
#[derive(Debug, Clone)]
pub enum Event {
    /// Its state changed.
    Status {
        /// The server.
        server: ServerName,
        /// The new state.
        status: Status,
    },
    /// What it offers was listed anew and differs from before.
    Inventory {
        /// The server.
        server: ServerName,
        /// What it offers now.
        inventory: Arc<Inventory>,
    },
    /// Which era it is of, and whether it asks without saying in which call: worth remembering for the next start.
    Nature {
        /// The server.
        server: ServerName,
        /// What is known now.
        nature: Nature,
    },
    /// A resource that it offers changed.
    ResourceUpdated {
        /// The server.
        server: ServerName,
        /// The resource.
        uri: String,
    },
    /// A task that runs on it changed.
    TaskChanged {
        /// The server.
        server: ServerName,
        /// What it says of the task, as `notifications/tasks` has it.
        params: Raw,
    },
}

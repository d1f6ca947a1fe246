//! Events of servers, for the composition root.

use std::sync::Arc;

use toolcrib_base::ServerName;
use toolcrib_protocol::Raw;

use crate::eras::Nature;
use crate::inventory::Inventory;
use crate::status::Status;

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
    /// What it offers was listed again and differs from before.
    Inventory {
        /// The server.
        server: ServerName,
        /// What it offers now.
        inventory: Arc<Inventory>,
    },
    /// What it offers a principal with a credential of its own is something else now, or nothing, or may be.
    Own {
        /// The server.
        server: ServerName,
        /// The principal.
        principal: Arc<str>,
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
        /// Whom it was told, on a connection with that one's own credential; `None` is everyone.
        principal: Option<Arc<str>>,
        /// The resource.
        uri: String,
    },
    /// A task that runs on it changed.
    TaskChanged {
        /// The server.
        server: ServerName,
        /// Whom it was told, as above.
        principal: Option<Arc<str>>,
        /// What it says of the task, as `notifications/tasks` has it.
        params: Raw,
    },
}

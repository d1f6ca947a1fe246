//! What happens to servers, told to whoever composes the program.

use std::sync::Arc;

use toolcrib_base::ServerName;

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
    /// What it offers was listed anew and differs from before.
    Inventory {
        /// The server.
        server: ServerName,
        /// What it offers now.
        inventory: Arc<Inventory>,
    },
    /// A resource that it offers changed.
    ResourceUpdated {
        /// The server.
        server: ServerName,
        /// The resource.
        uri: String,
    },
}

//! A definition and the server that runs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_base::ServerName;
use toolcrib_catalog::ServerDefinition;
use toolcrib_upstream::Server;

/// A definition and the server that runs by it.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// The definition.
    pub definition: Arc<ServerDefinition>,
    /// Its connection.
    pub server: Server,
}

/// All servers by name.
pub type ServerTable = BTreeMap<ServerName, ServerEntry>;

//! What the muster dialect lists natively beside its meta-tools: one resource of the gateway's own. What servers offer
//! is reached by meta-tools there.

use serde_json::json;
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Listing;

use super::{PagedList, Paging};

/// The resource that lists the connected servers.
pub const AUTH_STATUS: &str = "auth://status";

/// Lists in the place of those of the servers.
#[derive(Debug)]
pub struct OwnLists {
    pub resources: PagedList,
    pub templates: PagedList,
    pub prompts: PagedList,
}

impl OwnLists {
    /// Those of a dialect that has such lists.
    pub(super) fn of(dialect: Dialect, paging: &Paging) -> Option<Self> {
        (dialect == Dialect::Muster).then(|| {
            let status = json!({
                "uri": AUTH_STATUS, "name": "auth-status", "title": "Connections of the servers",
                "description": "Which servers are connected, and which want a login first.",
                "mimeType": "application/json",
            });
            Self {
                resources: PagedList::new(Listing::Resources, paging, vec![Raw::from_value(&status)]),
                templates: PagedList::new(Listing::Templates, paging, Vec::new()),
                prompts: PagedList::new(Listing::Prompts, paging, Vec::new()),
            }
        })
    }
}

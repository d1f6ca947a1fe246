//! The opening of a connection: what we declare, and which revision the server chose.

use std::time::Duration;

use toolcrib_protocol::{Notification, Raw, Revision, method};
use toolcrib_transport::{CallOptions, Link, LinkError};

use crate::inventory::{Inventory, revision};

/// What is known after the opening.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) revision: Revision,
    /// Capabilities, name and instructions; no lists yet.
    pub(crate) inventory: Inventory,
}

/// Shakes hands: `initialize`, the check of the answer, `notifications/initialized`. The caller brings the deadline.
pub(crate) async fn handshake(link: &Link) -> Result<Opened, LinkError> {
    let id = link.next_id();
    let (outcome, session) = match link {
        Link::Peer(_) => {
            // `initialize` must not be cancelled (2025-11-25, basic/utilities/cancellation).
            let options = CallOptions { deadline: Duration::MAX, ..CallOptions::default() };
            let outcome = link.call(id, method::INITIALIZE, initialize_params(), options).await?;
            (outcome, None)
        }
        Link::Http(http) => http.initialize(id, initialize_params(), Duration::MAX).await?,
    };
    let result = outcome
        .map_err(|error| LinkError::NotMcp(format!("`initialize` answered error {}: {}", error.code, error.message)))?;
    let Some(revision) = revision(&result) else {
        let named = result.text("protocolVersion").unwrap_or_default();
        return Err(LinkError::NotMcp(format!("`initialize` chose the unknown revision `{named}`")));
    };
    if let Link::Http(http) = link {
        http.set_session(session, revision);
    }
    link.notify(Notification::new(method::INITIALIZED, Raw::empty_object())).await?;
    if let Link::Http(http) = link {
        http.listen();
    }
    let mut inventory = Inventory::default();
    inventory.opened(&result);
    Ok(Opened { revision, inventory })
}

/// We declare no capabilities: nothing that a server could ask is relayed to the client yet.
fn initialize_params() -> Raw {
    Raw::from_value(&serde_json::json!({
        "protocolVersion": Revision::LATEST_LEGACY.as_str(),
        "capabilities": {},
        "clientInfo": { "name": "toolcrib", "title": "Toolcrib", "version": env!("CARGO_PKG_VERSION") },
    }))
}

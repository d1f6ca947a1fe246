//! The opening of a connection: what we declare, and which revision the server chose.

use std::time::Duration;

use toolcrib_protocol::{Notification, Raw, Revision, RpcError, method};
use toolcrib_transport::http::link::HttpLink;
use toolcrib_transport::{CallOptions, Link, LinkError};

use crate::inventory::{Inventory, revision};

/// What is known after the opening.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) revision: Revision,
    /// Capabilities, name and instructions; no lists yet.
    pub(crate) inventory: Inventory,
}

/// Shakes hands: `initialize`, the check of the answer, `notifications/initialized`.
pub(crate) async fn handshake(link: &Link, deadline: Duration) -> Result<Opened, LinkError> {
    let id = link.next_id();
    let (outcome, session) = match link {
        Link::Peer(_) => {
            let outcome = link.call(id, method::INITIALIZE, initialize_params(), CallOptions::within(deadline)).await?;
            (outcome, None)
        }
        Link::Http(http) => initialize_over_http(http, id, deadline).await?,
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

type Answered = (Result<Raw, RpcError>, Option<http::HeaderValue>);

async fn initialize_over_http(http: &HttpLink, id: u64, deadline: Duration) -> Result<Answered, LinkError> {
    http.initialize(id, initialize_params(), deadline).await
}

/// We declare no capabilities: nothing that a server could ask is relayed to the client yet.
fn initialize_params() -> Raw {
    Raw::from_value(&serde_json::json!({
        "protocolVersion": Revision::LATEST_LEGACY.as_str(),
        "capabilities": {},
        "clientInfo": { "name": "toolcrib", "title": "Toolcrib", "version": env!("CARGO_PKG_VERSION") },
    }))
}

//! What the gateway itself offers as a resource: which servers are connected.

use serde_json::{Value, json};
use toolcrib_base::Kind;
use toolcrib_catalog::TransportKind;
use toolcrib_policy::Act;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_store::Outcome;
use toolcrib_upstream::State;
use toolcrib_view::view::{AUTH_STATUS, View};

use super::{Passing, closing};
use crate::passage::Refused;

impl Passing<'_> {
    /// Whether a URI is one of the gateway's own here.
    pub(super) fn is_own_resource(&self, uri: &str) -> bool {
        uri == AUTH_STATUS && self.view.own_lists.is_some()
    }

    /// Reads it, on record as everything is.
    pub(super) async fn own_resource(&self) -> Result<Raw, RpcError> {
        let asked = self.asked(method::RESOURCES_READ, AUTH_STATUS, None);
        let act = Act::MetaTool { name: "auth_status".into() };
        match self.open(&act, asked).await {
            Ok(passage) => passage.finish(Outcome::Ok),
            Err(Refused::Denied(denial)) => return Err(RpcError::new(Kind::Forbidden.row().code, denial.to_string())),
            Err(Refused::Closing) => return Err(closing()),
        };
        let text = serde_json::to_string_pretty(&status(self.view)).unwrap_or_default();
        let contents = json!([{ "uri": AUTH_STATUS, "mimeType": "application/json", "text": text }]);
        Ok(Raw::from_value(&json!({ "contents": contents })))
    }
}

/// Each server that the profile shows, in muster's words.
fn status(view: &View) -> Value {
    let server = |(definition, server): &(std::sync::Arc<toolcrib_catalog::ServerDefinition>, _)| {
        let server: &toolcrib_upstream::Server = server;
        let status = server.status();
        let word = match status.state {
            State::Ready => "connected",
            // A program is no place that could be out of reach.
            State::Failed if definition.transport.kind() == TransportKind::Stdio => "failed",
            State::Failed => "unreachable",
            State::NeedsLogin => "auth_required",
            State::Idle | State::Starting | State::Installing | State::Stopped => "disconnected",
        };
        let mut value = json!({ "name": definition.name.as_str(), "status": word });
        if let Some(error) = status.last_error {
            value["error"] = error.into();
        }
        value
    };
    json!({ "servers": view.servers.iter().map(server).collect::<Vec<_>>() })
}

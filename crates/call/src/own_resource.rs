//! What the gateway itself offers as a resource: which servers are connected.

use serde_json::{Value, json};
use toolcrib_catalog::TransportKind;
use toolcrib_policy::Act;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_store::Outcome;
use toolcrib_upstream::State;
use toolcrib_view::view::{AUTH_STATUS, View};

use crate::client;
use crate::context::RequestContext;
use crate::login::{LoginState, LoginStatus};

impl RequestContext<'_> {
    /// Whether a URI is one of the gateway's own here.
    pub(crate) fn is_own_resource(&self, uri: &str) -> bool {
        uri == AUTH_STATUS && self.view().own_lists.is_some()
    }

    /// Reads it, on record as everything is.
    pub(crate) async fn own_resource(&self) -> Result<Raw, RpcError> {
        let act = Act::MetaTool { name: "auth_status".into() };
        let admitted = self.admit(&act, self.audited(method::RESOURCES_READ, AUTH_STATUS, None)).await;
        admitted.map_err(|refusal| RpcError::from(&refusal.problem()))?.end(Outcome::Ok);
        let logins = match &self.path.logins {
            Some(logins) => logins.status(client::principal_at_servers(self.caller)).await.unwrap_or_else(|problem| {
                tracing::warn!("the status of logins cannot be read: {problem}");
                Vec::new()
            }),
            None => Vec::new(),
        };
        let text = serde_json::to_string_pretty(&status(self.view(), &logins)).unwrap_or_default();
        let contents = json!([{ "uri": AUTH_STATUS, "mimeType": "application/json", "text": text }]);
        Ok(Raw::from_value(&json!({ "contents": contents })))
    }
}

/// Each server that the profile shows, in muster's words, with the caller's logins.
fn status(view: &View, logins: &[LoginStatus]) -> Value {
    let server = |(definition, server): &(std::sync::Arc<toolcrib_catalog::ServerDefinition>, _)| {
        let server: &toolcrib_upstream::Server = server;
        let status = server.status();
        let login = logins.iter().find(|login| login.server == definition.name);
        let word = match status.state {
            State::Ready => "connected",
            // A program is no place that could be out of reach.
            State::Failed if definition.transport.kind() == TransportKind::Stdio => "failed",
            State::Failed => "unreachable",
            State::NeedsLogin if matches!(login.map(|login| &login.state), Some(LoginState::Lapsed(_))) => {
                "reauth_required"
            }
            State::NeedsLogin => "auth_required",
            State::Idle | State::Starting | State::Installing | State::Stopped => "disconnected",
        };
        let mut value = json!({ "name": definition.name.as_str(), "status": word });
        if let Some(login) = login {
            if let Some(issuer) = &login.issuer {
                value["issuer"] = issuer.as_str().into();
            }
            if !login.scopes.is_empty() {
                value["scope"] = login.scopes.join(" ").into();
            }
        }
        if status.state == State::NeedsLogin {
            value["auth_tool"] = "core_auth_login".into();
        }
        if let Some(error) = status.last_error {
            value["error"] = error.into();
        }
        value
    };
    json!({ "servers": view.servers.iter().map(server).collect::<Vec<_>>() })
}

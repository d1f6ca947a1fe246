//! What the gateway itself offers as a resource: which servers are connected, and results that were cut.

use serde_json::{Value, json};
use toolcrib_catalog::TransportKind;
use toolcrib_policy::Act;
use toolcrib_protocol::{Raw, RpcError, method};
use toolcrib_store::Outcome;
use toolcrib_upstream::State;
use toolcrib_view::view::{AUTH_STATUS, View};

use crate::client;
use crate::context::RequestContext;
use crate::large_results::BEGINS;
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
        let principal = client::principal_at_servers(self.caller);
        let logins = match &self.path.logins {
            Some(logins) => logins.status(principal).await.unwrap_or_else(|problem| {
                tracing::warn!("the status of logins cannot be read: {problem}");
                Vec::new()
            }),
            None => Vec::new(),
        };
        let text = serde_json::to_string_pretty(&status(self.view(), &logins, principal.is_none())).unwrap_or_default();
        let contents = json!([{ "uri": AUTH_STATUS, "mimeType": "application/json", "text": text }]);
        Ok(Raw::from_value(&json!({ "contents": contents })))
    }

    /// Reads a result that was cut for this caller, on record as everything is; `None` where there is none.
    pub(crate) async fn large_result(&self, uri: &str) -> Option<Result<Raw, RpcError>> {
        let (text, media_type) = self.path.large_results.find(self.caller, uri)?;
        let act = Act::MetaTool { name: "read_result".into() };
        let admitted = self.admit(&act, self.audited(method::RESOURCES_READ, BEGINS, None)).await;
        Some(admitted.map_err(|refusal| RpcError::from(&refusal.problem())).map(|admitted| {
            admitted.end(Outcome::Ok);
            Raw::from_value(&json!({ "contents": [{ "uri": uri, "mimeType": media_type, "text": *text }] }))
        }))
    }
}

/// How a caller stands with a server that it is signed on to.
fn signed_on(state: Option<&LoginState>) -> &'static str {
    match state {
        Some(LoginState::LoggedIn { .. }) => "connected",
        _ => "auth_required",
    }
}

/// Each server that the profile shows, in muster's words, with the caller's logins.
fn status(view: &View, logins: &[LoginStatus], is_owner: bool) -> Value {
    let server = |(definition, server): &(std::sync::Arc<toolcrib_catalog::ServerDefinition>, _)| {
        let server: &toolcrib_upstream::Server = server;
        let status = server.status();
        let login = logins.iter().find(|login| login.server == definition.name);
        let sign_on = login.and_then(|login| login.sign_on.as_ref());
        let word = match status.state {
            // What its sign-on shows is read after it, which is part of it to the caller.
            State::Starting if sign_on.is_some() && server.is_part() => "sso_pending",
            _ if sign_on.is_some_and(|sign_on| sign_on.is_pending) => "sso_pending",
            // Whose connection the server's own is says nothing of who is signed on.
            State::Ready | State::NeedsLogin if sign_on.is_some() => signed_on(login.map(|login| &login.state)),
            // That cannot be listed for the caller is then no fault of the server.
            _ if sign_on.is_some_and(|sign_on| sign_on.has_failed) => signed_on(login.map(|login| &login.state)),
            // Nor of who has a login of its own.
            State::Ready | State::NeedsLogin if !is_owner && login.is_some() => match login.map(|login| &login.state) {
                Some(LoginState::LoggedIn { .. }) => "connected",
                Some(LoginState::Lapsed(_)) => "reauth_required",
                Some(LoginState::LoggedOut) | None => "auth_required",
            },
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
        if let Some(sign_on) = sign_on {
            match sign_on.method {
                "forwarded" => value["token_forwarding_enabled"] = true.into(),
                "exchanged" => value["token_exchange_enabled"] = true.into(),
                _ => {}
            }
            if sign_on.has_failed {
                value["sso_attempt_failed"] = true.into();
            }
            match login.map(|login| &login.state) {
                Some(LoginState::Lapsed(reason)) => value["error"] = reason.as_str().into(),
                _ => {
                    if let Some(note) = sign_on.note.as_deref().filter(|_| word != "connected") {
                        value["error"] = note.into();
                    }
                }
            }
        }
        if word == "auth_required" || word == "reauth_required" {
            value["auth_tool"] = "core_auth_login".into();
        }
        if let Some(error) = status.last_error.filter(|_| sign_on.is_none() && word != "connected") {
            value["error"] = error.into();
        }
        value
    };
    json!({ "servers": view.servers.iter().map(server).collect::<Vec<_>>() })
}

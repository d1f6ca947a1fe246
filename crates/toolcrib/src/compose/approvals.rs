//! What a gateway is given for calls that wait for a yes: the key that seals them, times, pages, and the webhook.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, SystemClock};
use toolcrib_call::ApprovalTimes;
use toolcrib_gateway::GatewayBuilder;
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;

use super::approval_hook::{self, ApprovalHook};
use super::sealing::VaultSealing;
use super::{identity, logins};
use crate::config::Config;
use crate::secrets::HomeSecrets;

/// What is known by then.
pub(super) struct ApprovalParts<'a> {
    pub(super) config: &'a Config,
    pub(super) client: &'a HttpClient,
    pub(super) secrets: &'a Arc<HomeSecrets>,
    pub(super) house: &'a Scope,
    /// Where the gateway listens over HTTP, if it does.
    pub(super) address: Option<SocketAddr>,
}

/// Gives it all to a builder; the webhook runs from here on.
///
/// # Errors
/// The settings name a webhook without its secret.
pub(super) fn attach(builder: GatewayBuilder, parts: &ApprovalParts<'_>) -> Result<GatewayBuilder, Problem> {
    let ApprovalParts { config, secrets, house, address, .. } = parts;
    let times = ApprovalTimes { wait: config.approvals.wait, ..ApprovalTimes::default() };
    let builder = builder
        .sealing(Arc::new(VaultSealing(secrets.vault().clone())))
        .approval_times(times)
        .approval_pages(logins::approval_pages(config, *address));
    let Some(hook) = hook(parts)? else { return Ok(builder) };
    let (news, happened) = mpsc::channel(approval_hook::WAITING);
    house.spawn(hook.run(happened, house.stop_signal()));
    Ok(builder.approval_news(news))
}

fn hook(parts: &ApprovalParts<'_>) -> Result<Option<ApprovalHook>, Problem> {
    let approvals = &parts.config.approvals;
    let Some(url) = approvals.webhook.clone() else { return Ok(None) };
    let Some(secret) = &approvals.webhook_secret else {
        let problem = Problem::new(Kind::Definition, "`approvals.webhook` requires `approvals.webhook_secret`");
        return Err(problem.hint("make one with `toolcrib secret set hook`, and set it to `vault:hook`"));
    };
    Ok(Some(ApprovalHook {
        url,
        secret: identity::own_secret(secret, parts.secrets),
        is_private: approvals.webhook_private,
        http: CheckedClient::new(parts.client.clone(), Arc::new(SystemResolver)),
        clock: Arc::new(SystemClock),
    }))
}

//! `[identity]` in the settings of a scenario's gateway, and `auth` in the definitions of servers that want tokens.

use serde_json::{Map, Value, json};

use super::Reach;
use crate::harness::ROLES;
use crate::mock::Protection;
use crate::provider::ROLE_CLAIM;

/// An issuer whose tokens open the gateway.
#[derive(Debug, Clone)]
pub(crate) struct GatewayIssuer {
    pub(crate) name: String,
    pub(crate) issuer: String,
    /// What its tokens may be for beside the gateway.
    pub(crate) audiences: Vec<String>,
    /// The gateway's client, where it asks about tokens at each request; its secret lies in [`SECRET`].
    pub(crate) introspection: Option<String>,
}

/// Where the gateway's secret at its issuer lies, in the home.
pub(crate) const SECRET: &str = "scenario-secrets/introspection";
/// Where the secret of the client lies that exchanges tokens at the gateway, in the home.
pub(crate) const BROKER_SECRET: &str = "scenario-secrets/broker";
/// What this client is called.
pub(crate) const BROKER: &str = "broker";
/// Where secrets of clients of mock providers lie, in the home.
pub(super) const SECRETS: &str = "scenario-secrets";
/// What the name of the secret ends with that is for exchanges.
pub(super) const OF_EXCHANGE: &str = ".exchange";

/// The settings: everyone whom an issuer names has in all profiles what the claim of its role says.
pub(crate) fn settings(origin: &str, issuers: &[GatewayIssuer], profiles: &[String]) -> String {
    let mut text = format!("\n[identity]\nurl = {}\n", quoted(origin));
    let profiles: Vec<String> = profiles.iter().map(|name| quoted(name)).collect();
    for (at, issuer) in issuers.iter().enumerate() {
        let audiences: Vec<String> = issuer.audiences.iter().map(|audience| quoted(audience)).collect();
        text += &format!(
            "\n[[identity.issuer]]\nname = {}\nissuer = {}\nprivate = true\ngroups_claim = {}\naudience = [{}]\n",
            quoted(&named(&issuer.name, at)),
            quoted(&issuer.issuer),
            quoted(ROLE_CLAIM),
            audiences.join(", "),
        );
        if let Some(client) = &issuer.introspection {
            let (client, secret) = (quoted(client), quoted(&format!("file:{SECRET}")));
            // A token that a step takes back must not count a moment longer.
            text += &format!("introspect = {{client_id = {client}, client_secret = {secret}, each_request = true}}\n");
        }
        let grants = ROLES.map(|role| {
            let role = quoted(role);
            format!("{{group = {role}, role = {role}, profiles = [{}]}}", profiles.join(", "))
        });
        text += &format!("grants = [{}]\n", grants.join(", "));
    }
    text
}

/// The gateway's own authorization server, at which the runner exchanges tokens.
pub(crate) fn broker() -> String {
    let (client, secret) = (quoted(BROKER), quoted(&format!("file:{BROKER_SECRET}")));
    format!(
        "\n[identity.server]\nregistration = false\n\n[[identity.server.client]]\nid = {client}\n\
         client_secret = {secret}\nexchange = true\n"
    )
}

/// What is in the definition of a server that wants tokens.
pub(super) fn auth(server: &str, protection: &Protection, reach: &dyn Reach) -> Map<String, Value> {
    let mut auth = json!({ "type": "oauth" });
    let provider = protection.provider.as_ref().and_then(|name| reach.provider(name));
    if let Some(settings) = provider.as_ref().map(|provider| provider.settings()) {
        if let Some(client) = &settings.client_id {
            auth["client_id"] = client.as_str().into();
        }
        if settings.client_secret.is_some() {
            auth["client_secret"] = format!("file:{SECRETS}/{server}").into();
        }
    }
    if protection.forwards {
        auth["forwardToken"] = true.into();
    }
    if let Some(audience) = protection.audience.as_ref().filter(|_| protection.forwards) {
        auth["requiredAudiences"] = json!([audience]);
    }
    if let Some(exchange) = &protection.exchange {
        let provider = exchange.provider.as_ref().and_then(|name| reach.provider(name));
        let client = provider.as_ref().and_then(|provider| provider.settings().client_id.clone());
        let secret = provider.as_ref().and_then(|provider| provider.settings().client_secret.as_ref());
        let secret = secret.map(|_| format!("file:{SECRETS}/{server}{OF_EXCHANGE}"));
        let endpoint = provider.as_ref().map(|provider| provider.token_endpoint()).or(exchange.endpoint.clone());
        let issuer = exchange.issuer.clone().or_else(|| provider.map(|provider| provider.issuer().to_owned()));
        let mut keys = json!({ "enabled": !exchange.is_off });
        let optional = [
            ("dexTokenEndpoint", endpoint),
            ("expectedIssuer", issuer),
            ("connectorID", exchange.connector.clone()),
            ("clientId", client),
            ("clientSecret", secret),
            ("scopes", exchange.scopes.clone()),
        ];
        for (key, value) in optional.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            keys[key] = value.into();
        }
        auth["tokenExchange"] = keys;
    }
    auth.as_object().cloned().unwrap_or_default()
}

/// A text of TOML: JSON's escapes are TOML's too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A name as the settings want it: small letters, digits and dashes, and no two alike.
fn named(name: &str, at: usize) -> String {
    let plain: String =
        name.to_lowercase().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
    format!("i{at}-{}", plain.trim_matches('-')).trim_end_matches('-').to_owned()
}

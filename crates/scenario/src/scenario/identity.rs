//! Who has to be there so that a scenario's users can prove who they are: mock providers, and whether there are users at
//! all. Decided by what the file asks for, not by its name.

use toolcrib_base::nearest::nearest;
use toolcrib_catalog::yaml::Node;

use super::{Scenario, Step};
use crate::harness;
use crate::provider::{LIFETIME, ProviderSettings, TrustedIssuer};
use crate::value::{flag, text, texts, time};
use crate::wrong::Wrong;

/// The tools that are about users of the gateway.
const OF_USERS: [&str; 6] = [
    "test_create_user",
    "test_switch_user",
    "test_list_tools_for_user",
    "test_muster_auth_login",
    "test_simulate_muster_reauth",
    "test_reconnect_with_token",
];

/// Providers and users.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdentitySetup {
    pub(crate) providers: Vec<ProviderSettings>,
    /// Providers whose signed tokens open the gateway too.
    pub(crate) brokered: Vec<BrokeredIssuer>,
    /// Whether someone has to log in to the gateway.
    pub(crate) has_users: bool,
}

/// A provider whose tokens the gateway accepts beside those of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrokeredIssuer {
    pub(crate) provider: String,
    pub(crate) audiences: Vec<String>,
}

/// What the setup of a file says of providers.
pub(super) fn setup(node: &Node) -> IdentitySetup {
    let items = |key| node.get(key).map(Node::items).unwrap_or_default();
    let brokered = node.get("muster_broker").and_then(|broker| broker.get("trusted_issuers"));
    IdentitySetup {
        providers: items("mock_oauth_servers").iter().map(provider).collect(),
        brokered: brokered.map(Node::items).unwrap_or_default().iter().map(issuer).collect(),
        has_users: false,
    }
}

fn provider(node: &Node) -> ProviderSettings {
    let trusted = node.get("trusted_issuers").map(Node::items).unwrap_or_default();
    let trusted = trusted.iter().map(|node| TrustedIssuer {
        connector: text(node, "connector_id").unwrap_or_default(),
        provider: text(node, "oauth_server_ref").unwrap_or_default(),
    });
    ProviderSettings {
        name: text(node, "name").unwrap_or_default(),
        scopes: texts(node, "scopes"),
        approves: node.get("auto_approve").is_none() || flag(node, "auto_approve"),
        wants_pkce: flag(node, "pkce_required"),
        lifetime: time(node, "token_lifetime").unwrap_or(LIFETIME),
        client_id: text(node, "client_id"),
        client_secret: text(node, "client_secret"),
        error: text(node, "simulate_error"),
        has_mock_clock: flag(node, "use_mock_clock"),
        is_of_gateway: flag(node, "use_as_muster_oauth_server"),
        trusted: trusted.collect(),
        has_tls: flag(node, "use_tls"),
        signs: flag(node, "sign_tokens"),
    }
}

/// By its name alone, or with the audiences of its tokens.
fn issuer(node: &Node) -> BrokeredIssuer {
    let name = ["oauth_server_ref", "mock_oauth_server_ref", "name"].into_iter().find_map(|key| text(node, key));
    let audiences = ["allowed_audiences", "allowedAudiences", "audiences", "audience"];
    BrokeredIssuer {
        provider: node.text().or(name).unwrap_or_default(),
        audiences: audiences.into_iter().flat_map(|key| texts(node, key)).collect(),
    }
}

/// Whether users of the gateway call, or are made.
pub(super) fn has_users(scenario: &Scenario) -> bool {
    let is_of_users = |step: &Step| step.user.is_some() || step.tool().is_some_and(|tool| OF_USERS.contains(&tool));
    scenario.all_steps().any(is_of_users)
}

/// Names of providers and of the runner's tools that are not there.
pub(super) fn check(scenario: &Scenario) -> Vec<Wrong> {
    let setup = &scenario.setup;
    let names: Vec<&str> = setup.identity.providers.iter().map(|provider| provider.name.as_str()).collect();
    let mut found = Vec::new();
    let mut add = |line, path: String, message, hint| {
        found.push(Wrong { file: scenario.file.clone(), line, path, message, hint });
    };
    let mut refer = |path: String, name: &str| {
        if !names.contains(&name) {
            let hint = nearest(name, names.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            add(1, path, format!("there is no mock provider `{name}`"), hint);
        }
    };
    for provider in &setup.identity.providers {
        for trusted in &provider.trusted {
            refer(format!("mock_oauth_servers.{}.trusted_issuers", provider.name), &trusted.provider);
        }
    }
    for issuer in &setup.identity.brokered {
        refer("muster_broker.trusted_issuers".to_owned(), &issuer.provider);
    }
    for server in &setup.servers {
        let Some(protection) = &server.protection else { continue };
        let exchanging = protection.exchange.as_ref().and_then(|exchange| exchange.provider.as_ref());
        for name in [protection.provider.as_ref(), protection.trusted.as_ref(), exchanging].into_iter().flatten() {
            refer(format!("mcp_servers.{}.oauth", server.name), name);
        }
    }
    for step in scenario.all_steps() {
        let Some(tool) = step.tool().filter(|tool| tool.starts_with("test_") && harness::find(tool).is_none()) else {
            continue;
        };
        let near = nearest(tool, harness::TOOLS.iter().map(|table| table.name));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        add(step.line, "tool".to_owned(), format!("the runner has no tool `{tool}`"), hint);
    }
    found
}

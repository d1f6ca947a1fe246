//! Remotes with a registration endpoint, open or not quite.

use serde_json::json;

use super::{ClientSettings, CorpusEntry, LoginEnd, OTHER_REDIRECT, REGISTER_BY_HAND};
use crate::provider::rules::{
    MetadataPlace, Page, ProviderRules, RedirectRule, RefreshCondition, RefreshRule, Registration, RemoteRules,
    ResourcePlace, ResourceRule, Rotation, ScopeRule, ServerRules, StatedIssuer,
};

/// Access tokens of 24 hours, refresh tokens that rotate with 30 minutes of grace (anthropics/claude-code#85236).
pub(super) fn linear() -> CorpusEntry {
    let provider = ProviderRules {
        lifetime: Some(86_400),
        refresh: RefreshRule { rotation: Rotation::Grace(1_800), ..RefreshRule::default() },
        resource: ResourceRule::Unread,
        ..ProviderRules::default()
    };
    entry("linear", at_one_host("mcp.linear.app", provider), LoginEnd::Renewal)
}

/// Refresh tokens rotate; an old one ends the grant for every session (damianvtran/local-operator#345,
/// openclaw/mcporter#226). Two proofs of a client in one request are refused (onyx-dot-app/onyx#12874).
pub(super) fn notion() -> CorpusEntry {
    let provider = ProviderRules { resource: ResourceRule::Unread, ..ProviderRules::default() };
    entry("notion", at_one_host("mcp.notion.com", provider), LoginEnd::Renewal)
}

/// The same software as several others: it takes client metadata documents and says so. A client whose address is not
/// public registers (anomalyco/opencode#47743).
pub(super) fn sentry() -> CorpusEntry {
    let provider = ProviderRules {
        edits: json!({"client_id_metadata_document_supported": true}),
        scopes: ScopeRule { supported: &["org:read", "project:write"], ..ScopeRule::default() },
        ..ProviderRules::default()
    };
    entry("sentry", at_one_host("mcp.sentry.dev", provider), LoginEnd::Renewal)
}

/// A refresh leaves the refresh token as it is and out of the answer (RFC 6749 §6 allows it; losing the old one then
/// is a frequent error: Consensys/ask-o11y-plugin#187).
pub(super) fn asana() -> CorpusEntry {
    let provider = ProviderRules {
        refresh: RefreshRule { rotation: Rotation::Unchanged, ..RefreshRule::default() },
        resource: ResourceRule::Unread,
        ..ProviderRules::default()
    };
    entry("asana", at_one_host("mcp.asana.com", provider), LoginEnd::Renewal)
}

/// Every client gets a secret and proves itself by `client_secret_post` (miroapp/miro-ai#59); who sends the secret in
/// another way is refused (openai/codex#40928).
pub(super) fn miro() -> CorpusEntry {
    let provider = ProviderRules {
        registration: Registration::SecretAlways,
        edits: json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}),
        ..ProviderRules::default()
    };
    entry("miro", at_one_host("mcp.miro.com", provider), LoginEnd::Renewal)
}

/// Registration answers 403 and the word `Forbidden` to every client whose name is not on a list
/// (docker/sbx-releases#435, anthropics/claude-code#74768).
pub(super) fn figma() -> CorpusEntry {
    let refusal = Page { status: 403, media_type: "text/plain", body: "Forbidden" };
    let provider = ProviderRules { registration: Registration::Refusal(refusal), ..figma_provider() };
    entry("figma", figma_rules(provider), REGISTER_BY_HAND)
}

/// The same for a client on the list: it gets a secret although it asked for none, the answer says `none`, and the
/// token endpoint asks for the secret.
pub(super) fn figma_approved() -> CorpusEntry {
    let provider = ProviderRules { registration: Registration::SecretForNone, ..figma_provider() };
    entry("figma, client on its list", figma_rules(provider), LoginEnd::Renewal)
}

fn figma_provider() -> ProviderRules {
    ProviderRules {
        host: "api.figma.com",
        scopes: ScopeRule { required: true, supported: &["mcp:connect"], ..ScopeRule::default() },
        resource: ResourceRule::Unread,
        ..ProviderRules::default()
    }
}

fn figma_rules(provider: ProviderRules) -> RemoteRules {
    let server = ServerRules {
        host: "mcp.figma.com",
        metadata: vec![ResourcePlace::Root],
        scopes_supported: &["mcp:connect"],
        ..ServerRules::default()
    };
    RemoteRules { provider, server, one_origin: false }
}

/// Metadata name the origin as their issuer, although they were asked for a tenant below it
/// (atlassian/atlassian-mcp-server#205). A refresh token for `offline_access` only (sourcebot-dev/sourcebot#1292); one
/// that is not valid is `unauthorized_client` (openai/codex#27165).
pub(super) fn atlassian() -> CorpusEntry {
    let provider = ProviderRules { issuer: StatedIssuer::Origin, ..atlassian_provider() };
    entry("atlassian", atlassian_rules(provider), LoginEnd::Renewal)
}

/// What its next version does: a loopback redirect can be registered, and is refused to the person on a page
/// (atlassian/atlassian-mcp-server#246).
pub(super) fn atlassian_loopback() -> CorpusEntry {
    let provider = ProviderRules { redirects: RedirectRule::NoLoopback, ..atlassian_provider() };
    entry("atlassian, no loopback redirect", atlassian_rules(provider), OTHER_REDIRECT)
}

fn atlassian_provider() -> ProviderRules {
    ProviderRules {
        host: "auth.atlassian.com",
        path: "/VCeDsk8ZHncYF1g2",
        resource: ResourceRule::Unread,
        scopes: ScopeRule { supported: &["read:jira-work", "offline_access"], ..ScopeRule::default() },
        refresh: RefreshRule {
            condition: RefreshCondition::OfflineScope,
            error: "unauthorized_client",
            ..RefreshRule::default()
        },
        ..ProviderRules::default()
    }
}

fn atlassian_rules(provider: ProviderRules) -> RemoteRules {
    let server = ServerRules {
        host: "mcp.atlassian.com",
        path: "/v1/mcp/authv2",
        scopes_supported: &["read:jira-work"],
        ..ServerRules::default()
    };
    RemoteRules { provider, server, one_origin: false }
}

/// Clients are purged after some weeks; the person then sees an error about the redirect, after the login
/// (diillson/chatcli#1308). The tests forget the clients.
pub(super) fn aws() -> CorpusEntry {
    let provider = ProviderRules {
        host: "us-east-1.signin.aws",
        path: "/v1",
        unknown_client: Page { status: 400, media_type: "text/html", body: "<h1>Invalid redirect_uri</h1>" },
        ..ProviderRules::default()
    };
    let server = ServerRules { host: "aws-mcp.us-east-1.api.aws", ..ServerRules::default() };
    entry("aws", RemoteRules { provider, server, one_origin: false }, LoginEnd::Renewal)
}

/// The issuer ends with a slash. `resource` is not read: without `audience` the token is for nobody
/// (danny-avila/LibreChat#13401). A refresh token for `offline_access` only.
pub(super) fn auth0() -> CorpusEntry {
    let provider = ProviderRules {
        host: "acme.eu.auth0.com",
        issuer: StatedIssuer::Slash,
        metadata: vec![MetadataPlace::OAuthInserted, MetadataPlace::OpenIdAppended],
        resource: ResourceRule::Audience,
        scopes: ScopeRule { supported: &["openid", "profile", "offline_access"], ..ScopeRule::default() },
        refresh: RefreshRule { condition: RefreshCondition::OfflineScope, ..RefreshRule::default() },
        ..ProviderRules::default()
    };
    let server = ServerRules { host: "api.acme.example", issuer: StatedIssuer::Slash, ..ServerRules::default() };
    entry("auth0", RemoteRules { provider, server, one_origin: false }, LoginEnd::Renewal)
}

/// Registration refuses members that are none of client metadata: `Unrecognized field "resource"`
/// (turnstonelabs/turnstone#1082). Metadata by OpenID Connect Discovery behind the realm. `resource` is not read; the
/// audience is the realm's business.
pub(super) fn keycloak() -> CorpusEntry {
    let provider = ProviderRules {
        host: "sso.acme.example",
        path: "/realms/mcp",
        metadata: vec![MetadataPlace::OpenIdAppended],
        registration: Registration::KnownMembers,
        resource: ResourceRule::Unread,
        lifetime: Some(300),
        ..ProviderRules::default()
    };
    let server = ServerRules { host: "mcp.acme.example", ..ServerRules::default() };
    entry("keycloak", RemoteRules { provider, server, one_origin: false }, LoginEnd::Renewal)
}

fn at_one_host(host: &'static str, provider: ProviderRules) -> RemoteRules {
    let server = ServerRules { host, ..ServerRules::default() };
    RemoteRules { provider: ProviderRules { host, ..provider }, server, one_origin: true }
}

fn entry(name: &'static str, rules: RemoteRules, end: LoginEnd) -> CorpusEntry {
    CorpusEntry { name, rules, settings: ClientSettings::default(), end }
}

//! Remotes with tokens, errors and challenges of their own.

use super::{ClientSettings, CorpusEntry, LoginEnd};
use crate::provider::rules::{
    IssRule, LockedPart, ProviderRules, RefreshCondition, RefreshRule, RemoteRules, ScopeRule, ServerRules,
};

/// Everyone may connect and list; a call gives 401.
pub(super) fn calls_only() -> CorpusEntry {
    let server = ServerRules { locked: LockedPart::Calls, ..ServerRules::default() };
    entry("401 at calls only", RemoteRules { server, ..RemoteRules::default() }, LoginEnd::Renewal)
}

/// Answers do not say how long a token lives, and it does end: the first sign is a 401 (danny-avila/LibreChat#13248).
pub(super) fn no_lifetime() -> CorpusEntry {
    let provider = ProviderRules { says_lifetime: false, ..ProviderRules::default() };
    entry("no expires_in", of_provider(provider), LoginEnd::Renewal)
}

/// A token of 60 days and nothing to renew it with (anthropics/claude-code#86430, of a large provider of
/// advertisements).
pub(super) fn no_refresh_token() -> CorpusEntry {
    let provider = ProviderRules {
        lifetime: Some(60 * 86_400),
        refresh: RefreshRule { condition: RefreshCondition::Never, ..RefreshRule::default() },
        ..ProviderRules::default()
    };
    entry("no refresh token", of_provider(provider), LoginEnd::Token)
}

/// A refresh token only for `offline_access`, which the provider lists and the server does not
/// (latitude-dev/latitude-llm#3373, anomalyco/opencode#34034).
pub(super) fn offline_scope() -> CorpusEntry {
    let provider = ProviderRules {
        scopes: ScopeRule {
            known: &["tools", "offline_access"],
            supported: &["tools", "offline_access"],
            ..ScopeRule::default()
        },
        refresh: RefreshRule { condition: RefreshCondition::OfflineScope, ..RefreshRule::default() },
        ..ProviderRules::default()
    };
    let server = ServerRules { scopes_supported: &["tools"], ..ServerRules::default() };
    let rules = RemoteRules { provider, server, one_origin: false };
    entry("offline_access of the provider", rules, LoginEnd::Renewal)
}

/// A refresh token that is not valid is `invalid_request` (obot-platform/obot#7501).
pub(super) fn invalid_request() -> CorpusEntry {
    let refresh = RefreshRule { error: "invalid_request", ..RefreshRule::default() };
    let provider = ProviderRules { refresh, ..ProviderRules::default() };
    entry("invalid_request for a refresh token", of_provider(provider), LoginEnd::Renewal)
}

/// Lists need one scope, calls one more, which is said in a 403 when one is made.
pub(super) fn step_up() -> CorpusEntry {
    let server = ServerRules { challenge_scope: "read", call_scope: "write", ..ServerRules::default() };
    let rules = RemoteRules { server, ..RemoteRules::default() };
    entry("more scopes for calls", rules, LoginEnd::Renewal)
}

/// The redirect names the issuer, as the metadata promise (RFC 9207).
pub(super) fn issuer_in_redirect() -> CorpusEntry {
    let provider = ProviderRules { iss: IssRule::Issuer, ..ProviderRules::default() };
    entry("issuer in the redirect", of_provider(provider), LoginEnd::Renewal)
}

/// `token_type` is missing (slackhq/slack-api-docs#68).
pub(super) fn no_token_type() -> CorpusEntry {
    let provider = ProviderRules { token_type: "", ..ProviderRules::default() };
    entry("no token_type", of_provider(provider), LoginEnd::Renewal)
}

fn of_provider(provider: ProviderRules) -> RemoteRules {
    RemoteRules { provider, ..RemoteRules::default() }
}

fn entry(name: &'static str, rules: RemoteRules, end: LoginEnd) -> CorpusEntry {
    CorpusEntry { name, rules, settings: ClientSettings::default(), end }
}

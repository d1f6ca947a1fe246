//! The keys of mock identity providers and of servers that want their tokens.

use super::{Key, Shape, Table, key, needed};

/// One of `mock_oauth_servers`.
pub(super) static PROVIDER: Table = Table {
    name: "provider",
    open: false,
    keys: &[
        needed("name", Shape::Text, "how servers and steps refer to it"),
        key("issuer", Shape::Ignored, ""),
        key("scopes", Shape::Texts, "the scopes that it knows; any without it"),
        key("auto_approve", Shape::Flag, "`false`: it asks at each login; `true` without it"),
        key("pkce_required", Shape::Flag, "a login without PKCE fails"),
        key("token_lifetime", Shape::Time, "how long access tokens last; 1h"),
        key("client_id", Shape::Text, "the client that is registered; without it clients register themselves"),
        key("client_secret", Shape::Text, "its secret; a public client without it"),
        key("simulate_error", Shape::Text, "the token endpoint refuses everything with this error or description"),
        key("use_mock_clock", Shape::Flag, "`test_advance_oauth_clock` can put its clock forward"),
        key("use_as_muster_oauth_server", Shape::Flag, "its access tokens open the gateway"),
        key("trusted_issuers", Shape::Objects(&TRUSTED), "whose tokens it exchanges for its own"),
        key("use_tls", Shape::Flag, "it listens with TLS; the gateway trusts its certificate"),
        key("sign_tokens", Shape::Flag, "its access tokens are signed (JWT); opaque without it"),
    ],
};

static TRUSTED: Table = Table {
    name: "trusted_issuer",
    open: false,
    keys: &[
        needed("connector_id", Shape::Text, "what a request calls it in `connector_id`"),
        needed("oauth_server_ref", Shape::Text, "the mock provider"),
    ],
};

/// `oauth` of a mock server.
pub(super) static PROTECTION: Table = Table {
    name: "protection",
    open: false,
    keys: &[
        key("required", Shape::Flag, "`false`: it wants no token"),
        key("mock_oauth_server_ref", Shape::Text, "the mock provider whose tokens it accepts"),
        key("scope", Shape::Text, "the scopes that a token must have"),
        key("forward_token", Shape::Flag, "the gateway passes its caller's own token on"),
        key("token_exchange", Shape::Object(&EXCHANGE), "the gateway exchanges its caller's token"),
        key("trust_issuer_ref", Shape::Text, "one more provider whose signed tokens it accepts"),
        key("expected_audience", Shape::Text, "what a token must have in `aud`, in place of the server's URL"),
    ],
};

static EXCHANGE: Table = Table { name: "token_exchange", open: false, keys: EXCHANGE_KEYS };

const EXCHANGE_KEYS: &[Key] = &[
    key("enabled", Shape::Flag, "`false` turns it off"),
    key("oauth_server_ref", Shape::Text, "the mock provider that exchanges"),
    key("dex_token_endpoint", Shape::Text, "its token endpoint, where it is no mock"),
    key("connector_id", Shape::Text, "what it calls the issuer of the caller's token"),
    key("scopes", Shape::Text, "what is asked for"),
    key("expected_issuer", Shape::Text, "the issuer of the new token"),
];

/// `muster_broker`.
pub(super) static BROKER: Table = Table {
    name: "broker",
    open: false,
    keys: &[key("trusted_issuers", Shape::List, "mock providers whose signed tokens open the gateway")],
};

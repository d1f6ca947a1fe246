//! Where a provider's endpoints are, and the documents that say so (RFC 8414, OpenID Connect Discovery).

use serde_json::{Value, json};

use super::Provider;

pub(super) const AUTHORIZE: &str = "/authorize";
pub(super) const TOKEN: &str = "/token";
pub(super) const USERINFO: &str = "/userinfo";
pub(super) const KEYS: &str = "/jwks";
pub(super) const INTROSPECT: &str = "/introspect";
pub(super) const REVOKE: &str = "/revoke";
pub(super) const REGISTER: &str = "/register";
/// Both documents say the same.
pub(super) const DOCUMENTS: [&str; 2] =
    ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];

pub(super) fn document(provider: &Provider) -> Value {
    let at = |path: &str| format!("{}{path}", provider.issuer());
    let mut document = json!({
        "issuer": provider.issuer(),
        "authorization_endpoint": at(AUTHORIZE),
        "token_endpoint": at(TOKEN),
        "userinfo_endpoint": at(USERINFO),
        "jwks_uri": at(KEYS),
        "introspection_endpoint": at(INTROSPECT),
        "revocation_endpoint": at(REVOKE),
        "response_types_supported": ["code"],
        "grant_types_supported": [
            "authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "scopes_supported": provider.settings().scopes,
        "authorization_response_iss_parameter_supported": true,
    });
    if provider.settings().client_id.is_none() {
        document["registration_endpoint"] = at(REGISTER).into();
    }
    document
}

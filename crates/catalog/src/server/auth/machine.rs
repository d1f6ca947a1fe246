//! Keys of `auth` for what proves itself without a person: the gateway's own client, a workload, an identity provider that
//! vouches for callers.

use super::{AuthType, ServerAuth, own_secret, secure};
use crate::endpoint::Endpoint;
use crate::reader::{Cursor, Fields};
use crate::secret::SecretRef;

/// The identity provider of a company, which says whether a caller may use a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    pub token_endpoint: Option<Endpoint>,
    /// The gateway's client there; where its secret is, never plain text.
    pub client_id: Option<String>,
    pub client_secret: Option<SecretRef>,
    /// Where the ID token is, for a gateway of one person; without it each caller's own.
    pub id_token: Option<SecretRef>,
}

pub(super) fn identity_provider(cursor: Cursor<'_>) -> Option<IdentityProvider> {
    let fields = cursor.fields()?;
    if !fields.has("tokenEndpoint") {
        let hint = "add `tokenEndpoint:` with the address where the provider exchanges tokens".to_owned();
        fields.problem("tokenEndpoint", "expected the provider's token endpoint, got nothing", Some(hint));
    }
    let provider = IdentityProvider {
        token_endpoint: fields.get("tokenEndpoint").and_then(|cursor| secure(&cursor)),
        client_id: fields.text("clientId"),
        client_secret: fields.get("clientSecret").and_then(|cursor| own_secret(&cursor)),
        id_token: fields.get("idToken").and_then(|cursor| own_secret(&cursor)),
    };
    fields.finish();
    Some(provider)
}

/// What the types need, and what belongs to one of them only.
pub(super) fn check(fields: &Fields<'_>, auth: &ServerAuth) {
    let need = |key: &'static str, what: &str| {
        if !fields.has(key) {
            let message = format!("expected {what}, which `type: {}` needs", auth.kind.as_str());
            fields.problem(key, message, None);
        }
    };
    match auth.kind {
        AuthType::ClientCredentials => {
            need("client_id", "the id of the gateway's client");
            if !fields.has("client_secret") && !fields.has("private_key") {
                need("client_secret", "`client_secret` or `private_key`");
            }
        }
        AuthType::Workload => need("assertion", "where the workload's token is, such as `file:/var/run/token`"),
        AuthType::Enterprise => need("identityProvider", "who vouches for callers"),
        AuthType::OAuth | AuthType::None | AuthType::Teleport => {}
    }
    let is_machine = matches!(auth.kind, AuthType::ClientCredentials | AuthType::Enterprise | AuthType::Workload);
    for (key, fits, of) in [
        ("private_key", is_machine && auth.kind != AuthType::Workload, "client_credentials` or `enterprise"),
        ("key_id", auth.private_key.is_some(), "client_credentials` with `private_key"),
        ("assertion", auth.kind == AuthType::Workload, "workload"),
        ("identityProvider", auth.kind == AuthType::Enterprise, "enterprise"),
        ("token_endpoint", is_machine, "client_credentials`, `enterprise` or `workload"),
    ] {
        if let (false, Some(cursor)) = (fits, fields.get(key)) {
            cursor.problem(format!("belongs to `type: {of}`"), Some("remove the key, or change `type`".to_owned()));
        }
    }
    let passes_on = auth.kind == AuthType::OAuth && auth.signs_on();
    if let (true, Some(cursor)) = (passes_on || auth.kind == AuthType::Teleport, fields.get("dpop")) {
        let hint = "remove the key: what is not got for the gateway is not bound to its key".to_owned();
        cursor.problem("belongs to a login of the server's own, or a token of the gateway's client", Some(hint));
    }
    if auth.private_key.is_some()
        && auth.client_secret.is_some()
        && let Some(cursor) = fields.get("private_key")
    {
        let message = "`client_secret` and `private_key` of `auth` are mutually exclusive";
        cursor.problem(message, Some("keep one of the two".to_owned()));
    }
    for key in ["forwardToken", "tokenExchange"] {
        if let (true, Some(cursor)) = (is_machine, fields.get(key)) {
            let message = format!("`{key}` and `type: {}` of `auth` are mutually exclusive", auth.kind.as_str());
            cursor.problem(message, Some("keep one of the two".to_owned()));
        }
    }
}

//! Keys of `auth` for logins that begin elsewhere: token exchange, Teleport, a separate authorization server. Teleport's
//! are checked and kept, and nothing uses them.

use super::{AuthType, Issuer, SECURE_PATTERN, is_secure, own_secret, plain_address, scopes, secure};
use crate::endpoint::Endpoint;
use crate::reader::{Cursor, Fields};
use crate::secret::SecretRef;

/// A token of the client is exchanged for one of another cluster (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenExchange {
    pub enabled: bool,
    /// Always `https://`, or on this machine.
    pub dex_token_endpoint: Option<Endpoint>,
    pub expected_issuer: Option<String>,
    pub connector_id: Option<String>,
    pub scopes: Vec<String>,
    pub client_credentials: Option<ClientSecretRef>,
    /// The gateway's client there; where its secret is, never plain text.
    pub client_id: Option<String>,
    pub client_secret: Option<SecretRef>,
}

/// A client's id and secret, as muster names a secret of Kubernetes: here two entries of the vault, `name/key` each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSecretRef {
    pub name: Option<String>,
    pub namespace: Option<String>,
    /// The key of the id in it; without it `client-id`.
    pub client_id_key: Option<String>,
    /// The key of the secret in it; without it `client-secret`.
    pub client_secret_key: Option<String>,
}

/// An application behind Teleport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Teleport {
    pub app_name: Option<String>,
    pub identity: TeleportIdentity,
}

/// Where the certificate of Teleport is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeleportIdentity {
    /// In a folder that `tbot` writes.
    Folder(String),
    /// In a secret of Kubernetes.
    Secret { name: String, namespace: Option<String> },
}

pub(super) fn token_exchange(cursor: Cursor<'_>) -> Option<TokenExchange> {
    let fields = cursor.fields()?;
    let enabled = fields.get("enabled").and_then(|cursor| cursor.flag()).unwrap_or(false);
    // Anyone who reads that connection could pass for the user.
    let endpoint = fields.get("dexTokenEndpoint").and_then(|cursor| secure(&cursor));
    if enabled && !fields.has("dexTokenEndpoint") {
        let hint = "add `dexTokenEndpoint:` with the `https://` address of the other cluster's provider".to_owned();
        fields.problem("dexTokenEndpoint", "expected the address that exchanges tokens, got nothing", Some(hint));
    }
    let connector = fields.either("connectorId", "connectorID");
    let exchange = TokenExchange {
        enabled,
        dex_token_endpoint: endpoint,
        expected_issuer: fields.text("expectedIssuer"),
        connector_id: connector.and_then(|cursor| cursor.text().map(str::to_owned)),
        scopes: scopes(&fields),
        client_credentials: fields.get("clientCredentialsSecretRef").and_then(client_credentials),
        client_id: fields.text("clientId"),
        client_secret: fields.get("clientSecret").and_then(|cursor| own_secret(&cursor)),
    };
    for key in ["clientId", "clientSecret"] {
        if let (true, Some(cursor)) = (exchange.client_credentials.is_some(), fields.get(key)) {
            let message = format!("`{key}` and `clientCredentialsSecretRef` are mutually exclusive");
            cursor.problem(message, Some("keep one of the two".to_owned()));
        }
    }
    fields.finish();
    Some(exchange)
}

fn client_credentials(cursor: Cursor<'_>) -> Option<ClientSecretRef> {
    let fields = cursor.fields()?;
    let secret = ClientSecretRef {
        name: fields.text("name"),
        namespace: fields.text("namespace"),
        client_id_key: fields.text("clientIdKey"),
        client_secret_key: fields.text("clientSecretKey"),
    };
    fields.finish();
    Some(secret)
}

pub(super) fn teleport(fields: &Fields<'_>, kind: AuthType) -> Option<Teleport> {
    let Some(cursor) = fields.get("teleport") else {
        if kind == AuthType::Teleport {
            let hint = "add `teleport:` with `identityDir:` or `identitySecretName:` in it".to_owned();
            fields.problem("teleport", "expected where the identity is, which `type: teleport` needs", Some(hint));
        }
        return None;
    };
    let (whole, fields) = (fields.get("teleport")?, cursor.fields()?);
    let text = |key| fields.text(key).filter(|text| !text.is_empty());
    let (folder, name, namespace) = (text("identityDir"), text("identitySecretName"), text("identitySecretNamespace"));
    let app_name = text("appName");
    let identity = match (folder, name) {
        (Some(folder), None) => Some(TeleportIdentity::Folder(folder)),
        (None, Some(name)) => Some(TeleportIdentity::Secret { name, namespace }),
        (Some(_), Some(_)) => {
            let message = "`identityDir` and `identitySecretName` of `auth.teleport` are mutually exclusive";
            whole.problem(message, Some("keep one of the two".to_owned()));
            None
        }
        (None, None) => {
            whole.problem("expected one of `identityDir` and `identitySecretName`, got neither", None);
            None
        }
    };
    fields.finish();
    Some(Teleport { app_name, identity: identity? })
}

/// `authorizationServer`: muster's place for what `issuer` and `scopes` say.
pub(super) fn authorization_server(fields: &Fields<'_>) -> Option<Issuer> {
    let fields = fields.get("authorizationServer")?.fields()?;
    let hint = "add a line such as `issuer: https://login.example.com`".to_owned();
    let issuer = fields.require("issuer", "the address of the issuer", hint).and_then(|cursor| {
        let address = plain_address(&cursor, SECURE_PATTERN)?;
        let text = address.expose();
        let is_good =
            text.starts_with("https://") && is_secure(&address) && !text.ends_with('/') && !text.contains('?');
        if !is_good {
            cursor.expected("an `https://` address that does not end in `/`");
        }
        is_good.then_some(address)
    });
    let scopes = scopes(&fields);
    fields.finish();
    Some(Issuer { address: issuer, scopes })
}

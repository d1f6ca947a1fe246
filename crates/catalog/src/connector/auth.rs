//! How a connector's server knows who calls: the key `auth`, in the forms of Valinor and its documents. Every secret is a
//! reference to the vault, and nothing that stands in the place of one is repeated.

use crate::define;
use crate::endpoint::Endpoint;
use crate::reader::{Cursor, Fields, choice};
use crate::secret::SecretRef;

/// Every key that holds a secret, whatever the kind.
const SECRETS: [&str; 5] = ["api_key", "token", "password", "value", "client_secret"];
/// Every other key.
const PLAIN: [&str; 5] = ["username", "header", "client_id", "token_url", "scope"];

choice! {
    /// The kinds of credentials.
    ConnectorAuthKind {
        None = "none",
        /// A key, as a bearer token or in a header of its own.
        ApiKey = "api_key",
        Bearer = "bearer",
        /// A user and a password.
        Basic = "basic",
        /// Any header.
        Header = "header",
        OAuth2 = "oauth2",
    }
}

/// A credential, by reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectorAuth {
    /// None is sent.
    None,
    /// `Authorization: Bearer …`, of `bearer`, and of `api_key` without a header.
    Bearer { kind: ConnectorAuthKind, token: SecretRef },
    /// `Authorization: Basic …`.
    Basic { username: String, password: SecretRef },
    /// The value as it is, of `header`, and of `api_key` with one.
    Header { kind: ConnectorAuthKind, header: String, value: SecretRef },
    /// A token of the client's own, the same for all callers.
    Client { client_id: String, client_secret: SecretRef, token_url: Option<Endpoint>, scopes: Vec<String> },
    /// A token of a person's login.
    Login { client_id: Option<String>, scopes: Vec<String> },
}

// === impl ConnectorAuth ===

impl ConnectorAuth {
    /// Its word.
    pub fn kind(&self) -> ConnectorAuthKind {
        match self {
            Self::None => ConnectorAuthKind::None,
            Self::Bearer { kind, .. } | Self::Header { kind, .. } => *kind,
            Self::Basic { .. } => ConnectorAuthKind::Basic,
            Self::Client { .. } | Self::Login { .. } => ConnectorAuthKind::OAuth2,
        }
    }

    /// The name in the vault of its secret, where it has one.
    pub fn vault_entry(&self) -> Option<&str> {
        let reference = match self {
            Self::None | Self::Login { .. } => return None,
            Self::Bearer { token: secret, .. }
            | Self::Basic { password: secret, .. }
            | Self::Header { value: secret, .. }
            | Self::Client { client_secret: secret, .. } => secret,
        };
        match reference {
            SecretRef::Vault(name) => Some(name),
            _ => None,
        }
    }

    /// Whether anything is sent that others must not read.
    pub fn has_credential(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The key as it is written. `{api_key}` alone is Valinor's first form.
pub(super) fn read(cursor: Cursor<'_>) -> Option<ConnectorAuth> {
    let fields = cursor.fields()?;
    let kind = match fields.get("type") {
        Some(kind) => kind.choice(),
        None => kind_of(&fields),
    };
    if let Some(refresh) = fields.get_unlisted("refresh_token") {
        let hint = "remove it, and run `toolcrib login NAME` once: the gateway keeps and renews the tokens itself";
        refresh.problem("is no part of a definition", Some(hint.to_owned()));
    }
    let auth = match kind {
        None => {
            // No one knows which keys belong here, so all of them are looked at for secrets alone.
            SECRETS.iter().for_each(|key| drop(secret(&fields, key)));
            PLAIN.iter().for_each(|key| drop(fields.get(key)));
            None
        }
        Some(kind) => of_kind(&fields, kind),
    };
    fields.finish();
    auth
}

/// The kind of what does not say it: nothing is no credential, and each secret has a kind of its own.
fn kind_of(fields: &Fields<'_>) -> Option<ConnectorAuthKind> {
    let kinds = [
        ("api_key", ConnectorAuthKind::ApiKey),
        ("token", ConnectorAuthKind::Bearer),
        ("password", ConnectorAuthKind::Basic),
        ("value", ConnectorAuthKind::Header),
        ("client_secret", ConnectorAuthKind::OAuth2),
    ];
    let found = kinds.iter().find(|(key, _)| fields.has(key)).map(|(_, kind)| *kind);
    found.or_else(|| {
        let is_empty = !PLAIN.iter().any(|key| fields.has(key));
        if !is_empty {
            let hint = "add `type:` with `none`, `api_key`, `bearer`, `basic`, `header` or `oauth2`".to_owned();
            fields.problem("type", "expected the kind of the credential, got nothing", Some(hint));
        }
        is_empty.then_some(ConnectorAuthKind::None)
    })
}

fn of_kind(fields: &Fields<'_>, kind: ConnectorAuthKind) -> Option<ConnectorAuth> {
    let own: &[&str] = match kind {
        ConnectorAuthKind::None => &[],
        ConnectorAuthKind::ApiKey => &["api_key", "header"],
        ConnectorAuthKind::Bearer => &["token"],
        ConnectorAuthKind::Basic => &["username", "password"],
        ConnectorAuthKind::Header => &["header", "value"],
        ConnectorAuthKind::OAuth2 => &["client_id", "client_secret", "token_url", "scope"],
    };
    for key in SECRETS.iter().chain(&PLAIN).filter(|key| !own.contains(key)) {
        fields.misplaced(key, &format!("has no meaning with `type: {kind}`"));
    }
    match kind {
        ConnectorAuthKind::None => Some(ConnectorAuth::None),
        ConnectorAuthKind::ApiKey => {
            let api_key = required(fields, "api_key");
            match fields.get("header") {
                None => Some(ConnectorAuth::Bearer { kind, token: api_key? }),
                Some(_) => Some(ConnectorAuth::Header { kind, header: header(fields)?, value: api_key? }),
            }
        }
        ConnectorAuthKind::Bearer => Some(ConnectorAuth::Bearer { kind, token: required(fields, "token")? }),
        ConnectorAuthKind::Basic => {
            let username = user(fields);
            Some(ConnectorAuth::Basic { password: required(fields, "password")?, username: username? })
        }
        ConnectorAuthKind::Header => {
            let header = header(fields);
            Some(ConnectorAuth::Header { kind, value: required(fields, "value")?, header: header? })
        }
        ConnectorAuthKind::OAuth2 => oauth(fields),
    }
}

fn oauth(fields: &Fields<'_>) -> Option<ConnectorAuth> {
    let client_id = fields.get("client_id").map(|cursor| cursor.word("the id that the provider gave to its client"));
    let scopes = fields.text("scope").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let token_url = fields.get("token_url").map(|cursor| crate::server::auth::secure(&cursor));
    if !fields.has("client_secret") {
        if token_url.is_some() {
            let hint = "add `client_secret: vault:NAME`, or remove `token_url`: a login finds its provider".to_owned();
            fields.problem("client_secret", "expected the secret of the client, got nothing", Some(hint));
        }
        return Some(ConnectorAuth::Login { client_id: client_id.flatten(), scopes });
    }
    let client_secret = required(fields, "client_secret");
    if client_id.is_none() {
        let hint = "add `client_id:` with the id that the provider gave".to_owned();
        fields.problem("client_id", "expected the client's id beside its secret, got nothing", Some(hint));
    }
    let token_url = match token_url {
        Some(url) => Some(url?),
        None => None,
    };
    Some(ConnectorAuth::Client { client_id: client_id.flatten()?, client_secret: client_secret?, token_url, scopes })
}

/// The user of `basic`, who has no colon (RFC 7617, section 2).
fn user(fields: &Fields<'_>) -> Option<String> {
    let cursor = needed(fields, "username", "the user of `basic`", "add `username:`".to_owned())?;
    let text = cursor.text()?;
    let is_good = !text.is_empty() && !text.contains(':') && !text.chars().any(char::is_control);
    if !is_good {
        cursor.problem("expected a user without a colon, in one line", None);
    }
    is_good.then(|| text.to_owned())
}

fn header(fields: &Fields<'_>) -> Option<String> {
    let cursor = needed(fields, "header", "the name of the header", "add `header: X-API-Key`".to_owned())?;
    let name = cursor.text()?;
    if let Some(fault) = define::header_fault(name) {
        cursor.problem(fault, Some("write the header that the server reads, such as `X-API-Key`".to_owned()));
        return None;
    }
    Some(name.to_owned())
}

fn required(fields: &Fields<'_>, key: &'static str) -> Option<SecretRef> {
    needed(fields, key, "a reference to the secret", by_vault(key))?;
    secret(fields, key)
}

/// A key that this kind needs; another kind has no such key.
fn needed<'a>(fields: &Fields<'a>, key: &'static str, what: &str, hint: String) -> Option<Cursor<'a>> {
    let found = fields.get(key).filter(|cursor| !cursor.node().is_null());
    if found.is_none() {
        fields.problem(key, format!("expected {what}, got nothing"), Some(hint));
    }
    found
}

/// A reference to the vault, which alone can be rotated.
fn secret(fields: &Fields<'_>, key: &'static str) -> Option<SecretRef> {
    let cursor = fields.get(key)?;
    let got = match define::secret(&cursor)? {
        reference @ SecretRef::Vault(_) => return Some(reference),
        SecretRef::Literal(_) => "a value",
        SecretRef::Env(_) | SecretRef::File(_) | SecretRef::Keyring(_) => "another place",
        SecretRef::User(_) => "a value of each principal",
    };
    cursor.problem(format!("expected a reference to the vault, got {got}"), Some(by_vault(key)));
    None
}

fn by_vault(key: &str) -> String {
    crate::model::by_reference(key)
}

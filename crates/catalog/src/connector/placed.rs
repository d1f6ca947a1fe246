//! Where the credential of a connector goes: into a header of its server, or into the sign-on that servers have.

use std::collections::BTreeMap;

use super::auth::ConnectorAuth;
use crate::secret::SecretRef;
use crate::server::{AuthType, HeaderForm, ServerAuth};

const AUTHORIZATION: &str = "Authorization";

/// What a server is given.
#[derive(Debug, Default)]
pub(super) struct PlacedCredential {
    pub(super) headers: BTreeMap<String, SecretRef>,
    pub(super) forms: BTreeMap<String, HeaderForm>,
    pub(super) auth: Option<ServerAuth>,
}

// === impl ConnectorAuth ===

impl ConnectorAuth {
    pub(super) fn placed(&self) -> PlacedCredential {
        let authorization = |secret: &SecretRef, form: HeaderForm| PlacedCredential {
            headers: BTreeMap::from([(AUTHORIZATION.to_owned(), secret.clone())]),
            forms: BTreeMap::from([(AUTHORIZATION.to_owned(), form)]),
            auth: None,
        };
        match self {
            Self::None => PlacedCredential::default(),
            Self::Bearer { token, .. } => authorization(token, HeaderForm::Bearer),
            Self::Basic { username, password } => {
                authorization(password, HeaderForm::Basic { username: username.clone() })
            }
            Self::Header { header, value, .. } => PlacedCredential {
                headers: BTreeMap::from([(header.clone(), value.clone())]),
                ..PlacedCredential::default()
            },
            Self::Client { client_id, client_secret, token_url, scopes } => {
                let auth = ServerAuth {
                    client_id: Some(client_id.clone()),
                    client_secret: Some(client_secret.clone()),
                    token_endpoint: token_url.clone(),
                    scopes: scopes.clone(),
                    ..ServerAuth::plain(AuthType::ClientCredentials)
                };
                PlacedCredential { auth: Some(auth), ..PlacedCredential::default() }
            }
            Self::Login { client_id, scopes } => {
                let auth = ServerAuth {
                    client_id: client_id.clone(),
                    scopes: scopes.clone(),
                    ..ServerAuth::plain(AuthType::OAuth)
                };
                PlacedCredential { auth: Some(auth), ..PlacedCredential::default() }
            }
        }
    }
}

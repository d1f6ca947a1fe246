//! Who may ask for tokens: clients of the settings, of documents that they publish, and of registrations.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib_auth::jose::KeySet;
use toolcrib_base::Secret;
use toolcrib_identity::{ReadSecret, TokenGrant};
use toolcrib_store::SecretHash;

use crate::error::OAuthError;
use crate::redirect::Redirect;
use crate::secrets::hash;
use crate::settings::ClientSettings;

/// How many addresses a client may have.
const REDIRECTS: usize = 32;
/// The longest name, in characters.
const NAME: usize = 100;

/// A client, as far as this server knows it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) proof: ClientProof,
    pub(crate) source: ClientSource,
    /// What it may do in its own name.
    pub(crate) grant: Option<TokenGrant>,
    pub(crate) exchanges: bool,
}

/// From where a client is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientSource {
    /// The settings.
    Settings,
    /// A document at its own address.
    Document,
    /// It registered itself.
    Registration,
}

/// How a client proves that it is the one.
#[derive(Debug, Clone)]
pub(crate) enum ClientProof {
    /// It cannot: whoever has its id is it, up to the redirect.
    Public,
    /// A secret that the settings name.
    Secret(Arc<dyn ReadSecret>),
    /// A secret that was given at its registration.
    SecretHash(SecretHash),
    /// Its keys (RFC 7523).
    Keys(KeySet),
}

/// A client that registered itself, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientRecord {
    pub(crate) metadata: Map<String, Value>,
    /// The hash of its secret, where it has one.
    pub(crate) secret: Option<String>,
}

// === impl Client ===

impl Client {
    pub(crate) fn of_settings(settings: &ClientSettings) -> Result<Self, String> {
        let ClientSettings { id, name, redirects, secret, keys, grant, exchanges } = settings;
        let read = |text: &String| Redirect::read(text).map_err(|why| format!("`{text}`: {why}"));
        let proof = match (secret, keys) {
            (None, None) => ClientProof::Public,
            (Some(secret), None) => ClientProof::Secret(Arc::clone(secret)),
            (None, Some(keys)) => ClientProof::Keys(key_set(keys).ok_or("it has no key that can be used")?),
            (Some(_), Some(_)) => return Err("it has both a secret and keys".to_owned()),
        };
        if matches!(proof, ClientProof::Public) && (grant.is_some() || *exchanges) {
            return Err("a client that acts for itself needs a secret or keys".to_owned());
        }
        Ok(Self {
            id: id.clone(),
            name: name.clone(),
            redirects: redirects.iter().map(read).collect::<Result<_, _>>()?,
            proof,
            source: ClientSource::Settings,
            grant: grant.clone(),
            exchanges: *exchanges,
        })
    }

    /// A client as it describes itself (RFC 7591, section 2).
    pub(crate) fn of_metadata(
        id: &str,
        metadata: &Map<String, Value>,
        source: ClientSource,
        proof: ClientProof,
    ) -> Result<Self, OAuthError> {
        let redirects = metadata.get("redirect_uris").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if redirects.is_empty() || redirects.len() > REDIRECTS {
            let said = format!("`redirect_uris` must have 1 to {REDIRECTS} addresses");
            return Err(OAuthError::new(crate::OAuthErrorCode::InvalidRedirectUri, said));
        }
        let read = |text: &Value| {
            let text = text.as_str().ok_or("it is no text")?;
            Redirect::read(text)
        };
        let wrong = |why: &str| {
            OAuthError::new(crate::OAuthErrorCode::InvalidRedirectUri, format!("an address of `redirect_uris`: {why}"))
        };
        let redirects = redirects.iter().map(|text| read(text).map_err(wrong)).collect::<Result<_, _>>()?;
        let name = metadata.get("client_name").and_then(Value::as_str).unwrap_or(id);
        Ok(Self {
            id: id.to_owned(),
            name: name.chars().filter(|character| !character.is_control()).take(NAME).collect(),
            redirects,
            proof,
            source,
            grant: None,
            exchanges: false,
        })
    }

    /// The address that a request names, or the only one; `None` where it is none of the client's.
    pub(crate) fn redirect(&self, named: Option<&str>) -> Option<Redirect> {
        match named {
            None => match &self.redirects[..] {
                // One with any port is not an address yet.
                [only] if !only.is_loopback() => Some(only.clone()),
                _ => None,
            },
            Some(named) => {
                let named = Redirect::read(named).ok()?;
                self.redirects.iter().any(|ours| ours.admits(&named)).then_some(named)
            }
        }
    }

    /// Whether a secret is its own. May block: it reads the secret.
    pub(crate) fn has_secret(&self, presented: &Secret) -> bool {
        match &self.proof {
            ClientProof::Secret(secret) => match secret.read() {
                Ok(secret) => secret.matches(presented.expose()),
                Err(error) => {
                    tracing::warn!(client = self.id, error, "the secret of a client cannot be read");
                    false
                }
            },
            ClientProof::SecretHash(expected) => {
                let text = |hash: &SecretHash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                Secret::new(text(expected)).matches(&text(&hash(presented.expose())))
            }
            ClientProof::Public | ClientProof::Keys(_) => false,
        }
    }
}

// === impl ClientRecord ===

impl ClientRecord {
    pub(crate) fn secret_hash(&self) -> Option<SecretHash> {
        URL_SAFE_NO_PAD.decode(self.secret.as_ref()?).ok()?.try_into().ok()
    }
}

/// The keys of a set, or of one that stands alone.
pub(crate) fn key_set(keys: &Value) -> Option<KeySet> {
    KeySet::read(keys.to_string().as_bytes()).ok()
}

//! What is stored of a login: the authorization server, the client, the tokens. JSON inside of rows, which are sealed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolcrib_base::{Secret, Timestamp};

use crate::shared;

/// An authorization server, as far as logins need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Provider {
    /// Its issuer; of one without metadata its origin.
    pub(crate) issuer: String,
    /// Whether its endpoints were guessed (revision 2025-03-26), because it has no metadata.
    pub(crate) is_guessed: bool,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    /// How clients may authenticate at the token endpoint; empty when it does not say.
    pub(crate) client_methods: Vec<String>,
    /// Whether it knows the scope `offline_access`.
    pub(crate) offers_offline_access: bool,
    /// Whether its answers name it (RFC 9207).
    pub(crate) names_itself: bool,
    /// Whether a client may be the URL of its metadata document.
    pub(crate) takes_documents: bool,
    /// Whether it reads `audience` in place of `resource`, as its metadata show whatever name it has.
    #[serde(default)]
    pub(crate) reads_audience: bool,
    /// Whether it is asked for tokens that are bound to a key (RFC 9449).
    #[serde(default)]
    pub(crate) binds_tokens: bool,
    /// What it is asked for tokens for (RFC 8707).
    pub(crate) resource: String,
}

/// A client at an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    #[serde(with = "optional_secret")]
    pub(crate) secret: Option<Secret>,
    /// How it authenticates at the token endpoint, if its registration says so.
    pub(crate) method: Option<String>,
    pub(crate) origin: ClientOrigin,
}

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientOrigin {
    /// Someone registered it and wrote it into the definition.
    Definition,
    /// Its id is the URL of its metadata document.
    Document,
    /// We registered it.
    Registration,
}

/// A client that we registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) client: Client,
    /// When its secret ends, in seconds since 1970; `None` if it does not.
    pub(crate) secret_expires_at: Option<i64>,
    /// Whether a login with it was begun whose answer has never come. The server may have forgotten the client: then it
    /// shows a page of its own and sends no answer.
    pub(crate) is_unanswered: bool,
}

/// The tokens of an owner at a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    #[serde(with = "shared::value")]
    pub(crate) provider: Arc<Provider>,
    #[serde(with = "shared::value")]
    pub(crate) client: Arc<Client>,
    #[serde(with = "shared::text")]
    pub(crate) redirect_uri: Arc<str>,
    /// The URL of the server that they are for.
    #[serde(with = "shared::text")]
    pub(crate) server_url: Arc<str>,
    #[serde(with = "secret")]
    pub(crate) access_token: Secret,
    #[serde(with = "optional_secret")]
    pub(crate) refresh_token: Option<Secret>,
    /// The key that the tokens are bound to, if they are.
    #[serde(with = "optional_secret", default)]
    pub(crate) key: Option<Secret>,
    pub(crate) scopes: Vec<String>,
    pub(crate) received_at: Timestamp,
    /// How long the access token lives, in seconds; `None` when nobody knows.
    pub(crate) expires_in: Option<u64>,
    /// Why it is of no use any more: someone has to log in again.
    pub(crate) lapse: Option<String>,
    /// How many logins in a row were for more scopes.
    pub(crate) scope_rounds: u32,
}

/// A secret in JSON.
pub(crate) mod secret {
    use serde::{Deserialize, Deserializer, Serializer};
    use toolcrib_base::Secret;

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// A secret in JSON, or `null`.
pub(crate) mod optional_secret {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use toolcrib_base::Secret;

    pub(crate) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

/// A value as the content of a row.
pub(crate) fn to_content<T: Serialize>(value: &T) -> Secret {
    Secret::new(serde_json::to_string(value).expect("texts, numbers and lists are JSON"))
}

/// The content of a row; `None` for one that this program did not write.
pub(crate) fn from_content<T: for<'de> Deserialize<'de>>(content: &Secret) -> Option<T> {
    serde_json::from_str(content.expose()).ok()
}
